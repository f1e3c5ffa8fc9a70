"""UB access of register ops: addresses, post-update cursors, loads and stores, gathers, unaligned streams.

Nothing is checked by branches: an address past UB is held at its end, where reserved bytes lie that no tile has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.ir as ir

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace
from pypto_pro.hw.a5 import REGISTER_BYTES, UB_PHYSICAL_BYTES
from pypto_pro.native import codecs, frames
from pypto_pro.native.emit import I1, I8, I32, I64, PTR, VOID, Code, Value, splat, suffix, vector
from pypto_pro.native.engine import host
from pypto_pro.native.frames import CORE, WORD
from pypto_pro.native.lanes import Lanes, spread
from pypto_pro.native.scalars import Scalar, index_value
from pypto_pro.native.vector_cursors import Cursors
from pypto_pro.native.vector_values import AddressRegister, LaneOps, Mask, Reg, StagingRegister, UbTile

D = DataType
UB_BYTES = frames.capacity(MemorySpace.Vec)
BLOCKS, BLOCK = 8, 32
assert UB_PHYSICAL_BYTES - UB_BYTES >= 2 * REGISTER_BYTES, "an access held at the end of UB stays in its memory"


class UbAccess(LaneOps):
    """Adds what reads and writes UB."""

    def __init__(self, code: Code, core: Value, cursors: Cursors, mask_state: Value) -> None:
        super().__init__(code, core)
        self.mask_state = mask_state
        self.reads_mask = False
        self.space = code.load(PTR, core, CORE["ub"])
        self.cursors = cursors

    # --- addresses ---------------------------------------------------------------------------------------------------

    def is_address(self, operand: Any) -> bool:
        """Whether an operand is an address register."""
        return isinstance(operand, AddressRegister)

    def element_start(self, tile: UbTile, offset: Any) -> Scalar:
        """Byte offset of a load or store offset: elements of the tile dtype, [row, col] by the pitch, or none."""
        if isinstance(offset, AddressRegister):
            return Scalar(self.code, offset.offset) * offset.dtype.nbytes
        return self._linear(tile, offset) * tile.type.dtype.bits() // 8

    def byte_start(self, tile: UbTile, offset: Any) -> Scalar:
        """The same for mask accesses, whose numbers count bytes."""
        if isinstance(offset, AddressRegister):
            return self.element_start(tile, offset)
        return self._linear(tile, offset)

    def _linear(self, tile: UbTile, offset: Any) -> Scalar:
        match offset:
            case None:
                return self.index(0)
            case (row, col):
                pitch = tile.type.shape[-1] if len(tile.type.shape) > 1 else 1
                return self.index(row) * pitch + self.index(col)
        return self.index(offset)

    def cursor(self, tile: UbTile) -> Scalar:
        """Where the cursor of this tile expression stands, bytes behind its address."""
        return Scalar(self.code, self.code.load(I64, self.cursors.slot(tile)))

    def advance(self, tile: UbTile, count: Any) -> None:
        """Move that cursor by bytes."""
        slot = self.cursors.slot(tile)
        moved = self.code.b.add(self.code.load(I64, slot), index_value(self.code, count))
        self.code.store(moved, slot)

    def access_start(self, tile: UbTile, step: Any, post_update: bool) -> Scalar:
        """`step`, or with `post_update` where the cursor stands, which then advances by `step` bytes."""
        if not post_update:
            return self.index(step)
        start = self.cursor(tile)
        self.advance(tile, step)
        return start

    def _place(self, tile: UbTile, start: Any) -> Value:
        """Host address of a byte offset of the tile, held inside the memory of UB."""
        return self._at((tile.addr + self.index(start)).value)

    def _at(self, address: Value) -> Value:
        return self.code.at(self.space, self.code.intrinsic("umin", address, I64(UB_BYTES)))

    # --- registers ---------------------------------------------------------------------------------------------------

    def load(self, tile: UbTile, start: Any, dtype: DataType, count: int) -> Reg:
        """`count` elements of `dtype` at a byte offset of the tile."""
        type_ = vector(count, codecs.memory_type(dtype))
        return Reg(self.code, self.code.load(type_, self._place(tile, start)), dtype)

    def store(self, tile: UbTile, start: Any, reg: Reg, active: Lanes | None = None) -> None:
        """Write lanes (the active ones) at a byte offset of the tile."""
        code, bits, place = self.code, reg.bits, self._place(tile, start)
        if active is None:
            code.store(bits, place)
            return
        flags = active.value
        if active.count > bits.type.count:
            flags = self.shuffle(active, range(bits.type.count)).value
        if host().has_byte_masks:
            code.call(f"llvm.masked.store.{suffix(bits.type)}.p0", VOID, [bits, place, I32(1), flags])
        else:
            code.store(code.b.select(flags, bits, code.load(bits.type, place)), place)

    # --- strided blocks ----------------------------------------------------------------------------------------------

    def _block_flags(self, mask: Mask) -> list[Value]:
        """i1 for every 32-byte block: any of its mask bits."""
        b = self.code.b
        word = b.bitcast(mask.flags.value, vector(BLOCKS, ir.IntType(8 * BLOCK)))
        used = b.icmp_unsigned("!=", word, splat(word.type, 0))
        return [b.extract_element(used, I32(g)) for g in range(BLOCKS)]

    def load_blocks(self, tile: UbTile, start: Any, step: Any, mask: Mask) -> Reg:
        """Block g from start + g * step bytes where any of its mask bits is on, else 0."""
        places = [(tile.addr + self.index(start) + self.index(step) * g).value for g in range(BLOCKS)]
        return self._joined([self._at(place) for place in places], mask)

    def gather_blocks(self, tile: UbTile, indices: Reg, mask: Mask) -> Reg:
        """Block g from byte offset indices[g] where any of its mask bits is on, else 0."""
        offsets = [indices.lanes.lane(g).to(D.DT_INDEX) for g in range(BLOCKS)]
        return self._joined([self._at((tile.addr + offset).value) for offset in offsets], mask)

    def _joined(self, places: Sequence[Value], mask: Mask) -> Reg:
        code, type_ = self.code, vector(BLOCK // 4, I32)
        zero = splat(type_, 0)
        parts = [
            code.b.select(flag, code.load(type_, place), zero)
            for place, flag in zip(places, self._block_flags(mask), strict=True)
        ]
        while len(parts) > 1:
            order = ir.Constant(vector(2 * parts[0].type.count, I32), list(range(2 * parts[0].type.count)))
            parts = [code.b.shuffle_vector(a, b, order) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return Reg(code, parts[0], D.DT_UINT32)

    def store_blocks(self, tile: UbTile, start: Any, step: Any, src: Reg, mask: Mask) -> None:
        """Block g to start + g * step bytes where any of its mask bits is on; the others go to the reserved bytes."""
        words = src.as_(D.DT_UINT32).lanes
        for g, flag in enumerate(self._block_flags(mask)):
            address = (tile.addr + self.index(start) + self.index(step) * g).value
            place = self._at(self.code.b.select(flag, address, I64(UB_BYTES)))
            self.code.store(words.part(g * BLOCK // 4, BLOCK // 4).value, place)

    # --- by index ----------------------------------------------------------------------------------------------------

    def gather(self, tile: UbTile, indices: Reg, active: Lanes, slot: int, size: int) -> Reg:
        """Elements of `size` bytes by index, zero-extended to slots of `slot` bytes; 0 in inactive slots."""
        code, b = self.code, self.code.b
        element, wide = ir.IntType(8 * size), ir.IntType(8 * slot)
        count = REGISTER_BYTES // slot
        numbers = self.shuffle(indices.lanes, range(count))
        order, target = code.bytes_slot(REGISTER_BYTES * 2), code.bytes_slot(REGISTER_BYTES)
        code.store(numbers.value, order)
        base = tile.addr.value
        with code.loop(0, count, name="gather") as k:
            number = code.load(numbers.value.type.element, order, b.mul(k, I64(indices.width)))
            number = b.zext(number, I64) if indices.width < 8 else number
            found = code.load(element, self._at(b.add(base, b.mul(number, I64(size)))))
            code.store(b.zext(found, wide) if slot > size else found, target, b.mul(k, I64(slot)))
        loaded = code.load(vector(count, wide), target)
        dtype = {2: D.DT_UINT16, 4: D.DT_UINT32, 8: D.DT_UINT64}[slot]
        return Reg(code, b.select(active.value, loaded, splat(loaded.type, 0)), dtype)

    def scatter(self, tile: UbTile, src: Reg, index: Reg, active: Lanes, slot: int) -> None:
        """The first element of every active slot of `slot` bytes to tile[index]; of equal indices the first wins."""
        code, b = self.code, self.code.b
        element, count = ir.IntType(8 * src.width), REGISTER_BYTES // slot
        source, order, flags = (code.bytes_slot(2 * REGISTER_BYTES) for _ in range(3))
        code.store(src.bits, source)
        code.store(index.bits, order)
        code.store(b.zext(active.value, vector(count, I8)), flags)
        base = tile.addr.value
        with code.loop(0, count, name="scatter") as i:
            k = b.sub(I64(count - 1), i)
            number = code.load(index.bits.type.element, order, b.mul(k, I64(index.width)))
            number = b.zext(number, I64) if index.width < 8 else number
            address = b.add(base, b.mul(number, I64(src.width)))
            used = b.trunc(code.load(I8, flags, k), I1)
            place = self._at(b.select(used, address, I64(UB_BYTES)))
            code.store(code.load(element, source, b.mul(k, I64(slot))), place)

    # --- unaligned streams -------------------------------------------------------------------------------------------

    def append(self, tile: UbTile, start: Any, reg: Reg, size: Scalar, staging: StagingRegister) -> None:
        """Bytes of an unaligned stream: whole blocks to UB, the rest into the staging register."""
        code = self.code
        data = code.bytes_slot(REGISTER_BYTES)
        code.store(reg.bits, data)
        held = size.most(0).least(reg.count * reg.width)
        address = (tile.addr + self.index(start)).value
        code.call("vf_append", VOID, [self.space, address, data, held.value, staging.address])

    def flush(self, tile: UbTile, staging: StagingRegister) -> None:
        """Write what waits in a staging register."""
        self.code.call("vf_flush", VOID, [self.space, staging.address])

    # --- special registers -------------------------------------------------------------------------------------------

    def ar(self) -> Scalar:
        """The AR register."""
        return Scalar(self.code, self.code.load(I64, self.core, CORE["spr"]))

    def set_ar(self, count: Scalar) -> None:
        """Write the AR register."""
        self.code.store(index_value(self.code, count), self.core, CORE["spr"])

    def mask_spr(self, lanes: int) -> Lanes:
        """Flags: the first `lanes` bits of the mask special register, or in count mode that many leading lanes."""
        code, b = self.code, self.code.b
        self.reads_mask = True
        mode, high, low = (code.load(I64, self.mask_state, k * WORD) for k in range(3))
        wide = ir.IntType(128)
        word = b.or_(b.zext(low, wide), b.shl(b.zext(high, wide), wide(64)))
        bits = b.bitcast(b.trunc(word, ir.IntType(lanes)) if lanes < 128 else word, vector(lanes, I1))
        numbers = ir.Constant(vector(lanes, I64), list(range(lanes)))
        leading = b.icmp_unsigned("<", numbers, spread(code, low, lanes))
        counts = b.icmp_unsigned("!=", mode, I64(0))
        return Lanes(code, b.zext(b.select(counts, leading, bits), vector(lanes, I8)), D.DT_UINT8)
