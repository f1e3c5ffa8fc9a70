"""The language reference's front end (frontend 0 to 12), rule by rule where no other test has it: what it accepts, what
it gives, what it rejects."""
# long file: a table, one row a rule, in the order of the reference

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_text import TILES, N, X, kernel_of, read, run

import pypto_pro
from pypto_pro.diag import errors
from pypto_pro.ops.table import all_ops

SYNTAX, TYPE, FINAL = errors.ParserSyntaxError, errors.ParserTypeError, errors.FinalRejectionError
UNDEFINED, UNSUPPORTED, INVALID = (
    errors.UndefinedVariableError, errors.UnsupportedFeatureError, errors.InvalidOperationError,
)  # fmt: skip
FLAT = f"{X}, {N}, p: pl.Ptr[pl.DT_FP32], f: pl.DT_FP32, b: pl.DT_BOOL, y: pl.Tensor[[128], pl.DT_INT32]"
BEFORE = """
import functools
import numpy
import pypto_pro.language as other
from types import SimpleNamespace
SHAPE = [16, 64]
NESTED = [[1, 2], [3, 4]]
FLAGS = (True, False)
DT = pl.DT_FP32
MODES = [pl.RoundMode.CAST_RINT]
cfg = SimpleNamespace(m=4, d={"k": 8}, l=[1, 2])
ZEROS = [0] * 100
def twice(v):
    return v * 2
def nothing(v):
    v = v + 1
def pair(a, b=3):
    return a, b
def sees_global():
    return SHAPE[0]
def logged(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        raise AssertionError("the device knows nothing of decorators")
    return inner
@logged
def decorated(v, by=2):
    return v * by
@functools.lru_cache
@logged
def twice_decorated(v):
    return v + 1
def starred(v, *rest):
    return v
def keyed(v, *, k=1):
    return v
def early(v, /):
    return v
async def later(v):
    return v
def yielding(v):
    yield v
shorter = functools.partial(pair, 1)
nameless = lambda v: v
def typed_float(v: pl.DT_FP32):
    return v
def typed_tensor(v: pl.Tensor[[pl.STATIC, 32], pl.DT_FP32]):
    return v[0, 0]
NUMPY = numpy.int64(3)
class Plain:
    @staticmethod
    def method(v):
        return v
obj = Plain()
TEXT = "abc"
"""

