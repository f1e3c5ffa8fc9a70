"""What happens to a kernel between its text and its two programs (pipelines-and-passes, part B)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_text import TILES, N, X, kernel_of, module, ops, read, run, statements

from pypto_pro import passes
from pypto_pro.diag import errors
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Assign, Binary, Const, For, If, Lock, Op, Return, TileDecl, While

D = DataType
FLAT = f"{X}, {N}, f: pl.DT_FP32, m: pl.DT_INT64"

FOLDED = [
    # expression, value, dtype of the constant
    ("7 + 3 - 2 * 4", 2, D.DT_INDEX), ("7 // 2 + -7 // 2", -1, D.DT_INDEX), ("-7 % 3", 2, D.DT_INDEX),
    ("7 / 2", 3.5, D.DT_FP32), ("6 & 3", 2, D.DT_INDEX), ("6 | 3", 7, D.DT_INDEX), ("6 ^ 3", 5, D.DT_INDEX),
    ("1 << 4", 16, D.DT_INDEX), ("-16 >> 2", -4, D.DT_INDEX), ("1 < 2", True, D.DT_BOOL), ("not 3", False, D.DT_BOOL),
    ("~5", -6, D.DT_INDEX), ("1 and 0", False, D.DT_BOOL), ("0 or 0.5", True, D.DT_BOOL), ("2 + 0.5", 2.5, D.DT_FP32),
    ("True + True", 2, D.DT_INT64), ("max(1, 2)", 2, D.DT_INDEX), ("min(1, 0.5)", 0.5, D.DT_FP32),
    ("3 in (1, 3)", True, D.DT_BOOL), ("3 not in (1, 3)", False, D.DT_BOOL), ("1 if 2 > 1 else NOWHERE", 1, D.DT_INDEX),
    ("pl.const(3, pl.DT_INT8)", 3, D.DT_INT8), ("HELD * 2", 14, D.DT_INDEX), ("LISTED[1]", 9, D.DT_INDEX),
    ("x.shape[0] + 1", 65, D.DT_INDEX), ("False and NOWHERE", False, D.DT_BOOL), ("True or NOWHERE()", True, D.DT_BOOL),
    ("local + 1", 4, D.DT_INDEX), ("helper(local)", 6, D.DT_INDEX), ("pair[1]", 2, D.DT_INDEX),
]  # fmt: skip
BEFORE = "HELD = 7\nLISTED = [8, 9]\ndef helper(v):\n    return v * 2\n"
LOCALS = "local = 3\npair = (1, 2)\n"


@pytest.mark.parametrize(("text", "value", "dtype"), FOLDED, ids=[row[0] for row in FOLDED])
def test_constants_fold_with_the_dtype_of_the_run_time_operation(text: str, value: Any, dtype: DataType) -> None:
    kernel = read(f"{LOCALS}c = {text}\nfor i in pl.range(n):\n    d = c", FLAT, BEFORE)
    held = statements(kernel, Assign)[-1].value
    assert isinstance(held, Const)
    assert (held.value, type(held.value)) == (value, type(value))
    assert build.kind_of(held) is dtype


NOT_FOLDED = ["1 // 0", "1 % 0", "1 / 0", "1 << -1", "1 >> -2", "1.0 / 0"]


@pytest.mark.parametrize("text", NOT_FOLDED)
def test_what_has_no_value_is_left_to_the_device(text: str) -> None:
    assert isinstance(statements(read(f"c = {text}", FLAT), Assign)[0].value, Binary)


ASSIGNED = [
    # text, whether `c` is still a constant where `d` takes it
    ("c = 3\nd = c", True),
    ("c = 3\nfor i in pl.range(n):\n    d = c", True),
    ("c = 3\nfor i in pl.range(n):\n    d = c\n    c = 3", False),
    ("c = 3\nfor i in pl.range(n):\n    c = 3\nd = c", False),
    ("c = 3\nwhile n > 0:\n    d = c\n    c = 4\n    break", False),
    ("c = 3\nif n > 1:\n    c = 3\nd = c", False),
    ("c = 3\nif n > 1:\n    d = c", True),
    ("c = 3\nif n > 1:\n    c = 4\n    d = c", True),
    ("c = 3\nif 2 > 1:\n    c = 4\nd = c", True),
    ("c = 3\nhelper(c)\nd = c", True),
    ("c = 3\nchange(c)\nd = c", True),
]


@pytest.mark.parametrize(("body", "is_constant"), ASSIGNED, ids=[row[0].replace("\n", "; ") for row in ASSIGNED])
def test_where_a_local_constant_ends(body: str, is_constant: bool) -> None:
    asks = "t = pl.TileType(shape=[8, c * 8], dtype=pl.DT_FP32)"  # takes constants only
    lines = body.replace("d = c", asks)
    before = BEFORE + "def change(v):\n    for i in pl.range(3):\n        v = v + 1\n"
    if is_constant:
        read(lines, FLAT, before)
        return
    with pytest.raises(errors.FinalRejectionError, match="compile-time int"):
        read(lines, FLAT, before)


def test_loops_over_folded_bounds() -> None:
    (loop,) = statements(read("k = 3\nn2 = k * 2 + 1\nfor i in pl.range(n2):\n    pass", FLAT), For)
    assert loop.stop == Const(7, loop.stop.type)


def test_projection() -> None:
    body = "c = n\nwith pl.section_cube():\n    a = c + 1\nwith pl.section_vector():\n    a = c + 2\nb = a"
    kernel = read(body, FLAT)
    by_core = {p.core: p for p in kernel.programs}
    assert set(by_core) == {CoreKind.CUBE, CoreKind.VECTOR}
    for core, added in ((CoreKind.CUBE, "1"), (CoreKind.VECTOR, "2")):
        values = [s.value for s in by_core[core].body if isinstance(s, Assign)]
        assert [str(v.rhs.value) for v in values if isinstance(v, Binary)] == [added]


ONE_CORE = [
    # a name of one section used outside; an error seen by one program only
    ("with pl.section_vector():\n    a = 1\nwith pl.section_cube():\n    b = 1\nc = a", "`a` is not defined"),
    ("with pl.section_cube():\n    c = NOWHERE\nwith pl.section_vector():\n    pass", "`NOWHERE`"),
    ("with pl.section_cube():\n    pass\nwith pl.section_vector():\n    c = NOWHERE", "`NOWHERE`"),
]


@pytest.mark.parametrize(("body", "text"), ONE_CORE)
def test_errors_of_one_program_are_told(body: str, text: str) -> None:
    with pytest.raises(errors.UndefinedVariableError) as caught:
        read(body, FLAT)
    assert text in caught.value.message


def test_dead_branches_leave_nothing() -> None:
    body = """
    if 1 > 2:
        nowhere(3)
        t = pl.TileType(shape=[n, n])
    elif pl.constexpr(HELD == 7):
        x[0, 0] = 1.0
    else:
        class Q: pass
    v = 3 if HELD == 7 else nowhere
    while False:
        x[1, 1] = 2.0
    """
    kernel = read(body, FLAT, BEFORE)
    assert ops(kernel) == ["pl.setval"]
    assert statements(kernel, If) == []


def test_jumps_and_returns() -> None:
    kernel = read("if n > 1:\n    return\nwhile n > 2:\n    break\nx[0, 0] = 1.0", FLAT)
    assert len(statements(kernel, Return)) == 1
    assert len(statements(kernel, While)) == 1


def test_bounds_are_evaluated_once_and_conditions_each_trip() -> None:
    calls = "def seen(s, v):\n    s.v += 1\n    return v\n"
    body = "s = pl.struct('S', v=0)\nfor i in pl.range(seen(s, n)):\n    pass\nout[0, 0] = s.v\nk = 0\n"
    body += "while seen(s, k) < 3:\n    k += 1\nout[0, 1] = s.v\nout[0, 2] = k"
    assert run(body, 4, params="n: pl.DT_INT64", before=calls)[:3].tolist() == [1, 5, 3]


def test_descriptors_are_one_a_tile_even_at_one_address() -> None:
    body = "a = pl.make_tile(tt, addr=0)\nb = pl.make_tile(tt, addr=0)\npl.set_validshape(a, [3, 4])\n"
    body += "out[0, 0] = a.valid_shape[0]\nout[0, 1] = b.valid_shape[0]"
    assert run(f"{TILES}\n{body}").tolist()[:2] == [3, 16]
    assert len(statements(read(f"{TILES}\n{body.split('out')[0]}"), TileDecl)) == 2


def test_mutex_ids_come_from_the_author_only() -> None:
    body = f"{TILES}\nbare = pl.make_tile_group(type=tt, addrs=0xc000, depth=2)\nt = {{}}.next()\npl.load(t, x, [0, 0])"
    locks = [len(statements(passes.run(read(body.format(group))), Lock)) for group in ("bare", "g")]
    assert locks == [0, 1]


INLINED = [
    ("out[0, 0] = clamp(n, 7)\nout[0, 1] = clamp(3, 7)", [7, 3]),
    ("s = 1\nout[0, 0] = shadow(2)\nout[0, 1] = s", [12, 1]),
    ("p, q = both(n)\nout[0, 0] = p\nout[0, 1] = q", [9, 10]),
    ("out[0, 0] = nested(n)", [28]),
]
INLINE_HELPERS = """
s = 10
def clamp(v, hi):
    if v > hi:
        return hi
    return v
