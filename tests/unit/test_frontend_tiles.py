"""Tiles, groups, tensors and views in IR: what is a reference, what gets a descriptor of its own."""

from __future__ import annotations

import pytest
from kernel_text import TILES, N, X, ops, read, run, statements, text_of

from pypto_pro.diag import errors
from pypto_pro.enums import CoreKind
from pypto_pro.ir.nodes import (
    Assign,
    Const,
    CopyStruct,
    CopyTensor,
    CopyTile,
    GroupDecl,
    Local,
    Op,
    Pick,
    SetStride,
    SetValid,
    Slot,
    SubView,
    TensorDecl,
    TileDecl,
)
from pypto_pro.ir.types import TensorType

LOAD = "pl.load(t, x, [0, 0])"


def read_tiles(body: str, params: str = f"{X}, {N}", **more: object) -> object:
    return read(f"{TILES}\n{body}", params, **more)


def test_group_accessors() -> None:
    kernel = read_tiles("t = g.next()\nu = g.current()\nv = g.previous()\nw = g[1]\ns = solo.next()\npl.add(w, w, 1.0)")
    decl = statements(kernel, GroupDecl)[0]
    assert decl.addrs == (0, 4096)
    assert decl.mutex_ids == ((0,), (1,))
    assert statements(kernel, GroupDecl)[2].cursor is None
    slots = [s.value for s in statements(kernel, Assign) if isinstance(s.value, Slot)]
    assert slots == [
        Slot(decl.var, Local(decl.cursor)),
        Slot(decl.var, Local(decl.cursor)),
        Slot(decl.var, slots[2].index),
    ]
    assert statements(kernel, Op)[0].args[0] == Slot(decl.var, Const(1))


def test_two_accessors_in_one_call_are_two_tiles() -> None:
    kernel = read_tiles("pl.add(g.next(), g.next(), h.current())")
    out, lhs, _ = statements(kernel, Op)[0].args
    assert out != lhs
    assert isinstance(out, Local)  # fixed before the cursor moved on
    assert isinstance(lhs, Slot)


def test_next_as_a_statement_moves_the_cursor_only() -> None:
    kernel = read_tiles("g.next()\nsolo.next()")
    assert [s.var.name for s in statements(kernel, Assign)] == ["g_cursor"]


def test_aliases_and_parameters_are_references() -> None:
    kernel = read_tiles("t = g.next()\nu = t\nhelp_(u)", before="def help_(w):\n    pl.set_validshape(w, [4, 4])\n")
    (set_valid,) = statements(kernel, SetValid)
    assert isinstance(set_valid.tile, Local)
    assert not statements(kernel, CopyTile)


def test_merges_make_descriptors_of_their_own() -> None:
    kernel = read_tiles(f"if n > 1:\n    t = g.next()\nelse:\n    t = h.next()\n{LOAD}")
    copies = statements(kernel, CopyTile)
    assert len(copies) == 2
    assert {c.var for c in copies} == {statements(kernel, Op)[0].args[0].var}
    kernel = read_tiles(f"t = g.next() if n > 1 else h.next()\n{LOAD}")
    assert len(statements(kernel, CopyTile)) == 2


def test_a_tile_carried_round_a_loop_is_copied_at_its_edges() -> None:
    body = (
        "t = g.next()\nfor i in pl.range(n):\n    pl.add(h.current(), t, 1.0)\n    "
        "if i > 3:\n        continue\n    t = g.next()"
    )
    kernel = read_tiles(body)
    copies = statements(kernel, CopyTile)
    assert len(copies) == 2  # before the loop, at the end of a trip; `continue` left it as it was
    assert len({c.var for c in copies}) == 1


def test_previous_and_current_tile_are_copied_as_if_at_once() -> None:
    body = (
        "a = g.next()\nb = g.next()\nfor i in pl.range(n):\n    "
        "pl.add(h.current(), a, b)\n    c = a\n    a = b\n    b = c"
    )
    copies = statements(read_tiles(body), CopyTile)
    carriers = [c.var for c in copies[:2]]
    edge = copies[2:]
    assert len(edge) == 4  # both into temporaries, then both back
    assert {c.var for c in edge[:2]}.isdisjoint(carriers)
    assert [c.var for c in edge[2:]] == carriers


def test_a_name_that_each_trip_binds_first_needs_no_copy() -> None:
    body = "for i in pl.range(n):\n    t = g.next()\n    pl.load(t, x, [0, 0])\n"
    assert not statements(read_tiles(body + body.replace("g.", "h.")), CopyTile)