REJECTED = [
    # --- 0, 0.1: the fallback as Python ---
    ("c = str(3)", UNSUPPORTED, "`str`"),
    ("c = sorted([2, 1])", UNSUPPORTED, "`sorted`"),
    ("c = range(3)", TYPE, "Unsupported closure variable type: range"),
    ("c = 'a' + 'b'", TYPE, "Unsupported closure variable type: str"),
    ("c = {1, 2}", TYPE, "Unsupported closure variable type: set"),
    ("c = slice(1)", UNSUPPORTED, "`slice`"),
    ("c = obj", TYPE, "Unsupported closure variable type: Plain"),
    ("c = [TEXT]", TYPE, "str"),
    ("c = twice(n) ** 2", UNSUPPORTED, "`**`"),
    ("SHAPE_ = n\nc = SHAPE_ ** 2", UNSUPPORTED, "`**`"),
    ("SHAPE = n\nc = SHAPE ** 2", UNSUPPORTED, "`**`"),
    ("c = len(n)", UNSUPPORTED, "`len`"),
    ("c = cfg.q", UNSUPPORTED, "no attribute `q`"),
    ("c = cfg.d['z']", TYPE, "dict"),
    # --- 1: functions ---
    ("k2 = lambda v: v", UNSUPPORTED, "lambda"),
    ("c = cfg.m(3)", UNSUPPORTED, ""),
    ("c = nothing(n)", TYPE, "gives no value"),
    # --- 3: statements ---
    ("async def g():\n    pass", UNSUPPORTED, ""),
    ("x.y = 3", TYPE, ""),
    ("n.q += 1", UNSUPPORTED, ""),
    ("(a, b) = (n, n, n)", TYPE, "found 3"),
    ("a, b.c = (n, n)", SYNTAX, "simple names"),
    ("y[0], a = (n, n)", SYNTAX, "simple names"),
    ("s = pl.struct('S', v=1)\ns.v: pl.DT_INT32 = 3", SYNTAX, "simple name"),
    # --- 4: expressions ---
    ("c = None + 1", TYPE, "None"),
    ("c = 'abc'\npl.add(c, c, c)", SYNTAX, "tile"),
    ("c = (yield)", UNSUPPORTED, "yield"),
    ("c = n in SHAPE_NO", UNDEFINED, "SHAPE_NO"),
    ("c = -p", TYPE, ""),
    ("c = not p", TYPE, ""),
    ("c = p and n", TYPE, ""),
    ("c = x or n", TYPE, ""),
    ("c = n + p", TYPE, ""),
    ("c = p / 2", UNSUPPORTED, "pointers"),
    ("c = 1.5 & 1", SYNTAX, "integers"),
    ("c = 1.5 << 1", SYNTAX, "integers"),
    ("c = ~1.5", TYPE, "integer"),
    ("c = f ^ f", SYNTAX, "integers"),
    ("c = pl.const(1, dtype=pl.DT_INT32)", SYNTAX, ""),
    ("c = pl.const(1 + 1, pl.DT_INT32)", SYNTAX, "written out"),
    ("c = pl.const('a', pl.DT_INT32)", SYNTAX, ""),
    ("c = pl.const(--1, pl.DT_INT32)", SYNTAX, "written out"),
    ("c = pl.max(n, b=1)", INVALID, "exactly two"),
    ("c = pl.min()", INVALID, "exactly two"),
    ("c = pl.min(g.next(), 1)", UNDEFINED, ""),
    # --- 6: conditions ---
    ("pl.constexpr(True)", SYNTAX, "whole test"),
    ("with pl.constexpr(True):\n    pass", UNSUPPORTED, ""),
    ("if pl.constexpr(True) and True:\n    pass", SYNTAX, "whole test"),
    ("if pl.constexpr(True, False):\n    pass", SYNTAX, ""),
    ("if constexpr(n > 1):\n    pass", SYNTAX, "compile time"),
    ("c = 1 if pl.constexpr(n > 1) else 2", SYNTAX, "compile time"),
    ("if x:\n    pass", TYPE, "a condition is a scalar"),
    ("if p:\n    pass", TYPE, "a condition is a scalar"),
    ("c = x if n > 1 else y", TYPE, "Tensor([64, 64], fp32) on one path and a tensor Tensor([128], int32)"),
    ("c = (1, 2) if n > 1 else (1, 2.0)", TYPE, ""),
    ("c = (1, 2) if n > 1 else 1", TYPE, "one type"),
    ("c = pl.DT_FP32 if n > 1 else pl.DT_FP16", TYPE, ""),
    # --- 7: loops, sections ---
    ("for i in pl.range(n), 3:\n    pass", SYNTAX, "pl.range"),
    ("for y[0] in pl.range(3):\n    pass", SYNTAX, "simple name"),
    ("for i in pl.range(*(1, 2)):\n    pass", SYNTAX, ""),
    ("s = pl.struct_array(2, 'S', v=1)\nfor q in s:\n    pass", SYNTAX, "pl.range"),
    ("for i in zip((1, 2), (3, 4)):\n    pass", SYNTAX, "pl.range"),
    ("with pl.section_vector:\n    pass", UNSUPPORTED, ""),
    ("with pl.section_vector(), x:\n    pass", SYNTAX, "one section"),
    # --- 8: aggregates ---
    ("t = pl.make_tuple(**{'a': 1})", SYNTAX, ""),
    ("t = pl.make_tuple(a=1)\nt.a += 1", SYNTAX, "immutable"),
    ("t = (n, n)\nt[n] = 1", TYPE, "immutable"),
    ("t = (n, n)\nc = t[1.5]", SYNTAX, "integer"),
    ("t = (n, n)\nc = t[True]", SYNTAX, "integer"),
    ("t = (n, n)\nc = t[0:1]", TYPE, "cannot be sliced"),
    ("t = NESTED[n]", TYPE, "constant indices only"),
    ("s = pl.struct('S', 3, v=1)", SYNTAX, ""),
    ("s = pl.struct('S', v='a')", TYPE, "scalar"),
    ("s = pl.struct('S', v=[])", TYPE, "found a tuple of 0"),
    ("s = pl.struct('S', v=p)", TYPE, "scalar"),
    ("s = pl.struct('S', v=[1, 2])\ns.v = [1, 2, 3]", SYNTAX, "2 elements"),
    ("s = pl.struct('S', v=[1, 2])\nc = s.v[0:1]", SYNTAX, ""),
    ("s = pl.struct('S', v=[1, 2])\nc = s.v[1.0]", SYNTAX, "integer"),
    ("s = pl.struct('S', v=[1, 2])\ns.v[1.0] = 3", SYNTAX, "integer"),
    ("s = pl.struct('S', v=1)\nt = pl.struct('S', v=1.0)", TYPE, "another layout"),
    ("s = pl.struct_array(True, 'S', v=1)", SYNTAX, "int literal"),
    ("s = pl.struct_array(2 + 1, 'S', v=1)", SYNTAX, "int literal"),
    ("s = pl.struct_array(2, 'S', **cfg.d)", SYNTAX, ""),
    ("s = pl.struct_array(2, 'S', v=1)\nc = s[-1].v", SYNTAX, "outside"),
    ("s = pl.struct_array(2, 'S', v=1)\nc = s[0:1]", SYNTAX, ""),
    ("s = pl.struct_array(2, 'S', v=1)\nc = s[0, 1]", SYNTAX, "one index"),
    ("s = pl.struct_array(2, 'S', v=1)\nc = len(s)", UNSUPPORTED, "`len`"),
    ("s = pl.struct_array(2, 'S', v=1)\ns.append(1)", UNSUPPORTED, "no method"),
    ("s = pl.struct_array(2, 'S', v=1)\ns[2].v = 3", SYNTAX, "outside"),
    ("s = pl.struct_array(2, 'S', v=1)\ns[0].w = 3", TYPE, "no field"),
    ("i = pl.struct('I', v=1)\nt = pl.make_tuple(q=1)\ns = pl.struct('S', a=t)\n"
     "c = s.a.q", UNSUPPORTED, "no attribute `q`"),
    # --- 9: helpers ---
    ("c = twice()", TYPE, "takes 1"),
    ("c = twice(n, n)", TYPE, "takes 1"),
    ("c = twice(v=n)", SYNTAX, "keyword"),
    ("c = pair(*(1, 2))", SYNTAX, "starred"),
    ("c = other.twice(n)", SYNTAX, "unknown operation"),
    ("c = obj.method(n)", UNSUPPORTED, ""),
    ("c = starred(n)", SYNTAX, "starred parameters"),
    ("c = keyed(n)", SYNTAX, "keyword-only"),
    ("c = early(n)", SYNTAX, "positional-only"),
    ("c = later(n)", SYNTAX, "not defined by a plain `def`"),
    ("c = yielding(n)", UNSUPPORTED, "yield"),
    ("c = nameless(n)", SYNTAX, "not defined by a plain `def`"),
    ("c = shorter(n)", UNSUPPORTED, "cannot be called"),
    ("c = Plain(n)", UNSUPPORTED, "cannot be called"),
    ("c = Plain.method(n)", UNSUPPORTED, "no operation"),
    ("c = typed_float(n)", TYPE, "annotated fp32, found a run-time int32 scalar"),
    ("c = typed_tensor(x)", TYPE, "axis 1 is 32, found a tensor Tensor([64, 64], fp32)"),
    ("c = NUMPY", TYPE, "int64"),
    # --- 10: names ---
    ("c = NOWHERE", UNDEFINED, "`NOWHERE` is not defined"),
    ("c = NESTED[n][0]", TYPE, "constant indices only"),
    # --- 11: shapes ---
    ("c = x.shape[1.0]", SYNTAX, "constant int"),
    ("c = x.shape[0:1]", SYNTAX, ""),
    ("c = x.shape[0, 1]", SYNTAX, ""),
    ("v = pl.make_tensor(p, [n, f])", TYPE, ""),
    ("v = pl.make_tensor(p, [n], dtype=3)", FINAL, "dtype"),
    # --- 12.2: elements ---
    ("c = x[1]", SYNTAX, "takes 2 indices"),
    ("x[1] = 2", SYNTAX, "takes 2 indices"),
    ("c = y[1, 2]", TYPE, "takes 1 ind"),
    ("x[0, 0] = (1, 2)", TYPE, "scalar"),
    ("x[0, f] = 1", TYPE, "integer"),
]  # fmt: skip


