"""Cases of the tile vector ops beyond the foundations: every op, several dtypes, tails, in place, odd pitches."""

import numpy as np

from ops.harness import Case, T
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import FillPadMode, MemorySpace, QuantMode, RoundMode, TensorLayout
from pypto_pro.ops import rules

A, B, C, E = 0, 0x8000, 0x10000, 0x18000
VALID = (5, 37)
MASK = T((8, 64), D.DT_UINT8, E)
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def tile(dtype: D, addr: int = A, valid: tuple[int, int] = VALID, rows: int = 8, cols: int = 64, **more: object) -> T:
    return T((rows, cols), dtype, addr, valid, **more)  # type: ignore[arg-type]


def three(op: str, dtype: D, names: tuple[str, str, str] = ("out", "lhs", "rhs"), **attrs: object) -> list[Case]:
    """Two tile sources apart, and in place with the first."""
    out, lhs, rhs = names
    apart = {out: tile(dtype), lhs: tile(dtype, B, cols=96), rhs: tile(dtype, C)}
    return [Case(op, apart, dict(attrs)), Case(op, {**apart, out: apart[lhs]}, dict(attrs))]


def number(dtype: D) -> float:
    return 3 if dtype.is_int() else 1.5


def with_scalar(op: str, dtype: D, **more: object) -> Case:
    return Case(op, {"out": tile(dtype), "lhs": tile(dtype, B), "scalar": number(dtype), **more})


def two(op: str, dtype: D) -> Case:
    return Case(op, {"out": tile(dtype), "src": tile(dtype, B, cols=96)}, values=(0.1, 3.0))


def comparison(op: str, dtype: D, scalar: bool) -> Case:
    other = number(dtype) if scalar else tile(dtype, C)
    return Case(op, {"out": tile(D.DT_UINT8, E), "lhs": tile(dtype, B), "rhs": other})


def selection(dtype: D, scalar: bool) -> Case:
    other = number(dtype) if scalar else tile(dtype, C)
    return Case("select", {"out": tile(dtype), "mask": MASK, "lhs": tile(dtype, B), "rhs": other, "tmp": MASK})


def partial(op: str, dtype: D, first: tuple[int, int], second: tuple[int, int]) -> Case:
    return Case(op, {"out": tile(dtype), "src0": tile(dtype, B, first), "src1": tile(dtype, C, second)})


def arg(op: str, dim: int, dtype: D) -> Case:
    out = T((16, 1), D.DT_INT32, A, (9, 1)) if dim == 0 else T((1, 64), D.DT_UINT32, A, (1, 50))
    src = T((16, 64), dtype, B, (9, 50))
    return Case(op, {"out": out, "src": src, "tmp": src}, {"dim": dim})


def product(op: str, dtype: D) -> Case:
    out = T((16, 1), dtype, A, (9, 1)) if op.startswith("row") else T((1, 64), dtype, A, (1, 50))
    src = T((16, 64), dtype, B, (9, 50))
    return Case(op, {"out": out, "src": src, "tmp": src}, values=(0.8, 1.2))


def broadcast(op: str, dtype: D = D.DT_FP32) -> Case:
    vector = T((16, 1), dtype, C, (16, 1)) if op.startswith("row") else T((1, 64), dtype, C, (1, 64))
    out = T((16, 64), dtype, A, (9, 50))
    if op in ("row_expand", "col_expand"):
        return Case(op, {"out": out, "src": vector})
    return Case(op, {"out": out, "src": T((16, 64), dtype, B, (9, 50)), "scalar": vector}, values=(0.5, 2.0))


BROADCASTS = [broadcast(f"{axis}_expand{kind}") for axis in ("row", "col") for kind in ("_add", "_expdif", "")]


def swapped_broadcast(dim: int) -> Case:
    """The vector in the place of the full operand."""
    vector = T((16, 1), addr=B, valid=(16, 1)) if dim == 0 else T((1, 64), addr=B, valid=(1, 64))
    full = T((16, 64), addr=C, valid=(9, 50))
    return Case("expand_sub", {"out": T((16, 64), valid=(9, 50)), "src": vector, "scalar": full}, {"dim": dim})


RNG = np.random.default_rng(5)


