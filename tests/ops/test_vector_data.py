"""Gathers, scatter, histogram, sorting, quantisation, fills and layout ops against the text of the reference."""

import math
from typing import Any

import numpy as np
import pytest

from ops.harness import Case, T
from ops.vector_model import check_elements, edges, observe, same
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import FillPadMode, MemorySpace, QuantMode, TensorLayout
from pypto_pro.ops import rules

A, B, C, E = 0, 0x8000, 0x10000, 0x18000
RNG = np.random.default_rng(11)
WIDE, NARROW = (D.DT_INT32, D.DT_UINT32), (D.DT_INT16, D.DT_UINT16)
GATHERS = [
    *((d, i) for d in (D.DT_INT8, D.DT_UINT8, D.DT_FP8E4M3FN, D.DT_FP8E5M2, D.DT_HF8) for i in NARROW),
    *((d, i) for d in (D.DT_INT16, D.DT_UINT16, D.DT_FP16, D.DT_BF16) for i in NARROW + WIDE),
    *((d, i) for d in (D.DT_INT32, D.DT_UINT32, D.DT_FP32, D.DT_INT64, D.DT_UINT64) for i in WIDE),
]


def raw(array: np.ndarray) -> np.ndarray:
    """Elements as unsigned integers, so that NaNs compare by their bits."""
    return array.view(f"u{array.dtype.itemsize}")


@pytest.mark.parametrize(("dtype", "index"), GATHERS, ids=lambda d: d.name)
def test_gather_by_index(dtype: D, index: D) -> None:
    at = RNG.integers(0, 4 * 96, (8, 64))
    at[0, :3] = [0, 4 * 96 - 1, 4 * 96]  # the last one is outside: 0
    seen = observe(Case("gather", {
        "out": T((8, 64), dtype, A, (5, 37)), "src": T((4, 96), dtype, B, (2, 50)),
        "idx": T((8, 64), index, C, data=at), "tmp": T((8, 64), index, E),
    }, values=None))
    flat = [*raw(seen.before["src"]).reshape(-1).tolist(), 0]
    found = raw(seen.after["out"])
    assert found[:5, :37].tolist() == [[flat[min(at[i, j], 384)] for j in range(37)] for i in range(5)]
    assert (found[5:] == raw(seen.before["out"])[5:]).all()


def score(value: Any, dtype: D) -> float:
    """How the compare form reads a source element."""
    if dtype is D.DT_FP16:
        return float(value)
    if dtype is D.DT_FP32:
        return 0 if value != value else int(min(max(np.rint(float(value)), -(2**31)), 2**31 - 1)) & 0xFFFFFFFF
    return int(value) & ((1 << dtype.bits()) - 1)