def named(rows: list[Any]) -> list[Any]:
    return [pytest.param(*row, id=row[0].replace("\n", "; ")) for row in rows]


@pytest.mark.parametrize(("body", "kind", "text"), named(REJECTED))
def test_rejected(body: str, kind: type[errors.ParserError], text: str) -> None:
    with pytest.raises(errors.ParserError) as caught:
        read(body, FLAT, BEFORE)
    assert type(caught.value) is kind, caught.value
    assert text in caught.value.message
    assert caught.value.span is not None


ACCEPTED = [
    # --- 0, 0.1 ---
    "c = 2 ** 10 + len(SHAPE) + sum(SHAPE)",
    "c = [i * 2 for i in range(4)][2]",
    "c = cfg.d['k'] + cfg.l[1] + cfg.m",
    "t = pl.TileType(shape=[twice(8), cfg.d['k']], dtype=DT)",
    "c = max([i for i in range(5) if i % 2])",
    "c = isinstance(3, int)",
    "c = (3 if FLAGS[0] else 4) ** 2",
    # --- 1 ---
    "def_ = 1\n'text'\n'another'",
    "return\nc = NOWHERE",
    "if n > 1:\n    return None\nc = 1",
    # --- 3 ---
    "a = 1\na = 2.0\na = x\na = 'text'",
    "a: int = 1\na: 'whatever' = 2.5",
    "a, b = n, f\na, b = b, a",
    "_, a = (n, f)\na, _ = pair(n)",
    "c = n\nc += 1\nc //= 2\nc <<= 1\nc %= 3\nc |= 1\nc &= 7\nc ^= 1\nc -= 1\nc *= 2\nc >>= 1",
    "y[n] += 1\nx[n, 0] *= 2.0",
    "pass\n3\nn + 1\nnothing(n)",
    # --- 4 ---
    "v = None\nif n > 1:\n    v = 3\nelse:\n    v = 4\nw = v",
    "c = n not in (1, 2, SHAPE[0])\nd = n in SHAPE\ne = n in pl.range(4)\ng_ = n in []",
    "c = p is None\nd = p is not None",
    "c = +x\nd = +p",
    "c = ()\nd = []",
    "q = p + n\nr = pl.addptr(p, n)\nv = pl.make_tensor(q, [n, 4])",
    "c = pl.DT_FP32 == DT\nd = pl.ND != pl.DN\ne = DT in (pl.DT_FP32, pl.DT_FP16)",
    "c = n > 1 and f > 1.0 or not b",
    "c = min(n, f)\nd = max(1, n)\ne = pl.max(f, 2)",
    # --- 6 ---
    "if n:\n    pass\nif f:\n    pass\nif b:\n    pass",
    "if DT == pl.DT_FP32:\n    a = 1\nelse:\n    a = NOWHERE\nc = a",
    "if constexpr(len(SHAPE) == 2):\n    pass\nelif pl.constexpr(NOWHERE):\n    pass",
    "if n > 1:\n    s = pl.struct('S', v=1)\nelse:\n    s = pl.struct('S', v=2)\nc = s.v",
    "a = (1, 2)\nif n > 1:\n    a = (3, 4)\nc = a[0]",
    "c = pl.DT_FP32 if FLAGS[0] else NOWHERE",
    # --- 7 ---
    "for i in pl.range(4 / 2):\n    pass\nc = i",
    "for i in pl.range(5, n, -1):\n    i = 3",
    "for i in other.range(n):\n    pass",
    "while True:\n    if n > 0:\n        break",
    "while False:\n    c = 1",
    "for i in pl.range(4):\n    while n > i:\n        if n > 2:\n            continue\n        break",
    # --- 8 ---
    "t = pl.make_tuple(a=n, v=x, q=p, inner=pl.make_tuple(l=(1, 2)))\nc = t.inner.l[0] + t.a + t[0]",
    "s = pl.struct('S', v=n, w=1.5, l=[1, 2], z=ZEROS, k=[True, False], t=pl.struct('T', u=n))\n"
    "s.l = [3, 4]\ns.t.u = 5\ns.z[n] = 1\nc = s.t.u + s.z[99]",
    "r = pl.struct_array(3, 'R', v=0, l=[1, 2])\nr[n].l[1] = 4\nq = r[1]\nq.v = 3\nc = r[n].l[n]",
    "a = x\nb_ = a\na = y\nc = b_[0, 0] + a[0]",
    # --- 9 ---
    "c = twice(n) + twice(2.5) + pair(n)[1]",
    "c = sees_global()",
    "c = decorated(n, 3) + twice_decorated(n) + decorated(2)",
    "c = Plain.method(3) + 1",
    # --- 10 ---
    "c = SHAPE[n] + SHAPE[1]\nd = NESTED[1][0]",
    "c = SHAPE[0]\nSHAPE = c\nd = SHAPE + 1",
    "a = n\nn = 5\nc = n + a",
    # --- 11 ---
    "r, c = x.shape\nd = x.shape[-1] + x.shape[0]",
    "v = pl.make_tensor(p, [n, n + 1], [n, 1], pl.DT_INT32)\nc = v.shape[1]",
]


