"""Vector functions and SIMT functions: expansion, result types, launches and their rules."""

from __future__ import annotations

import pytest
from kernel_text import TILES, N, X, read, statements, text_of

from pypto_pro.diag import errors
from pypto_pro.dtypes import DataType
from pypto_pro.ir.nodes import Assign, For, If, Op, Query, SimtLaunch, TilePlus, VfCall
from pypto_pro.ir.types import MaskType, RegType

SYNTAX, TYPE, LOWERING = errors.ParserSyntaxError, errors.ParserTypeError, errors.LoweringError
ON = "    on = vf.create_mask(pattern=pl.MaskPattern.ALL, dtype=pl.DT_FP32)\n"


def vector(body: str, call: str = "v(g.current(), n)", params: str = "t, n") -> object:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    before = f"@pl.vector_function\ndef v({params}):\n    'Doc.'\n{ON}{lines}"
    return read(f"{TILES}\n{call}", before=before)


def body_of(kernel: object) -> list[object]:
    (call,) = statements(kernel, VfCall)
    return list(call.body)


def test_a_call_is_one_instruction_with_its_tiles() -> None:
    kernel = vector("r = vf.load_align(t)\nvf.store_align(u, r, on)", "v(g.current(), h[0], n)", "t, u, n: pl.DT_INT64")
    (call,) = statements(kernel, VfCall)
    assert call.name == "v"
    assert len(call.tiles) == 2
    results = [op.results[0].type for op in statements(kernel, Op) if op.results]
    assert results == [MaskType(DataType.DT_FP32), RegType(DataType.DT_FP32)]


def test_a_register_name_keeps_its_register() -> None:
    kernel = vector("a = vf.full(0.0, on, dtype=pl.DT_FP32)\nfor i in pl.range(n):\n    a = vf.add(a, a, on)")
    full, add = (op for op in statements(kernel, Op) if op.name in ("vf.full", "vf.add"))
    assert full.results == add.results
    assert not [s for s in statements(kernel, Assign) if s.var == full.results[0]]


def test_a_mask_keeps_its_first_tag() -> None:
    kernel = vector("on = vf.create_mask(dtype=pl.DT_FP16)")
    assert len({op.results for op in statements(kernel, Op)}) == 1


def test_nested_vector_functions_share_the_scope() -> None:
    before = f"@pl.vector_function\ndef inner(t, k):\n{ON}    r = vf.load_align(t, k)\n"
    before += "@pl.vector_function\ndef outer(t, n):\n    for i in pl.range(n):\n        inner(t + 64, i * 64)\n"
    kernel = read(f"{TILES}\nouter(g.current(), n)", before=before)
    (call,) = statements(kernel, VfCall)
    assert call.name == "outer"
    assert any(isinstance(s, For) for s in call.body)
    assert any(isinstance(s.value, TilePlus) for s in statements(kernel, Assign))


def test_offsets_and_tile_arithmetic() -> None:
    kernel = vector("p = t + n\nr = vf.load_align(p, [n, 64])\nq = vf.load_align(t + (n * 2))\ns = vf.load_align(t, n)")
    text = text_of(kernel)
    assert "vf.load_align(p, (index(n), 64)" in text
    assert ") + " not in text


def test_compile_time_arguments_fold_and_scalars_branch() -> None:
    kernel = vector(
        "if flag:\n    r = vf.load_align(t)\nelse:\n    nowhere()\nif n > 3:\n    r = vf.load_align(t, 64)",
        "v(g.current(), n, True)",
        "t, n, flag",
    )
    assert len([s for s in body_of(kernel) if isinstance(s, If)]) == 1


