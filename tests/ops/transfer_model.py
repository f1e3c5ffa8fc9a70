"""The reference's text of transfers, written a second time: element addresses (types-and-memory 4), GM elements,
conversions at the exit of the accumulator. Shares nothing with `layouts` or the op entries.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops.transfer_bench import AIV1, G, Memories, T
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import MemorySpace as S
from pypto_pro.enums import TensorLayout as L
from pypto_pro.numerics import decode

Array = np.ndarray


def up(value: int, step: int) -> int:
    """Rounded up."""
    return -(-value // step) * step


def c0(dtype: D) -> int:
    """Elements of 32 bytes."""
    return 256 // dtype.bits()


def layout_of(tile: T) -> L:
    """Layout after the defaults of the spaces and the rule for one column."""
    if tile.shape[1] == 1:
        return L.DN
    default = {S.Vec: L.ND, S.Mat: L.NZ, S.Left: L.NZ, S.Right: L.ZN, S.Acc: L.NZ, S.Scaling: L.ND, S.ScaleLeft: L.ZZ,
               S.ScaleRight: L.NN, S.Bias: L.ND}
    return tile.layout or default[tile.space]


def box_of(tile: T) -> tuple[int, int]:
    """(h, w) of 4.1."""
    layout = layout_of(tile)
    if tile.space is S.Acc:
        return 16, 16
    fractal = tile.fractal or (32 if tile.space in (S.ScaleLeft, S.ScaleRight) or layout in (L.ZZ, L.NN) else 512)
    h, w = {512: (16, c0(tile.dtype)), 1024: (16, 16), 32: (16, 2)}[fractal]
    return (h, w) if layout in (L.NZ, L.ZZ) else (w, h)


def place(tile: T, i: Array, j: Array, rows: int | None = None, cols: int | None = None) -> Array:
    """Offset in elements of (i, j), 4.2; `rows`, `cols` replace the declared extents as strides."""
    R, C = rows or tile.shape[0], cols or tile.shape[1]
    h, w = box_of(tile)
    match layout_of(tile):
        case L.ND:
            return i * C + j
        case L.DN:
            return j * R + i
        case L.NZ:
            return (j // w) * R * w + (i // h) * h * w + (i % h) * w + j % w
        case L.ZN:
            return (i // h) * C * h + (j // w) * h * w + (j % w) * h + i % h
        case L.ZZ:
            return (i // h) * C * h + (j // w) * h * w + (i % h) * w + j % w
    return (j // w) * R * w + (i // h) * h * w + (j % w) * h + i % h


def take(mem: Array, first: int, at: Array, bits: int) -> Array:
    """Element bits at offsets behind a byte address, 0 outside the memory."""
    if bits == 4:
        nibble = first * 2 + at
        inside = (nibble >= 0) & (nibble // 2 < mem.size)
        byte = mem[np.where(inside, nibble // 2, 0)]
        return np.where(inside, (byte >> (nibble % 2 * 4)) & 15, 0).astype(np.uint64)
    size = bits // 8
    byte = first + at * size
    inside = (byte >= 0) & (byte + size <= mem.size)
    found = np.zeros(at.shape, np.uint64)
    for k in range(size):
        found |= mem[np.where(inside, byte, 0) + k].astype(np.uint64) << np.uint64(8 * k)
    return np.where(inside, found, np.uint64(0))


def give(mem: Array, first: int, at: Array, bits: int, values: Array) -> None:
    """Write element bits, dropped outside the memory; of equal places the last one wins, as numpy assigns."""
    where = at.reshape(-1)
    bits_of = np.broadcast_to(np.asarray(values, np.uint64), at.shape).reshape(-1)
    if bits == 4:
        for half in (0, 1):
            nibble = first * 2 + where
            mine = (nibble % 2 == half) & (nibble >= 0) & (nibble < 2 * mem.size)
            byte = nibble[mine] // 2
            mem[byte] = mem[byte] & (0xF0 >> 4 * half) | (bits_of[mine].astype(np.uint8) & 15) << 4 * half
        return
    size = bits // 8
    byte = first + where * size
    inside = (byte >= 0) & (byte + size <= mem.size)
    raw = np.ascontiguousarray(bits_of[inside].astype("<u8")).view(np.uint8).reshape(-1, 8)[:, :size]
    mem[byte[inside][:, None] + np.arange(size)] = raw


def grid(rows: int, cols: int, r0: int = 0, c0_: int = 0) -> tuple[Array, Array]:
    """Index arrays of a rectangle."""
    return np.meshgrid(np.arange(r0, r0 + rows), np.arange(c0_, c0_ + cols), indexing="ij")


def stored_bits(tile: T) -> int:
    """Bits of a stored element: the accumulator holds 32."""
    return 32 if tile.space is S.Acc else tile.dtype.bits()


def get(m: Memories, tile: T, i: Array, j: Array, rows: int | None = None, cols: int | None = None) -> Array:
    """Elements (i, j) of a tile."""
    return take(m.spaces[tile.space], tile.addr, place(tile, i, j, rows, cols), stored_bits(tile))


def put(
    m: Memories, tile: T, i: Array, j: Array, values: Any, rows: int | None = None, cols: int | None = None,
    core: int = 0,
) -> None:
    """Elements (i, j) of a tile; `core` 1 means the Vec memory of AIV1."""
    mem = m.spaces[AIV1 if core else tile.space]
    give(mem, tile.addr, place(tile, i, j, rows, cols), stored_bits(tile), values)


def gm_place(tensor: G, offsets: tuple[int, ...], order: tuple[int, int] | None, i: Array, j: Array) -> Array:
    """Offset in elements (4-bit: in elements too) of the GM element of tile element (i, j)."""
    rank, steps = len(tensor.dims), tensor.steps
    if tensor.layout is L.NZ:
        w = c0(tensor.dtype)
        r, c = offsets[0] + i, offsets[1] + j
        return (c // w) * tensor.dims[0] * w + r * w + c % w
    start = sum(o * s for o, s in zip(offsets, steps, strict=True))
    if rank == 1:
        row, col = steps[0], 1
    else:
        a0, a1 = order or (rank - 2, rank - 1)
        row, col = steps[a0], steps[a1]
    if tensor.transfer is not None:
        row, col = tensor.transfer
    return start * (2 if tensor.dtype.bits() == 4 else 1) + i * row + j * col


def gm_get(m: Memories, name: str, tensor: G, at: Array) -> Array:
    """Elements of a tensor's buffer."""
    return take(m.buffers[name], tensor.before, at, tensor.dtype.bits())