@pytest.mark.parametrize("body", ACCEPTED, ids=[row.replace("\n", "; ") for row in ACCEPTED])
def test_accepted(body: str) -> None:
    assert read(body, FLAT, BEFORE).programs


VALUES = [
    # body over n = 5, m = -7 (INT64); what out[0, :] holds
    # --- 0: one evaluation, left to right ---
    ("s = pl.struct('S', v=0)\nout[0, 0] = step(s) * 10 + step(s)\nout[0, 1] = s.v", [12, 2]),
    ("out[0, 0] = 3\nout[0, out[0, 0]] += 4\nout[0, 1] = out[0, 3]", [3, -95, -99, -95]),
    # --- 3 ---
    ("a, b = n, m\na, b = b, a\nout[0, 0] = a\nout[0, 1] = b", [-7, 5]),
    ("a: pl.DT_INT32 = 5000000000\nout[0, 0] = a", [5000000000]),
    ("a = n\na += a\na -= 1\nout[0, 0] = a", [9]),
    # --- 5.2: device integers truncate, constants floor; wrapping ---
    ("out[0, 0] = m // 2\nout[0, 1] = m % 2\nout[0, 2] = m // -2\nout[0, 3] = n % -3", [-3, -1, 3, 2]),
    ("c = -7\nout[0, 0] = c // 2\nout[0, 1] = c % 2\nout[0, 2] = c // -2\nout[0, 3] = 5 % -3", [-4, 1, 3, -1]),
    ("out[0, 0] = (n << 62) + (n << 62)\nout[0, 1] = m >> 1\nout[0, 2] = m >> 70\n"
     "out[0, 3] = n << 64", [-(2**63), -4, -1, 0]),
    ("out[0, 0] = n // 0\nout[0, 1] = n % 0", [0, 5]),
    ("i = pl.const(120, pl.DT_INT8)\nfor k in pl.range(1):\n"
     "    i = i + pl.const(n, pl.DT_INT8) if False else i\nout[0, 0] = i", [120]),
    ("out[0, 0] = n / 2 * 2\nout[0, 1] = 5 / 2 * 2", [5, 5]),
    ("out[0, 0] = -m\nout[0, 1] = ~n\nout[0, 2] = +m\nout[0, 3] = ~True", [7, -6, -7, -2]),
    ("t = n > 3\nout[0, 0] = t + t\nout[0, 1] = -t\nout[0, 2] = ~t\nout[0, 3] = t", [2, -1, -2, 1]),
    # --- 5.4: results are BOOL ---
    ("out[0, 0] = n and 7\nout[0, 1] = 0 or n\nout[0, 2] = not n\nout[0, 3] = 2 and 0", [1, 1, 0, 0]),
    ("s = pl.struct('S', v=0)\nc = n < 0 and step(s) > 0\nout[0, 0] = s.v\nout[0, 1] = c", [1, 0]),
    ("s = pl.struct('S', v=0)\nc = step(s) if n < 0 else 9\nout[0, 0] = s.v\nout[0, 1] = c", [0, 9]),
    # --- 5.5 ---
    ("out[0, 0] = pl.const(3.9, pl.DT_INT32)\nout[0, 1] = pl.const(-3.9, pl.DT_INT64)\n"
     "out[0, 2] = pl.const(2, pl.DT_BOOL)", [3, -3, 1]),
    ("out[0, 0] = min(n, m)\nout[0, 1] = max(n, m, )\nout[0, 2] = pl.min(2, n)\n"
     "out[0, 3] = max(n, 7.5) * 2", [-7, 5, 2, 15]),
    ("out[0, 0] = 2.9\nout[0, 1] = -2.9\nout[0, 2] = n * 1.5", [2, -2, 7]),
    # --- 4: membership ---
    ("out[0, 0] = n in (1, 5)\nout[0, 1] = n not in (1, 5)\nout[0, 2] = n in pl.range(1, 9, 2)\n"
     "out[0, 3] = m in pl.range(-9, 0, 2)", [1, 0, 1, 1]),
    ("out[0, 0] = n in []\nout[0, 1] = n not in ()\nout[0, 2] = 6 in pl.range(0, 10, 4)", [0, 1, 0]),
    # --- 6 ---
    ("a = 1\nif n > 3:\n    a = 2\nout[0, 0] = a\nif m:\n    out[0, 1] = 1\nif n - 5:\n"
     "    out[0, 2] = 1", [2, 1, -99]),
    ("a = pl.const(3, pl.DT_INT32)\nif n > 3:\n    a = n * 1000000000\nout[0, 0] = a", [5000000000]),
    # --- 7 ---
    ("c = 0\nfor i in pl.range(n):\n    i = i + 100\n    c += 1\nout[0, 0] = c\nout[0, 1] = i", [5, 104]),
    ("c = 0\nk = n\nfor i in pl.range(k):\n    k = 0\n    c += 1\nout[0, 0] = c", [5]),
    ("c = 0\nfor i in pl.range(n, 0, -2):\n    c = c * 10 + i\nout[0, 0] = c", [531]),
    ("i = 42\nfor i in pl.range(m):\n    pass\nout[0, 0] = i", [42]),
    ("c = 0\nwhile True:\n    c += 1\n    if c == 3:\n        continue\n    if c > n:\n        break\n"
     "out[0, 0] = c", [6]),
    ("for i in pl.range(3):\n    for j in pl.range(3):\n        if j == 1:\n            break\n"
     "        out[0, i] = j + i\n    else_ = 1", [0, 1, 2]),
    # --- 8 ---
    ("t = (n, m, 3)\nfor i in pl.range(3):\n    out[0, i] = t[i]", [5, -7, 3]),
    ("s = pl.struct('S', v=1, l=[1, 2])\nt = s\nt.v = 9\nt.l[1] = 4\nout[0, 0] = s.v + s.l[1]", [13]),
    ("r = pl.struct_array(3, 'R', v=0)\nq = r[n - 4]\nq.v = 6\nout[0, 0] = r[1].v\nout[0, 1] = r[0].v", [6, 0]),
    ("for i in pl.range(2):\n    s = pl.struct('S', v=1)\n    s.v += i\n    out[0, i] = s.v", [1, 2]),
    ("s = pl.struct('S', v=1)\nchange(s, n)\nout[0, 0] = s.v", [5]),
    ("s = pl.struct('S', v=1)\ns.v = 2.9\nout[0, 0] = s.v", [2]),
    # --- 9 ---
    ("a = n\nout[0, 0] = halves(a)\nout[0, 1] = a", [2, 5]),
    ("out[0, 0] = defaults(n)\nout[0, 1] = defaults(n, 1)", [15, 6]),
    # --- 10 ---
    ("out[0, 0] = TABLE[n - 4]\nTABLE = (9, 9, 9)\nout[0, 1] = TABLE[n - 4]", [20, 9]),
]  # fmt: skip
HELPERS = """
TABLE = [10, 20, 30]
STEP = 10
def step(s):
    s.v += 1
    return s.v
def change(s, v):
    s.v = v
def halves(v):
    v = v // 2
    return v
def defaults(a, b=STEP):
    return a + b
"""


