"""Comparisons that give masks, and selection by a mask."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MergeMode
from pypto_pro.ir.types import MaskType, Type
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword, OpEntry
from pypto_pro.ops.vec_elementwise import element
from pypto_pro.ops.vf_bits import pattern, unsigned
from pypto_pro.ops.vf_builder import NativeMask, NativeReg, VectorUnitBuilder
from pypto_pro.ops.vf_operands import Array, MaskArg, MaskIn, RegArg, RegIn, Registers, RegOrMask, ScalarOrReg, defvf

D = DataType
SELECTABLE = (*rules.INTS_TO_32, *rules.FLOATS, D.DT_BOOL)

CompareDtype = Annotated[DataType | None, Keyword(enum=DataType)]
Ignored = Annotated[MergeMode | None, Keyword(enum=MergeMode)]


def _compare(name: str, sign: str, compute: Callable[[Any, Any], Any]) -> OpEntry:
    @defvf(f"vf.{name}", family="vf.compare")
    def entry(vf: Registers, a: RegIn, b: ScalarOrReg, mask: MaskIn, *, cmp_dtype: CompareDtype = None) -> MaskArg:
        dtype = cmp_dtype or a.dtype if isinstance(b, RegArg) else a.dtype
        other = b.as_(dtype) if isinstance(b, RegArg) else element(b, dtype)
        return MaskArg.of(mask.lanes(dtype.nbytes) & compute(a.as_(dtype), other), dtype.nbytes)

    @entry.rules
    def _(a: Any, b: Any, mask: Any, cmp_dtype: DataType | None) -> None:
        _check(a, b, cmp_dtype)

    @entry.result_type
    def _(targets: tuple[Type | None, ...], a: Any, **_: Any) -> tuple[MaskType, ...]:
        return (MaskType(rules.dtype_of(a)),)

    @entry.lower
    def _(k: VectorUnitBuilder, a: NativeReg, b: Any, mask: NativeMask, cmp_dtype: DataType | None) -> None:
        if isinstance(b, NativeReg):
            dtype = cmp_dtype or a.dtype
            found = compute(a.as_(dtype).lanes, b.as_(dtype).lanes)
        else:
            dtype = a.dtype
            found = compute(a.lanes, k.full(b, dtype))
        k.give_mask(found & mask.lanes(dtype.nbytes), dtype.nbytes)

    entry.doc = (
        f"The mask of active lanes with a[i] {sign} b[i]; a number b is converted to the dtype of a. Between registers "
        "`cmp_dtype` says as what both are read. A comparison with NaN is false, but for `ne`."
    )
    return entry


def _check(a: Any, b: Any, cmp_dtype: DataType | None) -> None:
    rules.registers(rules.NUMBERS, a)
    if rules.is_register(b):
        if cmp_dtype is not None:
            if cmp_dtype not in rules.NUMBERS:
                raise TypeError(f"`cmp_dtype={cmp_dtype.name}` cannot be compared")
            return
        if rules.dtype_of(b) not in rules.NUMBERS:
            rules.registers(rules.NUMBERS, b)
        if rules.dtype_of(b).nbytes != rules.dtype_of(a).nbytes:
            raise TypeError(f"`{b.name}` and `{a.name}` have lanes of different width; give `cmp_dtype=`")
        return
    rules.scalar(b, rules.SCALARS)
    if rules.dtype_of(b).bits() < rules.dtype_of(a).bits():
        raise TypeError(f"the scalar `{b.name}` is narrower than the lanes of `{a.name}`")


eq = _compare("eq", "==", operator.eq)
ne = _compare("ne", "!=", operator.ne)
lt = _compare("lt", "<", operator.lt)
gt = _compare("gt", ">", operator.gt)
le = _compare("le", "<=", operator.le)
ge = _compare("ge", ">=", operator.ge)


@defvf("vf.select", family="vf.compare", copies=True)
def select(
    vf: Registers, src_true: RegOrMask, src_false: RegOrMask, mask: MaskIn, *, mode: Ignored = None
) -> Array | MaskArg:
    """r[i] = src_true[i] where the mask is on, src_false[i] elsewhere; of masks bit by bit."""
    if isinstance(src_true, MaskArg):
        assert isinstance(src_false, MaskArg)
        return MaskArg(np.where(mask.bits, src_true.bits, src_false.bits))
    assert isinstance(src_false, RegArg)
    width = src_true.width
    return np.where(mask.lanes(width), pattern(src_true), pattern(src_false))


@select.rules
def _(src_true: Any, src_false: Any, mask: Any, mode: MergeMode | None) -> None:
    if rules.is_mask(src_true):
        rules.masks(src_true, src_false)
        return
    for operand in (src_true, src_false):
        rules.registers(SELECTABLE, operand)
    if rules.dtype_of(src_true).nbytes != rules.dtype_of(src_false).nbytes:
        raise TypeError(f"`{src_true.name}` and `{src_false.name}` have lanes of different width")


@select.result_type
def _(targets: tuple[Type | None, ...], src_true: Any, **_: Any) -> tuple[Type, ...]:
    if rules.is_mask(src_true):
        return (MaskType(rules.dtype_of(src_true)),)
    return (rules.reinterpreted(targets[0], rules.dtype_of(src_true)),)


@select.lower
def _(k: VectorUnitBuilder, src_true: Any, src_false: Any, mask: NativeMask, mode: MergeMode | None) -> None:
    if isinstance(src_true, NativeMask):
        k.give_flags((src_true.flags & mask.flags) | (src_false.flags & (mask.flags ^ 1)))
    else:
        k.give_bits(k.raw(mask.lanes(src_true.width).select(unsigned(src_true), unsigned(src_false))))