def gm_put(m: Memories, name: str, tensor: G, at: Array, values: Array) -> None:
    """Elements of a tensor's buffer."""
    give(m.buffers[name], tensor.before, at, tensor.dtype.bits(), values)


PAD_BITS = {
    D.DT_FP32: (0, 0x7F800000, 0xFF800000), D.DT_FP16: (0, 0x7C00, 0xFC00), D.DT_BF16: (0, 0x7F80, 0xFF80),
    D.DT_INT8: (0, 0x7F, 0x80), D.DT_UINT8: (0, 0xFF, 0), D.DT_INT16: (0, 0x7FFF, 0x8000), D.DT_UINT16: (0, 0xFFFF, 0),
    D.DT_INT32: (0, 0x7FFFFFFF, 0x80000000), D.DT_UINT32: (0, 0xFFFFFFFF, 0), D.DT_INT64: (0, 0, 0),
    D.DT_UINT64: (0, 0, 0), D.DT_FP4E2M1: (0, 7, 15), D.DT_FP4E1M2: (0, 7, 15),
}
"""Bits of zero, max, min."""


# --- exits of the accumulator ----------------------------------------------------------------------------------------


def round_even(value: float) -> int:
    """To the nearest integer, ties to even."""
    floor = math.floor(value)
    rest = value - floor
    return floor + (rest > 0.5 or (rest == 0.5 and floor % 2 == 1))


