"""`VectorBuilder`: what the `lower` facet of a register op is handed; its protocol is `ops.vf_builder`.

Code is emitted inline into the vector function. Results are given in the order of the op's targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.ir as ir

from pypto_pro.enums import MergeMode
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import MaskType, RegType
from pypto_pro.native import codecs
from pypto_pro.native.emit import I8, Code, Value, splat, vector
from pypto_pro.native.frames import UNALIGN_BYTES
from pypto_pro.native.lanes import Lanes
from pypto_pro.native.scalars import Scalar, index_value
from pypto_pro.native.vector_cursors import Cursors
from pypto_pro.native.vector_memory import UbAccess
from pypto_pro.native.vector_values import Mask, Reg


class VectorBuilder(UbAccess):
    """Emits register ops at the current position of a vector function."""

    def __init__(self, code: Code, core: Value, cursors: Cursors, mask_state: Value) -> None:
        super().__init__(code, core, cursors, mask_state)
        self._old: Sequence[Value] = ()
        self._given: list[Value] = []

    def begin(self, targets: list[Any], old: Sequence[Value]) -> None:
        """A new op."""
        self.targets, self._old, self._given = targets, old, []

    def given(self) -> list[Value]:
        """The results of the op, as values of register variables."""
        return self._given

    def old(self, index: int = 0) -> Reg | Mask:
        """What a target held before the op."""
        target = self.targets[index]
        if isinstance(target, MaskType):
            return Mask(self.code, self._old[index], target.dtype)
        return Reg(self.code, self._old[index], target.dtype)

    def give(self, values: Lanes, mask: Mask | None = None, mode: MergeMode | None = None) -> None:
        """The next target: values rounded to its dtype; inactive lanes 0, or the old ones under MERGING."""
        target = self.targets[len(self._given)]
        assert isinstance(target, RegType)
        self.give_bits(Reg(self.code, codecs.encode(self.code, values.value, target.dtype), target.dtype), mask, mode)

    def give_bits(self, reg: Reg, mask: Mask | None = None, mode: MergeMode | None = None) -> None:
        """The next target: bytes as they are; masked by lanes of the register's width."""
        index = len(self._given)
        bits = reg.bits
        if mask is not None:
            other = splat(bits.type, 0)
            if mode is MergeMode.MERGING:
                before = self.old(index)
                assert isinstance(before, Reg)
                other = before.as_(reg.dtype).bits
            bits = self.code.b.select(mask.lanes(reg.width).value, bits, other)
        self._given.append(Reg(self.code, bits, reg.dtype).as_(self.targets[index].dtype).bits)

    def give_mask(self, active: Lanes, width: int) -> None:
        """The next target, a mask: the first bit of every lane of `width` bytes."""
        words = self.code.b.zext(active.value, vector(REGISTER_BYTES // width, ir.IntType(8 * width)))
        self._given.append(words if width == 1 else self.code.b.bitcast(words, vector(REGISTER_BYTES, I8)))

    def give_flags(self, flags: Lanes) -> None:
        """The next target, a mask: all 256 bits as UINT8 lanes of 0 and 1."""
        self._given.append(flags.value)

    def give_address(self, offset: Scalar) -> None:
        """The next target, an address register."""
        self._given.append(index_value(self.code, offset))

    def give_staging(self) -> None:
        """The next target, an empty staging register."""
        empty = self.code.bytes_slot(UNALIGN_BYTES)
        self.code.fill_bytes(empty, 0, UNALIGN_BYTES)
        self._given.append(empty)
