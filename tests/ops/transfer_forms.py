"""Every form of every data-movement and cube op: entries x dtypes x layouts x tails x modes, as calls.

Generous: combinations are written down without asking whether they are legal, and `is_legal` asks the entry. `level` 0
has every signature of moved bits for one dtype of each width only, and fewer tails.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ops.transfer_bench import Call, G, T
from ops.transfer_model import c0
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import AccToVecMode, AtomicType, CoreKind, FillPadMode, ReluPreMode, STPhase
from pypto_pro.enums import MemorySpace as S
from pypto_pro.enums import TensorLayout as L
from pypto_pro.ir.types import ScalarType, TensorType
from pypto_pro.ops import cube_matmul, fixpipe, insert, move, rules, store
from pypto_pro.ops.operands import ScalarInfo, TensorInfo, TileInfo
from pypto_pro.ops.table import lookup

WIDTHS = (D.DT_FP4E2M1, D.DT_FP8E5M2, D.DT_BF16, D.DT_INT32, D.DT_UINT64)
RELU = ReluPreMode.NormalRelu
WORDS = T((1, 64), D.DT_INT64, S.Scaling, 0x200)
FAR = 0x8000
EXITS = [(s, t, False) for s, targets in fixpipe.PLAIN_EXITS.items() for t in targets] + [
    (s, t, True) for s, targets in fixpipe.SCALED_EXITS.items() for t in targets
]


def is_legal(call: Call) -> bool:
    """Whether its tile types exist and the entry's static rules accept the call."""
    entry = lookup(call.op)
    assert entry is not None
    named: dict[str, Any] = {p.name: p.default for p in entry.params if not p.required}
    try:
        named.update({name: _info(name, spec) for name, spec in call.operands.items()})
        named.update(call.attrs)
        if "rules" in entry.facets:
            entry.facets["rules"](**named)
    except (TypeError, ValueError):
        return False
    return True


def _info(name: str, spec: Any) -> Any:
    match spec:
        case T():
            return TileInfo(spec.type, name, spec.addr, spec.addr % 32)
        case G():
            return TensorInfo(TensorType(spec.dtype, spec.dims, spec.layout), name, spec.steps)
        case tuple():
            return tuple(ScalarInfo(ScalarType(D.DT_INDEX), value) for value in spec)
        case float():
            return ScalarInfo(ScalarType(D.DT_FP32), spec)
        case int():
            return ScalarInfo(ScalarType(D.DT_INT64))
    return spec


