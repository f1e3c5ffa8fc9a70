"""From Python arguments to launch values: every check of a launch, in the language's order, before anything runs.

1 names, 2 block_dim, 3 tensors (shape, then kind, then dtype), 4 datatypes, 5 compile, 6 tiling data, 7 the rest.
Steps 1 and 2 and the order stand in `jit`; this module has the checks of one parameter.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

from pypto_pro.diag import Span
from pypto_pro.diag.errors import ArgumentError, ArgumentKindError, ParserError
from pypto_pro.dtypes import DataType
from pypto_pro.frontend.annotations import STATIC
from pypto_pro.frontend.signature import ParamKind, ParamSpec
from pypto_pro.frontend.source import source_of
from pypto_pro.ir.launch import ArgValue, BufferValue, TilingValue
from pypto_pro.runtime.arrays import HostArray, Quick, host_array, quick_reader
from pypto_pro.runtime.callsite import call_site, warn_at_caller
from pypto_pro.runtime.tilingdata import TilingLayout

StaticDims = tuple[tuple[int, int, int], ...]
"""(parameter index, axis, size) of every axis that is a constant of its own variant."""

MAX_DIM = 2**31
_NULL_POINTER = BufferValue(0, 0)


class ParameterBinder:
    """The checks of one kernel parameter."""

    def __init__(self, index: int, spec: ParamSpec, fn: FunctionType) -> None:
        self.index = index
        self.spec = spec
        self._fn = fn
        self.name = spec.name

    @cached_property
    def _layout(self) -> TilingLayout:
        assert self.spec.struct is not None
        return TilingLayout.of(self.spec.struct)

    # --- tensors ---

    def shape(self, value: Any) -> HostArray | None:
        """A tensor argument with its shape checked, None for the null pointer.

        ArgumentKindError for an object without a shape, ArgumentError for a wrong rank or size.
        """
        if value is None:
            if self.spec.open_ended or STATIC in self.spec.dims:
                raise self._shape_error("is None, but has STATIC axes whose sizes the kernel is compiled for")
            return None
        host = host_array(value, self.name)
        if host is None:
            raise self._kind_error(f"takes an array (numpy, torch, DLPack), found {_kind(value)}")
        shape, dims = host.shape, self.spec.dims
        if len(shape) != len(dims) and not (self.spec.open_ended and len(shape) > len(dims)):
            wanted = f"rank {len(dims)}" + (" or more" if self.spec.open_ended else "")
            raise self._shape_error(f"is declared with {wanted}, found shape {shape}")
        for axis, size in enumerate(shape):
            if not 0 < size < MAX_DIM:
                raise self._shape_error(f"takes sizes from 1 to {MAX_DIM - 1}, found size {size} on axis {axis}")
            if axis < len(dims) and isinstance(dims[axis], int) and size != dims[axis]:
                raise self._shape_error(f"is declared with size {dims[axis]} on axis {axis}, found shape {shape}")
        return host

    def static_dims(self, shape: tuple[int, ...]) -> StaticDims:
        """The sizes that enter the compile signature."""
        dims = self.spec.dims
        return tuple(
            (self.index, axis, size)
            for axis, size in enumerate(shape)
            if axis >= len(dims) or dims[axis] is STATIC
        )

    def dtype(self, host: HostArray | None) -> BufferValue:
        """The launch value of a tensor whose shape is checked; ArgumentKindError for another dtype, ArgumentError for
        strides that are not those of a contiguous row-major array."""
        if host is None:
            return BufferValue(0, 0, (0,) * len(self.spec.dims))
        declared = self.spec.dtype
        assert declared is not None
        if declared.is_torch_checked and host.dtype is not _host_dtype(declared):
            raise self._kind_error(f"is declared {declared.name}, found an array of {host.shown_dtype}")
        if host.strides is not None:
            raise self._strides_error(host.shape, host.strides)
        return BufferValue(host.address, host.size_bytes, host.shape)

    def read_only(self, host: HostArray) -> ArgumentError:
        """The error for read-only memory behind a parameter that the kernel writes."""
        return self._shape_error(f"is written by the kernel, found {host.why_read_only}")

    def quick(self) -> Quick:
        """A reader of the arguments that need no explanation."""
        spec = self.spec
        assert spec.dtype is not None
        if spec.open_ended:
            return lambda value: None
        fixed = [(axis, dim) for axis, dim in enumerate(spec.dims) if isinstance(dim, int)]
        return quick_reader(len(spec.dims), fixed, _host_dtype(spec.dtype), MAX_DIM)

    # --- pointers, scalars, tiling data ---

    def pointer(self, value: Any) -> tuple[BufferValue, HostArray | None]:
        """The launch value of a pointer argument: any array, or None."""
        if value is None:
            return _NULL_POINTER, None
        host = host_array(value, self.name)
        if host is None:
            raise self._kind_error(f"takes an array (numpy, torch, DLPack) or None, found {_kind(value)}")
        if host.strides is not None and min(host.strides, default=0) < 0:
            raise self._shape_error(f"has negative strides {host.strides}; a device address only goes up")
        return BufferValue(host.address, host.size_bytes), host

    def scalar(self, value: Any) -> bool | int | float:
        """A scalar argument converted to its C type as C does it. ArgumentKindError for a value of another kind."""
        dtype = self.spec.dtype
        assert dtype is not None
        kind = type(value)
        if dtype in (DataType.DT_FP16, DataType.DT_BF16):
            raise self._kind_error(f"is declared {dtype.name}: such a scalar cannot be passed from the host")
        if kind is bool and (dtype is DataType.DT_BOOL or dtype.is_int()):
            return bool(value) if dtype is DataType.DT_BOOL else int(value)
        if kind is int and dtype.is_int():
            return self._told(value, _wrap(value, dtype))
        if kind is float and dtype.is_float():
            return self._told(value, ctypes.c_float(value).value)
        raise self._kind_error(f"is declared {dtype.name}, found {value!r} ({kind.__name__})", self._scalar_hint(value))

    def _scalar_hint(self, value: Any) -> str | None:
        assert self.spec.dtype is not None
        if type(value) is int and self.spec.dtype.is_float():
            return f"pass {float(value)!r}"
        is_number = hasattr(value, "__float__") and not isinstance(value, bool | int | float)
        if is_number and getattr(value, "shape", ()) in ((), (1,)):  # numpy and torch numbers
            return f"pass {'float' if self.spec.dtype.is_float() else 'int'}({self.name})"
        return None

    def _told(self, value: float, arrives: float) -> bool | int | float:
        """What arrives in the kernel; a RuntimeWarning when that is another number altogether."""
        if arrives != value and (type(value) is int or math.isinf(arrives)):
            assert self.spec.dtype is not None
            warn_at_caller(f"`{self.name}` is declared {self.spec.dtype.name}: {value!r} arrives as {arrives!r}")
        return arrives

    def tiling(self, value: Any) -> TilingValue:
        """The bytes of a tiling instance. ArgumentKindError for an object of another class; ArgumentError (arrays of a
        wrong length) and AttributeError as the fields have it."""
        owner = self.spec.tiling_class
        assert owner is not None
        if not isinstance(value, owner):
            raise self._kind_error(f"takes an instance of `{owner.__name__}`, found {_kind(value)}")
        try:
            return TilingValue(self._layout.serialise(value))
        except ValueError as error:
            raise ArgumentError(str(error), call_site(), labels=self._declared()) from None
        except TypeError as error:
            raise ArgumentKindError(str(error), call_site(), labels=self._declared()) from None

    # --- errors ---

    def _kind_error(self, found: str, hint: str | None = None) -> ArgumentKindError:
        return ArgumentKindError(f"parameter `{self.name}` {found}", call_site(), hint=hint, labels=self._declared())

    def _shape_error(self, found: str, hint: str | None = None) -> ArgumentError:
        return ArgumentError(f"parameter `{self.name}` {found}", call_site(), hint=hint, labels=self._declared())

    def _strides_error(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> ArgumentError:
        needed = contiguous_strides(shape)
        return self._shape_error(
            f"has strides {strides}, the kernel needs {needed} for shape {shape} (in elements)",
            f"declare `{self.name}` as pl.Ptr, pass its strides, and view it in the kernel with "
            "pl.make_tensor(ptr, shape, stride)",
        )

    def _declared(self) -> tuple[Span, ...]:
        """The parameter in the kernel's signature."""
        try:
            source = source_of(self._fn)
        except ParserError:  # no source text: the message goes without the excerpt
            return ()
        arguments = source.tree.args
        found = [arg for arg in (*arguments.posonlyargs, *arguments.args) if arg.arg == self.name]
        return tuple(source.span(arg).labelled("declared here") for arg in found)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _host_dtype(declared: DataType) -> DataType:
    """The dtype of the array that holds elements of `declared`."""
    return DataType.DT_UINT8 if declared is DataType.DT_HF8 else declared


