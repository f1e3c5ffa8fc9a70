"""What the front end rejects: one row a rule, with the error class and a part of the message."""

from __future__ import annotations

import kernel_text
import pytest
from kernel_text import TILES, N, X

from pypto_pro.diag import errors

SYNTAX, TYPE, FINAL = errors.ParserSyntaxError, errors.ParserTypeError, errors.FinalRejectionError
UNDEFINED, UNSUPPORTED = errors.UndefinedVariableError, errors.UnsupportedFeatureError
INVALID = errors.InvalidOperationError
FLAT = f"{X}, {N}, p: pl.Ptr[pl.DT_FP32], y: pl.Tensor[[128], pl.DT_INT32], f: pl.DT_FP32"


def rejected(body: str, before: str = "", params: str = FLAT, **more: object) -> errors.ParserError:
    with pytest.raises(errors.ParserError) as caught:
        kernel_text.read(body, params, before, **more)
    return caught.value


STATEMENTS = [
    ("for i in range(4):\n    pass", SYNTAX, "pl.range"),
    ("for x in [1, 2]:\n    pass", SYNTAX, "pl.range"),
    ("for i, j in pl.range(4):\n    pass", SYNTAX, "simple name"),
    ("for i in pl.range(4, step=1):\n    pass", SYNTAX, "positional"),
    ("for i in pl.range():\n    pass", SYNTAX, "positional"),
    ("for i in pl.range(1, 2, 3, 4):\n    pass", SYNTAX, "positional"),
    ("for i in pl.range(0, 4, 0):\n    pass", SYNTAX, "zero"),
    ("for i in pl.range(f):\n    pass", SYNTAX, "integer"),
    ("for i in pl.range(2.5):\n    pass", SYNTAX, "integer"),
    ("for i in pl.range(4):\n    pass\nelse:\n    pass", UNSUPPORTED, "else"),
    ("while n > 0:\n    n -= 1\nelse:\n    pass", UNSUPPORTED, "else"),
    ("return n", SYNTAX, "returns nothing"),
    ("assert n > 0", UNSUPPORTED, "assert"),
    ("raise ValueError", UNSUPPORTED, "raise"),
    ("try:\n    pass\nexcept ValueError:\n    pass", UNSUPPORTED, "try"),
    ("del n", UNSUPPORTED, "del"),
    ("import math", UNSUPPORTED, "import"),
    ("global q", UNSUPPORTED, "global"),
    ("def inner():\n    pass", UNSUPPORTED, "nested function"),
    ("class C:\n    pass", UNSUPPORTED, "nested class"),
    ("match n:\n    case 1:\n        pass", UNSUPPORTED, "match"),
    ("a: pl.DT_INT32", UNSUPPORTED, "without a value"),
    ("x.q: pl.DT_INT32 = 0", SYNTAX, "simple name"),
    ("a = b = n", SYNTAX, "a = b"),
    ("[a, b] = (n, n)", SYNTAX, "cannot be assigned"),
    ("a, (b, c) = (n, (n, n))", SYNTAX, "simple names"),
    ("a, *b = (n, n)", SYNTAX, "simple names"),
    ("a, b = (n, n, n)", TYPE, "found 3"),
    ("a, b = n", TYPE, "cannot be unpacked"),
    ("lst = [0, 1]\nlst[0] = 5", TYPE, "immutable"),
    ("t = pl.make_tuple(a=n)\nt.a = 5", SYNTAX, "immutable"),
    ("n.a = 5", TYPE, "no fields"),
    ("y[0] = (1, 2)", TYPE, "scalar"),
    ("with pl.section_vector(), pl.section_cube():\n    pass", SYNTAX, "one section"),
    ("with pl.section_vector() as s:\n    pass", UNSUPPORTED, "binds no name"),
    ("with pl.section_vector(1):\n    pass", UNSUPPORTED, "arguments"),
    ("with open('f'):\n    a = pl.section_vector", UNSUPPORTED, "is not available"),
    (
        "with pl.section_vector():\n    with pl.section_cube():\n        pass\nwith pl.section_cube():\n    pass",
        SYNTAX,
        "never runs",
    ),
]

