"""auto_mutex against section 6 of the execution model: IR before and after, and the rules one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pypto_pro.diag.errors import ParserTypeError
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import Lock, Op, Stmt, Unlock
from pypto_pro.ir.parser import parse_kernel
from pypto_pro.ir.printer import print_kernel
from pypto_pro.passes.auto_mutex import insert_mutexes

CASES = Path(__file__).resolve().parents[1] / "golden" / "passes"
BEFORE = sorted(CASES.glob("*.before.ir"))


@pytest.mark.parametrize("path", BEFORE, ids=lambda p: p.name.split(".")[0])
def test_golden(path: Path, golden: Callable[[Path | str, str], None]) -> None:
    kernel = parse_kernel(path.read_text(encoding="utf-8"), path.name)
    golden(path.with_name(path.name.replace("before", "after")), print_kernel(insert_mutexes(kernel)))


HEAD = """
T0 = TileType([16, 64], fp32, Vec)

@kernel(auto_mutex=True)
def k(x: Tensor([None, 64], fp32), n: int32):
    with vector:
        g: Group(T0, 2, 1) = make_tile_group((0, 4096), ((3,), (4,)), g·cursor, 'a')
        pair: Group(T0, 2, 2) = make_tile_group((0, 4096), ((5, 6), (7, 8)), pair·cursor, 'p')
        plain: T0 = make_tile(65536, None, 'c')
"""


def after(body: str) -> list[Stmt]:
    text = HEAD + "".join(f"        {line}\n" for line in body.strip().splitlines())
    return list(walk.statements(insert_mutexes(parse_kernel(text)).programs[0].body))


def locks(body: str) -> list[Stmt]:
    return [s for s in after(body) if isinstance(s, Lock | Unlock)]


def test_locks_stand_directly_around_the_op() -> None:
    kinds = [type(s) for s in after("pl.load(g[0], x, (0, 0), order=None)")][-3:]
    assert kinds == [Lock, Op, Unlock]


def test_plain_tiles_are_never_locked() -> None:
    assert locks("pl.load(plain, x, (0, 0), order=None)") == []


def test_rebinding_follows_the_statements() -> None:
    body = "t: T0 = plain\npl.load(t, x, (0, 0), order=None)\nt = g[0]\npl.load(t, x, (0, 0), order=None)"
    assert [s.candidates for s in locks(body)] == [(3,), (3,)]


def test_a_loop_carries_ids_around() -> None:
    body = "t: T0 = g[0]\nfor i in range(4):\n    pl.load(t, x, (0, 0), order=None)\n    t = g[1]"
    assert [s.candidates for s in locks(body)] == [(3, 4), (3, 4)]


def test_continue_carries_ids_around() -> None:
    body = """
t: T0 = g[0]
for i in range(4):
    pl.load(t, x, (0, 0), order=None)
    if i == 1:
        t = g[1]
        continue
    t = g[0]
"""
    assert [s.candidates for s in locks(body)] == [(3, 4), (3, 4)]


def test_different_numbers_of_ids_are_rejected_where_they_are_used() -> None:
    body = "if n > int32(0):\n    t: T0 = copy_tile(g[0])\nelse:\n    t = copy_tile(pair[0])"
    assert locks(body) == []
    with pytest.raises(ParserTypeError, match="different numbers of mutex ids"):
        locks(body + "\npl.load(t, x, (0, 0), order=None)")


def test_both_ids_of_a_slot_are_locked() -> None:
    assert [s.candidates for s in locks("pl.load(pair[1], x, (0, 0), order=None)")] == [(7,), (8,), (7,), (8,)]


def test_the_same_tile_twice_is_locked_once() -> None:
    body = "pl.load(g[g·cursor], x, (0, 0), order=None)\npl.add(g[g·cursor], g[g·cursor], g[g·cursor])"
    assert len(locks(body)) == 4


def test_unlocks_repeat_the_test_of_their_locks() -> None:
    loads = "pl.load(g[0], x, (0, 0), order=None)\npl.load(g[1], x, (0, 0), order=None)\n"
    found = locks(loads + "pl.add(plain, g[0], g[g·cursor])")
    taken = [(s.mutex, s.unless) for s in found[4:6]]
    assert taken == [(s.mutex, s.unless) for s in found[6:]]
    assert taken[1][1] == (taken[0][0],)
