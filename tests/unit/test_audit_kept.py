"""Outputs that a wrapper keeps for its next call: every caller of one shape would get the same tensor (W109)."""

from __future__ import annotations

import pytest

from pypto_pro.audit import audit_source

HEAD = """\
import torch
import pypto_pro.language as pl
@pl.jit
def k(x: pl.Tensor[[8, 64], pl.DT_FP32], y: pl.Tensor[[8, 64], pl.DT_FP32]):
    pl.store(y, t, [0, 0])
"""
EMPTY = "torch.empty(x.shape, dtype=x.dtype, device=x.device)"
KEPT = {
    "module dict": f"""
buffers = {{}}
def op_wrapper(x):
    if x.shape not in buffers:
        buffers[x.shape] = {EMPTY}
    y = buffers[x.shape]
    k[None, 2](x, y)
    return y
""",
    "mutable default": f"""
def op_wrapper(x, cache={{}}):
    y = cache.setdefault(x.shape, {EMPTY})
    k[None, 2](x, y)
    return y
""",
    "global": f"""
y = None
def op_wrapper(x):
    global y
    if y is None:
        y = {EMPTY}
    k[None, 2](x, y)
    return y
""",
    "closure": f"""
def make():
    y = None
    def op_wrapper(x):
        nonlocal y
        if y is None:
            y = {EMPTY}
        k[None, 2](x, y)
        return y
    return op_wrapper
op_wrapper = make()
""",
    "instance": f"""
class Op:
    y = None
    def __call__(self, x):
        if self.y is None:
            self.y = {EMPTY}
        k[None, 2](x, self.y)
        return self.y
op_wrapper = Op()
""",
    "helper": f"""
buffers = []
def buffer(x):
    if not buffers:
        buffers.append({EMPTY})
    return buffers[0]
def op_wrapper(x):
    y = buffer(x)
    k[None, 2](x, y)
    return y
""",
}
KEPT["class"] = f"""
class Op:
    y = None
def op_wrapper(x):
    if Op.y is None:
        Op.y = {EMPTY}
    k[None, 2](x, Op.y)
    return Op.y
"""
ATTRIBUTE = f"""
def op_wrapper(x):
    y = op_wrapper.__dict__.get("y")
    if y is None:
        op_wrapper.y = y = {EMPTY}
    k[None, 2](x, y)
    return y
"""
OWN = {
    "of this call": f"""
def op_wrapper(x):
    y = {EMPTY}
    k[None, 2](x, y)
    return y
""",
    "remembered, never used again": f"""
seen = []
def op_wrapper(x):
    y = {EMPTY}
    seen.append(y)
    k[None, 2](x, y)
    return y
""",
    "global, made anew": f"""
y = None
def op_wrapper(x):
    global y
    y = {EMPTY}
    k[None, 2](x, y)
    return y
""",
    "dict of this call": f"""
def op_wrapper(x):
    buffers = {{}}
    if x.shape not in buffers:
        buffers[x.shape] = {EMPTY}
    y = buffers[x.shape]
    k[None, 2](x, y)
    return y
""",
    "cached numbers": f"""
sizes = {{}}
def op_wrapper(x):
    if x.shape not in sizes:
        sizes[x.shape] = x.shape[0] * 64
    y = {EMPTY}
    k[None, 2](x, y)
    return y
""",
}


@pytest.mark.parametrize("name", KEPT)
def test_an_output_that_outlives_the_call_is_found(name: str) -> None:
    report = audit_source(HEAD + KEPT[name], filename="op.py", wrappers=["op_wrapper"])
    (found,) = report.all_findings()
    assert (found.code, report.exit_code) == ("W109", 1)
    assert (
        "is no declared output: kept for later calls, whose launch overwrites what earlier callers still"
        in found.message
    )
    assert found.expression == EMPTY
    assert found.help == "allocate the output in every call, or let the caller hand it in (`out=`)"


@pytest.mark.parametrize("name", OWN)
def test_an_output_of_its_own_call_is_fine(name: str) -> None:
    report = audit_source(HEAD + OWN[name], filename="op.py", wrappers=["op_wrapper"])
    assert [f.message for f in report.all_findings()] == []
    assert report.verdict == "ok"


def test_attributes_of_functions_are_not_followed() -> None:
    report = audit_source(HEAD + ATTRIBUTE, filename="op.py", wrappers=["op_wrapper"])
    (found,) = report.all_findings()
    assert (found.code, found.expression) == ("W116", "op_wrapper.y")
    assert "becomes an attribute, which outlives the call and is not followed" in found.message
    number = ATTRIBUTE.replace(EMPTY, "x.shape[0]").replace("k[None, 2](x, y)", f"y = {EMPTY}\n    k[None, 2](x, y)")
    assert audit_source(HEAD + number, filename="op.py", wrappers=["op_wrapper"]).verdict == "ok"