EXPRESSIONS = [
    ("if 0 < n < 5:\n    pass", SYNTAX, "chain"),
    ("a = unknown", UNDEFINED, "`unknown` is not defined"),
    ("a = n if n > 2 else 1.0", TYPE, "ternary"),
    ("a = b'x'", TYPE, "bytes"),
    ("a = ...", TYPE, "ellipsis"),
    ("a = 1j", TYPE, "complex"),
    ("pl.printf(f'{n}')", UNSUPPORTED, "f-string"),
    ("a = (b := 1)", UNSUPPORTED, "assignment expression"),
    ("a = [*(1, 2)]", UNSUPPORTED, "starred"),
    ("a = {1: n}", UNSUPPORTED, "dict"),
    ("a = {1: 2}", TYPE, "Unsupported closure variable type: dict"),
    ("a = lambda: 1", UNSUPPORTED, "lambda"),
    ("a = [i * n for i in range(4)]", UNSUPPORTED, "comprehension"),
    ("a = n ** 2", UNSUPPORTED, "`**`"),
    ("a = x @ x", UNSUPPORTED, "`@`"),
    ("a = x + 1", TYPE, "scalars"),
    ("a = -x", TYPE, "scalar"),
    ("a = ~f", TYPE, "integer"),
    ("a = f & 1", SYNTAX, "integers"),
    ("a = f // 2.0", TYPE, "no device form"),
    ("a = n in n", SYNTAX, "`in` takes"),
    ("a = n in x", SYNTAX, "`in` takes"),
    ("a = x is None", TYPE, "pl.Ptr"),
    ("a = n is None", TYPE, "pl.Ptr"),
    ("a = (p + 1) is None", SYNTAX, "plain name"),
    ("a = p is 3", TYPE, "None only"),
    ("a = p - 1", UNSUPPORTED, "pointers"),
    ("a = p * 2", UNSUPPORTED, "pointers"),
    ("a = pl.ND < pl.DN", UNSUPPORTED, "does not apply"),
    ("a = 1 << 70", TYPE, "64 bits"),
    ("a = 99999999999999999999999", TYPE, "64 bits"),
    ("a = pl.min(n)", INVALID, "exactly two"),
    ("a = pl.max(n, 1, 2)", INVALID, "exactly two"),
    ("a = max(n)", INVALID, "`max` takes exactly two"),
    ("a = min(n, 1, 2)", INVALID, "`min` takes exactly two"),
    ("a = max(n, key=1)", INVALID, "`max` takes exactly two"),
    ("a = pl.min(x, 1)", INVALID, "scalars"),
    ("a = pl.const(n, pl.DT_INT32)", SYNTAX, "written out"),
    ("a = pl.const(1)", SYNTAX, "literal and a dtype"),
    ("a = pl.const(1, 5)", SYNTAX, "dtype"),
    ("a = pl.constexpr(True)", SYNTAX, "whole test"),
    ("if pl.constexpr(n > 1):\n    pass", SYNTAX, "compile time"),
    ("while pl.constexpr(True):\n    pass", SYNTAX, "`if` and ternaries"),
    ("a = abs(n)", UNSUPPORTED, "constants only"),
    ("a = print", UNSUPPORTED, "not a value"),
    ("print(n)", UNSUPPORTED, "pl.printf("),
    ("a = float(n)", UNSUPPORTED, "n * 1.0"),
    ("a = input()", UNSUPPORTED, "`input` of Python is not available in a kernel"),
    ("a = x.shape[n]", SYNTAX, "constant int"),
    ("a = x.shape[True]", SYNTAX, "constant int"),
    ("a = x.shape[2]", TYPE, "outside"),
    ("a = x.shape[-3]", TYPE, "outside"),
    ("a = x.dtype", UNSUPPORTED, "no attribute"),
    ("a = n.real", UNSUPPORTED, "no attribute"),
    ("a = (1, 2)[2]", SYNTAX, "outside"),
    ("a = (1, 2)[-1]", SYNTAX, "outside"),
    ("a = (1, 2)['q']", SYNTAX, "integer"),
    ("a = (1, 2.0)[n]", TYPE, "different types"),
    ("a = (1, 2)[0, 1]", SYNTAX, "one index"),
    ("a = x[n]", SYNTAX, "takes 2 indices"),
    ("a = x[0, 1, 2]", TYPE, "takes 2 indices"),
    ("a = x[0:4, 0:4]", SYNTAX, "cannot be sliced"),
    ("a = x[0, 1.5]", TYPE, "integer"),
    ("a = pl.no_such_thing(n)", SYNTAX, "unknown operation"),
    ("a = pl.MemorySpace.Vek", UNSUPPORTED, "no attribute `Vek`"),
    ("a = n.next()", TYPE, "tile groups"),
    ("a = (n + 1)(2)", UNSUPPORTED, "called"),
    ("a = n(2)", TYPE, "cannot be called"),
]

