"""`audit --run`: import the audited file, call its wrappers with real inputs and add what was recorded to the report.

Inputs come from a case file, else from the tests of the file (each wrapper is recorded where a test calls it), else
they are made up from the kernel's annotations. This is the only part of the audit that executes the file.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from pypto_pro.audit.evidence import apply_records, not_run, unavailable
from pypto_pro.audit.interpreter import import_source, interpret
from pypto_pro.audit.recorder import DynamicRecord, audit_call
from pypto_pro.audit.report import Report, WrapperReport
from pypto_pro.audit.source import Source
from pypto_pro.audit.static import AuditUsageError
from pypto_pro.audit.trace import Launch
from pypto_pro.audit.values import Tensor, options

_MOST_CALLS = 8  # recorded a wrapper; more of the same says nothing new
_MADE_UP_SIZE = 64  # for a DYNAMIC axis
_TORCH_DTYPES = {
    "FP16": "float16", "BF16": "bfloat16", "FP32": "float32", "INT8": "int8", "INT16": "int16", "INT32": "int32",
    "INT64": "int64", "UINT8": "uint8", "BOOL": "bool",
}  # fmt: skip


def run_report(report: Report, path: Path, cases: Path | None = None, device: str = "cpu") -> None:
    """Record calls of every wrapper of `report` (the static audit of the file at `path`) and judge again.

    Tensors from a case file, and made-up ones, are on `device`.
    Raises AuditUsageError for a case file that cannot be used. A file that cannot be imported, and a machine without
    torch, leave the static verdict as it is and say so.
    """
    path = path.resolve()  # as the frames of its functions name it
    reason = unavailable()
    if reason is None:
        stated = _read_cases(cases) if cases is not None else None
        with _quiet():
            try:
                module = _import_file(path)
            except (Exception, SystemExit) as error:
                reason = f"the file cannot be imported: {type(error).__name__}: {error}"
            else:
                for wrapper in report.wrappers:
                    _run_wrapper(report, wrapper, module, path, stated, device)
    if reason is not None:
        not_run(report, reason)
    report.judge()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What the audited file prints, and what its launches warn about, must not end up in the middle of a report."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _import_file(path: Path) -> ModuleType:
    name = f"_pypto_audited_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def _run_wrapper(
    report: Report, wrapper: WrapperReport, module: ModuleType, path: Path, stated: list[dict[str, Any]] | None,
    device: str,
) -> None:  # fmt: skip
    """Record one wrapper from the best inputs there are."""
    fn = getattr(module, wrapper.name, None)
    if not callable(fn):
        wrapper.dynamic.reason = f"`{wrapper.name}` is no callable of the imported module"
        return
    if stated is not None:
        records = [_stated_call(fn, case, number, path, device) for number, case in enumerate(stated)]
    else:
        records = _from_tests(report, wrapper, module, path)
        if not records:
            records = _made_up(wrapper, fn, path, device)
    if records:
        apply_records(wrapper, records, report.file)
    else:
        wrapper.dynamic.reason = (
            "no inputs: no test calls it, and none could be made up; give a case file with `--cases`"
        )


# -- a case file
def _read_cases(path: Path) -> list[dict[str, Any]]:
    """`{"cases": [{"id", "args": [...], "kwargs": {...}}]}`; a tensor is `{"shape": [...], "dtype": "float32"}`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AuditUsageError(f"{path}: no usable case file: {error}") from error
    cases = data.get("cases") if isinstance(data, dict) else data
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise AuditUsageError(f"{path}: expected a list of cases, or an object with `cases`")
    return cases


def _stated_call(fn: Callable[..., Any], case: dict[str, Any], number: int, path: Path, device: str) -> DynamicRecord:
    args = tuple(_value(item, device) for item in case.get("args", []))
    kwargs = {name: _value(item, device) for name, item in case.get("kwargs", {}).items()}
    return audit_call(fn, args, kwargs, file=str(path), case=str(case.get("id", number)))


def _value(item: Any, device: str) -> Any:
    """A JSON value, tensors made with a fixed seed."""
    if isinstance(item, list):
        return [_value(part, device) for part in item]
    if isinstance(item, dict) and "shape" in item:
        return _tensor(tuple(item["shape"]), str(item.get("dtype", "float32")), device)
    return item


def _tensor(shape: tuple[int, ...], dtype: str, device: str) -> Any:
    import torch

    kind = getattr(torch, dtype.removeprefix("torch."), None)
    if not isinstance(kind, torch.dtype):
        raise AuditUsageError(f"unknown dtype {dtype!r} in a case")
    generator = torch.Generator().manual_seed(0)
    if kind.is_floating_point:
        return torch.rand(shape, generator=generator).to(device, kind)
    return torch.randint(0, 2, shape, generator=generator).to(device, kind)