def test_none_stands_for_no_tile_yet() -> None:
    kernel = read_tiles(f"t = None\nif n > 1:\n    t = g.next()\n    pl.add(h[0], t, 1.0)\n{LOAD}")
    assert len(statements(kernel, CopyTile)) == 1
    body = "p = None\nfor i in pl.range(n):\n    if i > 0:\n        pl.add(h[0], p, 1.0)\n    p = g.next()"
    assert len(statements(read_tiles(body), CopyTile)) == 2
    read("p = None\nfor i in pl.range(n):\n    if i > 0:\n        q = p + 1\n    p = i")


def test_different_id_counts_cannot_merge() -> None:
    more = "\nq = pl.make_tile_group(type=tt, addrs=0xC000, mutex_ids=[[5, 6]])\nz = pl.make_tile(tt, addr=0xE000)\n"
    for other in ("q.current()", "z"):
        with pytest.raises(errors.ParserTypeError, match="mutex ids"):
            read_tiles(f"{more}if n > 1:\n    t = g.next()\nelse:\n    t = {other}\n{LOAD}")
        with pytest.raises(errors.ParserTypeError, match="mutex ids"):
            read_tiles(f"{more}t = g.next() if n > 1 else {other}\n{LOAD}")


def test_handles_do_not_survive_run_time_choice() -> None:
    for body in ("if n > 1:\n    q = g\nelse:\n    q = h\nt = q.next()", "q = (g, h)[n]\nt = q.next()"):
        with pytest.raises(errors.ParserTypeError):
            read_tiles(body)
    read_tiles("info = pl.make_tuple(db=g, n=n)\nt = info.db.next()\nu = (g, h)[1].next()")


def test_tuples_of_tiles_by_run_time_index() -> None:
    kernel = read_tiles("a = pl.make_tile(tt, addr=0)\nb = pl.make_tile(tt, addr=0x2000)\nt = (a, b)[n % 2]\n" + LOAD)
    (assign,) = [s for s in statements(kernel, Assign) if isinstance(s.value, Pick)]
    assert [o.var.name for o in assign.value.options] == ["a", "b"]
    other = "pl.TileType(shape=[8, 64], dtype=pl.DT_FP32)"
    with pytest.raises(errors.ParserTypeError, match="different types"):
        read_tiles(f"a = pl.make_tile(tt, addr=0)\nb = pl.make_tile({other}, addr=0)\nt = (a, b)[n]")


def test_set_validshape_of_a_group_names_the_group() -> None:
    (stmt,) = statements(read_tiles("pl.set_validshape(g, [n, 64])"), SetValid)
    assert stmt.tile.var.name == "g"


def test_sub_views() -> None:
    kernel = read_tiles("t = g.next()\nv = t[2:6, 16:]\npl.set_validshape(v, [2, 8])\npl.store(x, v, [0, 0])")
    (view,) = statements(kernel, SubView)
    assert (view.row, view.col) == (Const(2), Const(16))
    assert "min(4, max(t.vr - 2, 0))" in text_of(kernel)
    with pytest.raises(errors.ParserSyntaxError, match="from 1 to 16"):
        read_tiles("t = g.next()\nv = t[2:6, 0:8]\npl.set_validshape(v, [17, 8])")


def test_identity_is_shared_by_both_programs_and_tells_calls_apart() -> None:
    helper = "def made(a):\n    return pl.make_tile(pl.TileType(shape=[16, 64], dtype=pl.DT_FP32), addr=a)\n"
    body = "with pl.section_cube():\n    u = made(0)\nt = made(0x1000)\nwith pl.section_vector():\n    v = made(0x2000)"
    kernel = read(body, before=helper)
    cube, vector = (
        {d.addr: d.identity for d in statements_of(kernel, core)} for core in (CoreKind.CUBE, CoreKind.VECTOR)
    )
    assert cube[0x1000] == vector[0x1000]
    assert len({*cube.values(), *vector.values()}) == 3


def statements_of(kernel: object, core: CoreKind) -> list[TileDecl]:
    program = kernel.program(core)
    return [s for s in program.body if isinstance(s, TileDecl)]


# --- tensors and pointers --------------------------------------------------------------------------------------------

P = f"{X}, {N}, p: pl.Ptr[pl.DT_UINT8], q: pl.Ptr[pl.DT_FP32], d: pl.Tensor[[pl.DYNAMIC, 32], pl.DT_FP32]"


