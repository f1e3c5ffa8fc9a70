"""Register loads and stores of vector functions: load_align, store_align (vector-function 7)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import LoadDist, StoreDist
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import RegType
from pypto_pro.ops.builder import NativeMask, NativeReg, NativeTile, VectorUnitBuilder
from pypto_pro.ops.entry import Keyword
from pypto_pro.ops.operands import Array, BoolAttr
from pypto_pro.ops.vf_operands import MaskIn, Offset, RegIn, Registers, UbIn, UbOut, defvf, element_start

ALIGNMENT = 32

RegisterDtype = Annotated[DataType | None, Keyword(enum=DataType)]
Dist = Annotated[LoadDist | None, Keyword(enum=LoadDist)]
Layout = Annotated[StoreDist | None, Keyword(enum=StoreDist)]


def access_start(vf: Registers, tile: Any, offset: Any, post_update: bool) -> int:
    """Byte offset of an access; with `post_update` the cursor's, which then moves on by the offset."""
    if not post_update:
        return element_start(tile, offset)
    start = vf.cursor(tile)
    vf.advance(tile, element_start(tile, offset))
    return start


@defvf("vf.load_align", family="vf.load", copies=True)
def load_align(
    vf: Registers, src: UbIn, offset: Offset = None, *, dtype: RegisterDtype = None, dist: Dist = None,
    post_update: BoolAttr = False,
) -> Array:
    """256 bytes of the tile at an element offset."""
    return vf.load(src, access_start(vf, src, offset, post_update), REGISTER_BYTES, ALIGNMENT)


@load_align.lower
def _(
    k: VectorUnitBuilder, src: NativeTile, offset: Any, dist: LoadDist | None, post_update: bool, **_: Any
) -> Any:
    if post_update or dist not in (None, LoadDist.NORM) or len(k.targets) != 1 or not isinstance(k.targets[0], RegType):
        return NotImplemented
    dtype = k.targets[0].dtype
    k.give_bits(k.load(src, k.element_start(src, offset), dtype, REGISTER_BYTES // dtype.nbytes))
    return None


@defvf("vf.store_align", family="vf.store", copies=True, results=0)
def store_align(
    vf: Registers, dst: UbOut, src: RegIn, mask: MaskIn, offset: Offset = None, *, dist: Layout = None,
    post_update: BoolAttr = False,
) -> None:
    """Write the active lanes of a register to the tile at an element offset."""
    start = access_start(vf, dst, offset, post_update)
    where = None if mask.every(src.width) else np.repeat(mask.lanes(src.width), src.width)
    vf.store(dst, start, src.bytes, where, ALIGNMENT)


@store_align.lower
def _(
    k: VectorUnitBuilder, dst: NativeTile, src: NativeReg, mask: NativeMask, offset: Any, dist: StoreDist | None,
    post_update: bool,
) -> Any:
    if post_update or dist is not None:
        return NotImplemented
    k.store(dst, k.element_start(dst, offset), src, mask.lanes(src.width))
    return None