@pytest.mark.parametrize(("body", "wanted"), VALUES, ids=[row[0].replace("\n", "; ") for row in VALUES])
def test_values(body: str, wanted: list[int]) -> None:
    found = run(body, 5, -7, params="n: pl.DT_INT64, m: pl.DT_INT64", before=HELPERS)
    assert found[: len(wanted)].tolist() == wanted


# --- 12.3: keywords that take members of enumerations -----------------------------------------------------------------

GUARDED = frozenset(
    "phase atomic mode relu_pre_mode acc_to_vec_mode sync_mode core_type cache_line dst target_memory dtype "
    "target_type out_dtype cmp_dtype pattern merge_mode reduce_mode reduce_type pos layout round_mode saturate "
    "bin_type hist_type gather_mode part width dist data_copy_mode index_order".split()
)
ENUM_KEYWORDS = [(entry, p) for entry in all_ops() for p in entry.keywords if getattr(p.spec, "enum", None) is not None]
NUMBERS = ["1", "m", "HELD", "number()", "1 if FLAG else 2", "True", "1.0"]
NUMBER_NAMES = "HELD = 1\nFLAG = True\ndef number():\n    return 1\n"


def test_the_guarded_keywords_of_the_table_are_the_languages() -> None:
    assert {p.name for _, p in ENUM_KEYWORDS} <= GUARDED
    plain = {p.name for entry in all_ops() for p in entry.keywords} - {p.name for _, p in ENUM_KEYWORDS}
    assert not plain & (GUARDED - {"dst", "mode", "pos", "part"})


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_no_members_of_enumerations(number: str) -> None:
    wrong = []
    for entry, param in ENUM_KEYWORDS:
        given = ["x" for p in entry.params if p.required and not p.keyword_only] + [f"{param.name}={number}"]
        given += [f"{p.name}=pl.DT_FP32" for p in entry.keywords if p.required and p is not param]
        call = f"{entry.key if entry.key.startswith('vf.') else 'pl.' + entry.key}({', '.join(given)})"
        is_register = entry.key.startswith("vf.")
        if is_register and number == "number()":
            continue  # vector functions call no helpers
        body = f"m = 1\n{'r = ' if is_register else ''}{call}"
        before = NUMBER_NAMES
        if is_register:
            before += f"@pl.vector_function\ndef v(x):\n    m = 1\n    r = {call}\n"
            body = "v(x)"
        try:
            read(body, FLAT, before)
        except FINAL as error:
            if param.name not in error.message:
                wrong.append((call, error.message))
        except errors.ParserError as error:
            wrong.append((call, f"{type(error).__name__}: {error.message}"))
        else:
            wrong.append((call, "accepted"))
    assert wrong == []


