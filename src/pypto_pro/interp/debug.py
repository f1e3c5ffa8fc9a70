"""Debug statements of the scalar unit: text in program order per core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pypto_pro.interp.memory import GmPtr
from pypto_pro.interp.sites import Site
from pypto_pro.ir.nodes import Debug
from pypto_pro.ops.debug_text import debug_text

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Instr


@dataclass(slots=True, eq=False)
class DebugSite(Site):
    """A `printf`, `pto_assert` or `dump_data`."""

    def show(self, instr: Instr) -> None:
        """Write its text."""
        node = self.node
        assert isinstance(node, Debug)
        operands = tuple(a.address if isinstance(a, GmPtr) else a for a in instr.args)
        text = debug_text(node, operands)
        if text:
            instr.core.machine.out.write(text)