def test_views_and_pointers() -> None:
    body = (
        "v = pl.make_tensor(p + 16, [n, 64], [128, 1], dtype=pl.DT_FP32)\nw = pl.make_tensor(x, [4, 4])\n"
        "r = pl.addptr(pl.make_ptr(x, dtype=pl.DT_INT32), n)\npl.set_stride(v, [64, 1])\nu = v\nu[0, 0] = 1"
    )
    kernel = read(body, P)
    first, second = statements(kernel, TensorDecl)
    assert first.var.type.dims == (None, 64)
    assert text_of(kernel).count("PtrCast(p + 16") == 1
    assert second.strides is None
    assert statements(kernel, SetStride)[0].tensor == first.var
    assert statements(kernel, Op)[0].args[0] == Local(first.var)


def test_tensor_shapes() -> None:
    kernel = read("a, b = d.shape\nc = d.shape[-1]\nt = pl.TileType(shape=[8, d.shape[1]], dtype=pl.DT_FP32)", P)
    assert [s.var.name for s in statements(kernel, Assign)] == ["a"]
    with pytest.raises(errors.FinalRejectionError):
        read("t = pl.TileType(shape=[d.shape[0], 32], dtype=pl.DT_FP32)", P)


def test_tensors_merge_into_a_view_of_their_own() -> None:
    kernel = read("if n > 1:\n    v = x\nelse:\n    v = d\nv[0, 0] = 1.0", P)
    copies = statements(kernel, CopyTensor)
    assert len(copies) == 2
    assert copies[0].var.type == TensorType(copies[0].var.type.dtype, (None, None))
    kernel = read("v = x\nfor i in pl.range(n):\n    v[0, 0] = 1.0\n    v = pl.make_tensor(q, [i, 4])", P)
    assert len(statements(kernel, CopyTensor)) == 2


def test_pointer_tests() -> None:
    assert "p is None" in text_of(read("if p is None:\n    a = 1", P))
    assert "not p is None" in text_of(read("if p is not None:\n    a = 1", P))


def test_structs_merge() -> None:
    helper = "def made(n):\n    if n > 1:\n        return pl.struct('S', a=n)\n    return pl.struct('S', a=n * n)\n"
    kernel = read("s = made(n)\nb = s.a", before=helper)
    assert len(statements(kernel, CopyStruct)) == 2


# --- ops -------------------------------------------------------------------------------------------------------------


def test_rewrites_and_issue_updates() -> None:
    kernel = read_tiles("t = g.next()\npl.load_tile(t, x, [n, 0])")
    assert ops(kernel) == ["pl.load"]
    assert "pl.load(t, x, (index(n) * 16, 0), order=None)" in text_of(kernel)
    mat = "pl.TileType(shape=[32, 32], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc, valid_shape=[-1, -1])"
    vec = "pl.TileType(shape=[32, 32], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])"
    body = (
        f"with pl.section_cube():\n    a = pl.make_tile({mat}, addr=0)\n    v = pl.make_tile({vec}, addr=0)\n"
        "    pl.move(v, a, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)"
    )
    kernel = read(body)
    assert [type(s).__name__ for s in kernel.programs[0].body] == ["TileDecl", "TileDecl", "SetValid", "Op"]


def test_keywords_and_defaults() -> None:
    kernel = read_tiles("t = g.next()\npl.store(x, t, [0, 0], atomic=pl.AtomicType.AtomicAdd)\npl.sum(t, t, t, dim=1)")
    store, sum_ = statements(kernel, Op)
    assert store.attr("atomic").name == "AtomicAdd"
    assert store.attr("order") is None
    assert sum_.attr("dim") == 1


def test_enum_keywords_take_variables_lists_and_ternaries() -> None:
    before = (
        "MODES = [pl.AtomicType.AtomicNone, pl.AtomicType.AtomicAdd]\nFLAG = True\ndef mode():\n    return MODES[1]\n"
    )
    for written in ("MODES[1]", "m", "mode()", "pl.AtomicType.AtomicAdd if FLAG else 5"):
        read_tiles(f"m = MODES[1]\npl.store(x, g.next(), [0, 0], atomic={written})", before=before)


def test_elements() -> None:
    kernel = read_tiles("t = g.next()\na = t[n, 3] + x[0, n]\nt[0, 1] = a\nx[n, n] = 2")
    assert ops(kernel) == ["pl.getval", "pl.getval", "pl.setval", "pl.setval"]
    assert "pl.getval(t, index(n) * 64 + 3)" in text_of(kernel)


