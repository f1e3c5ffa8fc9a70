"""One tensor variable, one transfer descriptor: mixed orders of a variable are a warning, a second view mends it."""

from __future__ import annotations

import numpy as np
import pytest

import pypto_pro
from pypto_pro.diag import Diagnostic, Severity
from pypto_pro.runtime.notes import mixed_orders
from unit.kernel_text import kernel_of, read

TILES = """
a = pl.make_tile(pl.TileType(shape=[8, 8], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec), addr=0)
t = pl.make_tile(pl.TileType(shape=[8, 8], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, layout=pl.DN),
                 addr=0x8000)
"""
FLAT, CUBE = "x: pl.Tensor[[64, 64], pl.DT_FP32]", "x: pl.Tensor[[64, 64, 64], pl.DT_FP32]"
PLAIN, TURNED = "pl.load(a, x, [0, 0])", "pl.load(t, x, [0, 0], order=[1, 0])"


def found(body: str, params: str = FLAT) -> list[Diagnostic]:
    return mixed_orders(read(TILES + body, params))


@pytest.mark.parametrize(
    ("body", "params"),
    [
        (f"{PLAIN}\n{TURNED}", FLAT), (f"{TURNED}\n{PLAIN}", FLAT), (f"{TURNED}\ny = x\npl.load(a, y, [0, 0])", FLAT),
        ("pl.load(a, x, [0, 0, 0], order=[0, 2])\npl.load(a, x, [0, 0, 0], order=[1, 2])", CUBE),
        ("pl.load(a, x, [0, 0, 0], order=[1, 2])\npl.store(x, a, [0, 0, 0], order=[0, 2])", CUBE),
    ],
)
def test_orders_that_one_descriptor_cannot_hold(body: str, params: str) -> None:
    (finding,) = found(body, params)
    assert finding.kind == "stride_mismatch"
    assert finding.severity is Severity.WARNING
    assert [span.line for span in finding.spans] == sorted((s.line for s in finding.spans), reverse=True)
    assert "`x`" in finding.message
    assert "make_tensor" in (finding.help or "")


@pytest.mark.parametrize(
    ("body", "params"),
    [
        (f"{PLAIN}\nv = pl.make_tensor(x, [64, 64])\npl.load(t, v, [0, 0], order=[1, 0])", FLAT),
        (f"{TURNED}\n{TURNED}", FLAT), (f"{PLAIN}\npl.load(a, x, [0, 0], order=[0, 1])", FLAT),
        (f"{TURNED}\npl.store(x, a, [0, 0])", FLAT),
        ("pl.load(a, x, [0, 0, 0])\npl.load(a, x, [0, 0, 0], order=[0, 2])", CUBE),
    ],
)
def test_orders_that_fit_together(body: str, params: str) -> None:
    assert not found(body, params)


def test_a_check_reports_it_once_a_variable() -> None:
    kernel = kernel_of(f"{TILES}{PLAIN}\n{TURNED}\n{PLAIN}\n{TURNED}", FLAT)
    report = pypto_pro.check(kernel, np.zeros((64, 64), np.float32))
    assert [f.message for f in report.findings if "is moved with" in f.message] == [
        "`x` is moved with order [1, 0] here and with no order before"
    ]
