"""The corpus `tests/data/wrapper-cases.yaml`: exact rule sets of every snippet, and three mutations of each legal
one.
"""

from __future__ import annotations

import ast
import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from pypto_pro.audit import audit_source
from pypto_pro.audit.report import Report

CORPUS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "wrapper-cases.yaml").read_text(encoding="utf-8")
)
CASES: list[dict[str, Any]] = CORPUS["cases"]
OK_CASES = [case for case in CASES if case["verdict"] == "ok"]


def text_of(case: dict[str, Any]) -> str:
    return str(CORPUS["preludes"][case.get("prelude", "one")] + "\n" + case["code"])


def wrapper_of(case: dict[str, Any]) -> str:
    return str(case.get("wrapper", "op_wrapper"))


def audit_case(case: dict[str, Any], text: str | None = None) -> Report:
    mode = "delivery" if case.get("delivery") else "plain"
    return audit_source(
        text if text is not None else text_of(case), filename="t.py", wrappers=[wrapper_of(case)], mode=mode
    )


def codes_of(report: Report) -> set[str]:
    return {finding.code for finding in report.all_findings()}


def by_id(cases: list[dict[str, Any]]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


def test_the_corpus_is_complete() -> None:
    assert len(CASES) == 89
    assert len(CORPUS["kb_cases"]) == 13


@by_id(CASES)
def test_exact_rules(case: dict[str, Any]) -> None:
    report = audit_case(case)
    assert codes_of(report) == set(case["rules"])
    assert report.verdict == case["verdict"]
    assert report.exit_code == (0 if case["verdict"] == "ok" else 1)
    assert report.all_unproven() == []


@by_id([case for case in CASES if "wrapper" not in case])
def test_found_by_name_alone(case: dict[str, Any]) -> None:
    mode = "delivery" if case.get("delivery") else "plain"
    report = audit_source(text_of(case), filename="t.py", mode=mode)
    assert codes_of(report) == set(case["rules"])


def is_launch(node: ast.AST, launchers: set[str]) -> bool:
    """Whether an expression statement launches: `k(...)`, `k[...](...)`, or a name that holds `k[...]`."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    func = node.value.func
    target = func.value if isinstance(func, ast.Subscript) else func
    return isinstance(target, ast.Name) and target.id in launchers


class Mutation(ast.NodeTransformer):
    """Deletes, doubles or loops every launch statement outside kernels."""

    def __init__(self, kind: str, launchers: set[str]) -> None:
        self.kind, self.launchers, self.changed = kind, launchers, 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node if node.decorator_list else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> Any:
        if not is_launch(node, self.launchers):
            return node
        self.changed += 1
        if self.kind == "deleted":
            return ast.Pass()
        if self.kind == "doubled":
            return [node, copy.deepcopy(node)]
        loop = ast.For(ast.Name("_round", ast.Store()), ast.parse("range(3)", mode="eval").body, [node], [])
        return ast.copy_location(loop, node)


def mutated(case: dict[str, Any], kind: str) -> str:
    tree = ast.parse(text_of(case))
    launchers = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.decorator_list} | {"launch"}
    mutation = Mutation(kind, launchers)
    tree = ast.fix_missing_locations(mutation.visit(tree))
    assert mutation.changed > 0
    return ast.unparse(tree)


@by_id(OK_CASES)
@pytest.mark.parametrize(
    ("kind", "exact"), [("deleted", ({"W120"}, {"W109", "W120"})), ("doubled", ({"W121"},)), ("looped", ({"W122"},))]
)
def test_mutations_of_legal_wrappers(case: dict[str, Any], kind: str, exact: tuple[set[str], ...]) -> None:
    report = audit_case(case, mutated(case, kind))
    assert codes_of(report) in exact
    assert report.verdict == "violation"