# --- 13: debug statements ---------------------------------------------------------------------------------------------

SCALARS = (
    "b: pl.DT_BOOL, i8: pl.DT_INT8, u8: pl.DT_UINT8, i64: pl.DT_INT64, u32: pl.DT_UINT32, f: pl.DT_FP32, "
    "p: pl.Ptr[pl.DT_FP32], x: pl.Tensor[[16, 64], pl.DT_FP32], y: pl.Tensor[[8], pl.DT_INT32]"
)
CONVERSIONS = {
    # conversion: what it takes (scalars of SCALARS and literals)
    "d": {"b", "i8", "i64", "3", "b + 0", "x.shape[0]", "for_", "pl.const(1, pl.DT_INT8)", "True"},
    "i": {"b", "i8", "i64", "3", "b + 0", "x.shape[0]", "for_", "pl.const(1, pl.DT_INT8)", "True"},
    "u": {"u8", "u32", "b", "True", "for_", "x.shape[0]"},
    "x": {"u8", "u32", "for_", "x.shape[0]"},
    "f": {"f", "1.5", "f * 2"},
    "p": {"p", "p + 1"},
}
VALUES_PRINTED = sorted(set().union(*CONVERSIONS.values()) | {"x", "'s'", "y"})


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_what_a_conversion_takes(conversion: str) -> None:
    wrong = []
    for value in VALUES_PRINTED:
        body = f"for for_ in pl.range(2):\n    pl.printf('%-+08.3{conversion}\\n', {value})"
        try:
            read(body, SCALARS)
            accepted = True
        except errors.ParserSyntaxError as error:
            accepted = False
            if not isinstance(error.__cause__, TypeError):
                wrong.append((value, error.message))
        if accepted is not (value in CONVERSIONS[conversion]):
            wrong.append((value, accepted))
    assert wrong == []