def codes_of(dtype: D) -> tuple[list[float], list[int]]:
    """Finite non-negative values in order, and their codes."""
    width = dtype.bits()
    codes = np.arange(1 << (width - 1), dtype=dtype.bits_dtype)
    values = decode(codes, dtype).astype(np.float64)
    finite = np.isfinite(values)
    pairs = sorted(zip(values[finite].tolist(), codes[finite].tolist(), strict=True))
    return [v for v, _ in pairs], [c for _, c in pairs]


_TABLES: dict[D, tuple[list[float], list[int]]] = {}


def nearest(value: float, dtype: D, *, away: bool) -> int:
    """The code nearest in value, saturating; ties to the even code or away from zero; NaN gives 0 (HF8: its NaN)."""
    if dtype not in _TABLES:
        _TABLES[dtype] = codes_of(dtype)
    values, codes = _TABLES[dtype]
    if math.isnan(value):
        return 0x80 if dtype is D.DT_HF8 else 0
    size = min(abs(value), values[-1])
    k = int(np.searchsorted(values, size))
    if values[k] != size:
        low, high = values[k - 1], values[k]
        if size - low < high - size or (size - low == high - size and not away and codes[k - 1] % 2 == 0):
            k -= 1
    sign = 1 << (dtype.bits() - 1) if math.copysign(1.0, value) < 0 else 0
    if dtype is D.DT_HF8 and codes[k] == 0:
        return 0
    return codes[k] | sign


def leave(values: Array, source: D, target: D, scale: Any, relu: bool) -> Array:
    """Accumulator elements as bits of the destination: y = float(acc) * scale, relu, convert.

    scale: None, a float, or 64-bit words a column.
    """
    held = values.astype(np.uint32).view(np.int32 if source is D.DT_INT32 else np.float32)
    if scale is None:
        held = np.where(held > 0, held, held.dtype.type(0)) if relu else held
        if target in (D.DT_FP16, D.DT_BF16):
            with np.errstate(all="ignore"):
                bits = held.astype(target.numpy).view(np.uint16).astype(np.uint64)
            return np.where(np.isnan(held), np.uint64(NAN_BITS[target]), bits)
        return held.view(np.uint32).astype(np.uint64)
    words = np.broadcast_to(np.asarray(scale if isinstance(scale, np.ndarray) else 0, np.uint64), held.shape)
    if isinstance(scale, np.ndarray):
        factor = (words & np.uint64(0xFFFFE000)).astype(np.uint32).view(np.float32)
    else:
        factor = np.full(held.shape, scale, np.float32)
    with np.errstate(all="ignore"):
        y = held.astype(np.float32) * factor
    y = np.where(y > 0, y, np.float32(0)) if relu else y
    flat = [_convert(float(v), int(w), target, not isinstance(scale, np.ndarray))
            for v, w in zip(y.reshape(-1), words.reshape(-1), strict=True)]
    return np.array(flat, np.uint64).reshape(held.shape)


NAN_BITS = {D.DT_FP32: 0x7FC00000, D.DT_FP16: 0x7E00, D.DT_BF16: 0x7FC0}
"""The NaN conversions make (numerics 1)."""


def _convert(y: float, word: int, target: D, scalar: bool) -> int:
    match target:
        case D.DT_FP32 | D.DT_FP16 if math.isnan(y):
            return NAN_BITS[target]
        case D.DT_FP32:
            return int(np.float32(y).view(np.uint32))
        case D.DT_FP16:
            return int(np.float16(np.float32(min(max(y, -65504.0), 65504.0))).view(np.uint16))
        case D.DT_INT8:
            offset = (word >> 37) & 511
            offset -= 512 if offset >= 256 else 0
            low, high = (-128, 127) if scalar or word >> 46 & 1 else (0, 255)
            if math.isnan(y):
                return 0
            bounded = min(max(y, -1e6), 1e6)
            return min(max(round_even(bounded + offset), low), high) & 0xFF
        case D.DT_FP8E4M3FN:
            return nearest(y, target, away=False)
    return nearest(y, target, away=True)
