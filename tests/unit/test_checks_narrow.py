"""64-bit tiles of more than 64 columns: which forms of which operations the device does not carry out whole."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_text import kernel_of

import pypto_pro
from pypto_pro.diag import Severity

HEAD = """
t = pl.TileType(shape=[4, {cols}], dtype=pl.{dtype}, valid_shape=[-1, -1])
g = pl.make_tile_group(type=t, addrs=0, mutex_ids=[0, 1, 2])
a, b, c = g[0], g[1], g[2]
for i in pl.range(3):
    pl.load(g[i], x, [0, 0])
"""
WHOLE = ["pl.add(a, b, c)", "pl.sub(a, b, c)", "pl.mul(a, b, c)", "pl.maximum(a, b, c)", "pl.minimum(a, b, c)",
         "pl.shl(a, b, c)", "pl.shr(a, b, c)"]  # fmt: skip
NARROW = ["pl.add(a, b, 1)", "pl.sub(a, b, n)", "pl.mul(a, b, 2)", "pl.div(a, b, c)", "pl.maximum(a, b, 3)",
          "pl.expands(a, 3)", "pl.adds(a, b, 1)", "pl.neg(a, b)", "pl.shls(a, b, 1)"]  # fmt: skip


def findings(line: str, cols: int = 128, dtype: str = "DT_INT64", valid: str = "") -> list[pypto_pro.Finding]:
    body = HEAD.format(cols=cols, dtype=dtype) + f"{valid}\n{line}\npl.store(y, a, [0, 0])"
    tensors = ", ".join(f"{name}: pl.Tensor[[4, {cols}], pl.{dtype}]" for name in "xy")
    kernel = kernel_of(body, f"{tensors}, n: pl.DT_INT64")
    numpy_dtype = {"DT_INT64": np.int64, "DT_UINT64": np.uint64, "DT_INT32": np.int32}[dtype]
    x = np.ones((4, cols), numpy_dtype)
    report = pypto_pro.check(kernel[None, 1], x, np.zeros_like(x), 3)
    rejected = [f.message for f in report.findings if f.kind in ("syntax", "type", "value")]
    assert rejected == []
    return [f for f in report.findings if f.kind == "narrow_form"]


@pytest.mark.parametrize("line", NARROW)
def test_forms_of_one_pass(line: str) -> None:
    (found,) = findings(line)
    assert (found.code, found.severity) == ("D115", Severity.WARNING)
    assert "128 valid columns" in found.message
    assert line in found.spans[0].source_line()


@pytest.mark.parametrize("line", WHOLE)
def test_forms_that_go_on(line: str) -> None:
    assert findings(line) == []


def test_narrow_tiles_and_narrower_elements_are_fine() -> None:
    assert findings("pl.add(a, b, 1)", cols=64) == []
    assert findings("pl.add(a, b, 1)", dtype="DT_INT32") == []
    assert len(findings("pl.add(a, b, 1)", dtype="DT_UINT64")) == 1
    narrow = "for i in pl.range(3):\n    pl.set_validshape(g[i], [4, 64])"
    assert findings("pl.add(a, b, 1)", valid=narrow) == []
