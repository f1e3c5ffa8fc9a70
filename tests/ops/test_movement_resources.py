"""Tiles, groups, views, elements and pointers: which forms are accepted, and which class rejects the others."""

from collections.abc import Iterator

import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl
from ops.test_movement_rejects import E8, F16, F32, F41, HF8, I64, U64, S, accepted, rejected, t
from pypto_pro.diag import errors

SYNTAX, TYPE, UNSUPPORTED = errors.ParserSyntaxError, errors.ParserTypeError, errors.UnsupportedFeatureError
Row = tuple[str, str, type[errors.ParserError] | None]
V, C = "vector", "cube"
PLAIN = t([16, 64])
NARROWED = f"q = pl.make_tile({t([16, 64], valid=[-1, -1])}, addr=0)\n"
GROUP = f"g = pl.make_tile_group(type={PLAIN}, addrs=0, mutex_ids=[0, 1])\n"


def layouts() -> Iterator[Row]:
    """Layouts of the spaces (types-and-memory 2); Vec takes all."""
    legal = {"Vec": "ND DN NZ ZN ZZ NN", "Mat": "NZ ZN", "Left": "NZ", "Right": "ZN", "Acc": "NZ", "Scaling": "ND",
             "ScaleLeft": "ZZ", "ScaleRight": "NN"}
    for space, allowed in legal.items():
        for layout in ("ND", "DN", "NZ", "ZN", "ZZ", "NN"):
            kind = None if layout in allowed.split() else SYNTAX
            yield V, f"q = {t([64, 64], F16, f'pl.MemorySpace.{space}', f'pl.{layout}')}", kind
    for dtype in (E8, I64, U64):
        allowed = {"ZZ", "NN"} if dtype == E8 else {"ND"}
        for layout in ("ND", "ZZ", "NN"):
            yield V, f"q = {t([64, 64], dtype, S.Mat, f'pl.{layout}')}", None if layout in allowed else SYNTAX


