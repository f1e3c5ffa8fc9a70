"""Verdicts do not depend on names; the auditor never raises, never executes, and is fast."""

from __future__ import annotations

import ast
import random
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_pro.audit import AuditUsageError, Options, audit, audit_source
from pypto_pro.audit.report import Report
from pypto_pro.audit.source import Source

CORPUS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "wrapper-cases.yaml").read_text(encoding="utf-8")
)
CASES: list[dict[str, Any]] = CORPUS["cases"]


def text_of(case: dict[str, Any]) -> str:
    return str(CORPUS["preludes"][case.get("prelude", "one")] + "\n" + case["code"])


def verdict_of(case: dict[str, Any], text: str) -> tuple[str, set[str]]:
    mode = "delivery" if case.get("delivery") else "plain"
    report = audit_source(text, filename="t.py", wrappers=[case.get("wrapper", "op_wrapper")], mode=mode)
    return report.verdict, {f.code for f in report.all_findings()}


# ---------------------------------------------------------------- renaming
class Rename(ast.NodeTransformer):
    """Renames locals and parameters of host functions, and gives every module-level import another name."""

    def __init__(self, tree: ast.Module, fresh: Any) -> None:
        self.imports: dict[str, str] = {}
        self.fresh = fresh
        self.locals: list[dict[str, str]] = []
        self.functions = {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}

    def visit_Import(self, node: ast.Import) -> ast.AST:
        for alias in node.names:
            if "." not in alias.name or alias.asname:
                self.imports[alias.asname or alias.name] = alias.asname = self.fresh()
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        for alias in node.names:
            if node.module != "__future__":
                self.imports[alias.asname or alias.name] = alias.asname = self.fresh()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        is_kernel = any("jit" in ast.unparse(d) for d in node.decorator_list)
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        names |= {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)}
        golden = node.name.endswith("_golden_cpu") or any("golden_cpu" in f for f in self.functions)
        self.locals.append({} if is_kernel or golden else {n: self.fresh() for n in sorted(names)})
        node = self.generic_visit(node)  # type: ignore[assignment]
        self.locals.pop()
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._renamed(node.arg)
        if node.annotation is not None:
            node.annotation = self.visit(node.annotation)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._renamed(node.id)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and "torch." in node.value:  # a quoted annotation
            node.value = node.value.replace("torch.", self.imports["torch"] + ".")
        return node

    def _renamed(self, name: str) -> str:
        for scope in reversed(self.locals):
            if name in scope:
                return scope[name]
        return self.imports.get(name, name)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(CASES), st.integers(0, 2**32))
def test_renaming_and_aliasing_leave_verdicts_unchanged(case: dict[str, Any], seed: int) -> None:
    rng = random.Random(seed)
    taken: set[str] = set()

    def fresh() -> str:
        while (name := "".join(rng.choices("abcxyzTH_", k=6)) + "q") in taken:
            pass
        taken.add(name)
        return name

    tree = ast.parse(text_of(case))
    renamed = ast.unparse(Rename(tree, fresh).visit(tree))
    assert verdict_of(case, renamed) == (case["verdict"], set(case["rules"])), renamed


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_layout_of_the_text_does_not_matter(case: dict[str, Any]) -> None:
    tree = ast.parse(text_of(case))
    assert verdict_of(case, ast.unparse(tree)) == (case["verdict"], set(case["rules"]))


# ---------------------------------------------------------------- totality
LIBRARY = Path(sysconfig.get_paths()["stdlib"])
FILES = sorted(p for p in LIBRARY.rglob("*.py") if "site-packages" not in p.parts)


def audit_everything(path: Path, most: int | None = None) -> Report | None:
    """Audit a file with its functions as wrappers; None for a file Python itself rejects."""
    try:
        text = path.read_text(encoding="utf-8")
        names = list(Source.parse(text, str(path)).functions)[:most]
        return audit(text, str(path), Options(wrappers=tuple(names), mode="delivery", all_launchers=True))
    except (SyntaxError, ValueError, AuditUsageError):
        return None


@pytest.mark.parametrize("path", random.Random(950).sample(FILES, 25), ids=lambda p: p.name)
def test_a_sample_of_the_standard_library_never_raises(path: Path) -> None:
    report = audit_everything(path, most=12)
    assert report is None or report.to_json()["tool"] == "audit"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(0, 64, 8))
def test_an_eighth_of_the_standard_library_never_raises(part: int) -> None:
    """Files in their default form, and with six of their functions as wrappers."""
    for path in FILES[part::64]:
        try:
            audit_source(path.read_text(encoding="utf-8"), filename=str(path), mode=None)
        except (UnicodeDecodeError, AuditUsageError):
            continue
        audit_everything(path, most=6)


