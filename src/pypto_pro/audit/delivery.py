"""Rules of a delivered file as a whole: names, signature, imports, tests, number of kernels, design document."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from pypto_pro.audit.findings import make_finding
from pypto_pro.audit.kernels import parameter_names
from pypto_pro.audit.names import STDLIB, root_of
from pypto_pro.audit.report import Finding
from pypto_pro.audit.roles import is_jit, tests_bypassing
from pypto_pro.audit.rules import RULES
from pypto_pro.audit.source import FunctionNode, Source
from pypto_pro.diag import Span

_ALLOWED_IMPORTS = STDLIB | {"torch", "torch_npu", "numpy", "pypto_pro", "pytest"}
_OUTSIDE_HEADING = re.compile(r"outside|host[- ]side|host (operation|op|work)|extra host", re.IGNORECASE)
_HEADING = re.compile(r"^(#+)\s*(.*?)\s*#*\s*$")
_NOTHING = re.compile(r"^(none|nothing|empty|no(t)? (operations?|applicable|ne)?|n/?a|nil|-+|无)[.。]?$", re.IGNORECASE)


def check_delivery(
    source: Source, op: str | None, mode: str, wrappers: tuple[str, ...], reference: Source | None
) -> list[Finding]:
    """W123 (a second kernel in the file), W130, W140, W141, W142. `reference` is the golden file beside the delivered
    one.
    """
    found = [*_second_kernel(source), *_unsafe_imports(source, op)]
    found += _no_wrapper(source, op, mode, wrappers)
    for name in wrappers:
        node = source.functions.get(name)
        if node is not None:
            found += _missing_defaults(source, name, node, op, reference)
    for name, test in tests_bypassing(source, frozenset(wrappers)):
        message = f"`{name}` launches the kernel itself instead of calling the wrapper"
        found.append(make_finding(source, "W142", test, message, label="bypasses the wrapper"))
    return found


def _second_kernel(source: Source) -> Iterator[Finding]:
    kernels = [(n, node) for n, node in source.functions.items() if is_jit(node)]
    for name, node in kernels[1:]:
        message = f"`{name}` is a second `@pl.jit` kernel in a delivered file, besides `{kernels[0][0]}`"
        first = source.span(kernels[0][1], "the first kernel")
        other = Span(first.file, first.line, first.column, first.line, 0, first.label)
        yield make_finding(source, "W123", node, message, subject=name, label="a second kernel", others=[other])


def _no_wrapper(source: Source, op: str | None, mode: str, wrappers: tuple[str, ...]) -> Iterator[Finding]:
    wanted = re.compile(r"^\w+_wrapper_module\d+$" if mode == "staged" else r"^\w+_wrapper$")
    if op is not None:
        wanted = re.compile(rf"^{re.escape(op)}_wrapper" + (r"_module\d+$" if mode == "staged" else "$"))
    if any(wanted.match(name) for name in wrappers):
        return
    expected = f"{op or '<op>'}_wrapper" + ("_module<digits>" if mode == "staged" else "")
    yield make_finding(
        source, "W130", source.tree, f"the file defines no function named `{expected}`", label="no wrapper in this file"
    )


def _missing_defaults(
    source: Source, name: str, node: FunctionNode, op: str | None, reference: Source | None
) -> Iterator[Finding]:
    """W140: the reference, or a test of the file, leaves out what the wrapper insists on."""
    defaults = _defaults(node)
    golden, where = _golden(source, op or name.removesuffix("_wrapper"), reference)
    optional = _defaults(golden) if golden is not None else {}
    reported: set[str] = set()
    for parameter, default in optional.items():
        if parameter in parameter_names(node) and parameter not in defaults:
            reported.add(parameter)
            text = (
                f"`{parameter}` of `{name}` has no default, but the reference ({where}) gives it {ast.unparse(default)}"
            )
            yield make_finding(
                source, "W140", _argument(node, parameter), text, subject=parameter, label="must be optional"
            )
    for call in _calls_of(source, name):
        for parameter in _omitted(node, call, defaults):
            if parameter not in reported:
                reported.add(parameter)
                text = f"`{parameter}` of `{name}` has no default, but the call in line {call.lineno} leaves it out"
                yield make_finding(
                    source, "W140", _argument(node, parameter), text, subject=parameter, label="must be optional"
                )


def _golden(source: Source, op: str, reference: Source | None) -> tuple[FunctionNode | None, str]:
    name = f"{op}_golden_cpu"
    for place in (source, reference):
        if place is not None and name in place.functions:
            node = place.functions[name]
            return node, f"`{name}` in {place.filename}:{node.lineno}"
    return None, ""


def _defaults(node: FunctionNode) -> dict[str, ast.expr]:
    """Default expressions by parameter."""
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    pairs = list(zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True))
    pairs += [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None]
    return {arg.arg: default for arg, default in pairs}


def _argument(node: FunctionNode, name: str) -> ast.AST:
    return next(a for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if a.arg == name)


def _calls_of(source: Source, name: str) -> list[ast.Call]:
    """Calls of the wrapper in the tests of the file."""
    return [
        part
        for function, node in source.functions.items()
        if function.rsplit(".", 1)[-1].startswith("test_")
        for part in ast.walk(node)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == name
    ]


def _omitted(node: FunctionNode, call: ast.Call, defaults: dict[str, ast.expr]) -> list[str]:
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return []
    given = {k.arg for k in call.keywords}
    positional = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
    left = positional[len(call.args) :] + [a.arg for a in node.args.kwonlyargs]
    return [p for p in left if p not in given and p not in defaults]


def _unsafe_imports(source: Source, op: str | None) -> Iterator[Finding]:
    for statement in _module_level(source.tree.body):
        names: list[str] = []
        if isinstance(statement, ast.Import):
            names = [a.name for a in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            names = ["." * statement.level + (statement.module or "")]
        for name in names:
            root = root_of(name.lstrip(".")) or name
            golden = root.endswith("_golden") and (op is None or root == f"{op}_golden")
            if not golden and (name.startswith(".") or root not in _ALLOWED_IMPORTS):
                message = f"`{name}` is imported at module level of a delivered file"
                yield make_finding(source, "W141", statement, message, subject=name, label="not part of the delivery")


def _module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run at import, those inside `if` and `try` included."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            yield from _module_level(statement.body)
            yield from _module_level(getattr(statement, "orelse", []))
            for handler in getattr(statement, "handlers", []):
                yield from _module_level(handler.body)


def check_design(text: str, filename: str) -> list[Finding]:
    """W150: the design document's section on operations outside the boundary is missing, or plans some."""
    lines = text.splitlines()
    rule = RULES["W150"]

    def finding(number: int, message: str, shown: str) -> Finding:
        span = Span(filename, number, 0, number, len(lines[number - 1]) if number <= len(lines) else 0, "planned here")
        return Finding(
            "W150",
            rule.category,
            "error",
            message,
            number,
            0,
            number,
            span.end_column,
            "",
            shown,
            (),
            rule.help,
            None,
            spans=(span,),
            notes=(rule.item,),
        )

    for number, line in enumerate(lines, 1):
        heading = _HEADING.match(line)
        if heading and _OUTSIDE_HEADING.search(heading[2]):
            for offset, content in enumerate(_section(lines[number:], len(heading[1]))):
                plain = content.strip().lstrip("-*> ").strip("`*_ |")
                if plain and not _NOTHING.match(plain):
                    return [
                        finding(
                            number + 1 + offset,
                            f"the design plans work outside the boundary: {plain[:100]}",
                            plain[:100],
                        )
                    ]
            return []
    return [finding(1, "the design has no section on operations outside the boundary", "")]


def _section(lines: list[str], level: int) -> list[str]:
    """The lines of a section: up to the next heading of the same or a higher level."""
    for position, line in enumerate(lines):
        heading = _HEADING.match(line)
        if heading and len(heading[1]) <= level:
            return lines[:position]
    return lines