CONST_POSITIONS = [
    ("pl.TileType(shape=[n, 64], dtype=pl.DT_FP32)", FINAL, "compile-time int"),
    ("pl.make_tile(pl.TileType(shape=[], dtype=pl.DT_FP32), addr=0)", SYNTAX, "extents are positive, one at least"),
    ("pl.TileType(shape=[16.0, 64], dtype=pl.DT_FP32)", FINAL, "compile-time int"),
    ("pl.TileType(shape=[True, 64], dtype=pl.DT_FP32)", FINAL, "compile-time int"),
    ("pl.TileType(shape=[16, 64], dtype=5)", FINAL, "dtype"),
    ("pl.TileType([16, 64], pl.DT_FP32)", SYNTAX, "positional"),
    ("pl.TileType(shape=[16, 64], dtype=pl.DT_FP32, target_memory=1)", FINAL, "MemorySpace"),
    ("pl.TileType(shape=[16, 64], dtype=pl.DT_FP32, valid_shape=[17, 64])", SYNTAX, "valid extent"),
    ("pl.TileType(shape=[16, 64], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Left, layout=pl.ZZ)", SYNTAX, "Left"),
    ("t = pl.make_tile(tt, addr=n)", FINAL, "compile-time int"),
    ("t = pl.make_tile(tt)", TYPE, "addr"),
    ("t = pl.make_tile(tt, 0)", TYPE, "positional"),
    ("t = pl.make_tile(n, addr=0)", TYPE, "TileType"),
    ("t = pl.make_tile(tt, addr=0, size=0)", TYPE, "positive"),
    ("t = pl.make_tile(tt, addr=8)", SYNTAX, "multiple of 32"),
    ("t = pl.make_tile(tt, addr=-32)", SYNTAX, "negative"),
    ("q = pl.make_tile_group(tt, 0)", SYNTAX, "positional"),
    ("q = pl.make_tile_group(type=tt, addrs=0)", TYPE, "mutex_ids"),
    ("q = pl.make_tile_group(type=tt, addrs=0, depth=0)", TYPE, "positive"),
    ("q = pl.make_tile_group(type=tt, addrs=0, depth=True)", FINAL, "compile-time int"),
    ("q = pl.make_tile_group(type=tt, addrs=0, depth=3, mutex_ids=[0, 1])", TYPE, "2 tiles"),
    ("q = pl.make_tile_group(type=tt, addrs=[0], mutex_ids=[0, 1])", TYPE, "addresses"),
    ("q = pl.make_tile_group(type=tt, addrs=0, mutex_ids=[0, 32])", TYPE, "mutex id"),
    ("q = pl.make_tile_group(type=tt, addrs=0, mutex_ids=[[0, 0]])", TYPE, "different"),
    ("q = pl.make_tile_group(type=tt, addrs=0, mutex_ids=[[0, 1], 2])", TYPE, "equally many"),
    ("q = pl.make_tile_group(type=tt, mutex_ids=[0])", TYPE, "addrs"),
    ("a = g[2]", TYPE, "outside"),
    ("a = g[-1]", TYPE, "outside"),
    ("a = g[1.0]", TYPE, "integer"),
    ("a = g[0, 1]", TYPE, "one index"),
    ("a = g[0:1]", UNSUPPORTED, "sliced"),
    ("a = g.last()", UNSUPPORTED, "no method"),
    ("a = g.next(1)", SYNTAX, "no arguments"),
    ("pl.set_validshape(g.next(), [16])", SYNTAX, "[rows, cols]"),
    ("pl.set_validshape(g.next(), [0, 64])", SYNTAX, "from 1 to 16"),
    ("pl.set_validshape(g.next(), [16, 65])", SYNTAX, "from 1 to 64"),
    ("pl.set_validshape(g.next(), [16, 1.5])", FINAL, "integer"),
    ("pl.set_validshape(x, [16, 64])", SYNTAX, "tile"),
    (
        "s = pl.TileType(shape=[16, 64], dtype=pl.DT_FP32, valid_shape=[16, 64])\n"
        "pl.set_validshape(pl.make_tile(s, addr=0), [1, 1])",
        SYNTAX,
        "fixed",
    ),
    ("a = g.current().shape", UNSUPPORTED, "`.shape`"),
    ("a = g.current().valid_shape[2]", TYPE, "outside"),
    ("a = g.current() + 1", SYNTAX, "vector functions"),
    ("a = g.current()[0:4]", SYNTAX, "both axes"),
    ("a = g.current()[0:4, 1]", SYNTAX, "both axes"),
    ("a = g.current()[0:4:2, 0:8]", SYNTAX, "step"),
    ("a = g.current()[17:, 0:8]", SYNTAX, "past the extent"),
    ("a = g.current()[5]", SYNTAX, "takes 2 indices"),
]

