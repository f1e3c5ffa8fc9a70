"""Dynamic evidence: what one real call of a wrapper did with tensors. torch is imported only when a call is recorded.

Two torch modes see the call: the function level knows the author's words (`x.shape`, `x.to`, `numpy()`), the dispatch
level what really ran. Launches arrive through `runtime.launch_hooks`, synchronisation through patched device modules.
What the executor of a launch does is left out: the frames between it and the wrapper lie in this package.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from pypto_pro.audit.names import function_code, member_code, torch_names
from pypto_pro.runtime import launch_hooks

_KINDS = {
    "W101": "cast", "W102": "view", "W103": "view", "W104": "view", "W106": "view", "W105": "copy", "W107": "copy",
    "W113": "copy", "W108": "create", "W110": "read", "W117": "read", "W111": "sync", "W112": "compute",
}  # fmt: skip
_DISPATCH_KINDS = {
    "empty": "empty", "_local_scalar_dense": "read", "_to_copy": "cast",
    "copy_": "copy", "clone": "copy", "cat": "copy",
}  # fmt: skip
_SYNC_DEVICES = ("npu", "cuda", "xpu", "mps", "cpu")
_PACKAGE = str(Path(__file__).resolve().parents[1])
_TRANSPARENT = (__file__, str(Path(_PACKAGE) / "torch_shim"))
"""Frames of the package that only pass the wrapper's call on; the others are those of a launch."""


@dataclass(frozen=True)
class RecordedOp:
    """One event of the call. `line` is in the wrapper's file, 0 when no frame of it is on the stack."""

    seq: int
    level: str  # function, dispatch, device
    name: str
    phase: str  # before, after (the first launch)
    line: int
    kind: str  # metadata, empty, cast, view, copy, create, read, sync, compute, other
    code: str | None = field(default=None, metadata={"json": False})


@dataclass
class DynamicRecord:
    """One recorded call, in the field order of the report's `cases`."""

    id: str
    args: list[dict[str, Any]] = field(default_factory=list)
    ops: list[RecordedOp] = field(default_factory=list)
    launches: int = 0
    kernels: list[str] = field(default_factory=list)
    empty_calls: int = 0
    outputs_matched: list[dict[str, str]] = field(default_factory=list)
    returned: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    launch_lines: tuple[int, ...] = field(default=(), metadata={"json": False})
    lines_run: frozenset[int] = field(default=frozenset(), metadata={"json": False})
    lines_seen: frozenset[int] = field(default=frozenset(), metadata={"json": False})

    @property
    def violations(self) -> list[RecordedOp]:
        """Events outside A2 and A4; a dispatched operation stands behind its function-level event."""
        explained = {op.line for op in self.ops if op.level == "function" and op.code}
        found = [op for op in self.ops if op.level != "dispatch" and op.code]
        return found + [
            op for op in self.ops if op.level == "dispatch" and op.kind != "empty" and op.line not in explained
        ]


def torch_available() -> bool:
    """Whether a call can be recorded at all."""
    return importlib.util.find_spec("torch") is not None


def audit_call(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    *, file: str | None = None, case: str = "call", warm_up: bool = True,
) -> DynamicRecord:  # fmt: skip
    """Record one call of `fn`. `file` is the source file whose lines are reported (default: the one `fn` stands in).

    A warm-up call outside the recorder comes first, so that compilation stays out of the record. An exception ends the
    record early and is kept as its `error`; it never makes a verdict better. Raises ModuleNotFoundError without torch.
    """
    import torch

    keywords = kwargs or {}
    code = getattr(_unwrapped(fn), "__code__", None)
    place = file or (code.co_filename if code is not None else "")
    record = DynamicRecord(case, [_described(torch, n, v) for n, v in _named_arguments(fn, args, keywords)])
    if warm_up:
        try:
            fn(*args, **keywords)
        except Exception as error:
            record.error = f"{type(error).__name__}: {error}"
            return record
    recorder = _Recorder(torch, place, record)
    with recorder.watching():
        try:
            result = fn(*args, **keywords)
        except Exception as error:
            record.error = f"{type(error).__name__}: {error}"
            result = None
    recorder.finish(result, [v for _, v in _named_arguments(fn, args, keywords)])
    return record


def _unwrapped(fn: Any) -> Any:
    while hasattr(fn, "__wrapped__"):
        fn = fn.__wrapped__
    return fn