DEBUG = [
    ("pl.printf('%s', i64)", ValueError, "conversion"),
    ("pl.printf('%c', i64)", ValueError, "conversion"),
    ("pl.printf('%hd', i64)", ValueError, "conversion"),
    ("pl.printf('%lld', i64)", ValueError, "conversion"),
    ("pl.printf('%5.d', i64)", ValueError, "conversion"),
    ("pl.printf('100 %', i64)", ValueError, "conversion"),
    ("pl.printf('%%', i64)", ValueError, "conversion"),
    ("pl.printf('%d', i64, i64)", ValueError, "1 conversion, found 2 arguments"),
    ("pl.printf('%d', i64, loc=1)", TypeError, "True or False"),
    ("pl.printf('%d', i64, lok=True)", TypeError, "lok"),
    ("pl.printf(format='%d')", TypeError, "format"),
    ("pl.pto_assert(3)", TypeError, "BOOL"),
    ("pl.pto_assert(i64)", TypeError, "BOOL"),
    ("pl.pto_assert(b, 3)", TypeError, "text"),
    ("pl.pto_assert(b, '%d')", ValueError, "1 conversion, found 0 arguments"),
    ("pl.pto_assert(b, '%f', i64)", TypeError, "does not take"),
    ("pl.pto_assert(b, loc=2)", TypeError, "True or False"),
    ("pl.dump_data(i64)", TypeError, "tensor or a tile"),
    ("pl.dump_data(x, offsets=[0, 0])", ValueError, "together"),
    ("pl.dump_data(x, shapes=[1, 1])", ValueError, "together"),
    ("pl.dump_data(x, [0], [1])", ValueError, "per axis"),
    ("pl.dump_data(x, [0, 0], [0, 1])", ValueError, "positive"),
    ("pl.dump_data(x, loc=0)", TypeError, "True or False"),
    ("pl.dump_data(x, workspace=x)", ValueError, "workspace"),
    ("pl.dump_data(pl.make_tensor(p, [4, 4], [1, 4]), [0, 0], [2, 2])", ValueError, "stride"),
    ("pl.dump_data(pl.make_tensor(p, [4, 4], [4, i64]), [0, 0], [2, 2])", NotImplementedError, "stride"),
    ("t = pl.make_tile(pl.TileType(shape=[16, 64], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Mat), addr=0)\n"
     "pl.dump_data(t)", None, ""),
]  # fmt: skip


