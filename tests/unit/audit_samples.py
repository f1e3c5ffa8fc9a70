"""A file with one kernel around the statement, function or wrapper under test, and what the auditor says of it."""

from __future__ import annotations

import textwrap

from pypto_pro.audit import audit_source
from pypto_pro.audit.report import Finding, Report

HEAD = """\
import contextlib, copy, functools, itertools, logging, math, operator, warnings
from dataclasses import dataclass
from typing import List, Optional
import numpy as np
import torch
import pypto_pro.language as pl
from pypto_pro.runtime.platform import get_platform_info

log = logging.getLogger(__name__)

@dataclass
class Tiling:
    rows: int
    cols: int

@pl.jit(auto_mutex=True)
def op_kernel(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], n: pl.DT_INT32):
    with pl.section_vector():
        pl.load(t, x, [0, 0])
        pl.store(y, t, [0, 0])

"""
LINE = HEAD.count("\n")
WRAPPER = """\
def op_wrapper(x: torch.Tensor, scale: float = 1.0, w: Optional[torch.Tensor] = None, items: List[torch.Tensor] = ()):
{statement}
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    op_kernel[None, 8](x, y, x.shape[0])
    return y
"""


def report_of(text: str, mode: str = "plain") -> Report:
    return audit_source(HEAD + textwrap.dedent(text), filename="t.py", mode=mode)


def codes_of(report: Report) -> set[str]:
    return {finding.code for finding in report.all_findings()}


def only(report: Report, code: str) -> Finding:
    (finding,) = [f for f in report.all_findings() if f.code == code]
    return finding