def _wrap(value: int, dtype: DataType) -> int:
    span = 1 << dtype.bits()
    value %= span
    return value - span if dtype.is_signed() and value >= span // 2 else value


def _kind(value: Any) -> str:
    if value is None or isinstance(value, type):
        return "None" if value is None else f"the class {value.__name__} itself"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


@dataclass(frozen=True, slots=True)
class BoundTensors:
    """Tensor arguments after steps 1 to 3: launch values, sizes for the compile signature, and arrays that may be
    read-only or only stand in for the caller's object, by parameter index."""

    values: list[ArgValue | None]
    static: StaticDims
    hosts: dict[int, HostArray | None]


class ArgumentBinder:
    """The checks of all parameters of one kernel."""

    def __init__(self, specs: Sequence[ParamSpec], fn: FunctionType) -> None:
        self.parameters = tuple(ParameterBinder(index, spec, fn) for index, spec in enumerate(specs))
        self._tensors = tuple(p for p in self.parameters if p.spec.kind is ParamKind.TENSOR)
        self._others = tuple(p for p in self.parameters if p.spec.kind is not ParamKind.TENSOR)
        self.has_static = any(p.spec.open_ended or STATIC in p.spec.dims for p in self._tensors)
        self._quick = tuple((p.index, p.quick()) for p in self._tensors)

    def static_from_shapes(self, shapes: Any) -> StaticDims:
        """The compile signature's sizes from `{tensor parameter: shape}`, for compiling without arguments.

        TypeError for something else than a mapping; ValueError for unknown names, a wrong rank, or a missing shape.
        """
        if not isinstance(shapes, Mapping):
            raise TypeError(f"shapes are a mapping {{tensor parameter: shape}}, found {type(shapes).__name__}")
        known = {p.name for p in self._tensors}
        for name in shapes:
            if name not in known:
                raise ValueError(f"`{name}` is no tensor parameter; there are {', '.join(sorted(known)) or 'none'}")
        found: StaticDims = ()
        for parameter in self._tensors:
            spec = parameter.spec
            is_static = spec.open_ended or STATIC in spec.dims
            if parameter.name in shapes:
                shape = tuple(shapes[parameter.name])
                if len(shape) < len(spec.dims) or (len(shape) > len(spec.dims) and not spec.open_ended):
                    raise ValueError(f"`{parameter.name}` is declared with rank {len(spec.dims)}, found shape {shape}")
                found += parameter.static_dims(shape)
            elif is_static:
                raise ValueError(f"`{parameter.name}` has STATIC axes and needs a shape")
        return found

    def tensors(self, args: Sequence[Any]) -> BoundTensors:
        """Step 3: shapes of all tensors, then kind and dtype of each."""
        values: list[ArgValue | None] = [None] * len(self.parameters)
        hosts: dict[int, HostArray | None] = {}
        for index, read in self._quick:
            found = read(args[index])
            if found is None:
                hosts = {p.index: p.shape(args[p.index]) for p in self._tensors}
                for parameter in self._tensors:
                    values[parameter.index] = parameter.dtype(hosts[parameter.index])
                break
            values[index] = BufferValue(*found)
        static: StaticDims = ()
        if self.has_static:
            static = tuple(
                dim for p in self._tensors if args[p.index] is not None for dim in p.static_dims(_dims(values[p.index]))
            )
        return BoundTensors(values, static, hosts)

    def launch_values(self, args: Sequence[Any], bound: BoundTensors, written: frozenset[int]) -> tuple[ArgValue, ...]:
        """Steps 6 and 7: one launch value a parameter. `written` are the indices of parameters the kernel writes."""
        values, hosts = bound.values, bound.hosts
        for parameter in self._others:
            if parameter.spec.kind is ParamKind.TILING:
                values[parameter.index] = parameter.tiling(args[parameter.index])
        for parameter in self._others:
            index = parameter.index
            match parameter.spec.kind:
                case ParamKind.PTR:
                    values[index], hosts[index] = parameter.pointer(args[index])
                case ParamKind.SCALAR:
                    values[index] = parameter.scalar(args[index])
        for index, host in hosts.items():
            if host is not None and not host.writeable and index in written:
                raise self.parameters[index].read_only(host)
        return tuple(values)  # type: ignore[arg-type]


def _dims(value: ArgValue | None) -> tuple[int, ...]:
    assert isinstance(value, BufferValue)
    return value.dims