def test_sections_decide_the_programs() -> None:
    for body, kinds in (
        ("with pl.section_vector():\n    pass", [CoreKind.VECTOR]),
        ("with pl.section_cube():\n    pass", [CoreKind.CUBE]),
        ("with pl.section_cube():\n    pass\nwith pl.section_vector():\n    pass", [CoreKind.CUBE, CoreKind.VECTOR]),
        ("a = 'section_'", [CoreKind.CUBE, CoreKind.VECTOR]),
        (
            "if False:\n    with pl.section_cube():\n        pass\nwith pl.section_vector():\n    pass",
            [CoreKind.VECTOR],
        ),
        ("with pl.section_vector():\n    inner = 1\nwith pl.section_cube():\n    nowhere_else = 1", None),
        ("part()", [CoreKind.VECTOR]),
    ):
        helper = "def part():\n    with pl.section_vector():\n        pass\n"
        kernel = read(body if "section_" in body else f"{body}\nb = 'section_'", before=helper)
        if kinds is not None:
            assert [p.core for p in kernel.programs] == kinds, body


def test_names_of_a_section_are_not_defined_for_the_other_core() -> None:
    with pytest.raises(errors.UndefinedVariableError, match="`v`"):
        read("with pl.section_vector():\n    v = 1\nwith pl.section_cube():\n    w = v")
    read(
        "with pl.section_vector():\n    v = 1\nwith pl.section_vector():\n    w = v\nwith pl.section_cube():\n    pass"
    )


# --- what references and copies do, on the simulator ------------------------------------------------------------------

LOG = "out[0, {}] = {}.valid_shape[0]\n"
REFERENCES = [
    ("t = g[0]\nu = t\npl.set_validshape(u, [3, 4])\n" + LOG.format(0, "g[0]") + LOG.format(1, "t"), [3, 3]),
    (
        "t = g[0] if n > 1 else g[1]\npl.set_validshape(t, [3, 4])\n" + LOG.format(0, "g[0]") + LOG.format(1, "t"),
        [16, 3],
    ),
    ("pl.set_validshape(g[0], [5, 4])\nt = g[0] if n > 1 else g[1]\n" + LOG.format(0, "t"), [5]),
    (
        "pair = (g[0], g[1])\npl.set_validshape(pair[n % 2], [3, 4])\n" + LOG.format(0, "g[0]") + LOG.format(1, "g[1]"),
        [3, 16],
    ),
    ("narrow(g[1])\n" + LOG.format(0, "g[1]"), [2]),
    ("v = g[0][2:6, 0:8]\npl.set_validshape(v, [1, 8])\n" + LOG.format(0, "g[0]") + LOG.format(1, "v"), [16, 1]),
    (
        "pl.set_validshape(g, [7, 64])\n" + LOG.format(0, "g[0]") + LOG.format(1, "g[1]") + LOG.format(2, "h[0]"),
        [7, 7, 16],
    ),
    (
        "t = g[0]\nfor i in pl.range(3):\n    pl.set_validshape(t, [i + 1, 4])\n    t = g[1]\n"
        + LOG.format(0, "g[0]")
        + LOG.format(1, "g[1]")
        + LOG.format(2, "t"),
        [16, 16, 16],
    ),
    (
        "a = g.next()\npl.set_validshape(a, [2, 4])\nb = g.next()\nfor i in pl.range(3):\n    a, b = b, a\n"
        + LOG.format(0, "a")
        + LOG.format(1, "b"),
        [16, 2],
    ),
    ("g.next()\na = g.current()\ng.next()\npl.set_validshape(a, [9, 4])\n" + LOG.format(0, "g.previous()"), [9]),
    ("for i in pl.range(5):\n    t = g.next()\n    pl.set_validshape(t, [i + 1, 4])\n" + LOG.format(0, "g[0]"), [5]),
]


@pytest.mark.parametrize(("body", "wanted"), REFERENCES, ids=[row[0] for row in REFERENCES])
def test_references_and_copies(body: str, wanted: list[int]) -> None:
    before = "def narrow(t):\n    pl.set_validshape(t, [2, 2])\n"
    found = run(f"{TILES}\n{body}", 2, params="n: pl.DT_INT64", before=before)
    assert list(found[: len(wanted)]) == wanted