def gathered(dtype: D, index: D, tmp: bool = True) -> Case:
    """Indices inside and outside the source."""
    size = 4 * 64
    top = min(size + 40, 1 << index.bits())
    idx = T((8, 64), index, C, VALID, data=RNG.integers(0, top, (8, 64)))
    operands = {"out": tile(dtype), "src": T((4, 64), dtype, B, (3, 40)), "idx": idx}
    return Case("gather", {**operands, "tmp": idx} if tmp else operands)


def matching(dtype: D, k: D, mode: int, cols: int = 70, valid: int = 70) -> Case:
    """The compare form over three rows; thresholds near the middle so that rows match in part."""
    wide = -(-cols // 128) * 128
    top = 1 << min(dtype.bits(), 8)
    scores = RNG.integers(0, top, (4, wide))
    return Case("gather", {
        "out": T((4, wide * 2), D.DT_INT32, A, (3, 64)), "src": T((4, wide), dtype, B, (3, valid), data=scores),
        "idx": T((1, 32), k, C, data=RNG.integers(60, 190, (1, 32))), "tmp": T((1, 32), D.DT_UINT32, E),
        "extra": T((1, 32), D.DT_UINT32, E + 0x1000),
    }, {"cmp_mode": mode, "offset": 7})


def blocks(dtype: D) -> Case:
    per = 256 // dtype.bits()
    offsets = RNG.integers(0, 8, (4, 8)) * 32
    offsets[1, 2] = 4096
    return Case("gatherb", {"out": T((4, 4 * per), dtype, A, (3, 3 * per)), "src": T((4, 2 * per), dtype, B),
                            "offsets": T((4, 8), D.DT_UINT32, C, data=offsets)})


def pattern(dtype: D, mode: int) -> Case:
    return Case("gathermask", {"out": T((4, 64), dtype), "src": T((4, 64), dtype, B, (3, 41))}, {"pattern_mode": mode})


def scattered(dtype: D, index: D) -> Case:
    spread = RNG.permutation(280)[:256].reshape(4, 64)  # some outside the 256 elements of out
    idx = T((4, 64), index, C, (3, 40), data=spread)
    return Case("scatter", {"out": T((4, 64), dtype), "src": T((4, 64), dtype, B, (4, 64)), "idx": idx})


def counted(dtype: D, is_msb: bool) -> Case:
    keys = RNG.integers(0, 3, (4, 64)) << 8 | RNG.integers(0, 256, (4, 64))
    idx = T((32, 1), D.DT_UINT8, C, data=np.full((32, 1), 1)) if dtype is D.DT_UINT16 else T(
        (3, 64), D.DT_UINT8, C, data=np.array([[0] * 64, [0] * 64, [1] * 64]))
    return Case("histogram", {"dst": T((4, 256), D.DT_UINT32), "src": T((4, 64), dtype, B, (3, 50), data=keys),
                              "idx": idx}, {"is_msb": is_msb})


def sorted_groups(dtype: D, cols: int, shared: bool, tmp: bool) -> Case:
    per = 8 // dtype.nbytes
    operands = {
        "dst": T((4, 64 * per), dtype, A, (3, 64 * per)), "src": T((4, 64), dtype, B, (3, cols)),
        "idx": T((1 if shared else 4, 64), D.DT_UINT32, C),
    }
    return Case("sort32", {**operands, "tmp": T((1, 64), dtype, E)} if tmp else operands)


def records(count: int, dtype: D) -> np.ndarray:
    """`count` records sorted descending, as one row of elements."""
    values = -np.sort(-RNG.uniform(-9, 9, count)).astype(dtype.numpy)
    rows = np.zeros((count, 8 // dtype.nbytes), dtype.numpy)
    rows[:, 0] = values
    return rows.reshape(1, -1)


def merged(dtype: D) -> Case:
    per = 8 // dtype.nbytes
    data = np.concatenate([records(64 // per, dtype) for _ in range(8)], axis=1)
    return Case("mrgsort", {"dst": T((1, 640), dtype), "src": T((1, 640), dtype, B, (1, 512), data=data)},
                {"block_len": 64})


def lists(dtype: D, lengths: tuple[int, ...], dst: int, tmp: int, exhausted: bool) -> Case:
    per = 8 // dtype.nbytes
    addrs = (B, B + 0x1000, C, C + 0x1000)
    made = {f"src{k}": T((1, 256), dtype, addrs[k], (1, n * per), data=records(n, dtype))
            for k, n in enumerate(lengths)}
    return Case("mrgsort2", {**made, "dst": T((1, tmp), dtype, A, (1, dst)), "tmp": T((1, tmp), dtype, E)},
                {"exhausted": exhausted})


def quantised(mode: QuantMode) -> Case:
    column = T((8, 1), D.DT_FP32, C, (8, 1))
    offset = {"offset": T((8, 1), D.DT_FP32, E, (8, 1))} if mode is QuantMode.ASYM else {}
    out = D.DT_INT8 if mode is QuantMode.SYM else D.DT_UINT8
    return Case("quant", {"out": tile(out), "src": tile(D.DT_FP32, B), "scale": column, **offset}, {"mode": mode})


def dequantised(dtype: D) -> Case:
    return Case("dequant", {"out": tile(D.DT_FP32), "src": tile(dtype, B), "scale": T((8, 1), D.DT_FP32, C, (5, 1)),
                            "offset": T((8, 1), D.DT_FP32, E, (5, 1))})


def padded(dtype: D, mode: FillPadMode, pad: int) -> Case:
    src = T((6, 64), dtype, B, (4, 37))
    out = {
        FillPadMode.NORMAL: T((6, 64), dtype, A, (5, 64), pad=pad),
        FillPadMode.EXPAND: T((8, 96), dtype, A, (8, 96), pad=pad),
        FillPadMode.INPLACE: T((6, 64), dtype, B, (6, 64), pad=pad),
    }[mode]
    return Case("fillpad", {"out": out, "src": src}, {"mode": mode})


def mat_padded() -> Case:
    box = T((32, 48), D.DT_FP16, A, (20, 19), TensorLayout.NZ, MemorySpace.Mat, pad=1)
    return Case("fillpad", {"out": box, "src": box}, {"mode": FillPadMode.NORMAL})


def cast_chain(op: str, source: D, target: D) -> Case:
    operands = {"out": tile(target), "lhs": tile(source, B, (6, 40)), "rhs": tile(source, C)}
    return Case(op, operands, {"target_type": target, "mode": RoundMode.CAST_RINT})


F32, F16, B16 = D.DT_FP32, D.DT_FP16, D.DT_BF16
INTS = (D.DT_INT8, D.DT_UINT8, D.DT_INT16, D.DT_UINT32)
WIDE_VALID = (3, 130)

CASES: list[Case] = [
    *(c for d in INTS for op in ("and_", "shl", "shr") for c in three(op, d)),
    *(Case("xor", {**c.operands, "tmp": tile(d, E)}) for d in INTS for c in three("xor", d)),
    *(with_scalar(op, d) for d in INTS for op in ("ors", "shls", "shrs")),
    with_scalar("xors", D.DT_INT32, tmp=tile(D.DT_INT32, E)),
    *(c for d in (D.DT_INT32, D.DT_UINT16, F32, F16) for c in three("rem", d)),
    *(two(op, d) for op in ("log", "relu", "abs") for d in (F32, F16)),
    *(two("neg", d) for d in (F32, B16, D.DT_UINT16, D.DT_INT64)),
    *(two(op, D.DT_INT32) for op in ("relu", "abs")),
    Case("fill_index", {"out": T((1, 64), D.DT_INT32, A, (1, 37)), "start": -3}),
    *(comparison(op, d, s) for op in COMPARISONS for d in (F32, B16, D.DT_INT8, D.DT_INT64) for s in (True, False)),
    Case("lt", {"out": T((4, 64), D.DT_UINT8, E, (1, 1)), "lhs": T((4, 160), F16, A, WIDE_VALID), "rhs": 0.0}),
    *(selection(d, s) for d in (F32, F16, D.DT_INT8, D.DT_UINT64) for s in (True, False)),
    selection(B16, scalar=False),
    *(c for op in ("add_relu", "sub_relu") for d in (F32, F16, D.DT_INT32) for c in three(op, d)),
    *(c for op in ("mul_add_dst", "fused_mul_add") for d in (F32, B16, D.DT_INT16) for c in three(op, d)[:1]),
    *(c for d in (F32, F16, D.DT_INT32) for c in three("fused_mul_add_relu", d, ("out", "a", "b"))[:1]),
    *(cast_chain(op, F32, d) for op in ("add_relu_cast", "sub_relu_cast", "mul_cast") for d in (F16, D.DT_INT16, F32)),
    cast_chain("mul_cast", B16, D.DT_FP4E2M1),
    *(Case(op, {"out": tile(d), "a": tile(d, B), "b": tile(d, C), "c": tile(d, E)})
      for op in ("addc", "subc") for d in (F32, F16, D.DT_INT16)),
    *(Case(op, {"out": tile(d), "a": tile(d, B), "scalar": number(d), "c": tile(d, E)})
      for op in ("addsc", "subsc") for d in (F32, F16, D.DT_INT16)),
    *(Case("axpy", {"out": tile(o), "src": tile(s, B), "alpha": 0.3}) for o, s in ((F32, F32), (F16, F16), (F32, F16))),
    *(partial(op, d, *shapes) for op in ("partadd", "partmax", "partmin", "partmul") for d in (F32, D.DT_INT8)
      for shapes in ((VALID, (3, 20)), ((5, 20), VALID), (VALID, VALID), ((0, 0), VALID))),
    *(arg(op, dim, d) for op in ("argmax", "argmin") for dim in (0, 1) for d in (F32, F16, B16, D.DT_INT32)),
    *(Case(op, {"out": T((1, 8), D.DT_INT32), "src": T((64, 8), d, B, (50, 7), TensorLayout.DN),
                "tmp": T((64, 8), d, C)}, {"dim": 1}) for op in ("argmax", "argmin") for d in (F32, D.DT_INT8)),
    *(product(op, d) for op in ("row_prod", "col_prod") for d in (F32, D.DT_INT16)),
    *BROADCASTS,
    *(broadcast(f"{axis}_expand", D.DT_INT8) for axis in ("row", "col") if axis == "col"),
    swapped_broadcast(0),
    swapped_broadcast(1),
    *(gathered(d, i) for d, i in ((F32, D.DT_INT32), (F16, D.DT_UINT16), (F16, D.DT_INT32), (D.DT_INT8, D.DT_UINT16),
                                  (D.DT_INT64, D.DT_UINT32), (D.DT_HF8, D.DT_INT16))),
    gathered(F32, D.DT_UINT32, tmp=False),
    *(matching(d, D.DT_UINT32, m) for d in (D.DT_INT16, D.DT_UINT8, D.DT_INT32, F16, F32) for m in (4, 0)),
    matching(D.DT_UINT16, D.DT_UINT16, 4, 128, 128),
    *(blocks(d) for d in (F32, F16, D.DT_UINT8)),
    *(pattern(d, m) for d in (F32, D.DT_INT64, D.DT_FP8E5M2) for m in range(1, 8)),
    *(scattered(d, i) for d, i in ((F32, D.DT_INT32), (B16, D.DT_UINT16), (D.DT_UINT8, D.DT_INT16),
                                   (D.DT_INT64, D.DT_UINT32))),
    *(counted(d, msb) for d in (D.DT_UINT16, D.DT_UINT32) for msb in (True, False)),
    *(sorted_groups(d, *how) for d in (F32, F16) for how in ((64, True, False), (32, False, False), (45, False, True))),
    *(merged(d) for d in (F32, F16)),
    lists(F32, (20, 30), 100, 256, exhausted=False),
    lists(F16, (20, 10, 7), 100, 256, exhausted=False),
    lists(F32, (20, 30, 5, 9), 100, 256, exhausted=True),
    lists(F32, (64, 64), 128, 128, exhausted=False),
    lists(F32, (4, 3), 100, 128, exhausted=False),
    quantised(QuantMode.SYM),
    quantised(QuantMode.ASYM),
    *(dequantised(d) for d in (D.DT_INT8, D.DT_INT16)),
    *(padded(d, m, p) for d in (F32, D.DT_INT8, F16) for m in FillPadMode for p in (1, 2, 3)),
    mat_padded(),
    *(Case("transpose", {"out": T((64, 16), d), "src": T((16, 64), d, B, (11, 37))}) for d in (F32, F16)),
    Case("transpose", {"out": T((64, 32), D.DT_INT8), "src": T((32, 64), D.DT_UINT8, B, (11, 37))}),
    *(Case(op, {}) for op in ("set_mask_count", "set_mask_norm", "reset_mask")),
    Case("set_vec_mask", {"mask_high": 0, "mask_low": 255}),
    Case("cast", {"out": tile(D.DT_FP4E1M2), "src": tile(B16, B)}),
    *(Case("expands", {"out": tile(d), "scalar": number(d)}) for d in rules.NUMBERS),
]
