"""Address registers and special registers: create_addr_reg, clear_spr, get_mask_spr."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MaskWidth
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import AddrRegType, MaskType, Type
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword, Kind, Operand, Role, Section, construct
from pypto_pro.ops.vf_builder import VectorUnitBuilder
from pypto_pro.ops.vf_operands import AddrArg, MaskArg, Registers, Scalar, defvf

D = DataType
MASK_BITS = 128

OptionalScalar = Annotated[int | None, Operand(frozenset({Kind.SCALAR}), Role.IN)]
OffsetDtype = Annotated[DataType | None, Keyword(enum=DataType)]
Width = Annotated[MaskWidth | None, Keyword(enum=MaskWidth)]


for _name, _doc in {
    "reg_tensor": "The type of a vector register, 256 bytes of one dtype; the assignment form of an op makes one.",
    "mask_reg": "The type of a predicate, one bit a register byte; create_mask, comparisons and others make one.",
}.items():
    construct(f"vf.{_name}", family="vf.register", section=Section.VECTOR, doc=_doc)


@defvf("vf.create_addr_reg", family="vf.register")
def create_addr_reg(
    vf: Registers, index0: Scalar, stride0: Scalar, index1: OptionalScalar = None, stride1: OptionalScalar = None,
    index2: OptionalScalar = None, stride2: OptionalScalar = None, index3: OptionalScalar = None,
    stride3: OptionalScalar = None, *, dtype: OffsetDtype = None,
) -> AddrArg:
    """The sum of index * stride over up to four loop axes, in elements of `dtype` (default FP32)."""
    numbers = [index0, stride0, index1, stride1, index2, stride2, index3, stride3]
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    offset = sum(int(index) * int(stride) for index, stride in pairs if index is not None and stride is not None)
    return AddrArg(dtype or D.DT_FP32, offset)


@create_addr_reg.rules
def _(dtype: DataType | None, **numbers: Any) -> None:
    given = [number for number in numbers.values() if number is not None]
    if len(given) % 2:
        raise ValueError(f"create_addr_reg takes pairs of index and stride, found {len(given)} numbers")
    for number in given:
        if rules.dtype_of(number).is_float():
            raise TypeError(f"`{number.name}`: indices and strides are integers")
    if dtype is not None and dtype not in rules.NUMBERS:
        raise TypeError(f"{dtype.name} is no unit of an address register")


@create_addr_reg.result_type
def _(targets: tuple[Type | None, ...], dtype: DataType | None, **_: Any) -> tuple[AddrRegType, ...]:
    return (AddrRegType(dtype or D.DT_FP32),)


@create_addr_reg.lower
def _(k: VectorUnitBuilder, dtype: DataType | None, **numbers: Any) -> None:
    given = [k.index(number) for number in numbers.values() if number is not None]
    total = k.index(0)
    for index, stride in zip(given[::2], given[1::2], strict=True):
        total = total + index * stride
    k.give_address(total)


@defvf("vf.clear_spr", family="vf.register", results=0)
def clear_spr(vf: Registers) -> None:
    """AR = 0: before the first squeeze and store_unalign of a stream."""
    vf.ar = 0


@clear_spr.lower
def _(k: VectorUnitBuilder) -> None:
    k.set_ar(k.index(0))


@defvf("vf.get_mask_spr", family="vf.mask")
def get_mask_spr(vf: Registers, *, width: Width = None) -> MaskArg:
    """The mask special register: 64 bits (B32, default) spread over 4, or 128 bits (B16) over 2 mask bits each.

    Outside, `pl.set_vec_mask` sets it; in count mode it holds a number of leading lanes.
    """
    lanes = 128 if width is MaskWidth.B16 else 64
    counts, high, low = vf.mask_spr()
    if counts:
        active = np.arange(lanes) < low
    else:
        words = np.array([low, high], np.uint64).view(np.uint8)
        active = np.unpackbits(words, bitorder="little")[:lanes] != 0
    return MaskArg(np.repeat(active, REGISTER_BYTES // lanes))


@get_mask_spr.result_type
def _(targets: tuple[Type | None, ...], width: MaskWidth | None, **_: Any) -> tuple[MaskType, ...]:
    return (MaskType(D.DT_UINT16 if width is MaskWidth.B16 else D.DT_UINT32),)


@get_mask_spr.lower
def _(k: VectorUnitBuilder, width: MaskWidth | None) -> None:
    lanes = 128 if width is MaskWidth.B16 else 64
    spread = [bit // (REGISTER_BYTES // lanes) for bit in range(REGISTER_BYTES)]
    k.give_flags(k.shuffle(k.mask_spr(lanes), spread))
