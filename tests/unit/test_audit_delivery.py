"""Roles, modes by location, and the rules of a delivered file as a whole."""

from __future__ import annotations

import textwrap

import pytest

from pypto_pro.audit import AuditUsageError, Options, audit, audit_source
from pypto_pro.audit.report import Report
from pypto_pro.audit.roles import mode_of

HEAD = """\
import torch
import pypto_pro.language as pl

@pl.jit
def op_kernel(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32]):
    pl.store(y, t, [0, 0])

"""
WRAPPER = """
def op_wrapper(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    op_kernel[None, 8](x, y)
    return y
"""


def audit_text(text: str, filename: str = "t.py", mode: str | None = None, **options: object) -> Report:
    return audit(HEAD + textwrap.dedent(text), filename, Options(mode=mode, **options))  # type: ignore[arg-type]


def codes_of(report: Report) -> set[str]:
    return {f.code for f in report.all_findings()}


@pytest.mark.parametrize(
    ("filename", "mode"),
    [
        ("custom/op/test_op.py", "delivery"),
        ("a/b/custom/op/fp16/test_op.py", "delivery"),
        ("custom/op/modules/test_op_module2.py", "staged"),
        ("custom/op/helper.py", "plain"),
        ("examples/samples/add/add.py", "samples"),
        ("samples/add.py", "plain"),
        ("test_op.py", "plain"),
        ("custom\\op\\test_op.py", "delivery"),
    ],
)
def test_mode_by_location(filename: str, mode: str) -> None:
    assert mode_of(filename) == mode
    assert mode_of(filename, "plain") == "plain"


def test_a_clean_delivery() -> None:
    report = audit_text(WRAPPER, "custom/op/test_op.py")
    assert report.mode == "delivery"
    assert report.verdict == "ok"


def test_wrapper_is_named_after_the_file() -> None:
    assert codes_of(audit_text(WRAPPER, "custom/other/test_other.py")) == {"W130"}
    assert codes_of(audit_text("x = 1\n", "custom/op/test_op.py")) == {"W130"}
    staged = WRAPPER.replace("op_wrapper", "op_wrapper_module2")
    assert codes_of(audit_text(staged, "custom/op/modules/test_op_module2.py")) == set()
    assert codes_of(audit_text(WRAPPER, "custom/op/modules/test_op_module2.py")) == {"W130"}


def test_defaults_of_a_golden_in_another_file() -> None:
    text = WRAPPER.replace("(x)", "(x, weight)", 1)
    golden = ("op_golden.py", "def op_golden_cpu(x, weight=None):\n    return x\n")
    report = audit_text(text, "custom/op/test_op.py", reference=golden)
    assert codes_of(report) == {"W140"}
    assert "op_golden.py:1" in report.all_findings()[0].message


def test_a_test_that_omits_a_parameter() -> None:
    text = WRAPPER.replace("(x)", "(x, weight)", 1) + "\ndef test_op():\n    op_wrapper(torch.ones(2, 2))\n"
    assert codes_of(audit_text(text, "custom/op/test_op.py")) == {"W140"}


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("import numpy as np", False),
        ("import torch_npu", False),
        ("from op_golden import op_golden_cpu", False),
        ("from other_golden import f", True),
        ("from . import helper", True),
        ("try:\n    import extra\nexcept ImportError:\n    pass", True),
        ("def f():\n    import extra", False),
        ("import pytest", False),
    ],
)
def test_imports_of_a_delivery(line: str, bad: bool) -> None:
    report = audit_source(f"{line}\n{HEAD}{WRAPPER}", filename="custom/op/test_op.py", mode=None)
    assert codes_of(report) == ({"W141"} if bad else set())


def test_tests_may_not_bypass_the_wrapper_through_a_helper() -> None:
    text = WRAPPER + "\ndef _go(x, y):\n    op_kernel(x, y)\n\ndef test_op():\n    _go(torch.ones(2), torch.ones(2))\n"
    assert codes_of(audit_text(text, "custom/op/test_op.py")) == {"W142"}
    text = WRAPPER + "\ndef test_op():\n    op_wrapper(torch.ones(2))\n"
    assert codes_of(audit_text(text, "custom/op/test_op.py")) == set()


