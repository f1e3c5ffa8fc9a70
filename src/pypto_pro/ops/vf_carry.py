"""32-bit arithmetic with two results: sums and differences with carry, the whole product."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MergeMode
from pypto_pro.ir.types import MaskType, RegType, Type
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword, OpEntry
from pypto_pro.ops.vf_builder import NativeMask, NativeReg, VectorUnitBuilder
from pypto_pro.ops.vf_operands import Array, MaskArg, MaskIn, RegIn, Registers, defvf

D = DataType
WORDS = (D.DT_INT32, D.DT_UINT32)
LANE = 4

Ignored = Annotated[MergeMode | None, Keyword(enum=MergeMode)]


def _with_carry(name: str, complement: bool, doc: str) -> OpEntry:
    """An adder of 32-bit lanes; `complement`: of src0 and ~src1."""
    carry_name = "borrow_in" if complement else "carry_in"

    @defvf(f"vf.{name}", family="vf.arith", results=2)
    def entry(
        vf: Registers, src0: RegIn, src1: RegIn, carry_in: MaskIn, mask: MaskIn, *, mode: Ignored = None
    ) -> tuple[MaskArg, Array]:
        lhs, rhs = (reg.as_(D.DT_UINT32).astype(np.uint64) for reg in (src0, src1))
        if complement:
            rhs ^= np.uint64(0xFFFFFFFF)
        active = mask.lanes(LANE)
        total = np.where(active, lhs + rhs + carry_in.lanes(LANE), np.uint64(0))
        return MaskArg.of((total >> np.uint64(32)) != 0, LANE), total.astype(np.uint32)

    @entry.rules
    def _(src0: Any, src1: Any, carry_in: Any, mask: Any, mode: MergeMode | None) -> None:
        rules.registers(WORDS, src0, src1)

    @entry.result_type
    def _(targets: tuple[Type | None, ...], src0: Any, **_: Any) -> tuple[Type, ...]:
        if len(targets) == 2 and not isinstance(targets[0], MaskType):
            what = "borrow" if complement else "carry"
            raise TypeError(f"the {what} target must be a mask already: write `{what} = vf.create_mask()` before")
        return MaskType(rules.dtype_of(src0)), rules.same_register(targets[-1], rules.dtype_of(src0), name)

    @entry.lower
    def _(
        k: VectorUnitBuilder, src0: NativeReg, src1: NativeReg, carry_in: NativeMask, mask: NativeMask, **_: Any
    ) -> None:
        lhs, rhs = src0.as_(D.DT_UINT32).lanes, src1.as_(D.DT_UINT32).lanes
        if complement:
            rhs = ~rhs
        part = lhs + rhs
        total = part + carry_in.lanes(LANE).to(D.DT_UINT32)
        carries = (part < lhs) | (total < part)
        active = mask.lanes(LANE)
        k.give_mask(active & carries, LANE)
        k.give_bits(k.raw(active.select(total, 0)))

    entry.doc = f"({'borrow' if complement else 'carry'}, r): {doc} Bit 4 i of `{carry_name}` belongs to lane i."
    return entry


addc = _with_carry(
    "addc", False, "s = u32(src0[i]) + u32(src1[i]) + carry_in[i]; r[i] = s mod 2**32, carry[i] = s >> 32. Inactive: 0."
)
subc = _with_carry(
    "subc", True, "s = u32(src0[i]) + u32(~src1[i]) + borrow_in[i]; r[i] = s mod 2**32, borrow[i] = s >> 32 (1: no "
    "borrow), so an all-ones mask starts a chain and the result feeds the next word. Inactive: 0."
)  # fmt: skip


@defvf("vf.mull", family="vf.arith", results=2)
def mull(vf: Registers, src0: RegIn, src1: RegIn, mask: MaskIn, *, mode: Ignored = None) -> tuple[Array, Array]:
    """(lo, hi): the exact 64-bit product of active lanes, signed for INT32; 0 elsewhere."""
    wide = np.int64 if src0.dtype.is_signed_int() else np.uint64
    product = src0.lanes.astype(wide) * src1.lanes.astype(wide)
    halves = np.where(mask.lanes(LANE), product, wide(0)).view(np.uint32)
    return halves[::2].copy(), halves[1::2].copy()


@mull.rules
def _(src0: Any, src1: Any, mask: Any, mode: MergeMode | None) -> None:
    rules.registers(WORDS, src0, src1)


@mull.result_type
def _(targets: tuple[Type | None, ...], src0: Any, **_: Any) -> tuple[RegType, ...]:
    dtype = rules.dtype_of(src0)
    return tuple(rules.same_register(target, dtype, "mull") for target in (*targets, None)[:2])


@mull.lower
def _(k: VectorUnitBuilder, src0: NativeReg, src1: NativeReg, mask: NativeMask, mode: MergeMode | None) -> None:
    wide = D.DT_INT64 if src0.dtype.is_signed_int() else D.DT_UINT64
    product = src0.lanes.to(wide) * src1.lanes.to(wide)
    active = mask.lanes(LANE)
    for half in (product, product >> 32):
        k.give_bits(k.raw(active.select(half.to(src0.dtype), 0)))