OPS = [
    ("pl.add(g.next(), h.next())", SYNTAX, "misses 'rhs'"),
    ("pl.add(g.next(), h.next(), 1.0, 2)", SYNTAX, "positional arguments"),
    ("pl.add(g.next(), h.next(), rsh=1.0)", SYNTAX, "unexpected keyword argument 'rsh'"),
    ("pl.add(g.next(), h.next(), 1.0, rhs=1.0)", SYNTAX, "multiple values"),
    ("pl.add(*(1, 2))", SYNTAX, "starred"),
    ("pl.add(**n)", SYNTAX, "`**`"),
    ("pl.add(g, h.next(), 1.0)", SYNTAX, "take a slot with .next()"),
    ("pl.add(x, x, x)", SYNTAX, "a tile, found a tensor"),
    ("pl.load(g.next(), x, [0])", SYNTAX, "2 axes"),
    ("pl.load(g.next(), x, [-1, 0])", SYNTAX, "not negative"),
    ("pl.load(g.next(), x, [0, 0], order=[0, n])", FINAL, "compile-time"),
    ("pl.load(g.next(), x, [0, 0], order=[0, 0])", SYNTAX, "two different axes"),
    ("pl.load(g.next(), x, [0, 1.5])", TYPE, "integer"),
    ("pl.store(x, g.next(), [0, 0], atomic=1)", FINAL, "AtomicType"),
    ("m = 1\npl.store(x, g.next(), [0, 0], atomic=m)", FINAL, "AtomicType"),
    ("pl.store(x, g.next(), [0, 0], atomic=pl.RoundMode.CAST_RINT)", FINAL, "AtomicType"),
    ("pl.sum(g.next(), h.next(), h.next(), dim=n)", FINAL, "compile-time constant"),
    ("pl.sum(g.next(), h.next(), h.next(), dim='a')", SYNTAX, "is int"),
    ("a = pl.add(g.next(), h.next(), 1.0)", TYPE, "gives no value"),
    ("pl.system.sync_src(pl.PipeType.V, pl.PipeType.MTE2, 0)", SYNTAX, "positional"),
    ("pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.V, event_id=0)", SYNTAX, "both are V"),
    ("pl.system.sync_src(set_pipe=pl.PipeType.ALL, wait_pipe=pl.PipeType.V, event_id=0)", SYNTAX, "not ALL"),
    ("pl.system.sync_src(set_pipe=pl.PipeType.M, wait_pipe=pl.PipeType.V, event_id=0)", SYNTAX, "no pipe M"),
    ("pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.S, event_id=16)", SYNTAX, "from 0 to 15"),
    ("pl.system.sync_src(set_pipe=4, wait_pipe=pl.PipeType.S, event_id=1)", FINAL, "PipeType"),
    ("pl.system.bar_all(1)", SYNTAX, "positional"),
    ("pl.system.mutex_lock(pipe=pl.PipeType.V, mutex_id=32)", SYNTAX, "from 0 to 31"),
    ("pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=16)", SYNTAX, "from 0 to 15"),
    ("pl.system.sync_all([x])", SYNTAX, "HARD"),
    ("pl.system.sync_all(mode=pl.SyncAllMode.SOFT)", SYNTAX, "workspaces"),
    ("pl.matmul(g.next(), g.next(), g.next())", SYNTAX, "tile in"),
    ("pl.section_vector()", SYNTAX, "opened by `with`"),
    ("pl.range(4)", SYNTAX, "for"),
    ("pl.trap(1)", SYNTAX, "no arguments"),
    ("pl.printf(1)", SYNTAX, "text"),
    ("pl.printf('%d')", SYNTAX, "1 conversion, found 0 arguments"),
    ("pl.printf('%s', n)", SYNTAX, "no conversion"),
    ("pl.printf('%%')", SYNTAX, "no conversion"),
    ("pl.printf('%ld', n)", SYNTAX, "no conversion"),
    ("pl.printf('100%')", SYNTAX, "no conversion"),
    ("pl.printf('%.f', f)", SYNTAX, "no conversion"),
    ("pl.printf('%f', n)", SYNTAX, "does not take"),
    ("pl.printf('%99999999999d', n)", SYNTAX, "more than 1024 characters"),
    ("pl.printf('%.1025f', f)", SYNTAX, "more than 1024 characters"),
    ("pl.printf('%u', 3)", SYNTAX, "does not take"),
    ("pl.printf('%d', x)", SYNTAX, "scalars and pointers"),
    ("pl.printf('%d', n, loc=1)", SYNTAX, "True or False"),
    ("pl.pto_assert(n)", SYNTAX, "BOOL"),
    ("pl.dump_data(n)", SYNTAX, "tensor or a tile"),
    ("pl.dump_data(x, offsets=[0, 0])", SYNTAX, "together"),
    ("pl.dump_data(x, offsets=[0], shapes=[1])", SYNTAX, "entry per axis"),
    ("pl.dump_data(x, offsets=[0, 0], shapes=[0, 1])", SYNTAX, "positive"),
    ("pl.dump_data(x, workspace=x)", SYNTAX, "without a workspace"),
    ("v = pl.make_tensor(n, [4])", TYPE, "pointer or a tensor"),
    ("v = pl.make_tensor(p, [4, 4], [4])", SYNTAX, "entries"),
    ("v = pl.make_tensor(p, 4)", TYPE, "list of integers"),
    ("v = pl.make_ptr(n)", TYPE, "pointer or a tensor"),
    ("v = pl.addptr(x, 1)", TYPE, "takes a pointer"),
    ("pl.set_stride(x, [1])", SYNTAX, "[row, col]"),
    ("pl.set_stride(pl.make_tensor(p, [4, 4]), [1, 1])", SYNTAX, "name of a tensor"),
]

