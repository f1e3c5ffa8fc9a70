"""Rules of single tiles: footprints, row rules, capacities; what a plan file may hold and how its mistakes are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_pro.dtypes import DataType
from pypto_pro.enums import CompactMode, MemorySpace, TensorLayout
from pypto_pro.hw.a5 import l1_address
from pypto_pro.ir.types import TileType
from pypto_pro.memory.banks import find_bank_pairs
from pypto_pro.memory.check import check_layout
from pypto_pro.memory.design import Declared, Design, OrderFact, Parallel, TileRecord
from pypto_pro.memory.machine import Chip, Source
from pypto_pro.memory.plan_file import PlanFileError, design_of, read_plan
from pypto_pro.memory.plan_text import parse
from pypto_pro.memory.rules import footprint

S, L, D = MemorySpace, TensorLayout, DataType


def record(shape: list[int], dtype: D, space: S, **more: object) -> TileRecord:
    kind = {k: more.pop(k) for k in ("layout", "compact", "valid_shape", "fractal") if k in more}
    return TileRecord("t", "tile", TileType(shape, dtype, space, **kind), addrs=0, declared=Declared(0, 1), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tile", "expected"),
    [
        (record([65, 64], D.DT_FP16, S.Vec, layout=L.NZ, compact=2, valid=(64, 64)), 65 * 64 * 2),
        (record([64, 64], D.DT_FP16, S.Vec, layout=L.NZ, compact=2, valid=(64, 64)), 65 * 64 * 2),
        (record([65, 64], D.DT_FP16, S.Vec, layout=L.NZ, compact=CompactMode.row_plus_one), 65 * 64 * 2),
        (record([40, 64], D.DT_FP16, S.Vec, layout=L.NZ, valid=(40, 64)), 48 * 64 * 2),
        (record([40, 64], D.DT_FP16, S.Vec, layout=L.NZ, nz_filled=False), 40 * 64 * 2),
        (record([24, 64], D.DT_FP16, S.Left), 32 * 64 * 2),
        (record([24, 64], D.DT_FP16, S.Left, valid=(16, 64)), 16 * 64 * 2),
        (record([64, 24], D.DT_FP16, S.Right), 64 * 32 * 2),
        (record([24, 32], D.DT_FP32, S.Acc), 32 * 32 * 4),
        (record([24, 24], D.DT_FP16, S.Mat), 32 * 32 * 2),
        (record([24, 24], D.DT_INT8, S.Mat, layout=L.ZN), 32 * 32),
        (record([1, 384], D.DT_FP16, S.Left), 384 * 2),
        (record([64, 128], D.DT_FP4E2M1, S.Vec), 64 * 64),
        (record([8, 64], D.DT_FP32, S.Vec, scratch=4096), 4096),
    ],
)
def test_footprints(tile: TileRecord, expected: int) -> None:
    assert footprint(tile)[0] == expected


def codes(*tiles: TileRecord, **more: object) -> list[str]:
    return [f.code for f in check_layout(Design(tuple(tiles), **more)).findings]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "space", "layout", "rules"),
    [
        ([8, 8], S.Vec, None, []),
        ([8, 4], S.Vec, None, [("row", 8)]),
        ([4, 1], S.Vec, None, [("column", 8)]),
        ([4, 8], S.Vec, L.DN, [("column", 8)]),
        ([24, 12], S.Mat, L.NZ, [("fractal_columns", 16), ("fractal_rows", 32)]),
        ([24, 12], S.Vec, L.NZ, [("fractal_columns", 16)]),
        ([1, 16], S.Mat, L.NZ, []),
    ],
)
def test_row_rules(shape: list[int], space: S, layout: L | None, rules: list[tuple[str, int]]) -> None:
    found = check_layout(Design((record(shape, D.DT_FP32, space, layout=layout),))).findings
    assert [(f.facts["rule"], f.facts["nearest"]) for f in found if f.code == "L206"] == rules


def test_a_ddr_tile_and_a_text_size_have_no_rows() -> None:
    assert "L113" in codes(record([8, 8], D.DT_FP32, S.DDR))
    assert "L114" in codes(record([8, 8], D.DT_FP32, S.Vec, size="n * 4"))


def test_a_misaligned_step_names_base_and_step() -> None:
    group = TileRecord("s", "group", TileType([3, 8], D.DT_FP16, S.Vec), addrs=0, depth=3)
    (wrong,) = [f for f in check_layout(Design((group,))).findings if f.code == "L101"]
    assert "base 0x00000 + 1 * 48 B; the step is no multiple of 32" in wrong.diagnostic.notes[0]
    assert "row rule" in wrong.diagnostic.notes[1]


def test_capacity_sources() -> None:
    tile = record([64, 1024], D.DT_FP32, S.Vec)
    given = check_layout(Design((tile,)), Chip({S.Vec: 262144}))
    assert given.ok
    assert given.totals[0].source is Source.GIVEN
    assert "L209" not in [f.code for f in given.findings]
    assert not check_layout(Design((tile,)), Chip(probed={S.Vec: 131072})).ok
    scaling = record([1, 128], D.DT_UINT64, S.Scaling)
    assert check_layout(Design((scaling,)), Chip({S.Scaling: 512})).findings[0].code == "L103"


@pytest.mark.parametrize(
    ("addrs", "sizes", "help_"),
    [
        ((0, 0x3E000), (64, 64), "close the holes"),
        ((0, 0x20000), (512, 512), "disjoint lifetimes"),
        ((0, 0x20000), (513, 512), "smaller tile"),
    ],
)
def test_help_for_too_much_says_what_is_true(addrs: tuple[int, int], sizes: tuple[int, int], help_: str) -> None:
    lives = [Declared(0, 1), Declared(2, 3)] if "disjoint" in help_ else [Declared(0, 3), Declared(0, 3)]
    tiles = tuple(
        replace(record([rows, 64], D.DT_FP32, S.Vec), name=name, addrs=at, declared=life)
        for name, at, rows, life in zip("ab", addrs, sizes, lives, strict=True)
    )
    (over,) = [f for f in check_layout(Design(tiles)).findings if f.code == "L103"]
    assert help_ in (over.diagnostic.help or "")


def test_observed_orders_are_a_warning() -> None:
    tiles = [replace(record([8, 64], D.DT_FP32, S.Vec), name=n) for n in "ab"]
    from pypto_pro.enums import PipeType as P

    a = replace(tiles[0], declared=Declared(0, 1, P.MTE2, P.V))
    b = replace(tiles[1], declared=Declared(2, 3, P.MTE2, P.V))
    assert "L104" in codes(a, b)
    seen = codes(a, b, orders=(OrderFact("a", "b", "trace", runs=40),))
    assert "L212" in seen
    assert "L104" not in seen


def test_proof_by_flag_beside_different_ids_is_fragile() -> None:
    from pypto_pro.enums import PipeType as P

    lives = (Declared(0, 1, P.MTE2, P.V), Declared(2, 3, P.MTE2, P.V))
    tiles = [
        TileRecord(n, "group", TileType([8, 64], D.DT_FP32, S.Vec), 0, depth=1, mutex_ids=((i,),), declared=d)
        for n, i, d in zip("ab", (1, 2), lives, strict=True)
    ]
    found = codes(*tiles, orders=(OrderFact("a", "b", "flag", P.V, P.MTE2, 3),))
    assert "L207" in found


def test_scales_without_or_with_two_partners() -> None:
    scale = record([16, 2], D.DT_FP8E8M0, S.ScaleLeft)
    assert "L116" in codes(scale)
    assert codes(replace(scale, scale_of="l", scales_too=("m",))).count("L116") == 2, "no `l` here, and two data tiles"
    data = replace(record([16, 64], D.DT_FP8E4M3FN, S.Left), name="l")
    pair = [replace(scale, name=n, scale_of="l", addrs=0x100 * i) for i, n in enumerate(("s", "u"))]
    assert "L116" in codes(data, *pair)


# --- properties ------------------------------------------------------------------------------------------------------

tiles_of_vec = st.lists(
    st.tuples(st.integers(0, 64), st.integers(1, 8), st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=6
)


def vec_design(drawn: list[tuple[int, int, int, int]], shift: int = 0, prefix: str = "t") -> Design:
    kind = lambda rows: TileType([rows, 64], D.DT_FP32, S.Vec)  # noqa: E731
    return Design(tuple(
        TileRecord(f"{prefix}{i}", "tile", kind(rows), addrs=32 * at + shift, declared=Declared(first, first + length))
        for i, (at, rows, first, length) in enumerate(drawn)
    ))  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(tiles_of_vec, st.integers(1, 50))
def test_moving_a_space_moves_rows_and_ends_and_nothing_else(drawn: list[tuple[int, int, int, int]], by: int) -> None:
    old, new = check_layout(vec_design(drawn)), check_layout(vec_design(drawn, 32 * by))
    assert [(r.name, r.start + 32 * by, r.size) for r in old.rows] == [(r.name, r.start, r.size) for r in new.rows]
    (a,), (b,) = old.totals, new.totals
    assert (a.highest + 32 * by, a.effective, a.peak_live) == (b.highest, b.effective, b.peak_live)
    verdicts = lambda r: [(x.a.name, x.b.name, x.proof, x.reason) for x in r.reuses]  # noqa: E731
    assert verdicts(old) == verdicts(new)


@settings(max_examples=40, deadline=None)
@given(tiles_of_vec)
def test_names_do_not_matter(drawn: list[tuple[int, int, int, int]]) -> None:
    old, new = check_layout(vec_design(drawn)), check_layout(vec_design(drawn, prefix="other"))
    assert [f.code for f in old.findings] == [f.code for f in new.findings]
    assert [(x.proof, x.reason, x.start) for x in old.reuses] == [(x.proof, x.reason, x.start) for x in new.reuses]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 0x7FFFF), st.integers(1, 9000), st.integers(0, 0x7FFFF), st.integers(1, 9000))
def test_bank_pairs_against_the_bit_fields(a: int, a_rows: int, b: int, b_rows: int) -> None:
    def touched(start: int, size: int) -> set[tuple[int, int]]:
        found = (l1_address(x) for x in range(start // 32 * 32, min(start + size, 0x80000), 32))
        return {(x.bank, x.group) for x in found}

    kind = lambda n: TileType([n, 1], D.DT_INT8, S.Mat)  # noqa: E731
    tiles = tuple(
        TileRecord(n, "tile", kind(rows), addrs=min(at, 0x80000 - rows), declared=Declared(0, 1))
        for n, at, rows in (("a", a, a_rows), ("b", b, b_rows))
    )
    design = Design(tiles, parallel=(Parallel("a", "read", "b", "write"),))
    rows = check_layout(design).rows
    (pair,) = find_bank_pairs(design.parallel, rows)
    mine, theirs = touched(pair.a.start, pair.a.size), touched(pair.b.start, pair.b.size)
    assert set(pair.same_bank) == {g for _, g in mine & theirs}
    assert set(pair.same_group) == {g for bank, g in mine if (1 - bank, g) in theirs}


# --- plan files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("tiles: [{name: a, space: Vec, shape: [8, 8]}]", "needs the field `dtype`", 1),
        ("tiles:\n- {name: a, space: Vex, shape: [8, 8], dtype: FP32}", "space `Vex` is unknown", 2),
        ("tiles:\n- {name: a, space: Vec, shape: [8, 8], dtype: FP32, adr: 0}", "no field `adr`", 2),
        ("tiles:\n- {name: a, space: Vec, shape: [8, 8], dtype: FP32, addr: x}", "addr holds integers", 2),
        ("tiles:\n- {name: a, kind: group, space: Vec, shape: [8, 8], dtype: FP32}", "needs a depth", 2),
        ("tiles:\n- {name: a, space: Vec, shape: [8, 8], dtype: FP32, live: [3, 1]}", "live is", 2),
        ("tiles:\n- {name: a, kind: tile, space: Vec, shape: [8, 8], dtype: FP32, depth: 2}", "has no `depth`", 2),
        ("tiles:\n- {name: a, space: Left, shape: [16, 16], dtype: FP16, layout: ZZ}", "cannot be ZZ", 2),
        ("tiles:\n- {name: a, space: Vec, shape: [8, 8], dtype: FP32, section: all}", "section `all`", 2),
        ("tiles: []\nviews:\n- [a, b]", "names `a`", 3),
        ("tiles: []\nviws: []", "no field `viws`", 2),
        ("tiles: [}", "not YAML", 1),
        ("- a", "is a mapping", 1),
    ],
)
def test_mistakes_in_a_plan_are_told_at_their_line(tmp_path: Path, text: str, message: str, line: int) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    with pytest.raises(PlanFileError) as caught:
        read_plan(file)
    assert message in caught.value.diagnostic.message
    assert caught.value.diagnostic.spans[0].line == line


def test_a_nearby_name_is_offered() -> None:
    data = parse("tiles:\n- {name: a, space: Vec, shape: [8, 8], dtype: FP23}", "p.yaml")
    with pytest.raises(PlanFileError) as caught:
        design_of(data, "p.yaml")
    assert caught.value.diagnostic.help == "did you mean `FP32`?"


def test_json_plans_and_cases(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"tiles": [{"name": "a", "space": "Vec", "shape": [8, 8], "dtype": "DT_FP32", "addr": 0}]}')
    assert read_plan(file).tiles[0].type.dtype is D.DT_FP32
    file.write_text('{"tiles": [}')
    with pytest.raises(PlanFileError, match="not JSON"):
        read_plan(file)
    cases = tmp_path / "cases.yaml"
    cases.write_text("cases:\n- {id: one, tiles: []}\n- {id: two, tiles: []}\n")
    assert read_plan(cases, "two").kernel == "two"
    for name in (None, "tow"):
        with pytest.raises(PlanFileError):
            read_plan(cases, name)