@pytest.mark.parametrize(
    ("design", "bad"),
    [
        ("# Design\n\n## Operations outside the kernel boundary\n\nNone.\n\n## Tiling\ncast\n", False),
        ("# Design\n\n## Operations outside the kernel boundary\n\n- transpose of `x`, a free view\n", True),
        ("# Design\n\n## Tiling\n", True),
        ("# Host operations outside\n\n| op | why |\n", True),
        ("# Outside the boundary\n", False),
    ],
)
def test_design_documents(design: str, bad: bool) -> None:
    report = audit_text(WRAPPER, "custom/op/test_op.py", design=("design.md", design))
    assert codes_of(report) == ({"W150"} if bad else set())
    if bad:
        assert report.main_category == "design_violation"
        assert report.all_findings()[0].spans[0].file == "design.md"


def roles(report: Report) -> dict[str, str]:
    return {f.name: f.role for f in report.functions}


def test_roles_and_reasons() -> None:
    text = """
    def _tile_helper(t):
        return t

    @pl.vector_function
    def body(a):
        pass

    @pl.jit
    def second(x: pl.Tensor[[64], pl.DT_FP32]):
        _tile_helper(x)

    def _plan(x):
        return x.shape[0]

    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        op_kernel[None, _plan(x)](x, y)
        return y

    def prepare_and_go(x, y):
        op_kernel[None, 8](x, y)

    def marked(x):  # pypto: wrapper
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        op_kernel[None, 8](x, y)
        return y

    def op_golden(x):
        return x.float()

    def test_op():
        pass

    def unrelated():
        pass
    """
    report = audit_text(text)
    assert roles(report) == {
        "op_kernel": "kernel", "_tile_helper": "kernel", "body": "kernel", "second": "kernel", "_plan": "helper",
        "op_wrapper": "wrapper", "prepare_and_go": "launcher", "marked": "wrapper", "op_golden": "golden",
        "test_op": "driver", "unrelated": "other",
    }  # fmt: skip
    assert all(f.reason for f in report.functions)
    assert [w.name for w in report.wrappers] == ["op_wrapper", "marked"]
    more = audit_text(text, all_launchers=True)
    assert [w.name for w in more.wrappers] == ["op_wrapper", "prepare_and_go", "marked"]


def test_a_golden_that_the_wrapper_calls_is_a_helper() -> None:
    text = "def op_golden(x):\n    return x.exp()\n" + WRAPPER.replace("return y", "return op_golden(y)")
    report = audit_text(text)
    assert roles(report)["op_golden"] == "helper"
    assert codes_of(report) == {"W112"}


def test_study_samples_are_drivers() -> None:
    text = "def op_wrapper(x):\n    y = torch.zeros(3)\n    torch.npu.synchronize()\n    return y\n"
    report = audit_text(text, "examples/samples/op/op.py")
    assert roles(report)["op_wrapper"] == "driver"
    assert report.verdict == "ok"
    assert audit_text(text, "op.py", mode="samples").wrappers == []
    assert audit_text(text, "op.py").verdict == "violation"


def test_driver_option_and_marker() -> None:
    text = "def op_wrapper(x):  # pypto: driver\n    return x.float()\n"
    assert audit_text(text).wrappers == []
    plain = text.replace("  # pypto: driver", "")
    assert audit_text(plain, drivers=("op_wrapper",)).wrappers == []
    assert len(audit_text(plain).wrappers) == 1


def test_methods_can_be_named() -> None:
    text = "class Op:\n    def forward(self, x: torch.Tensor):\n        return x.float()\n"
    report = audit_text(text, wrappers=("Op.forward",))
    assert codes_of(report) == {"W101", "W120"}


def test_unknown_wrapper_is_a_usage_error() -> None:
    with pytest.raises(AuditUsageError, match="no function or assignment named `nope`"):
        audit_text(WRAPPER, wrappers=("nope",))