AGGREGATES = [
    ("s = pl.struct('S')", SYNTAX, "at least one"),
    ("s = pl.struct(n, a=1)", SYNTAX, "text literal"),
    ("s = pl.struct('1S', a=1)", SYNTAX, "identifier"),
    ("s = pl.struct('S', **n)", SYNTAX, "`**`"),
    ("s = pl.struct('S', a=x)", TYPE, "scalar, a list or a struct"),
    ("s = pl.struct('S', a=1)\nq = pl.struct('S', b=1)", TYPE, "another layout"),
    ("s = pl.struct('S', a=1)\ns.b = 1", TYPE, "no field `b`"),
    ("s = pl.struct('S', a=1)\nq = s.b", UNSUPPORTED, "no field `b`"),
    ("s = pl.struct('S', a=1)\nq = s.a[0]", TYPE, "cannot be subscripted"),
    ("s = pl.struct('S', a=1)\ns.a[0] = 1", TYPE, "no items"),
    ("s = pl.struct('S', a=[1, 2])\nq = s.a[2]", SYNTAX, "outside"),
    ("s = pl.struct('S', a=[1, 2])\nq = s.a[-1]", SYNTAX, "outside"),
    ("s = pl.struct('S', a=[1, 2])\ns.a[2] = 1", SYNTAX, "outside"),
    ("s = pl.struct('S', a=[1, 2])\ns.a[0, 1] = 1", SYNTAX, "one index"),
    ("s = pl.struct('S', a=[1, 2])\ns.a = [1]", SYNTAX, "2 elements"),
    ("s = pl.struct('S', a=[1, 2])\ns.a = 1", TYPE, "takes a list"),
    ("s = pl.struct('S', a=[1, 2.0])", TYPE, "different kinds"),
    ("s = pl.struct_array(n, 'S', a=1)", SYNTAX, "int literal"),
    ("s = pl.struct_array(0, 'S', a=1)", SYNTAX, "at least 1"),
    ("s = pl.struct_array(2, n, a=1)", SYNTAX, "text literal"),
    ("s = pl.struct_array(2, 'S')", SYNTAX, "at least one"),
    ("s = pl.struct_array(2, 'S', a=1)\nq = s[2].a", SYNTAX, "outside"),
    ("s = pl.struct_array(2, 'S', a=1)\nfor q in s:\n    pass", SYNTAX, "pl.range"),
    ("t = pl.make_tuple(n)", SYNTAX, "keywords only"),
    ("t = pl.make_tuple()", SYNTAX, "at least one"),
    ("t = pl.make_tuple(a=n)\nq = t.b", UNSUPPORTED, "no field `b`"),
    ("t = pl.make_tuple(a=n)\nq = t['a']", SYNTAX, "integer"),
    ("t = pl.make_tuple(a=n)\nq = t.a.b", UNSUPPORTED, "no attribute"),
]