REJECTED = [
    ("return", SYNTAX, "no return"),
    ("if n > 1:\n    return", SYNTAX, "no return"),
    ("helper(n)", SYNTAX, "no vector function"),
    ("v(t, n)", SYNTAX, "recursion"),
    ("with pl.section_vector():\n    pass", errors.UnsupportedFeatureError, "not available"),
    ("a = t[0]", SYNTAX, "cannot be accessed"),
    ("a = t[0, 1]", errors.UnsupportedFeatureError, "cannot be accessed"),
    ("a = t[0:1, 0:1]", SYNTAX, "cannot be sliced"),
    ("vf.add(on, on, on)", SYNTAX, "assigned to a name"),
    ("r = vf.add(vf.load_align(t), vf.load_align(t), on)", SYNTAX, "assigned to a name"),
    ("r = vf.load_align(t, pattern=1)", SYNTAX, "unexpected keyword argument 'pattern'"),
    ("r = vf.create_mask(pattern=0)", errors.FinalRejectionError, "MaskPattern"),
    ("r = vf.nothing(t)", errors.InvalidOperationError, "unknown register operation"),
    ("a, b = vf.add(on, on, on)", SYNTAX, "does not give 2"),
    ("a = vf.load_align(t)\na = vf.full(1.0, on, dtype=pl.DT_FP16)", LOWERING, "use a new name"),
    ("a = vf.add(t, t, on)", LOWERING, "a register, found a tile"),
    ("pl.add(t, t, t)", SYNTAX, "vector function"),
    ("pl.system.bar_all()", SYNTAX, "vector function"),
    ("q = pl.make_tile(pl.TileType(shape=[16, 64], dtype=pl.DT_FP32), addr=0)", SYNTAX, "vector function"),
    ("s = pl.get_spr()", SYNTAX, "vector function"),
    ("q = t - 1", SYNTAX, "does not apply"),
    ("for i in pl.range(0, 65536):\n    pass", SYNTAX, "from 0 to 65535"),
    ("for i in pl.range(8, 0, -1):\n    pass", SYNTAX, "counts up"),
]


@pytest.mark.parametrize(("body", "kind", "text"), REJECTED, ids=[row[0] for row in REJECTED])
def test_rejected_in_a_vector_function(body: str, kind: type[errors.ParserError], text: str) -> None:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    before = f"def helper(n):\n    return n\n@pl.vector_function\ndef v(t, n):\n{ON}{lines}"
    with pytest.raises(errors.ParserError) as caught:
        read(f"{TILES}\nv(g.current(), n)", before=before)
    assert isinstance(caught.value, kind), caught.value
    assert text in str(caught.value)


CALLS = [
    ("v(g.current())", TYPE, "takes 2"),
    ("v(g.current(), n=n)", SYNTAX, "keyword"),
    ("v(*(g.current(), n))", SYNTAX, "starred"),
    ("a = v(g.current(), n)", TYPE, "gives no value"),
    ("v(g.current(), 1.5)", TYPE, "annotated int64"),
    ("r = vf.load_align(g.current())", SYNTAX, "vector_function"),
]


@pytest.mark.parametrize(("call", "kind", "text"), CALLS, ids=[row[0] for row in CALLS])
def test_rejected_calls(call: str, kind: type[errors.ParserError], text: str) -> None:
    with pytest.raises(kind, match=text):
        vector("pass", call, "t, n: pl.DT_INT64")


def test_lowering_errors_are_runtime_errors_too() -> None:
    assert issubclass(LOWERING, RuntimeError)
    assert issubclass(LOWERING, TYPE)


# --- SIMT ------------------------------------------------------------------------------------------------------------

SIMT = """
@pl.simt.function
def affine(v, a):
    if v > 10:
        return v
    return v * a + 1

@pl.simt.function(max_threads=128)
def scale(dst, src, n):
    i = pl.simt.thread_idx().x
    b = pl.simt.block_dim()
    j = pl.simt.linear_thread_idx() + b.x
    if i >= n:
        return
    dst[0, i] = affine(src[0, i], n)

@pl.simt.function
def no_bound(a):
    a[0, 0] = 1

def plain(a):
    return a

@pl.simt.function(max_threads=4)
def nested(a):
    pl.simt.launch(nested, threads=1, args=(a,))

@pl.simt.function(max_threads=4)
def with_op(a):
    pl.add(a, a, a)

@pl.simt.function(max_threads=4)
def with_value(a):
    return 3

@pl.simt.function(max_threads=4)
def calls_plain(a):
    b = plain(a)

@pl.simt.function(max_threads=4000)
def too_many(a):
    pass

@pl.simt.function(max_threads=4)
def defaults(a, b=1):
    pass
"""