NESTED = ["(" * 150 + "x" + ")" * 150, "-" * 3000 + "1", "+".join("x" * 3000), "[" * 80 + "]" * 80, "x" + ".T" * 2000]


@pytest.mark.parametrize("expression", NESTED, ids=range(len(NESTED)))
def test_absurd_nesting_is_reported_not_raised(expression: str) -> None:
    text = f"import torch\ndef op_wrapper(x: torch.Tensor):\n    y = {expression}\n    return y\n"
    try:
        report = audit_source(text, filename="t.py")
    except AuditUsageError:
        with pytest.raises((SyntaxError, RecursionError, MemoryError)):
            ast.parse(text)
    else:
        assert report.verdict in ("violation", "unproven")


@pytest.mark.parametrize("text", ["def op_wrapper(:", "x = 1\0", "", "\ufeffx = 1\n", "def f():\n\treturn\n        x"])
def test_odd_texts(text: str) -> None:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        with pytest.raises(AuditUsageError, match=r"t\.py"):
            audit_source(text, filename="t.py")
    else:
        assert audit_source(text, filename="t.py").wrappers == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([case["code"] for case in CASES]), min_size=1, max_size=4), st.integers(0, 10**6))
def test_mixed_and_cut_snippets_never_raise(parts: list[str], cut: int) -> None:
    """Snippets glued together and cut anywhere: either Python refuses the text, or a report comes out."""
    text = "\n".join([CORPUS["preludes"]["one"], *parts])
    text = text[: cut % len(text)]
    try:
        report = audit_source(text, filename="t.py", mode="delivery")
    except AuditUsageError:
        return
    assert report.to_json()["verdict"] in ("ok", "violation", "unproven")


def test_static_audit_neither_imports_nor_executes(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    text = (
        f"import no_such_module_anywhere\nfrom pathlib import Path\nPath({str(marker)!r}).touch()\n"
        "def op_wrapper(x):\n    return x\n"
    )
    before = set(sys.modules)
    report = audit_source(text, filename="t.py")
    assert report.verdict == "violation"
    assert not marker.exists()
    assert not {name for name in set(sys.modules) - before if "no_such" in name or name.split(".")[0] == "torch"}


# ---------------------------------------------------------------- speed
HEAD = """\
import math, torch
import pypto_pro.language as pl
@pl.jit
def op_kernel(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], n: pl.DT_INT32):
    pl.store(y, t, [0, 0])
"""
HELPER = """
def _plan_{i}(x, rows, cols, table):
    total = rows * cols
    blocks = min(32, max(1, -(-rows // 16))) if total > {i} else 1
    dims = []
    for d in x.shape:
        if d % 2 == 0:
            dims.append(d // 2)
        else:
            dims.append(d)
    for k, v in table.items():
        total = total + v
        while total > 100:
            total -= 3
    return blocks, total, tuple(dims)

"""


def many_helpers() -> str:
    calls = "".join(
        f"    b{i}, t{i}, d{i} = _plan_{i}(x, x.shape[0], x.shape[1], table)\n    total += t{i}\n" for i in range(115)
    )
    body = "    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)\n"
    body += "    table = {'a': 1, 'b': x.shape[0]}\n    total = 0\n"
    end = "    op_kernel[None, b0](x, y, total)\n    return y\n"
    return HEAD + "".join(HELPER.format(i=i) for i in range(115)) + f"\ndef op_wrapper(x):\n{body}{calls}{end}"


def many_branches() -> str:
    rows = "".join(
        f"    if x.shape[0] > {i}:\n        v{i} = {i}\n    else:\n        v{i} = x.shape[1]\n" for i in range(500)
    )
    return (
        HEAD + "\ndef op_wrapper(x):\n    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)\n" + rows
        + "    op_kernel[None, 1](x, y, v0)\n    return y\n"
    )  # fmt: skip


def many_wrappers() -> str:
    body = "".join(f"    v{i} = x.shape[0] + {i}\n" for i in range(16))
    one = (
        "\ndef op{i}_wrapper(x):\n    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)\n"
        + body + "    op_kernel[None, 1](x, y, v0)\n    return y\n"
    )  # fmt: skip
    return HEAD + "".join(one.replace("{i}", str(i)) for i in range(100))


@pytest.mark.parametrize("make", [many_helpers, many_branches, many_wrappers])
def test_two_thousand_lines_in_under_a_second(make: Any) -> None:
    text = make()
    assert text.count("\n") >= 2000
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        report = audit_source(text, filename="t.py")
        best = min(best, time.process_time() - start)
    assert report.verdict == "ok"
    assert best < 1.0