ROWS = [*STATEMENTS, *EXPRESSIONS, *AGGREGATES]


@pytest.mark.parametrize(("body", "kind", "text"), ROWS, ids=[row[0].replace("\n", "; ") for row in ROWS])
def test_rejected(body: str, kind: type[errors.ParserError], text: str) -> None:
    error = rejected(body)
    assert type(error) is kind, error
    assert text in f"{error.message} {error.hint}"
    assert error.span is not None


TILE_ROWS = [*CONST_POSITIONS, *OPS]


@pytest.mark.parametrize(("body", "kind", "text"), TILE_ROWS, ids=[row[0].replace("\n", "; ") for row in TILE_ROWS])
def test_rejected_with_tiles(body: str, kind: type[errors.ParserError], text: str) -> None:
    error = rejected(f"{TILES}\n{body}")
    assert type(error) is kind, error
    assert text in error.message
    assert error.span is not None
    assert error.span["line"] > 10  # behind the declarations: the offending line itself


PARAMETERS = [
    ("x", TYPE, "no annotation"),
    ("x: int", TYPE, "no kernel annotation"),
    ("x: tuple[int, int], z: pl.DT_INT32", TYPE, "no kernel annotation"),
    ("x: pl.DT_INT32, y: 3", TYPE, "no kernel annotation"),
    ("x: DT_INT32", TYPE, "written as `pl.DT_INT32`"),
    ("x: pl.DT_HF8", TYPE, "cannot be hf8"),
    ("x: pl.DT_FP4", TYPE, "cannot be fp4"),
    ("x: pl.Scalar[pl.DT_INT32]", TYPE, "no kernel annotation"),
    ("x: Data, y: pl.DT_INT32", SYNTAX, "last one"),
    ("x: Data, y: Data", SYNTAX, "one tiling parameter"),
    ("*x: pl.DT_INT32", SYNTAX, "plain parameters"),
    ("y: pl.DT_INT32, *, x: pl.DT_INT32", SYNTAX, "plain parameters"),
]