def tails(shape: tuple[int, int], level: int) -> list[tuple[int, int]]:
    """Valid extents: all, odd, one element, none."""
    rows, cols = shape
    found = [shape, (max(rows - 3, 1), max(cols - 5, 1)), (rows, 0)]
    if level:
        found += [(max(rows // 2 + 1, 1), max(cols // 2 + 1, 1)), (1, 1), (0, cols), (rows, 1), (1, cols)]
    return list(dict.fromkeys(found))


def dtypes(level: int) -> tuple[D, ...]:
    """One of each width, or all that move."""
    return rules.MOVABLE if level else WIDTHS


# --- loads and stores ------------------------------------------------------------------------------------------------


def tiles_in_memory(dtype: D, *spaces: S) -> list[T]:
    """Tiles of every layout a transfer knows."""
    c = c0(dtype)
    made = [
        T((16, 4 * c), dtype), T((16, 4 * c), dtype, addr=0x60, pad=1), T((16, 4 * c), dtype, pad=2),
        T((16, 4 * c), dtype, pad=3), T((4 * c, 18), dtype, layout=L.DN), T((4 * c, 18), dtype, layout=L.DN, pad=3),
        T((4 * c, 1), dtype), T((4 * c, 1), dtype, pad=2), T((1, 2 * c), dtype), T((32, 3 * c), dtype, layout=L.NZ),
        T((32, 3 * c), dtype, S.Mat, 0x400), T((2 * c, 48), dtype, S.Mat, layout=L.ZN),
        T((1, 4 * c), dtype, S.Mat), T((4, 4 * c), dtype, S.Mat, layout=L.ND),
        T((32, 6), dtype, S.Mat, layout=L.ZZ), T((6, 32), dtype, S.Mat, layout=L.NN),
    ]
    padded = dtype in WIDTHS  # one dtype of each width is enough there
    return [tile for tile in made if tile.space in spaces and (padded or not tile.pad)]


def windows(tile: T, dtype: D | None = None) -> Iterator[tuple[G, tuple[int, ...], Any]]:
    """(tensor, offsets, order) of every kind that holds the tile's valid region."""
    dtype = dtype or tile.dtype
    rows, cols = (max(extent, 1) for extent in tile.shape)
    if dtype.is_sub_byte:
        for pitch in (cols + 8, cols + 7):
            yield G((rows + 9, cols // 2 + 7), dtype, transfer=(pitch, 1)), (2, 3), None
        yield G((cols + 9, rows // 2 + 7), dtype, transfer=(1, rows + 9)), (2, 3), (1, 0)
        yield G((rows + 5, cols + 8), dtype), (1, 2), (0, 1)
        yield G((rows + cols + 9, 1), dtype), (5, 0), None
        return
    pitch = cols + 7
    yield G((rows + 5, pitch), dtype), (2, 3), None
    yield G((cols + 5, rows + 7), dtype), (2, 3), (1, 0)
    yield G((rows + 5, 3, pitch), dtype), (2, 1, 3), (0, 2)
    yield G((3, cols + 5, rows + 7), dtype), (2, 2, 3), (2, 1)
    yield G((rows + 5, pitch, 1), dtype), (2, 3, 0), (0, 1)  # the last axis is none that moves
    yield G((rows + 5, pitch), dtype, (pitch + 12, 1)), (2, 3), None
    yield G((pitch, rows + 5), dtype, (1, pitch + 2)), (3, 2), (1, 0)  # a transposed view walked back
    yield G((pitch, rows + 5), dtype, (1, pitch + 2)), (3, 2), (0, 1)
    yield G((2 * rows + 5, pitch), dtype, transfer=(2 * pitch, 1)), (2, 3), None
    yield G((rows * cols + cols + 20,), dtype), (7,), None
    yield G((rows + cols + 9, 1), dtype), (5, 0), None
    c = c0(dtype)
    nz = G((rows // 16 * 16 + 32, cols // c * c + 2 * c), dtype, layout=L.NZ)
    yield from ((nz, offsets, None) for offsets in ((0, 0), (16, c), (3, 5)))
    if dtype is D.DT_FP8E8M0 and tile.layout in (L.ZZ, L.NN):
        down, across = (rows, cols // 2) if tile.layout is L.ZZ else (rows // 2, cols)
        for shape, order in (((down, across), None), ((down, across), (0, 1)), ((across, down), (1, 0))):
            tensor = G((shape[0] + 3, shape[1] + 4, 2), dtype)
            yield tensor, (2, 1, 0), order
            yield replace(tensor, strides=(2 * shape[1] + 9, 2, 1)), (2, 1, 0), order  # an odd pitch
            yield replace(tensor, strides=(4 * shape[1] + 18, 3, 1)), (2, 1, 0), order


def loads(level: int) -> Iterator[Call]:
    """Loads of every tile from every window."""
    for dtype in dtypes(level) if level else (*WIDTHS, D.DT_FP8E8M0):
        for tile in tiles_in_memory(dtype, S.Vec, S.Mat):
            core = CoreKind.VECTOR if tile.space is S.Vec else CoreKind.CUBE
            for (tensor, offsets, order), valid in itertools.product(windows(tile), tails(tile.shape, level)):
                operands = {"dst_tile": replace(tile, valid=valid), "src_tensor": tensor, "offsets": offsets}
                yield Call("load", operands, {"order": order}, core)


def stores(level: int) -> Iterator[Call]:
    """Stores of Vec tiles, with and without atomic addition."""
    for dtype in dtypes(level):
        for tile in tiles_in_memory(dtype, S.Vec):
            if tile.pad:
                continue
            if dtype.is_sub_byte:
                short = replace(tile, valid=(tile.shape[0] - 3, min(tile.shape[1], 5)))
                yield Call("store", {"dst_tensor": G((400,), dtype), "src_tile": short, "offsets": (7,)})
            for (tensor, offsets, order), valid in itertools.product(windows(tile), tails(tile.shape, level)):
                operands = {"dst_tensor": tensor, "src_tile": replace(tile, valid=valid), "offsets": offsets}
                yield Call("store", operands, {"order": order})
    for dtype in store.ADDED:
        tensor, tile = G((20, 60), dtype), T((8, 64), dtype, valid=(5, 41))
        yield Call("store", {"dst_tensor": tensor, "src_tile": tile, "offsets": (2, 3)},
                   {"atomic": AtomicType.AtomicAdd})


def scales_of(scaled: bool) -> tuple[Any, ...]:
    """A number, a run-time bit pattern, parameter words by column; or nothing."""
    return (0.5, int(np.float32(0.75).view(np.int32)) | 3 << 40, WORDS) if scaled else (None,)


def exits_to_memory(level: int) -> Iterator[Call]:
    """Stores of accumulators: every conversion, scale, relu, addition, layout, pitch."""
    adds, phases = (AtomicType.AtomicNone, AtomicType.AtomicAdd), (None, STPhase.Final)
    for (source, target, scaled), compact in itertools.product(EXITS, (0, 1)):
        tile = T((32, 48), source, S.Acc, 0x400, compact=compact)
        for scale, relu, atomic, phase in itertools.product(scales_of(scaled), (None, RELU), adds, phases):
            if phase is not None and (relu, atomic) != (None, adds[0]):
                continue
            attrs = {"relu_pre_mode": relu, "atomic": atomic, "phase": phase}
            given = {} if scale is None else {"scale": scale}
            for valid in tails(tile.shape, level):
                held = replace(tile, valid=valid)
                yield Call("store", {"dst_tensor": G((40, 60), target), "src_tile": held, "offsets": (2, 5), **given},
                           attrs, CoreKind.CUBE)
                whole = G((32, 2 * c0(target)), target, layout=L.NZ)
                square = replace(held, shape=whole.dims, valid=whole.dims if valid == tile.shape else (0, 16))
                yield Call("store", {"dst_tensor": whole, "src_tile": square, "offsets": (0, 0), **given}, attrs,
                           CoreKind.CUBE)
            turned = G((60, 40), target, (1, 70))
            operands = {"dst_tensor": turned, "src_tile": replace(tile, valid=(20, 1)), "offsets": (5, 2), **given}
            yield Call("store", operands, attrs, CoreKind.CUBE)
            tall = {**operands, "dst_tensor": G((40, 3, 60), target), "offsets": (2, 1, 5)}
            yield Call("store", tall, {**attrs, "order": (0, 2)}, CoreKind.CUBE)


# --- moves -----------------------------------------------------------------------------------------------------------


def to_the_matrix_unit(level: int) -> Iterator[Call]:
    """Mat to Left, Right, both scale memories, the bias table and the parameter buffer."""
    for dtype, space, layout in itertools.product(move.OPERAND_DTYPES, (S.Left, S.Right), (L.NZ, L.ZN)):
        side = max(16, c0(dtype))
        shape = (2 * side, 3 * side)
        for compact, valid in itertools.product((0, 1), tails(shape, level)):
            dst = T(shape, dtype, space, 0x200, valid, compact=compact)
            yield moved(dst, T(shape, dtype, S.Mat, 0x400, layout=layout))
            large = T((3 * side, 4 * side), dtype, S.Mat, 0x400, layout=layout)
            for offset in ((side, side), (5, 9), (0, side // 2)):
                yield moved(dst, large, offset)
    for turn, compact in itertools.product((False, True), (0, 1)):
        space, layout = (S.ScaleRight, L.NN) if turn else (S.ScaleLeft, L.ZZ)

        def turned(rows: int, cols: int, turn: bool = turn) -> tuple[int, int]:
            return (cols, rows) if turn else (rows, cols)

        for valid in tails((32, 4), level):
            if compact and valid[1] % 2:  # K comes in pairs of groups; boxes of others would share bytes
                continue
            dst = T(turned(32, 4), D.DT_FP8E8M0, space, valid=turned(*valid), compact=compact)
            yield moved(dst, T(turned(32, 4), D.DT_FP8E8M0, S.Mat, 0x20, layout=layout))
            for offset in (turned(16, 2), turned(5, 1)):
                yield moved(dst, T(turned(64, 8), D.DT_FP8E8M0, S.Mat, 0x20, layout=layout), offset)
    for source, target in sorted(move.BIAS_PAIRS, key=str):
        for offset in (None, (0, 16), (0, 5)):
            yield moved(T((1, 32), target, S.Bias, 0x40), T((1, 32 if offset is None else 64), source, S.Mat), offset)
    for dtype, offset in itertools.product(move.RAW_DTYPES, (None, (0, 16))):
        src = T((1, 32 if offset is None else 48), dtype, S.Mat, 0x80, layout=L.ND)
        yield moved(T((1, 32), dtype, S.Scaling, 0x180), src, offset)


def moved(dst: T, src: T, offset: Any = None, **attrs: Any) -> Call:
    """A move."""
    scale = attrs.pop("scale", None)
    operands = {"dst_tile": dst, "src_tile": src}
    operands.update({k: v for k, v in (("offset", offset), ("scale", scale)) if v is not None})
    return Call("move", operands, attrs, CoreKind.VECTOR if src.space is S.Vec else CoreKind.CUBE)


def exits_to_vec(level: int) -> Iterator[Call]:
    """Accumulators to Vec: conversions, layouts, modes, parts."""
    shapes = {AccToVecMode.DualModeSplitM: (16, 64), AccToVecMode.DualModeSplitN: (32, 32)}
    modes = (None, *AccToVecMode) if level else (None, AccToVecMode.SingleModeVec1, *shapes)
    for (source, target, scaled), mode in itertools.product(EXITS, modes):
        for scale, relu in itertools.product(scales_of(scaled), (None, RELU)):
            attrs = {"acc_to_vec_mode": mode, "relu_pre_mode": relu, "scale": scale}
            for layout, fractal in ((L.ND, None), (L.DN, None), (L.NZ, None), (L.NZ, 1024)):
                if (relu is not None and layout is not L.ND) or (fractal == 1024 and target.bits() != 32):
                    continue
                dst = T(shapes.get(mode, (32, 64)), target, addr=0x100, layout=layout, fractal=fractal)  # type: ignore[arg-type]
                for compact, valid in itertools.product((0, 1), tails((32, 64), level)):
                    src = T((32, 64), source, S.Acc, valid=valid, compact=compact)
                    yield moved(replace(dst, valid=None if mode in shapes else valid), src, **attrs)
                if layout is L.ND:
                    yield moved(replace(dst, valid=(13, 37)), src, (4, 16), **attrs)
                    yield moved(replace(dst, valid=(13, 19)), src, (3, 5), **attrs)


def from_vec(level: int) -> Iterator[Call]:
    """Inside Vec, also onto each other, and to Mat; inserts."""
    for dtype in rules.MOVABLE:
        c = c0(dtype)
        shape, wide = (32, 3 * c), (2 * c, 96)
        for valid in tails(shape, level):
            for at in (FAR, 0, 0x60, 3 * c):
                yield moved(T(shape, dtype, addr=at // 32 * 32, valid=valid), T(shape, dtype, valid=shape))
                yield moved(T((16, 2 * c), dtype, addr=at // 32 * 32), T(shape, dtype, valid=valid), (3, 5))
            for compact in (0, 1, 2):
                tall = (33, 3 * c) if compact == 2 else shape
                for at in (FAR, 0x40):
                    yield moved(T(tall, dtype, addr=at, valid=valid, layout=L.NZ, compact=compact),
                                T(tall, dtype, valid=valid))  # fmt: skip
            yield moved(T(shape, dtype, S.Mat, 0x400, valid), T(shape, dtype, layout=L.NZ))
            yield moved(T((16, 2 * c), dtype, S.Mat, 0x400), T(shape, dtype, layout=L.NZ), (16, c))
            yield moved(T(shape, dtype, S.Mat, 0x400, valid, L.ND), T(shape, dtype))
        for valid in tails(wide, level):
            yield moved(T(wide, dtype, addr=FAR, valid=valid, layout=L.ZN), T(wide, dtype, valid=valid))
        yield moved(T((4 * c, 1), dtype, addr=FAR), T((4 * c, 1), dtype, valid=(3 * c - 1, 1)))
        yield moved(T((3 * c, 32), dtype, S.Mat, layout=L.ZN), T(shape, dtype, layout=L.NZ))
    for dtype, compact in itertools.product(insert.INSERTED if level else WIDTHS, (0, 1, 2)):
        c = c0(dtype)
        nz, zn = T((64, 4 * c), dtype, S.Mat, 0x400), T((4 * c, 64), dtype, S.Mat, 0x400, layout=L.ZN)
        for (rows, cols), offset in itertools.product(tails((32, 2 * c), level), ((3, c), (40, c), (0, 0))):
            tall = T((33 if compact == 2 else 32, 2 * c), dtype, valid=(rows, cols), layout=L.NZ, compact=compact)
            flat = T((2 * c, 48), dtype, valid=(cols, rows), layout=L.ZN, compact=compact)
            for dst, src, place in ((nz, tall, offset), (zn, tall, offset), (zn, flat, offset[::-1]),
                                    (nz, flat, offset[::-1])):  # fmt: skip
                yield Call("insert", {"dst_tile": dst, "src_tile": src, "offset": place})


# --- products --------------------------------------------------------------------------------------------------------

EXTENTS = [(64, 128, 64), (20, 64, 33), (1, 128, 16), (0, 64, 16), (16, 64, 0)]


def products(level: int) -> Iterator[Call]:
    """Every operand pair, with bias, accumulating, with MX scales."""
    same = [(d, d) for d in cube_matmul.SAME_DTYPE]
    eights, fours = itertools.product(cube_matmul.FP8, repeat=2), itertools.product(cube_matmul.FP4, repeat=2)
    for (lhs, rhs), (m, k, n) in itertools.product([*same, *eights, *fours], EXTENTS):
        acc = D.DT_INT32 if lhs is D.DT_INT8 else D.DT_FP32
        tiles: dict[str, Any] = {
            "dst_tile": T((64, 64), acc, S.Acc, 0x400, (m, n), compact=1),
            "lhs_tile": T((64, 128), lhs, S.Left, 0x200, (m, k), compact=1),
            "rhs_tile": T((128, 64), rhs, S.Right, 0x600, (k, n), compact=1),
        }
        old = {"acc_tile": tiles["dst_tile"]}
        yield Call("matmul", tiles, core=CoreKind.CUBE)
        yield Call("matmul", {**tiles, "bias_tile": T((1, 64), acc, S.Bias, 0x40)}, core=CoreKind.CUBE)
        yield Call("matmul_acc", {**tiles, **old}, core=CoreKind.CUBE)
        scales = {
            "scale_a": T((64, 4), D.DT_FP8E8M0, S.ScaleLeft, 0x20, (m, k // 32), compact=1),
            "scale_b": T((4, 64), D.DT_FP8E8M0, S.ScaleRight, 0x60, (k // 32, n), compact=1),
        }
        yield Call("matmul_mx", {**tiles, **scales}, core=CoreKind.CUBE)
        yield Call("matmul_mx_acc", {**tiles, **old, **scales}, core=CoreKind.CUBE)


# --- single elements, padding, transposition -------------------------------------------------------------------------


def elements(level: int) -> Iterator[Call]:
    """getval and setval on tiles and tensors."""
    for dtype in (d for d in D if d.nbytes in (1, 2, 4, 8)):
        for holder, offset in itertools.product((T((8, 64), dtype, addr=0x20), G((9, 30), dtype)), (0, 17)):
            core = CoreKind.VECTOR if isinstance(holder, T) else CoreKind.CUBE
            yield Call("getval", {"container": holder, "offset": offset}, core=core)
            for value in (3, -2.5):
                yield Call("setval", {"container": holder, "offset": offset, "value": value}, core=core)


def rearranged(level: int) -> Iterator[Call]:
    """transpose and fillpad."""
    for dtype in dtypes(level):
        c = c0(dtype)
        for valid, at in itertools.product(tails((32, 2 * c), level), (FAR, 0x40)):
            src = T((32, 2 * c), dtype, valid=valid)
            yield Call("transpose", {"out": T((2 * c, 64), dtype, addr=at), "src": src})
            for mode, pad, extra in itertools.product(FillPadMode, (1, 2, 3), (0, 1)):
                place = 0 if mode is FillPadMode.INPLACE else at
                out = T((32 + 8 * extra, (2 + extra) * c), dtype, addr=place, pad=pad)
                yield Call("fillpad", {"out": out, "src": src}, {"mode": mode})
            boxed = T((32, 2 * c), dtype, S.Mat, valid=valid, pad=1)
            yield Call("fillpad", {"out": replace(boxed, valid=None), "src": boxed}, core=CoreKind.CUBE)


FAMILIES = {
    "loads": loads, "stores": stores, "exits to memory": exits_to_memory, "to the matrix unit": to_the_matrix_unit,
    "exits to Vec": exits_to_vec, "from Vec": from_vec, "products": products, "elements": elements,
    "rearranged": rearranged,
}


def reported() -> Iterator[Call]:
    """Forms that go through Python, which reports them: what leaves a buffer, a space or a tile."""
    far = T((8, 64), valid=(8, 64))
    yield Call("load", {"dst_tile": far, "src_tensor": G((6, 64)), "offsets": (3, 0)}, {"order": None})
    yield Call("store", {"dst_tensor": G((6, 64)), "src_tile": far, "offsets": (3, 0)})
    yield Call("load", {"dst_tile": replace(far, addr=248 * 1024 - 512), "src_tensor": G((9, 64)), "offsets": (0, 0)},
               {"order": None})  # fmt: skip
    yield Call("insert", {"dst_tile": T((32, 32), D.DT_FP16, S.Mat), "offset": (16, 16),
                          "src_tile": T((32, 32), D.DT_FP16, layout=L.NZ)})  # fmt: skip
    yield Call("getval", {"container": T((8, 64), addr=248 * 1024 - 32), "offset": 8})