def _named_arguments(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    code = getattr(_unwrapped(fn), "__code__", None)
    names = list(code.co_varnames[: code.co_argcount]) if code is not None else []
    names += [f"arg{position}" for position in range(len(names), len(args))]
    return [*zip(names, args, strict=False), *kwargs.items()]


def _described(torch: Any, name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        return {
            "name": name, "shape": list(value.shape), "dtype": str(value.dtype), "device": str(value.device),
            "stride": list(value.stride()),
        }  # fmt: skip
    return {"name": name, "shape": None, "dtype": type(value).__name__, "device": None, "stride": None}


class _Recorder:
    """Gathers the events of one call."""

    def __init__(self, torch: Any, file: str, record: DynamicRecord) -> None:
        self.torch, self.file, self.record = torch, file, record
        self.empties: list[Any] = []
        self.launched: list[launch_hooks.LaunchEvent] = []
        self.launch_lines: list[int] = []
        self.lines: set[int] = set()
        self.codes: set[Any] = set()

    # -- events
    def add(self, level: str, name: str, kind: str, code: str | None) -> None:
        """Keep an event unless the executor of a launch caused it."""
        line = self.line_of_event()
        if line is None:
            return
        phase = "after" if self.launched else "before"
        self.record.ops.append(RecordedOp(len(self.record.ops), level, name, phase, line, kind, code))

    def line_of_event(self) -> int | None:
        """The line of the innermost frame of the wrapper's file; None when package frames lie in between."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            name = frame.f_code.co_filename
            if name == self.file:
                return frame.f_lineno
            if name.startswith(_PACKAGE) and not name.startswith(_TRANSPARENT):
                return None
            frame = frame.f_back
        return 0

    def on_function(self, name: str) -> None:
        """A torch function or tensor method is called."""
        kind, code = classify_function(name)
        self.add("function", name, kind, code)

    def on_empty(self, made: Any) -> None:
        """`torch.empty` returned. Holding its result inside the dispatch level would make torch detach it."""
        if self.line_of_event() is not None:
            self.record.empty_calls += 1
            self.empties.append(made)

    def on_dispatch(self, name: str, func: Any, args: tuple[Any, ...], out: Any) -> None:
        """An operation was dispatched."""
        short = name.split("::")[-1].split(".")[0]
        tensors = [a for a in args if isinstance(a, self.torch.Tensor)]
        kind = _DISPATCH_KINDS.get(short)
        if kind is None:
            kind = "view" if getattr(func, "is_view", False) else "compute" if tensors else "create"
        if kind == "cast" and tensors and isinstance(out, self.torch.Tensor) and tensors[0].dtype == out.dtype:
            kind = "copy"
        self.add("dispatch", name, kind, None)

    def on_launch(self, event: launch_hooks.LaunchEvent) -> None:
        """A kernel was launched."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != self.file:
            frame = frame.f_back
        self.launched.append(event)
        self.launch_lines.append(frame.f_lineno if frame is not None else 0)

    # -- watching
    @contextmanager
    def watching(self) -> Iterator[None]:
        """Both torch modes, the launch hook, the synchronise hooks and the line tracer."""
        with ExitStack() as stack:
            launch_hooks.observers.append(self.on_launch)
            stack.callback(launch_hooks.observers.remove, self.on_launch)
            self._patch_synchronise(stack)
            before = sys.gettrace()
            stack.callback(sys.settrace, before)
            for mode in _modes(self.torch, self):
                stack.enter_context(mode)
            sys.settrace(self._trace)
            yield

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename != self.file:
            return None
        self.codes.add(frame.f_code)
        if event == "line":
            self.lines.add(frame.f_lineno)
        return self._trace

    def _patch_synchronise(self, stack: ExitStack) -> None:
        for device in _SYNC_DEVICES:
            module = getattr(self.torch, device, None)
            original = getattr(module, "synchronize", None)
            if original is None:
                continue

            def counted(*args: Any, _original: Any = original, _device: str = device, **kwargs: Any) -> Any:
                self.add("device", f"torch.{_device}.synchronize", "sync", "W111")
                return _original(*args, **kwargs)

            module.synchronize = counted  # type: ignore[union-attr]
            stack.callback(setattr, module, "synchronize", original)

    # -- afterwards
    def finish(self, result: Any, arguments: list[Any]) -> None:
        """Match launches, allocations and returned values by identity."""
        record = self.record
        record.launches = len(self.launched)
        record.kernels = list(dict.fromkeys(event.kernel for event in self.launched))
        record.launch_lines = tuple(self.launch_lines)
        own = {self._identity(t) for t in self.empties}
        given = {self._identity(t) for value in arguments for t in self._tensors(value)}
        for event in self.launched:
            for parameter, value in event.args.items():
                for tensor in self._tensors(value):
                    if self._identity(tensor) in own:
                        record.outputs_matched.append({"var": parameter, "kernel_param": parameter})
        for index, tensor in enumerate(self._tensors(result)):
            key = self._identity(tensor)
            record.returned.append(
                {"index": index, "is": "output" if key in own else "input" if key in given else "other"}
            )
        record.lines_run = frozenset(self.lines)
        record.lines_seen = frozenset(
            line for code in self.codes for _, _, line in code.co_lines() if line and line != code.co_firstlineno
        )

    def _identity(self, tensor: Any) -> tuple[Any, ...]:
        return (tensor.untyped_storage().data_ptr() or id(tensor), tensor.storage_offset(), tuple(tensor.shape))

    def _tensors(self, value: Any) -> list[Any]:
        if isinstance(value, self.torch.Tensor):
            return [value]
        if isinstance(value, dict):
            value = list(value.values())
        return [t for item in value for t in self._tensors(item)] if isinstance(value, (list, tuple)) else []


def classify_function(name: str) -> tuple[str, str | None]:
    """Kind and code of a function-level event by its qualified name (`torch.Tensor.shape.__get__`, `torch.empty`)."""
    names = torch_names()
    if name == "torch.empty":
        return "empty", None
    if name.startswith("torch.Tensor."):
        member = name.split(".")[2]
        if member in names.metadata_attributes | names.metadata_methods:
            return "metadata", None
        code = member_code(member) or "W116"
    else:
        code = function_code(name)
    return _KINDS.get(code, "other"), code


def _modes(torch: Any, recorder: _Recorder) -> list[Any]:
    """The two torch modes, defined here because their base classes need torch."""
    overrides = importlib.import_module("torch.overrides")
    dispatch = importlib.import_module("torch.utils._python_dispatch")

    class FunctionLevel(overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            short = getattr(func, "__name__", "?")
            # a function of torch itself that something, the device shim perhaps, has wrapped
            wrapped = getattr(torch._C._VariableFunctions, short, None) is func
            name = overrides.resolve_name(func) or (f"torch.{short}" if wrapped else short)
            recorder.on_function(name)
            out = func(*args, **(kwargs or {}))
            if name == "torch.empty":
                recorder.on_empty(out)
            return out

    class DispatchLevel(dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            recorder.on_dispatch(func.name(), func, args, out)
            return out

    return [FunctionLevel(), DispatchLevel()]
