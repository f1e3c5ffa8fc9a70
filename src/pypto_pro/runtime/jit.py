"""`@pl.jit`: kernel objects, launchers, and the order in which a launch is checked, compiled and run."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pypto_pro.diag.errors import ArgumentError, ArgumentKindError, DiagnosticError
from pypto_pro.dtypes import DataType
from pypto_pro.frontend.pipeline.config import PipelineConfig
from pypto_pro.frontend.signature import ParamSpec, has_kernel_annotation, read_signature
from pypto_pro.frontend.source import KernelSource
from pypto_pro.frontend.tiling import check_fields
from pypto_pro.ir.launch import Launch
from pypto_pro.ir.nodes import Kernel
from pypto_pro.runtime import launch as executors
from pypto_pro.runtime import launch_hooks, options
from pypto_pro.runtime.binding import ArgumentBinder, BoundTensors, StaticDims
from pypto_pro.runtime.callsite import call_site
from pypto_pro.runtime.graph_break import keep_out, untraced
from pypto_pro.runtime.launch_hooks import LaunchEvent
from pypto_pro.runtime.platform import resolve_arch
from pypto_pro.runtime.specialise import DatatypeSchema, Signature, Variant, VariantCache
from pypto_pro.runtime.tilingkey import TilingKeySchema

if TYPE_CHECKING:
    from pypto_pro.frontend.closure import Captures
    from pypto_pro.frontend.specialise import Reading


MAX_BLOCKS = 2**31 - 1  # get_block_num and get_block_idx are INT32


@dataclass(frozen=True)
class JitOptions:
    """What the decorator was given."""

    arch: str | None = None
    auto_mutex: bool = True
    name: str | None = None
    pipeline: PipelineConfig | None = None
    compile_timeout: float | None = None

    def __post_init__(self) -> None:
        if self.pipeline is not None and not isinstance(self.pipeline, PipelineConfig):
            found = f"{self.pipeline!r} ({type(self.pipeline).__name__})"
            raise TypeError(f"pipeline is a pl.pipeline.PipelineConfig or None, found {found}")

    @property
    def deciding(self) -> tuple[Any, ...]:
        """The options, besides the architecture, that change what is compiled."""
        return self.auto_mutex, self.pipeline


def jit(
    target: Callable[..., Any] | None = None,
    *,
    arch: str | None = None,
    auto_mutex: bool = True,
    name: str | None = None,
    pipeline: PipelineConfig | None = None,
    tiling_key: type | None = None,
    datatype: Mapping[str, str] | None = None,
    compile_timeout: float | None = None,
) -> Any:
    """Make a kernel of a function: `@pl.jit`, `@pl.jit()` or `@pl.jit(option=...)`.

    A function without tensor, pointer, dtype or tiling annotations stays plain Python. Raises TypeError for annotations
    that cannot be evaluated or a `pipeline` of another type, ValueError for a tiling key or datatype schema that breaks
    the rules or a `compile_timeout` that is no number of seconds above 0.
    """
    if compile_timeout is not None and (isinstance(compile_timeout, bool) or not compile_timeout > 0):
        raise ValueError(f"compile_timeout is a number of seconds above 0, found {compile_timeout!r}")
    chosen = JitOptions(arch, auto_mutex, name, pipeline, compile_timeout)
    scope = _decorating_scope()

    def decorate(fn: Callable[..., Any]) -> Any:
        source = KernelSource.capture(fn, scope)
        specs = read_signature(source.fn, source.environment())
        if not has_kernel_annotation(specs):
            return _plain(fn)
        for spec in specs:
            if spec.tiling_class is not None:
                check_fields(spec.tiling_class)
        return JitKernel(source, specs, chosen, tiling_key, datatype)

    return decorate if target is None else decorate(target)


def _decorating_scope() -> Mapping[str, Any] | None:
    """The locals around the decorated function: two frames up."""
    frame = sys._getframe(2)
    return None if frame.f_locals is frame.f_globals else dict(frame.f_locals)


def _plain(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return call


class JitKernel:
    """A launchable kernel: `k(args)`, `k[n](args)`, `k[stream, n](args)`, and with a key and/or dtypes behind.

    Each combination of STATIC sizes, tiling key and dtypes is compiled at its first launch and kept.
    """

    def __init__(
        self,
        source: KernelSource,
        specs: tuple[ParamSpec, ...],
        chosen: JitOptions,
        tiling_key: type | None,
        datatype: Mapping[str, str] | None,
    ) -> None:
        functools.update_wrapper(self, source.fn)
        names = [spec.name for spec in specs]
        self.source = source
        self.specs = specs
        self.options = chosen
        self.binder = ArgumentBinder(specs, source.fn)
        self.signature = inspect.signature(source.fn)
        self.key_schema = None
        if tiling_key is not None:
            self.key_schema = TilingKeySchema.of(tiling_key, names, source.environment())
        self.dtype_schema = None
        if datatype is not None:
            fields = self.key_schema.names if self.key_schema else ()
            self.dtype_schema = DatatypeSchema.of(datatype, names, fields)
        self.variants = VariantCache()
        self._default = Launcher(self, None, 1, None, None)
        keep_out()

    @property
    def arch(self) -> str | None:
        """The `arch` option as given."""
        return self.options.arch

    @property
    def tilingkey_schema(self) -> TilingKeySchema | None:
        """The checked tiling key class, None without one."""
        return self.key_schema

    @property
    def datatype_schema(self) -> dict[str, str] | None:
        """The `datatype` option, None without one."""
        return dict(self.dtype_schema.variables) if self.dtype_schema else None

    def __repr__(self) -> str:
        return f"<kernel {self.source.name}>"

    @untraced
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Launch one block on the current stream."""
        self._check_form(0, None, None)
        self._default(*args, **kwargs)

    def prepare(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Prepared:
        """Everything of a launch of one block but the run."""
        self._check_form(0, None, None)
        return self._default.prepare(args, kwargs)

    @untraced
    def __getitem__(self, form: Any) -> Launcher:
        """A launcher: `[n]`, `[stream, n]`, and behind these the tiling key dict and the datatype dict.

        ArgumentError (a ValueError) for another number of items or an illegal tiling key.
        """
        items = form if isinstance(form, tuple) else (None, form)
        extra = items[2:]
        wanted = (self.key_schema is not None) + (self.dtype_schema is not None)
        if len(items) < 2 or len(extra) != wanted or (wanted and not isinstance(form, tuple)):
            self._check_form(len(extra) if isinstance(form, tuple) else 0, form, items)
        key = None
        if self.key_schema is not None:
            try:
                key = self.key_schema.check(extra[0])
            except ValueError as error:
                raise ArgumentError(str(error), call_site()) from None
        return Launcher(self, items[0], items[1], key, extra[-1] if self.dtype_schema is not None else None)

    def _check_form(self, extra: int, form: Any, items: Any) -> None:
        """ArgumentError unless a launch with `extra` items behind stream and block_dim fits the schemas."""
        wanted = ["stream", "block_dim"]
        wanted += ["tiling key"] if self.key_schema is not None else []
        wanted += ["datatype"] if self.dtype_schema is not None else []
        if len(wanted) == 2 and (items is None or (len(items) == 2 and extra == 0)):
            return
        found = "no brackets" if items is None else f"{len(items) if isinstance(form, tuple) else 1} items"
        text = f"`{self.source.name}` is launched as {self.source.name}[{', '.join(wanted)}](...), found {found}"
        raise ArgumentError(text, call_site())

    def bind_names(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Arguments in parameter order, defaults filled in. ArgumentKindError as Python's own binding has it."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            names = list(self.signature.parameters)
            hint = f"written as `{self.source.name}({self._arguments()})`"
            if names[:1] == ["self"]:
                hint = "a method cannot be a kernel; make it a function of the module"
            raise ArgumentKindError(f"`{self.source.name}`: {error}", call_site(), hint=hint) from None
        bound.apply_defaults()
        return tuple(bound.arguments[name] for name in self.signature.parameters)

    def _arguments(self) -> str:
        parameters = self.signature.parameters.values()
        return ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters)

    def variant(
        self, static: StaticDims = (), key: Mapping[str, int] | None = None,
        datatypes: tuple[tuple[str, DataType], ...] = (),
    ) -> Variant:
        """The compiled variant of a signature, compiled now if it is new. Raises what the front end raises."""
        packed = self.key_schema.pack(key) if self.key_schema is not None and key is not None else None
        signature = Signature(static, packed, datatypes)
        found = self.variants.get(signature)  # the warm path: no lock
        if found is None:
            found = self.variants.get_or_make(signature, lambda _: self._make(signature, key))
        return found

    def _make(self, signature: Signature, key: Mapping[str, int] | None) -> Variant:
        from pypto_pro.runtime.compiling import make_variant  # not before the first compile

        return make_variant(self, signature, key)

    def compile(
        self, static: StaticDims, key: Mapping[str, int] | None, datatypes: tuple[tuple[str, DataType], ...],
        after: str | None = None, captures: Captures | None = None, reading: Reading | None = None,
    ) -> Kernel:
        """Read the source for one signature and run the passes (up to `after` only, when given).

        `captures` is told what was read from outside the source; `reading` says what for.
        """
        resolve_arch(self.options.arch)
        from pypto_pro import passes
        from pypto_pro.frontend.parse import parse_kernel
        from pypto_pro.frontend.specialise import Reading, Specialisation

        special = Specialisation(static, dict(key or {}), dict(datatypes), reading or Reading())
        chosen = self.options
        kernel = parse_kernel(
            self.source, special, auto_mutex=chosen.auto_mutex, captures=captures, pipeline=chosen.pipeline
        )
        return passes.run(kernel, after=after)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch with every check passed: what an executor needs, and the arrays that must stay alive."""

    variant: Variant
    launch: Launch
    tensors: BoundTensors


class Launcher:
    """A kernel with its stream, block count, tiling key and dtypes; call it as often as you like."""

    __slots__ = ("block_dim", "datatype", "kernel", "key", "stream")

    def __init__(
        self, kernel: JitKernel, stream: Any, block_dim: Any, key: dict[str, int] | None, datatype: Any
    ) -> None:
        self.kernel = kernel
        self.stream = stream
        self.block_dim = block_dim
        self.key = key
        self.datatype = datatype

    @untraced
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Check the arguments, compile if this signature is new, and run to the end."""
        try:
            self._run(args, kwargs)
        except DiagnosticError as error:
            raise error.with_traceback(None)  # noqa: B904 - the same error, without the frames of this package

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        chosen = options.current()
        prepared = self.prepare(args, kwargs)
        if prepared.variant.watched:
            prepared.variant.warn_stale(self.kernel.source.name)
        if not launch_hooks.observers:
            executors.run(prepared.variant, prepared.launch, chosen)
            return
        named = dict(zip(self.kernel.signature.parameters, self.kernel.bind_names(args, kwargs), strict=True))
        owed = launch_hooks.notify(LaunchEvent(self.kernel.source.name, self.block_dim, named))
        try:
            executors.run(prepared.variant, prepared.launch, chosen)
        finally:
            for ended in owed:
                ended()

    def prepare(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Prepared:
        """Everything of a launch but the run: checks, compilation, launch values."""
        kernel = self.kernel
        if kwargs or len(args) != len(kernel.specs):
            args = kernel.bind_names(args, kwargs)
        if type(self.block_dim) is not int or self.block_dim <= 0:
            found = f"{self.block_dim!r} ({type(self.block_dim).__name__})"
            raise ArgumentError(f"block_dim must be an int above 0, found {found}", call_site())
        if self.block_dim > MAX_BLOCKS:
            raise ArgumentError(f"block_dim must be at most {MAX_BLOCKS}, found {self.block_dim}", call_site())
        bound = kernel.binder.tensors(args)
        variant = kernel.variant(bound.static, self.key, self._datatypes())
        values = kernel.binder.launch_values(args, bound, variant.written)
        return Prepared(variant, Launch(values, self.block_dim), bound)

    def _datatypes(self) -> tuple[tuple[str, DataType], ...]:
        schema = self.kernel.dtype_schema
        if schema is None:
            return ()
        try:
            return schema.check(self.datatype)
        except ValueError as error:
            raise ArgumentError(str(error), call_site()) from None
        except TypeError as error:
            raise ArgumentKindError(str(error), call_site()) from None


def is_kernel(value: Any) -> bool:
    """Whether an object can be launched."""
    return isinstance(value, JitKernel)


