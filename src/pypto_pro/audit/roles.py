"""Which functions of a file are audited, and why: every function gets a role and the reason for it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import PurePath

from pypto_pro.audit.kernels import last_name
from pypto_pro.audit.source import FunctionNode, Source

WRAPPER_NAME = re.compile(r"^(?P<op>\w+?)_wrapper(?:_module(?P<module>\d+))?$")
_TEST_FILE = re.compile(r"^test_(?P<op>\w+?)(?:_module\d+)?\.py$")
_STAGED_FILE = re.compile(r"^test_\w+_module\d+\.py$")
_DRIVER_NAME = re.compile(r"^(main|test_.*|bench_.*|run_.*)$")
_GOLDEN_NAMES = frozenset(("_assert_precision", "_get_device"))
_JIT_NAMES = frozenset(("jit", "kernel"))
_DEVICE_NAMES = frozenset(("vector_function", "stage", "function", "inline", "program"))


@dataclass(frozen=True)
class Role:
    """Role of one function and the reason for it."""

    role: str
    reason: str


@dataclass(frozen=True)
class Selection:
    """Roles by qualified name, and the names of the wrappers in the order of the file."""

    roles: dict[str, Role]
    wrappers: tuple[str, ...]


def mode_of(filename: str, asked: str | None = None) -> str:
    """plain, delivery, staged or samples: as asked, else by where the file lies."""
    if asked:
        return asked
    parts = PurePath(filename.replace("\\", "/")).parts
    if "samples" in parts and parts[parts.index("samples") - 1 : parts.index("samples")] == ("examples",):
        return "samples"
    if "custom" in parts[:-1]:
        if "modules" in parts and _STAGED_FILE.match(parts[-1]):
            return "staged"
        below = parts[parts.index("custom") + 1 :]
        if len(below) >= 2 and _TEST_FILE.match(parts[-1]):
            return "delivery"
    return "plain"


def op_of(filename: str, source: Source) -> str | None:
    """The operator's name: from `test_<op>.py`, else from the first wrapper's name."""
    found = _TEST_FILE.match(PurePath(filename.replace("\\", "/")).name)
    if found:
        return found["op"]
    names = [WRAPPER_NAME.match(n) for n in source.functions if "." not in n]
    return next((m["op"] for m in names if m), None)


def select(
    source: Source,
    mode: str,
    wrappers: tuple[str, ...] = (),
    drivers: tuple[str, ...] = (),
    *,
    all_launchers: bool = False,
) -> Selection:
    """Decide the role of every function; the first rule that fits wins."""
    roles: dict[str, Role] = {}
    device = _device_only(source)
    launchers = launching_functions(source) | _launching_imported(source)
    for name, node in source.functions.items():
        roles[name] = _role(source, name, node, mode, wrappers, drivers, device, launchers)
    for name in _assigned_wrappers(source, mode, wrappers):
        roles.setdefault(name, Role("wrapper", "assigned at module level under a wrapper's name"))
    for name in wrappers:
        if "." in name and name in source.functions:
            roles[name] = Role("wrapper", "--wrapper")
    audited = [n for n, r in roles.items() if r.role == "wrapper" or (all_launchers and r.role == "launcher")]
    return Selection(roles, tuple(audited))


def _role(
    source: Source,
    name: str,
    node: FunctionNode,
    mode: str,
    wrappers: tuple[str, ...],
    drivers: tuple[str, ...],
    device: frozenset[str],
    launchers: frozenset[str],
) -> Role:
    if name in wrappers:
        return Role("wrapper", "--wrapper")
    if name in drivers:
        return Role("driver", "--driver")
    kind = kernel_decorator(node)
    if kind:
        return Role("kernel", f"decorated with `{kind}`")
    marker = source.marker(node)
    if marker:
        return Role(marker, f"marked `# pypto: {marker}`")
    if mode == "samples":
        return Role("driver", "study sample: its functions are drivers whatever they are called")
    if "." not in name and WRAPPER_NAME.match(name):
        return Role("wrapper", "named `<op>_wrapper`")
    if _DRIVER_NAME.match(name.rsplit(".", 1)[-1]):
        return Role("driver", "named like a driver (main, test_*, bench_*, run_*)")
    if "_golden" in name or "golden_" in name or "reference" in name or name in _GOLDEN_NAMES:
        return Role("golden", "named like a reference")
    if name in device:
        return Role("kernel", "called from kernels only")
    if name in launchers:
        return Role("launcher", "unclassified launcher: launches a kernel and has no role; `--all-launchers` audits it")
    return Role("other", "not reachable from a wrapper")


def _assigned_wrappers(source: Source, mode: str, wrappers: tuple[str, ...]) -> list[str]:
    """`op_wrapper = f(...)` at module level."""
    found = []
    for statement in source.tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in (t.id for t in targets if isinstance(t, ast.Name)):
                if target in wrappers or (mode != "samples" and WRAPPER_NAME.match(target)):
                    found.append(target)
    return found


def kernel_decorator(node: FunctionNode) -> str | None:
    """The decorator that makes a function device code, as written without its arguments."""
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if last_name(target) in _JIT_NAMES | _DEVICE_NAMES and not _is_torch(target):
            return f"@{ast.unparse(target)}"
    return None


def is_jit(node: FunctionNode) -> bool:
    """Whether a function is decorated as a launchable kernel."""
    return any(
        last_name(d.func if isinstance(d, ast.Call) else d) == "jit"
        and not _is_torch(d.func if isinstance(d, ast.Call) else d)
        for d in node.decorator_list
    )


def _is_torch(target: ast.expr) -> bool:
    return ast.unparse(target).startswith(("torch.", "numba.", "jax."))


def _device_only(source: Source) -> frozenset[str]:
    """Functions that kernels call and nobody else does."""
    called_by: dict[str, set[str]] = {}
    for name, node in source.functions.items():
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in source.functions and part.id != name:
                called_by.setdefault(part.id, set()).add(name)
    at_module = {
        part.id
        for statement in source.tree.body
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef))
        for part in ast.walk(statement)
        if isinstance(part, ast.Name)
    }
    device = {n for n, node in source.functions.items() if kernel_decorator(node)}
    grown = True
    while grown:
        more = {n for n, by in called_by.items() if n not in device and n not in at_module and by <= device}
        grown = bool(more)
        device |= more
    return frozenset(device)


def launching_functions(source: Source) -> frozenset[str]:
    """Functions with a launch expression of their own: a kernel of the file called, with or without options."""
    kernels = {n.rsplit(".", 1)[-1] for n, node in source.functions.items() if is_jit(node)}
    return frozenset(
        n for n, node in source.functions.items() if not kernel_decorator(node) and _launches(node, kernels)
    )


def _launching_imported(source: Source) -> frozenset[str]:
    """Functions that call a name of another file the way only kernels are called: `kernel[stream, blocks](...)`."""
    imported = {
        alias.asname or alias.name for s in source.tree.body if isinstance(s, ast.ImportFrom) for alias in s.names
    }
    found = set()
    for name, node in source.functions.items():
        for part in ast.walk(node):
            match part:
                case ast.Call(func=ast.Subscript(value=ast.Name(id=kernel), slice=ast.Tuple())) if kernel in imported:
                    found.add(name)
    return frozenset(found)


def _launches(node: FunctionNode, kernels: set[str]) -> bool:
    own = set(kernels)
    for part in ast.walk(node):
        match part:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Subscript(value=ast.Name(id=kernel)) | ast.Name(id=kernel)
            ) if kernel in own:
                own.add(name)
    for part in ast.walk(node):
        match part:
            case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Subscript(value=ast.Name(id=name))) if (
                name in own
            ):
                return True
    return False


def tests_bypassing(source: Source, wrappers: frozenset[str]) -> list[tuple[str, FunctionNode]]:
    """Test functions that reach a launch without going through a wrapper."""
    launchers = launching_functions(source)
    found = []
    for name, node in source.functions.items():
        if not name.rsplit(".", 1)[-1].startswith("test_"):
            continue
        pending, seen = [name], set[str]()
        while pending:
            current = pending.pop()
            if current in seen or current in wrappers:
                continue
            seen.add(current)
            if current in launchers:
                found.append((name, node))
                break
            body = source.functions[current]
            pending += [
                part.func.id
                for part in ast.walk(body)
                if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in source.functions
            ]
    return found
