"""Which race explains a later finding: the same instruction lost it, or its core goes on with what it read there."""

from __future__ import annotations

from pypto_pro.interp.checks.book import Entry
from pypto_pro.interp.machine import Core, Instr, Pipe


class Blame:
    """Remembers, a pipe, the last instruction in a race, and a core, the first doubtful value its scalar unit read."""

    def __init__(self) -> None:
        self.last: dict[Pipe, tuple[Instr, Entry]] = {}
        self.doubtful: dict[Core, Entry] = {}

    def raced(self, instr: Instr, entry: Entry) -> None:
        """An instruction reads bytes in a race."""
        self.last[instr.pipe] = (instr, entry)

    def taint(self, core: Core, entry: Entry) -> None:
        """The scalar unit of a core goes on with a doubtful value."""
        self.doubtful.setdefault(core, entry)

    def of(self, instr: Instr) -> Entry | None:
        """What explains a finding about the bytes an instruction reads."""
        last = self.last.get(instr.pipe)
        return last[1] if last is not None and last[0] is instr else None

    def of_operands(self, instr: Instr) -> Entry | None:
        """What explains a finding about the operands the scalar unit gave an instruction."""
        return self.doubtful.get(instr.core)