# -- the tests of the file
def _from_tests(report: Report, wrapper: WrapperReport, module: ModuleType, path: Path) -> list[DynamicRecord]:
    """Run the tests with the wrapper replaced by a recording stand-in."""
    records: list[DynamicRecord] = []
    original = getattr(module, wrapper.name)

    def recording(*args: Any, **kwargs: Any) -> Any:
        if len(records) < _MOST_CALLS:
            records.append(audit_call(original, args, kwargs, file=str(path), case=f"{current}#{len(records)}"))
        return original(*args, **kwargs)

    recording.__wrapped__ = original  # type: ignore[attr-defined]
    current = ""
    setattr(module, wrapper.name, recording)
    try:
        for role in report.functions:
            test = getattr(module, role.name, None)
            if role.role != "driver" or not role.name.startswith("test_") or not callable(test):
                continue
            for arguments in _test_arguments(test):
                current = role.name
                with contextlib.suppress(Exception, SystemExit):  # a failing test is pytest's business
                    test(**arguments)
    finally:
        setattr(module, wrapper.name, original)
    return records


def _test_arguments(test: Callable[..., Any]) -> list[dict[str, Any]]:
    """Keyword arguments a test can be called with: none, or the rows of its `parametrize` marks; fixtures give none."""
    marks = [m for m in getattr(test, "pytestmark", []) if getattr(m, "name", "") == "parametrize"]
    axes: list[list[dict[str, Any]]] = []
    for mark in marks:
        names = [n.strip() for n in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
        axes.append([dict(zip(names, _row_values(row, len(names)), strict=False)) for row in mark.args[1]])
    code = getattr(test, "__code__", None)
    needed = (
        set(code.co_varnames[: code.co_argcount - len(getattr(test, "__defaults__", None) or ())]) if code else set()
    )
    combined = [{k: v for part in parts for k, v in part.items()} for parts in product(*axes)][:_MOST_CALLS]
    return [arguments for arguments in combined if needed <= arguments.keys()]


def _row_values(row: Any, width: int) -> tuple[Any, ...]:
    """One row of a `parametrize` mark as a tuple; a `pytest.param` keeps its values apart from its marks."""
    if hasattr(row, "marks"):
        return tuple(row.values)
    return tuple(row) if width > 1 else (row,)


# -- made-up inputs
def _made_up(wrapper: WrapperReport, fn: Callable[..., Any], path: Path, device: str) -> list[DynamicRecord]:
    """One call with inputs after the kernel's annotations; nothing when a parameter cannot be decided."""
    source = Source.parse(path.read_text(encoding="utf-8"), str(path))
    result = interpret(import_source(source), wrapper.name)
    shapes: dict[str, tuple[tuple[int, ...], str]] = {}
    for launch in (e for e in result.events if isinstance(e, Launch)):
        annotations = {p.name: p.annotation for k in launch.kernels for p in result.machine.kernel_facts(k).parameters}
        for parameter, value in launch.arguments:
            for tensor in (v for v in options(value) if isinstance(v, Tensor) and v.origin == "param"):
                shapes.setdefault(tensor.label, _shape_of(annotations.get(parameter, "")))
    arguments: dict[str, Any] = {}
    node = source.functions.get(wrapper.name)
    optional = len(node.args.defaults) if node is not None else 0
    required = [p for p in wrapper.params if not p["name"].startswith("*")]
    for described in required[: len(required) - optional]:
        if described["kind"] == "tensor":
            shape, dtype = shapes.get(described["name"], ((16, _MADE_UP_SIZE), "float32"))
            arguments[described["name"]] = _tensor(shape, dtype, device)
        elif described["kind"] == "scalar":
            arguments[described["name"]] = 1
        else:
            return []
    return [audit_call(fn, (), arguments, file=str(path), case="made up")]


def _shape_of(annotation: str) -> tuple[tuple[int, ...], str]:
    """Shape and torch dtype of `pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP16]` (or `pl.Ptr[...]`)."""
    inner = annotation.partition("[[")[2].partition("]")[0]
    sizes = [int(part) if part.strip().isdigit() else _MADE_UP_SIZE for part in inner.split(",") if part.strip()]
    name = annotation.rpartition("DT_")[2].split("]")[0].split(",")[0].strip()
    return tuple(sizes) or (_MADE_UP_SIZE,), _TORCH_DTYPES.get(name, "float32")
