"""L1 banks: which bank groups two parallel accesses share, and whether they conflict (L203)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pypto_pro.diag.names import counted
from pypto_pro.enums import MemorySpace
from pypto_pro.hw.a5 import L1_HALF, l1_banks
from pypto_pro.memory.design import Parallel
from pypto_pro.memory.finding import LayoutFinding, finding
from pypto_pro.memory.table import Row

CONFLICT = "conflict in L1: the parallel "
SAME = "the same holds for"
"""How a note begins that counts further pairs of accesses."""


@dataclass(frozen=True)
class BankPair:
    """Two parallel accesses: groups in which they meet in one bank, and in which they use different banks."""

    a: Row
    b: Row
    use: Parallel
    same_bank: tuple[int, ...]
    same_group: tuple[int, ...]

    @property
    def conflict(self) -> bool:
        """One bank takes one access; the two banks of a group one read and one write."""
        return bool(self.same_bank) or (bool(self.same_group) and self.use.a_op == self.use.b_op)


def crosses_halves(row: Row) -> bool:
    """Whether an L1 slot lies in both halves of the address range."""
    return row.space is MemorySpace.Mat and row.start < L1_HALF < row.end


def find_bank_pairs(uses: Iterable[Parallel], rows: tuple[Row, ...]) -> tuple[BankPair, ...]:
    """Every parallel pair of L1 slots with the bank groups it touches. A tile name stands for all its slots."""
    found = []
    for use in uses:
        for a in _named(use.a, rows):
            for b in _named(use.b, rows):
                one_slot = a.key == b.key and use.a_agent == use.b_agent
                if a.space is MemorySpace.Mat and b.space is MemorySpace.Mat and not one_slot:
                    found.append(_pair(a, b, use))
    return tuple(found)


def _named(reference: str, rows: tuple[Row, ...]) -> list[Row]:
    return [r for r in rows if reference in (r.name, r.tile.name)]


def _pair(a: Row, b: Row, use: Parallel) -> BankPair:
    mine, theirs = _touched(a, use.a_spans), _touched(b, use.b_spans)
    same_bank = {group for group, _ in mine & theirs}
    same_group = {group for group, bank in mine if (group, 1 - bank) in theirs}
    return BankPair(a, b, use, tuple(sorted(same_bank)), tuple(sorted(same_group)))


def _touched(row: Row, spans: tuple[tuple[int, int], ...]) -> frozenset[tuple[int, int]]:
    """(group, bank) of the bytes of a slot that an access touches."""
    whole = ((0, row.size),)
    return frozenset().union(*(l1_banks(row.start + low, high - low) for low, high in spans or whole))


def gathered_findings(pairs: tuple[BankPair, ...]) -> Iterator[LayoutFinding]:
    """L203 of every conflicting pair that was named, and one for all that were derived."""
    yield from bank_findings(tuple(p for p in pairs if not p.use.derived))
    derived = tuple(p for p in pairs if p.use.derived and p.conflict)
    found = list(bank_findings(derived))
    if len(found) < 2:
        yield from found
        return
    tiles = dict.fromkeys(row.tile for p in derived for row in (p.a, p.b))
    between = len({frozenset(f.tiles) for f in found})
    meetings = counted(between, "pair of tiles", "pairs of tiles")
    yield finding(
        "L203", f"conflicts in L1: accesses that run in parallel meet in one bank or bank group, of {meetings}", *tiles,
        notes=tuple(f.diagnostic.message.removeprefix(CONFLICT) for f in found), pairs=len(derived),
        help="`--plan --separate A=B` looks for addresses where A and B share no bank",
    )  # fmt: skip


def bank_findings(pairs: tuple[BankPair, ...]) -> Iterator[LayoutFinding]:
    """L203 of every pair that conflicts; derived ones once for two tiles."""
    told: dict[tuple[object, ...], int] = Counter(_topic(p) for p in pairs if p.conflict)
    for pair in pairs:
        if not pair.conflict or not (count := told.pop(_topic(pair), 0)):
            continue
        a, b, use = pair.a, pair.b, pair.use
        same_kind = use.a_op == use.b_op
        where = f"bank groups {groups_text(pair.same_bank)} in one bank" if pair.same_bank else ""
        if same_kind and pair.same_group:
            where += (", " if where else "") + f"bank groups {groups_text(pair.same_group)} in both banks"
        ops = f"{use.a_op} of `{a.shown}`{_by(use.a_agent)} and {use.b_op} of `{b.shown}`{_by(use.b_agent)}"
        help_ = None
        if not same_kind and not crosses_halves(a) and not crosses_halves(b):
            help_ = (
                f"move `{b.shown}` to the other half (address xor 0x40000): one read and one write may share a group"
            )
        facts: dict[str, object] = {"a": a.name, "b": b.name, "ops": (use.a_op, use.b_op), "pairs": count}
        if pair.same_bank:
            facts["same_bank_groups"] = pair.same_bank
        if same_kind and pair.same_group:
            facts["same_group_groups"] = pair.same_group
        others = "1 other pair" if count == 2 else f"{count - 1} other pairs"
        notes = (f"{SAME} {others} of accesses to these tiles",) if count > 1 else ()
        message = f"{CONFLICT}{ops} meet in {where}"
        yield finding("L203", message, a.tile, b.tile, help=help_, notes=notes, facts=facts)


def _topic(pair: BankPair) -> tuple[object, ...]:
    """What one report is about."""
    use = pair.use
    if not use.derived:
        return (pair.a.key, pair.b.key, use)
    return (frozenset({pair.a.tile.name, pair.b.tile.name}), use.a_op == use.b_op)


def _by(agent: str) -> str:
    return f" ({agent})" if agent else ""


def groups_text(groups: tuple[int, ...]) -> str:
    """`0-7` or `0, 2`."""
    if len(groups) > 1 and groups == tuple(range(groups[0], groups[-1] + 1)):
        return f"{groups[0]}-{groups[-1]}"
    return ", ".join(map(str, groups))