@pytest.mark.parametrize(("body", "cause", "text"), DEBUG, ids=[row[0].replace("\n", "; ") for row in DEBUG])
def test_debug_statements_refuse(body: str, cause: type[Exception] | None, text: str) -> None:
    with pytest.raises(errors.ParserSyntaxError) as caught:
        read(body, SCALARS)
    assert text in caught.value.message
    assert cause is None or type(caught.value.__cause__) is cause


def test_debug_statements_accept() -> None:
    read("pl.printf('plain\\n')\npl.printf('%d, %5.2f', i64, f)\npl.printf('%p %x', p, u8, loc=True)\ntext = 'n %d'\n"
         "pl.printf(text, i64)\npl.pto_assert(b)\npl.pto_assert(True, 'm')\npl.pto_assert(i64 > 3, '%d', i8)\n"
         "pl.dump_data(x)\npl.dump_data(x, [i64, 0], [2, 2], flag='here', loc=True)\npl.dump_data(x, offsets=[0, 0], "
         "shapes=[1, 64])\npl.trap()", SCALARS)  # fmt: skip


# --- 12.1: slices of tiles --------------------------------------------------------------------------------------------

SLICES = [
    # start and stop of the rows; rows of the view of a [16, 64] tile of which n=8 rows are valid
    ("0:100", 8), (":", 8), ("2:", 6), ("8:", 0), ("12:", 0), ("n:", 0), ("n - 2:n + 4", 2), ("0:n - 3", 5), ("n:3", 0),
    ("n + 1:n", 0), ("3:3", 0), ("16:", 0), ("1:5", 4),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "wanted"), SLICES)
@pytest.mark.parametrize("executor", ["interp", "native"])
def test_rows_of_a_slice(rows: str, wanted: int, executor: str) -> None:
    body = f"{TILES}\na = g[0]\npl.set_validshape(a, [n, 64])\nv = a[{rows}, 0:8]\nout[0, 0] = v.valid_shape[0]\n"
    body += "out[0, 1] = v.valid_shape[1]\npl.expands(a, 1.0)\npl.expands(v, 2.0)"
    kernel = kernel_of(body, "out: pl.Tensor[[1, 2], pl.DT_INT64], n: pl.DT_INT64")
    out = np.zeros((1, 2), np.int64)
    with pypto_pro.options(executor=executor):
        kernel(out, 8)
    assert out[0].tolist() == [wanted, 8]


SLICES_REFUSED = [
    ("a[17:, :]", SYNTAX, "past the extent 16"), ("a[4:2, :]", SYNTAX, "4:2 ends before it starts"),
    ("a[-1:, :]", SYNTAX, "not negative"), ("a[:-1, :]", SYNTAX, "not negative"), ("a[0:4]", SYNTAX, "both axes"),
    ("a[0:4, 1]", SYNTAX, "both axes"), ("a[0:4, 0:4, 0:4]", TYPE, "2 slices"), ("a[0:4:1, :]", SYNTAX, "no step"),
    ("a[0.5:4, :]", TYPE, "integer"), ("x[0:4, 0:4]", SYNTAX, "cannot be sliced"),
    ("g[0:1, 0:2]", UNSUPPORTED, "group"), ("q[9:, :]", SYNTAX, "past the valid extent 8"),
    ("mat[0:4, :]", SYNTAX, "Mat NZ"), ("nz[0:4, :]", SYNTAX, "Vec NZ"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "words"), SLICES_REFUSED)
def test_slices_refused(text: str, kind: type[errors.ParserError], words: str) -> None:
    head = (
        "s = pl.TileType(shape=[16, 64], dtype=pl.DT_FP32, valid_shape=[8, 64])\nq = pl.make_tile(s, addr=0)\n"
        "m = pl.TileType(shape=[16, 64], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Mat)\n"
        "mat = pl.make_tile(m, addr=0)\nz = pl.TileType(shape=[16, 64], dtype=pl.DT_FP32, layout=pl.NZ)\n"
        "nz = pl.make_tile(z, addr=0)\na = g[0]\n"
    )
    with pytest.raises(kind) as caught:
        read(f"{TILES}\n{head}v = {text}", FLAT)
    assert words in caught.value.message