def addresses() -> Iterator[Row]:
    """Alignment by space; none for Scaling and Bias. Compile-time ints, sizes positive."""
    shapes = {"Vec": (32, [16, 64], F32), "Mat": (32, [64, 64], F16), "Left": (512, [64, 64], F16),
              "Right": (512, [64, 64], F16), "Acc": (64, [64, 64], F32), "ScaleLeft": (32, [64, 4], E8),
              "ScaleRight": (32, [4, 64], E8)}
    for space, (step, shape, dtype) in shapes.items():
        type_ = t(shape, dtype, f"pl.MemorySpace.{space}")
        for addr in (step, 3 * step, step // 2, step + 16):
            yield V, f"q = pl.make_tile({type_}, addr={addr})", None if addr % step == 0 else SYNTAX
        slots = f"q = pl.make_tile_group(type={type_}, addrs=[0, {{}}], depth=2)"
        yield V, slots.format(step), None
        yield V, slots.format(step + step // 2), SYNTAX
    yield C, f"q = pl.make_tile({t([1, 64], I64, S.Scaling)}, addr=8)", None
    yield C, f"q = pl.make_tile({t([1, 64], F32, S.Bias)}, addr=4)", None
    for given, kind in (
        ("addr=n", TYPE), ("", TYPE), ("0", TYPE), ("addr=None", TYPE), ("addr=0.0", TYPE), ("addr=-32", SYNTAX),
        ("addr=0, size=0", TYPE), ("addr=0, size=n", TYPE), ("addr=0, size=64", None), ("addr=0, size=9000", None),
    ):  # fmt: skip
        yield V, f"q = pl.make_tile({PLAIN}, {given})", kind
    yield V, "q = pl.make_tile(3, addr=0)", TYPE
    for rank in ([64], [2, 4, 8]):
        yield V, f"q = pl.make_tile({t(rank)}, addr=0)", None


def groups() -> Iterator[Row]:
    """Depth, ids and addresses of groups (types-and-memory 8), and their handles."""
    for given, kind in (
        ("mutex_ids=[0, 1]", None), ("mutex_ids=[0, 0]", None), ("mutex_ids=[[0, 1], [2, 3]]", None), ("", TYPE),
        ("mutex_ids=[]", TYPE), ("mutex_ids=[], depth=2", None), ("mutex_ids=[0], depth=2", TYPE), ("depth=n", TYPE),
        ("depth=-1", TYPE), ("mutex_ids=[-1]", TYPE), ("mutex_ids=[32]", TYPE), ("mutex_ids=[n]", TYPE),
        ("mutex_ids=[[]]", TYPE), ("mutex_ids=[[0], [1, 2]]", TYPE), ("depth=2, size=64", SYNTAX),
        ("depth=2, fwd_ids=[0, 1], bwd_ids=[2, 15]", None),
    ):  # fmt: skip
        yield V, f"g = pl.make_tile_group(type={PLAIN}, addrs=0, {given})", kind
    for given, kind in (
        (f"type={PLAIN}, addrs=n, depth=1", TYPE), ("type=3, addrs=0, depth=1", TYPE), ("addrs=0, depth=1", TYPE),
        (f"type={PLAIN}, depth=1", TYPE), (f"{PLAIN}, addrs=0, depth=1", SYNTAX),
    ):  # fmt: skip
        yield V, f"g = pl.make_tile_group({given})", kind
    for use, kind in (
        ("g[1]", None), ("g[n]", None), ("g[2]", TYPE), ("g[-1]", TYPE), ("g[f]", TYPE), ("g[0.0]", TYPE),
        ("g.next(1)", SYNTAX), ("g.last()", UNSUPPORTED),
    ):  # fmt: skip
        yield V, f"{GROUP}q = {use}", kind


def tile_types() -> Iterator[Row]:
    """pad, valid_shape and shape of a TileType (types-and-memory 5)."""
    for pad, kind in (("0", None), ("3", None), ("pl.TilePad.max", None), ("None", None), ("4", SYNTAX),
                      ("-1", SYNTAX), ("'max'", TYPE), ("1.0", TYPE)):
        yield V, f"q = pl.TileType(shape=[4, 8], dtype=pl.DT_FP32, pad={pad})", kind
    for valid, kind in (("[4, 8]", None), ("[-1, 8]", None), ("None", None), ("[0, 8]", SYNTAX), ("[5, 8]", SYNTAX),
                        ("[-2, 8]", SYNTAX), ("[4]", SYNTAX), ("[n, 8]", TYPE)):
        yield V, f"q = pl.TileType(shape=[4, 8], dtype=pl.DT_FP32, valid_shape={valid})", kind
    yield V, "q = pl.TileType(shape=[n, 8], dtype=pl.DT_FP32)", TYPE
    yield V, "q = pl.TileType([4, 8], dtype=pl.DT_FP32)", SYNTAX


def sub_views() -> Iterator[Row]:
    """Two slices of a Vec tile in ND or DN, forward and inside."""
    for slices, kind in (
        ("2:6, 16:50", None), ("2:, :50", None), ("n:n + 4, 0:64", None), ("0:99, 0:99", None), ("2:6", SYNTAX),
        ("2:6, 3", SYNTAX), ("2, 3:6", SYNTAX), ("2:6, 3:6, 0:1", TYPE), ("17:20, 0:64", SYNTAX),
        ("0:16:2, 0:64", SYNTAX), ("-2:6, 0:64", SYNTAX), ("0:-1, 0:64", SYNTAX),
    ):  # fmt: skip
        yield V, f"{NARROWED}pl.store(x, q[{slices}], [0, 0])", kind
    yield V, "pl.load(${t([16, 64], F32, valid=[8, 32])}[9:16, 0:64], x, [0, 0])", SYNTAX
    yield V, "pl.load(${t([16, 64], layout=pl.DN)}[0:8, 2:4], x, [0, 0], order=[1, 0])", None
    yield V, "pl.load(${t([16, 64], layout=pl.NZ)}[0:4, 0:8], x, [0, 0])", SYNTAX
    yield C, "pl.load(${t([64, 64], F16, S.Mat)}[0:16, 0:64], h, [0, 0])", SYNTAX
    yield V, f"pl.load(${{{t([16, 128], F41)!r}}}[0:4, 0:64], f4, [0, 0])", SYNTAX
    yield V, "y = x[0:4, 0:4]", SYNTAX


def elements() -> Iterator[Row]:
    """Scalar access, valid shapes, shapes."""
    for body, kind in (
        ("y = pl.getval($vec, n)", None), ("y = $vec[n, 3]", None), ("y = $vec[0]", SYNTAX), ("y = x[0]", SYNTAX),
        ("y = $vec[0, 0, 0]", TYPE), ("y = x[0, 0, 0]", TYPE), ("y = x[0, f]", TYPE), ("y = pl.getval(flag, 3)", None),
        ("y = pl.getval(f4, 3)", SYNTAX), ("y = pl.getval(e82, 3)", SYNTAX), ("pl.setval($vec, 0)", TYPE),
        (f"pl.setval(${{t([16, 64], {HF8!r})}}, 0, 1)", SYNTAX), ("pl.setval($byte, 0, 2.5)", None),
        ("q = $vec\ny = q.shape", UNSUPPORTED), ("q = $vec\ny = q.valid_shape[-2]", None),
        ("q = $vec\ny = q.valid_shape[2]", TYPE), ("q = $vec\ny = q.valid_shape[n]", SYNTAX),
        ("y = x.shape[-1]", None), ("y = x.shape[2]", TYPE), ("q = $vec\ny = q + 1", SYNTAX),
    ):  # fmt: skip
        yield V, body, kind
    for extents, kind in (("[n, 64]", None), ("[0, 64]", SYNTAX), ("[17, 64]", SYNTAX), ("[16, 65]", SYNTAX),
                          ("[16]", SYNTAX), ("[16, 64, 1]", SYNTAX), ("[f, 64]", TYPE)):
        yield V, f"{NARROWED}pl.set_validshape(q, {extents})", kind
    yield V, "pl.set_validshape(${t([16, 64], valid=[16, 64])}, [8, 64])", SYNTAX
    yield V, "pl.set_validshape(${t([16, 64], valid=[16, -1])}, [16, 32])", SYNTAX
    yield C, "y = pl.getval(x, 3)", None


def pointers() -> Iterator[Row]:
    """Pointers, views of tensors, strides."""
    for body, kind in (
        ("q = pl.make_ptr(x)\nr = q + 4\ns = pl.addptr(r, n)", None), ("q = pl.make_ptr(x, pl.DT_FP16)", None),
        ("q = pl.make_ptr(f4)\nr = pl.addptr(q, 4)", SYNTAX), ("r = pl.addptr(x, 4)", TYPE),
        ("q = pl.make_ptr(f4, dtype=pl.DT_UINT8)\nr = q + 4", None), ("q = pl.make_ptr(x)\nr = q + 1.5", TYPE),
        ("q = pl.make_ptr(x)\nr = q - 4", errors.ParserError), ("q = pl.make_ptr(n)", TYPE),
        ("q = pl.make_ptr($vec)", TYPE), ("v = pl.make_tensor(x, [4, 4], [4])", SYNTAX),
        ("v = pl.make_tensor(n, [4, 4])", TYPE), ("v = pl.make_tensor(x, 4)", TYPE),
        ("v = pl.make_tensor(x, [n, 4], stride=[64, 1], dtype=pl.DT_INT8)", None),
        ("pl.set_stride(x, [64])", SYNTAX), ("pl.set_stride(x, [64, 1, 1])", SYNTAX),
        ("pl.set_stride(x, [n, 1])", None),
        ("pl.set_stride(x, [f, 1])", TYPE), ("pl.set_stride(n, [64, 1])", TYPE),
        ("pl.set_stride(pl.make_tensor(x, [4, 4]), [64, 1])", SYNTAX),
    ):  # fmt: skip
        yield V, body, kind


ROWS = [row for rows in (layouts, addresses, groups, tile_types, sub_views, elements, pointers) for row in rows()]


@pytest.mark.parametrize(("section", "body", "kind"), ROWS, ids=[row[1] for row in ROWS])
def test_form(section: str, body: str, kind: type[errors.ParserError] | None) -> None:
    if kind is None:
        accepted(body, section)
        return
    error = rejected(body, section)
    assert isinstance(error, kind), error.message
    assert error.span is not None


@pl.jit
def solids(y: pl.Tensor[[1, 64], pl.DT_FP32]):
    with pl.section_vector():
        solid = pl.TileType(shape=[2, 2, 64], dtype=pl.DT_FP32)
        _solids = pl.make_tile_group(type=solid, addrs=[0, 1024], mutex_ids=[0, 1])
        _line = pl.make_tile(pl.TileType(shape=[64], dtype=pl.DT_FP32), addr=4096)
        y[0, 0] = 1.0


@pytest.mark.parametrize("executor", ["native", "interp"])
def test_tiles_of_other_ranks_can_be_made_on_both_executors(executor: str) -> None:
    y = np.zeros((1, 64), np.float32)
    with pypto_pro.options(executor=executor):
        solids[None, 1](y)
    assert y[0, 0] == 1
