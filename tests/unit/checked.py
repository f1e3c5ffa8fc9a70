"""What the tests of checks ask of a report, and what their kernels begin with."""

from __future__ import annotations

from typing import Any

import numpy as np

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.diag import Diagnostic
from pypto_pro.runtime.checking import Report


def check(kernel: Any, *args: Any, blocks: int = 1) -> Report:
    """The report of one launch."""
    return pypto_pro.check(kernel[None, blocks], *args)


def of_kind(report: Report, kind: str) -> list[Diagnostic]:
    """Its findings of a kind."""
    return [f for f in report.findings if f.kind == kind]


def silent(report: Report) -> None:
    """It has no error and no warning."""
    assert report.clean, str(report)


def x64() -> np.ndarray:
    """An input of ones."""
    return np.ones((64, 64), np.float32)


def rows_of_64():
    """A tile of 16 rows of it; a kernel calls it."""
    return pl.TileType(shape=[16, 64], dtype=pl.DT_FP32)