@pytest.mark.parametrize(("params", "kind", "text"), PARAMETERS, ids=[row[0] for row in PARAMETERS])
def test_rejected_parameters(params: str, kind: type[errors.ParserError], text: str) -> None:
    before = "from dataclasses import dataclass\nDT_INT32 = pl.DT_INT32\n@dataclass\nclass Data:\n    a: int"
    error = rejected("pass", before, f"{params}, z: pl.DT_INT32" if "," not in params and "*" not in params else params)
    assert type(error) is kind, error
    assert text in error.message


def test_return_annotation() -> None:
    scope = kernel_text.module("@pl.jit\ndef k(n: pl.DT_INT32) -> int:\n    pass\n")
    with pytest.raises(SYNTAX, match="returns nothing"):
        kernel_text.parse_kernel(scope["k"].source, kernel_text.Specialisation())


SECTION_ROWS = [
    ("pl.add(g.next(), g.next(), 1.0)", "", "outside any section"),
    ("with pl.section_cube():\n    pl.add(g.next(), g.next(), 1.0)", "", "cube code"),
    ("with pl.section_cube():\n    pl.load(g.next(), x, [0, 0])", "", "cube code"),
    ("with pl.section_cube():\n    v(g.next())", "@pl.vector_function\ndef v(t):\n    pass", "cube code"),
    ("v(g.next())\nwith pl.section_vector():\n    pass", "@pl.vector_function\ndef v(t):\n    pass", "both core kinds"),
]


@pytest.mark.parametrize(("body", "before", "text"), SECTION_ROWS, ids=[row[0] for row in SECTION_ROWS])
def test_op_of_the_other_core(body: str, before: str, text: str) -> None:
    marker = "" if "section_" in body else "\nwith pl.section_vector():\n    pass"
    error = rejected(TILES + "\n" + body + marker, before)
    assert type(error) is SYNTAX
    assert text in error.message
    assert "section_vector" in (error.hint or "")


def test_hints_name_the_nearest() -> None:
    assert rejected("a = nn").hint == "did you mean `n`?"
    assert rejected("pl.lod(x, x, [0, 0])").hint == "did you mean `pl.load`?"
    assert "write `pl.AtomicType.AtomicAdd`" in str(rejected(TILES + "\npl.store(x, g.next(), [0, 0], atomic=1)"))
    assert "0 < n and n < 5" in (rejected("if 0 < n < 5:\n    pass").hint or "")


def test_foreign_exceptions_keep_their_cause_and_name_the_kernel() -> None:
    error = rejected(TILES + "\npl.load(g.next(), x, [0])")
    assert isinstance(error.__cause__, ValueError)
    assert "kernel `k`" in error.message
    assert "ValueError" in error.message
    assert isinstance(rejected("pl.add(q=1)").__cause__, TypeError)


def test_misaligned_slot_has_its_own_code() -> None:
    error = rejected(TILES + "\nq = pl.make_tile_group(type=tt, addrs=[0, 0x1010], mutex_ids=[0, 1])")
    assert error.diagnostic.code == "M102"