@pytest.mark.parametrize("cmp_mode", [4, 0, 3])
@pytest.mark.parametrize("cols", [64, 128, 70])
@pytest.mark.parametrize("dtype", [*rules.INTS[:6], D.DT_FP16, D.DT_FP32], ids=lambda d: d.name)
def test_gather_by_comparison(dtype: D, cols: int, cmp_mode: int) -> None:
    group = 128 if dtype.bits() == 8 else 64
    values = RNG.integers(0, 6, (3, 128)) - (2 if dtype.is_signed_int() or dtype.is_float() else 0)
    limits = [3, 1, 2]
    seen = observe(Case("gather", {
        "out": T((3, 256), D.DT_UINT32, A), "src": T((3, 128), dtype, B, (3, cols), data=values),
        "idx": T((1, 16), D.DT_UINT32, C, data=np.array([limits + [0] * 13])),
        "tmp": T((1, 16), D.DT_UINT32, E), "extra": T((1, 16), D.DT_UINT32, E + 0x1000),
    }, {"cmp_mode": cmp_mode, "offset": 5}))
    pitch = -(-cols // group) * group
    tested = cols if dtype.bits() == 32 else min(pitch, 128)
    for r in range(3):
        scores = [score(values[r, c], dtype) for c in range(tested)]
        hits = [c for c, s in enumerate(scores) if (s > limits[r] if cmp_mode == 4 else s == limits[r])]
        assert seen.after["out"][r, : len(hits)].tolist() == [5 + r * pitch + c for c in hits]
        assert (seen.after["out"][r, len(hits) :] == seen.before["out"][r, len(hits) :]).all()
        assert seen.after["tmp"][0, r] == 4 * len(hits)


@pytest.mark.parametrize("dtype", [D.DT_FP32, D.DT_BF16, D.DT_INT8, D.DT_HF8], ids=lambda d: d.name)
def test_gather_blocks(dtype: D) -> None:
    per = 32 // dtype.nbytes
    offsets = RNG.integers(0, 4, (4, 8)) * 32
    offsets[0, 1] = 4 * 2 * per * dtype.nbytes  # one block past the end: left as it is
    seen = observe(Case("gatherb", {"out": T((4, 4 * per), dtype, A, (3, 3 * per)), "src": T((4, 2 * per), dtype, B),
                                    "offsets": T((4, 8), D.DT_UINT32, C, data=offsets)}, values=None))
    source = raw(seen.before["src"]).reshape(-1).view(np.uint8)
    found = raw(seen.after["out"])
    for i in range(3):
        for k in range(3):
            block = found[i, k * per : (k + 1) * per].copy().view(np.uint8)
            old = raw(seen.before["out"])[i, k * per : (k + 1) * per].copy().view(np.uint8)
            start = offsets[i, k]
            assert (block == (old if (i, k) == (0, 1) else source[start : start + 32])).all()


@pytest.mark.parametrize("dtype", [*rules.NUMBERS, D.DT_FP8E5M2], ids=lambda d: d.name)
@pytest.mark.parametrize("mode", range(1, 8))
def test_gathermask(dtype: D, mode: int) -> None:
    seen = observe(Case("gathermask", {"out": T((4, 64), dtype, A), "src": T((4, 96), dtype, B, (3, 42))},
                        {"pattern_mode": mode}, values=None))
    pick = {1: slice(0, None, 2), 2: slice(1, None, 2), 3: slice(0, None, 4), 4: slice(1, None, 4),
            5: slice(2, None, 4), 6: slice(3, None, 4), 7: slice(None)}[mode]
    stream = np.concatenate([raw(seen.before["src"])[r, :42][pick] for r in range(3)])
    found = raw(seen.after["out"]).reshape(-1)
    assert found[: stream.size].tolist() == stream.tolist()
    assert (found[stream.size :] == raw(seen.before["out"]).reshape(-1)[stream.size :]).all()


@pytest.mark.parametrize(("dtype", "index"), [
    (d, i) for d in rules.NUMBERS for i in (NARROW if d.bits() <= 16 else WIDE)], ids=lambda d: d.name)
def test_scatter(dtype: D, index: D) -> None:
    at = RNG.permutation(4 * 96)[: 4 * 64].reshape(4, 64)
    at[2, 4] = at[0, 1]  # the later one wins
    at[1, 1] = 4 * 96 + 3  # outside: dropped
    seen = observe(Case("scatter", {"out": T((4, 96), dtype, A, (2, 10)), "src": T((4, 64), dtype, B),
                                    "idx": T((4, 64), index, C, (3, 40), data=at)}, values=None))
    wanted = [0] * (4 * 96)
    for i in range(3):
        for j in range(40):
            if at[i, j] < len(wanted):
                wanted[at[i, j]] = int(raw(seen.before["src"])[i, j])
    assert raw(seen.after["out"]).reshape(-1).tolist() == wanted


@pytest.mark.parametrize("is_msb", [True, False])
@pytest.mark.parametrize("dtype", [D.DT_UINT16, D.DT_UINT32], ids=lambda d: d.name)
def test_histogram(dtype: D, is_msb: bool) -> None:
    upper = RNG.integers(0, 3, (4, 64))
    values = (upper << 8 | RNG.integers(0, 256, (4, 64))).astype(np.uint64)
    if dtype is D.DT_UINT32:
        values |= np.uint64(0x01020000)
    idx = T((32, 1), D.DT_UINT8, C, data=np.array([[0], [1], [2]] + [[0]] * 29)) if dtype is D.DT_UINT16 else T(
        (3, 64), D.DT_UINT8, C, data=np.array([[1] * 64, [2] * 64, [1] * 64]))
    seen = observe(Case("histogram", {"dst": T((4, 288), D.DT_UINT32, A, (3, 288)), "src": T((4, 64), dtype, B, (3, 50),
                        data=values), "idx": idx}, {"is_msb": is_msb}))
    for r in range(3):
        row = [int(v) for v in values[r, :50]]
        if is_msb:
            chosen = [v >> (dtype.bits() - 8) for v in row]
        elif dtype is D.DT_UINT16:
            chosen = [v & 255 for v in row if v >> 8 == r]
        else:
            chosen = [v & 255 for v in row if v >> 8 == 0x010201]
        assert seen.after["dst"][r, :256].tolist() == [sum(v <= b for v in chosen) for b in range(256)]
    assert (seen.after["dst"][:3, 256:] == seen.before["dst"][:3, 256:]).all()


# --- sorting ----------------------------------------------------------------------------------------------------------


def record(value: float, index: int, dtype: D) -> list[Any]:
    """A record as raw elements."""
    bits = int(np.asarray(value, np.float32).astype(dtype.numpy).view(dtype.bits_dtype))
    return [bits, index] if dtype is D.DT_FP32 else [bits, 0, index & 0xFFFF, index >> 16]


def ordinary(dtype: D, shape: tuple[int, ...]) -> np.ndarray:
    """Values with many ties, both zeros and infinities, no NaN."""
    values = RNG.choice([-np.inf, -2.0, -0.0, 0.0, 0.5, 1.0, 3.0, np.inf], shape)
    return values.astype(np.float32).astype(dtype.numpy)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("cols", [32, 64, 16, 45])
@pytest.mark.parametrize("dtype", [D.DT_FP16, D.DT_FP32], ids=lambda d: d.name)
def test_sort32(dtype: D, cols: int, shared: bool) -> None:
    per = 8 // dtype.nbytes
    values, index = ordinary(dtype, (3, 64)), RNG.integers(0, 2**32, (1 if shared else 3, 64))
    seen = observe(Case("sort32", {
        "dst": T((3, 64 * per), dtype, A), "src": T((3, 64), dtype, B, (3, cols), data=values),
        "idx": T(index.shape, D.DT_UINT32, C, data=index), "tmp": T((1, 64), dtype, E),
    }))
    found = raw(seen.after["dst"])
    for r in range(3):
        wanted: list[int] = []
        for c in range(0, cols, 32):
            order = sorted(range(c, min(c + 32, cols)), key=lambda k: -float(values[r, k]))
            for k in order:
                wanted += record(values[r, k], int(index[0 if shared else r, k]), dtype)
        assert found[r, : cols * per].tolist() == wanted
        assert (found[r, cols * per :] == raw(seen.before["dst"])[r, cols * per :]).all()
    assert (raw(seen.after["src"]) == raw(seen.before["src"])).all()


def sorted_list(count: int, dtype: D, first: int) -> tuple[list[float], np.ndarray]:
    """`count` descending values and the row of raw elements of their records, indexed from `first`."""
    values = sorted(ordinary(dtype, (count,)).astype(float), reverse=True)
    elements = [e for k, v in enumerate(values) for e in record(v, first + k, dtype)]
    return values, np.array([elements], dtype.bits_dtype).view(dtype.numpy)


@pytest.mark.parametrize("block", [64, 128])
@pytest.mark.parametrize("dtype", [D.DT_FP16, D.DT_FP32], ids=lambda d: d.name)
def test_mrgsort(dtype: D, block: int) -> None:
    per, count = 8 // dtype.nbytes, 8
    lists = [sorted_list(block // per, dtype, 1000 * k) for k in range(count)]
    data = np.concatenate([elements for _, elements in lists], axis=1)
    tiles = {"dst": T((1, 8 * block + 64), dtype, A), "src": T((1, 8 * block), dtype, B, data=data)}
    seen = observe(Case("mrgsort", tiles, {"block_len": block}))
    wanted: list[int] = []
    for g in range(0, count, 4):
        merged = [(v, 1000 * (g + k) + n) for k in range(4) for n, v in enumerate(lists[g + k][0])]
        for v, n in sorted(merged, key=lambda pair: -pair[0]):
            wanted += record(v, n, dtype)
    assert raw(seen.after["dst"])[0, : 8 * block].tolist() == wanted
    assert (raw(seen.after["dst"])[0, 8 * block :] == raw(seen.before["dst"])[0, 8 * block :]).all()


@pytest.mark.parametrize("exhausted", [True, False])
@pytest.mark.parametrize("lengths", [(10, 20), (7, 7, 7), (1, 30, 5, 9)], ids=str)
@pytest.mark.parametrize("dtype", [D.DT_FP16, D.DT_FP32], ids=lambda d: d.name)
def test_mrgsort2(dtype: D, lengths: tuple[int, ...], exhausted: bool) -> None:
    """Heads are taken one by one; `exhausted` stops when a list is empty; dst gets what tmp then holds."""
    per = 8 // dtype.nbytes
    lists = [sorted_list(n, dtype, 1000 * k) for k, n in enumerate(lengths)]
    sources = {f"src{k}": T((1, 256), dtype, B + 0x1000 * k, (1, lengths[k] * per), data=elements)
               for k, (_, elements) in enumerate(lists)}
    seen = observe(Case("mrgsort2", {**sources, "dst": T((1, 128), dtype, A), "tmp": T((1, 256), dtype, E)},
                        {"exhausted": exhausted}))
    heads, stream = [0] * len(lists), []
    while any(h < n for h, n in zip(heads, lengths, strict=True)):
        open_ = [k for k in range(len(lists)) if heads[k] < lengths[k]]
        best = max(open_, key=lambda k: (lists[k][0][heads[k]], -k))
        stream += record(lists[best][0][heads[best]], 1000 * best + heads[best], dtype)
        heads[best] += 1
        if exhausted and heads[best] == lengths[best]:
            break
    held = raw(seen.before["tmp"])[0].tolist()
    held[: len(stream)] = stream
    assert raw(seen.after["dst"])[0].tolist() == held[:128]


def test_mrgsort2_drops_what_passes_the_end_of_a_short_tmp() -> None:
    """The published example merges 2 x 256 columns through a tmp of 256."""
    lists = [sorted_list(128, D.DT_FP32, 1000 * k) for k in range(2)]
    seen = observe(Case("mrgsort2", {
        "src0": T((1, 256), D.DT_FP32, B, data=lists[0][1]), "src1": T((1, 256), D.DT_FP32, C, data=lists[1][1]),
        "dst": T((1, 256), D.DT_FP32, A), "tmp": T((1, 256), D.DT_FP32, E),
    }))
    merged = sorted([(v, 1000 * k + n) for k in (0, 1) for n, v in enumerate(lists[k][0])], key=lambda p: -p[0])[:128]
    assert raw(seen.after["dst"])[0].tolist() == [e for v, n in merged for e in record(v, n, D.DT_FP32)]


# --- quantisation -----------------------------------------------------------------------------------------------------


def f32(x: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(x))


@pytest.mark.parametrize("mode", QuantMode)
def test_quant(mode: QuantMode) -> None:
    low, high = (-128, 127) if mode is QuantMode.SYM else (0, 255)
    data = edges(D.DT_FP32, (8, 64), 1)
    data[1] = np.arange(64) / 2 - 16  # ties
    scale, offset = RNG.uniform(0.5, 20, (8, 1)), RNG.uniform(-90, 90, (8, 1))
    scale[1], offset[1] = 1.0, 3.0
    given = {"offset": T((8, 1), D.DT_FP32, E, data=offset)} if mode is QuantMode.ASYM else {}
    kind = D.DT_INT8 if mode is QuantMode.SYM else D.DT_UINT8
    seen = observe(Case("quant", {"out": T((8, 64), kind, A), "src": T((8, 64), D.DT_FP32, B, (5, 37), data=data),
                                  "scale": T((8, 1), D.DT_FP32, C, data=scale), **given}, {"mode": mode}))

    def wanted(i: int, j: int) -> int:
        value = f32(float(data[i, j]) * f32(scale[i, 0]))
        if mode is QuantMode.ASYM:
            value = f32(value + f32(offset[i, 0]))
        return 0 if math.isnan(value) else int(min(max(np.rint(value), low), high))

    check_elements(seen, "out", 5, 37, wanted)


@pytest.mark.parametrize("dtype", [D.DT_INT8, D.DT_INT16])
def test_dequant(dtype: D) -> None:
    scale, offset = RNG.uniform(-2, 2, (8, 1)), RNG.uniform(-9, 9, (8, 1))
    seen = observe(Case("dequant", {
        "out": T((8, 64), D.DT_FP32, A, (5, 37)), "src": T((8, 64), dtype, B, data=edges(dtype, (8, 64), 2)),
        "scale": T((8, 1), D.DT_FP32, C, data=scale), "offset": T((8, 1), D.DT_FP32, E, data=offset),
    }))
    rows = seen.rows("src")
    check_elements(seen, "out", 5, 37, lambda i, j: f32(f32(rows[i][j] - f32(offset[i, 0])) * f32(scale[i, 0])))


# --- fills and layouts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", rules.NUMBERS, ids=lambda d: d.name)
def test_expands(dtype: D) -> None:
    for out, shape in ((T((4, 64), dtype, A, (3, 37)), (3, 37)), (T((32, 1), dtype, A, (5, 1)), (5, 1))):
        seen = observe(Case("expands", {"out": out, "scalar": 7}))
        check_elements(seen, "out", *shape, lambda i, j: 7)
    mat = T((32, 32), dtype, A, (3, 5), layout=TensorLayout.NZ, space=MemorySpace.Mat)
    assert (observe(Case("expands", {"out": mat, "scalar": 7})).after["out"] == 7).all()


@pytest.mark.parametrize("start", [0, -3, 2**31 - 5, 40000])
@pytest.mark.parametrize("dtype", [*NARROW, *WIDE], ids=lambda d: d.name)
def test_fill_index_wraps(dtype: D, start: int) -> None:
    seen = observe(Case("fill_index", {"out": T((1, 64), dtype, A, (1, 37)), "start": start}))
    top = 1 << dtype.bits()
    check_elements(seen, "out", 1, 37, lambda i, j: ((start + j + (top // 2 if dtype.is_signed_int() else 0)) % top)
                   - (top // 2 if dtype.is_signed_int() else 0))


PADS = {1: lambda d: 0, 2: lambda d: math.inf if d.is_float() else d.int_max,
        3: lambda d: -math.inf if d.is_float() else d.int_min}


@pytest.mark.parametrize("pad", [1, 2, 3])
@pytest.mark.parametrize("mode", FillPadMode)
@pytest.mark.parametrize("dtype", [*rules.INTS[:6], *rules.FLOATS], ids=lambda d: d.name)
def test_fillpad(dtype: D, mode: FillPadMode, pad: int) -> None:
    src = T((6, 64), dtype, B, (4, 37), data=edges(dtype, (6, 64), 1))
    shape, valid_rows = ((8, 96), 8) if mode is FillPadMode.EXPAND else ((6, 64), 5)
    at = B if mode is FillPadMode.INPLACE else A
    out = T(shape, dtype, at, (valid_rows, shape[1]), pad=pad, data=src.data if mode is FillPadMode.INPLACE else None)
    seen = observe(Case("fillpad", {"out": out, "src": src}, {"mode": mode}))
    source = seen.before["src"]
    check_elements(seen, "out", valid_rows, shape[1],
                   lambda i, j: source[i, j] if i < 4 and j < 37 else PADS[pad](dtype), same)


def test_fillpad_leaves_rows_past_the_valid_ones_of_out() -> None:
    out = T((6, 64), D.DT_FP32, A, (2, 64), pad=1)  # out is valid for fewer rows than src: src's rows are still copied
    seen = observe(Case("fillpad", {"out": out, "src": T((6, 64), D.DT_FP32, B, (4, 37))}))
    source = seen.before["src"]
    check_elements(seen, "out", 4, 64, lambda i, j: source[i, j] if j < 37 else 0.0)


def test_fillpad_of_a_mat_tile_zeroes_whole_boxes() -> None:
    box = T((32, 48), D.DT_FP16, A, (20, 19), TensorLayout.NZ, MemorySpace.Mat, pad=1)
    seen = observe(Case("fillpad", {"out": box, "src": box}))
    before = seen.before["src"]
    check_elements(seen, "out", 32, 48, lambda i, j: before[i, j] if j < 32 and i < 20 else 0.0)


@pytest.mark.parametrize("valid", [(1, 1), (11, 37), (16, 64)], ids=str)
@pytest.mark.parametrize("dtype", [*rules.INTS[:6], *rules.FLOATS], ids=lambda d: d.name)
def test_transpose(dtype: D, valid: tuple[int, int]) -> None:
    rows, cols = (32, 64) if dtype.bits() == 8 else (16, 64)
    seen = observe(Case("transpose", {"out": T((64, rows), dtype, A), "src": T((rows, cols), dtype, B, valid)},
                        values=None))
    before = seen.before["src"]
    check_elements(seen, "out", valid[1], valid[0], lambda i, j: before[j, i],
                   lambda found, wanted: found.tobytes() == wanted.tobytes())