def test_simt_launch() -> None:
    kernel = read(f"{TILES}\npl.simt.launch(scale, threads=(32, 4), args=(g.current(), h.current(), n))", before=SIMT)
    (launch,) = statements(kernel, SimtLaunch)
    assert [t.value for t in launch.threads] == [32, 4, 1]
    assert launch.max_threads == 128
    assert len(launch.args) == 3
    assert Query("thread_idx.x", launch.body[0].value.type) == launch.body[0].value
    text = text_of(kernel)
    assert text.count("getval") == 1
    assert "setval" in text
    assert "return" not in text.split("with simt_launch")[1]


SIMT_REJECTED = [
    ("pl.simt.launch(scale, threads=(32, 5), args=(x, x, n))", TYPE, "exceed"),
    ("pl.simt.launch(scale, threads=(), args=(x, x, n))", SYNTAX, "one to three"),
    ("pl.simt.launch(scale, threads=(1, 1, 1, 1), args=(x, x, n))", SYNTAX, "one to three"),
    ("pl.simt.launch(scale, threads=n, args=(x, x, n))", TYPE, "constant from 1"),
    ("pl.simt.launch(scale, threads=0, args=(x, x, n))", TYPE, "constant from 1"),
    ("pl.simt.launch(scale, threads=1, args=[x, x, n])", SYNTAX, "tuple written out"),
    ("pl.simt.launch(scale, threads=1, args=(x, x))", TYPE, "takes 3"),
    ("pl.simt.launch(scale, 1, args=(x, x, n))", SYNTAX, "plain name"),
    ("pl.simt.launch(scale, threads=1)", SYNTAX, "exactly"),
    ("pl.simt.launch(plain, threads=1, args=(x,))", TYPE, "launchable"),
    ("pl.simt.launch(no_bound, threads=1, args=(x,))", TYPE, "launchable"),
    ("pl.simt.launch(nested, threads=1, args=(x,))", SYNTAX, "cannot launch"),
    ("pl.simt.launch(with_op, threads=1, args=(x,))", errors.UnsupportedFeatureError, "SIMT function"),
    ("pl.simt.launch(with_value, threads=1, args=(x,))", SYNTAX, "returns nothing"),
    ("pl.simt.launch(calls_plain, threads=1, args=(x,))", SYNTAX, "no SIMT function"),
    ("pl.simt.launch(too_many, threads=1, args=(x,))", SYNTAX, "from 1 to 2048"),
    ("pl.simt.launch(defaults, threads=1, args=(x,))", SYNTAX, "default values"),
    ("pl.simt.launch(no_bound, threads=1, args=((x, x),))", TYPE, "launchable"),
    ("scale(x, x, n)", SYNTAX, "SIMT function"),
    ("a = pl.simt.thread_idx()", SYNTAX, "inside a SIMT function"),
    ("a = pl.simt.warp_size()", SYNTAX, "inside a SIMT function"),
]


@pytest.mark.parametrize(("body", "kind", "text"), SIMT_REJECTED, ids=[row[0] for row in SIMT_REJECTED])
def test_simt_rejected(body: str, kind: type[errors.ParserError], text: str) -> None:
    with pytest.raises(errors.ParserError) as caught:
        read(body, f"{X}, {N}", SIMT)
    assert isinstance(caught.value, kind), caught.value
    assert text in str(caught.value)


def test_simt_function_needs_its_arguments() -> None:
    from pypto_pro.frontend.markers import simt_function

    with pytest.raises(TypeError, match="max_threads"):
        simt_function()