def shadow(v):
    return s + v
def both(v):
    return v, v + 1
def nested(v):
    return clamp(v, 7) + clamp(v + 1, 50) * 2 + 1
"""


@pytest.mark.parametrize(("body", "wanted"), INLINED)
def test_inlining(body: str, wanted: list[int]) -> None:
    assert run(body, 9, params="n: pl.DT_INT64", before=INLINE_HELPERS)[: len(wanted)].tolist() == wanted


def test_a_second_launch_reuses_the_instance() -> None:
    kernel = kernel_of("x[0] = n", "x: pl.Tensor[[1], pl.DT_INT32], n: pl.DT_INT32")
    out = np.zeros(1, np.int32)
    kernel(out, 3)
    (first,) = kernel.variants
    kernel(out, 4)
    assert list(kernel.variants) == [first]


def test_the_kernel_kind_may_differ_between_keys() -> None:
    text = """
from pypto_pro.runtime.tilingkey import TilingKeyField
class Key:
    K = TilingKeyField(bits=1, values=[0, 1])
@pl.jit(tiling_key=Key)
def k(x: pl.Ptr[pl.DT_INT8]):
    if K == 0:
        with pl.section_cube():
            pass
    else:
        with pl.section_vector():
            pass
"""
    kernel = module(text)["k"]
    kinds = [[p.core for p in kernel.variant((), {"K": key}).kernel.programs] for key in (0, 1)]
    assert kinds == [[CoreKind.CUBE], [CoreKind.VECTOR]]


def test_ops_of_the_tables_do_not_move() -> None:
    kernel = read(f"{TILES}\na = g.next()\npl.load(a, x, [0, 0])\npl.exp(a, a)\npl.store(x, a, [0, 0])")
    assert [op.name for op in statements(kernel, Op)] == ["pl.load", "pl.exp", "pl.store"]
