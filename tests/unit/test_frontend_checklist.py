"""The subset checklist of the language reference (frontend 15): every row, accepted or rejected as it says."""

from __future__ import annotations

import pytest
from kernel_text import read, run

from pypto_pro.diag import errors

SYNTAX, TYPE, UNSUPPORTED = errors.ParserSyntaxError, errors.ParserTypeError, errors.UnsupportedFeatureError
PARAMS = (
    "x: pl.Tensor[[16, 64], pl.DT_FP32], d: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], t: pl.Tensor[[64], pl.DT_INT32], "
    "p: pl.Tensor[[4], pl.DT_FP32], n: pl.DT_INT32, tiling: Data"
)
BEFORE = (
    "from dataclasses import dataclass\n@dataclass\nclass Data:\n    n: int\ndef f(x, scale):\n    return x * scale\n"
)
GROUP = (
    "tt = pl.TileType(shape=[16, 64], dtype=pl.DT_FP32)\n"
    "g = pl.make_tile_group(type=tt, addrs=0, mutex_ids=[0, 1])\n"
)

ROWS = [
    ("for i in range(4):\n    pass", SYNTAX),
    ("for x in [1, 2]:\n    pass", SYNTAX),
    ("i = 0\nwhile i < n and t[i] > 0:\n    i += 1", None),
    ("i = n\nif 0 < i < n:\n    pass", SYNTAX),
    ("y = 3\nx = y if n > 2 else 1.0", TYPE),
    ("a: pl.DT_INT32 = 0", None),
    ("b = n // 2", None),
    ("f(n, scale=2)", SYNTAX),
    (GROUP + "q = g.next()\npl.add(out=q, lhs=q, rhs=q)", None),
    (GROUP + "q = g.next()\npl.add(dst=q, lhs=q, rhs=q)", SYNTAX),
    ("return x", SYNTAX),
    ("with pl.section_vector(), pl.section_cube():\n    pass", SYNTAX),
    ("shape = [64, 64]\ntt = pl.TileType(shape=shape, dtype=pl.DT_FP32)", None),
    ("m = x.shape[0]\ntt = pl.TileType(shape=[m, 64], dtype=pl.DT_FP32)", None),
    ("m = d.shape[0]\ntt = pl.TileType(shape=[m, 64], dtype=pl.DT_FP32)", TYPE),
    ("tt = pl.TileType(shape=[tiling.n, 64], dtype=pl.DT_FP32)", TYPE),
    ('pl.printf(f"{n}")', errors.ParserError),
    ("lst = [0, 1]\nlst[0] = 5", TYPE),
    ('s = pl.struct("S", v=0)\ns.v += 1', None),
    (GROUP + "q = g[5]", TYPE),
    (GROUP + "q = g[n]", None),
    ("q = x.shape[-1]", None),
    ("q = p is None", TYPE),
    ("assert n > 0", UNSUPPORTED),
]


@pytest.mark.parametrize(("body", "kind"), ROWS, ids=[row[0] for row in ROWS])
def test_row(body: str, kind: type[errors.ParserError] | None) -> None:
    if kind is None:
        assert read(body, PARAMS, BEFORE).programs
        return
    with pytest.raises(kind) as caught:
        read(body, PARAMS, BEFORE)
    assert caught.value.span is not None


def test_values_of_the_rows() -> None:
    body = "a: pl.DT_INT32 = 0\nout[0, 0] = n // 2\nc = -3\nout[0, 1] = c // 2\nout[0, 2] = a"
    assert list(run(body, -3, params="n: pl.DT_INT32")[:3]) == [-1, -2, 0]


def test_both_operands_of_a_loop_condition_are_read_every_trip() -> None:
    body = "i = 0\nwhile i < 4 and out[0, i] < 0:\n    out[0, i] = i\n    i += 1\nout[0, 7] = i"
    assert list(run(body)) == [0, 1, 2, 3, -99, -99, -99, 4]
