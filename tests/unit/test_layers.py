"""Imports of the package point only down the list of layers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "pypto_pro"

LAYERS = (
    {"diag"},
    {"enums", "dtypes", "numerics", "layouts", "diskcache"},
    {"hw"},
    {"ir"},
    {"ops"},
    {"frontend"},
    {"passes"},
    {"analysis"},
    {"memory"},
    {"interp", "native"},
    {"runtime"},
    {"language"},
    {"audit", "torch_shim"},
    {"report"},
    {"cli", "pytest_plugin"},
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
STRANGERS = {frozenset({"interp", "native"})}  # the two executors share nothing but the IR and the op table
FACADE = len(LAYERS)  # pypto_pro/__init__.py gathers the public names; nothing below may reach up to it


def imported_modules(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of every import, those inside functions and by `import_module` included."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=base, names=names, level=level):
                above = package[: len(package) - level + 1] if level else []
                prefix = ".".join((*above, *([base] if base else [])))
                yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in names)
            case ast.Call(func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__")):
                texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
                yield from ((node.lineno, text) for text in texts[:1] if isinstance(text, str))


def layer_of(dotted: str) -> str | None:
    """The layer a dotted name belongs to: "" for the package itself, None outside it."""
    root, *rest = dotted.split(".")
    if root != "pypto_pro":
        return None
    return rest[0] if rest and rest[0] in RANK else ""


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    """What the module imports that it may not, as `line: reason`."""
    own = layer_of(module)
    assert own is not None
    own_rank = RANK.get(own, FACADE)
    found = []
    for line, dotted in imported_modules(ast.parse(source), module, is_package):
        other = layer_of(dotted)
        if other is None or dotted == "pypto_pro.__version__":
            continue
        if frozenset({own, other}) in STRANGERS:
            found.append(f"{line}: `{own}` and `{other}` never import each other")
        elif RANK.get(other, FACADE) > own_rank:
            found.append(f"{line}: `{own}` is below `{other or 'pypto_pro'}` ({dotted})")
    return found


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_every_module_belongs_to_a_layer() -> None:
    strays = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in modules()} - RANK.keys()
    assert strays <= {"__init__", "__main__"}


def test_imports_point_down() -> None:
    found = []
    for path in modules():
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        found += [f"{path}:{text}" for text in violations(path.read_text(encoding="utf-8"), module, is_package)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source", "count"),
    [
        ("pypto_pro.ir.nodes", "from pypto_pro.ops.table import all_ops", 1),
        ("pypto_pro.ir.nodes", "def f():\n    import pypto_pro.native.jit", 1),
        ("pypto_pro.interp.run", "from ..native import scheduler", 1),
        ("pypto_pro.native.run", "from pypto_pro import interp", 1),
        ("pypto_pro.native.run", "from importlib import import_module\nimport_module('pypto_pro.interp.run')", 1),
        ("pypto_pro.runtime.jit", "from pypto_pro import check", 1),
        ("pypto_pro.runtime.jit", "import pypto_pro", 1),
        ("pypto_pro.runtime.jit", "from pypto_pro import __version__\nfrom . import cache", 0),
        ("pypto_pro.ops.table", "import numpy\nfrom pypto_pro.dtypes import DataType\nfrom .entry import Op", 0),
        ("pypto_pro.cli.check", "from pypto_pro.report import text\nfrom pypto_pro.diag import Span", 0),
        ("pypto_pro", "from pypto_pro.runtime.jit import jit", 0),
    ],
)
def test_the_rule_itself(module: str, source: str, count: int) -> None:
    assert len(violations(source, module)) == count
