"""Cases of the ops the foundations came with: transfers, element access, arithmetic, reductions, broadcasts, cube."""

from ops.harness import Case, G, T
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import AccToVecMode, AtomicType, MemorySpace, TensorLayout
from pypto_pro.enums import TensorLayout as L

S = MemorySpace
A, B, C = 0, 0x8000, 0x10000


def binary(op: str, dtype: D, **attrs: object) -> list[Case]:
    shape, valid = (8, 256 // dtype.bits() * 2), (5, 256 // dtype.bits() + 3)
    tiles = {"out": T(shape, dtype, A, valid), "lhs": T(shape, dtype, B, valid), "rhs": T(shape, dtype, C, valid)}
    scalar = {**tiles, "rhs": 3 if dtype.is_int() else 1.5}
    in_place = {**tiles, "out": tiles["lhs"]}
    return [Case(op, o, dict(attrs)) for o in (tiles, scalar, in_place)]


def unary(op: str, dtype: D) -> list[Case]:
    shape, valid = (4, 64), (3, 37)
    return [Case(op, {"out": T(shape, dtype, A, valid), "src": T((4, 96), dtype, B, (4, 90))}, values=(0.1, 3.0))]


def reduction(op: str, source: str, dim: int, dtype: D) -> Case:
    out = T((16, 1), dtype, A, (9, 1)) if dim == 0 else T((1, 64), dtype, A, (1, 50))
    scratch = "rhs" if source == "lhs" else "tmp"
    operands = {"out": out, source: T((16, 64), dtype, B, (9, 50)), scratch: T((16, 64), dtype, C)}
    return Case(op, operands, {"dim": dim})


def expand(op: str, dim: int) -> Case:
    vector = T((16, 1), addr=C, valid=(16, 1)) if dim == 0 else T((1, 64), addr=C, valid=(1, 64))
    return Case(op, {"out": T((16, 64), valid=(9, 50)), "src": T((16, 64), addr=B, valid=(9, 50)), "scalar": vector},
                {"dim": dim}, values=(0.5, 2.0))


LOADS = [
    Case("load", {"dst_tile": T((16, 64), valid=(9, 37)), "src_tensor": G((40, 100)), "offsets": (3, 5)}),
    Case("load", {"dst_tile": T((16, 64), valid=(9, 37), pad=2), "src_tensor": G((40, 100)), "offsets": (3, 5)}),
    Case("load", {"dst_tile": T((16, 1), valid=(9, 1)), "src_tensor": G((40, 1)), "offsets": (3, 0)}),
    Case("load", {"dst_tile": T((1, 64), valid=(1, 37)), "src_tensor": G((100,)), "offsets": (7,)}),
    Case("load", {"dst_tile": T((32, 48), D.DT_FP16, valid=(20, 35), space=S.Mat), "src_tensor": G((64, 64), D.DT_FP16),
                  "offsets": (1, 2)}),
    Case("load", {"dst_tile": T((32, 48), D.DT_FP16, valid=(20, 35), space=S.Mat, layout=L.ZN),
                  "src_tensor": G((64, 64), D.DT_FP16), "offsets": (1, 2)}, {"order": (1, 0)}),
]
LOADS += [
    Case("load", {"dst_tile": T((32, 4), D.DT_FP8E8M0, valid=(20, 4), space=S.Mat, layout=L.ZZ, fractal=32),
                  "src_tensor": G((40, 6, 2), D.DT_FP8E8M0), "offsets": (3, 1, 0)}),
    Case("load", {"dst_tile": T((4, 32), D.DT_FP8E8M0, valid=(4, 20), space=S.Mat, layout=L.NN, fractal=32),
                  "src_tensor": G((40, 6, 2), D.DT_FP8E8M0), "offsets": (3, 1, 0)}, {"order": (1, 0)}),
]
STORES = [
    Case("store", {"dst_tensor": G((40, 100)), "src_tile": T((16, 64), valid=(9, 37)), "offsets": (3, 5)}),
    Case("store", {"dst_tensor": G((40, 100)), "src_tile": T((16, 64), valid=(9, 37)), "offsets": (3, 5)},
         {"atomic": AtomicType.AtomicAdd}),
    Case("store", {"dst_tensor": G((40, 100), D.DT_FP16), "offsets": (0, 5),
                   "src_tile": T((32, 48), valid=(20, 35), space=S.Acc, compact=1)}),
    Case("store", {"dst_tensor": G((40, 100), D.DT_INT8), "offsets": (0, 5), "scale": 0.5,
                   "src_tile": T((32, 48), valid=(32, 35), space=S.Acc)}),
]
ELEMENTS = [
    Case("setval", {"container": T((8, 64)), "offset": 70, "value": 1.25}),
    Case("setval", {"container": G((8, 64), D.DT_INT32), "offset": 70, "value": 9}),
    Case("getval", {"container": T((8, 64)), "offset": 70}),
]


def matmul(op: str, dtype: D, acc: D = D.DT_FP32, **more: object) -> Case:
    dst = T((32, 48), acc, valid=(20, 35), space=S.Acc, compact=1)
    operands = {
        "dst_tile": dst,
        "lhs_tile": T((32, 64), dtype, valid=(20, 40), space=S.Left, compact=1),
        "rhs_tile": T((64, 48), dtype, valid=(40, 35), space=S.Right, compact=1),
        **more,
    }
    return Case(op, {**operands, "acc_tile": dst} if op.endswith("acc") else operands)


def mx(op: str) -> Case:
    case = matmul(op, D.DT_FP8E4M3FN)
    scales = {
        "lhs_tile": T((32, 64), D.DT_FP8E4M3FN, valid=(20, 64), space=S.Left, compact=1),
        "rhs_tile": T((64, 48), D.DT_FP8E4M3FN, valid=(64, 35), space=S.Right, compact=1),
        "scale_a": T((32, 2), D.DT_FP8E8M0, space=S.ScaleLeft, layout=TensorLayout.ZZ, compact=1),
        "scale_b": T((2, 48), D.DT_FP8E8M0, space=S.ScaleRight, layout=TensorLayout.NN, compact=1),
    }
    return Case(op, {**case.operands, **scales})


def move(dst: T, src: T, offset: tuple[int, int] | None = None, **attrs: object) -> Case:
    return Case("move", {"dst_tile": dst, "src_tile": src, "offset": offset}, attrs)


MOVES = [
    move(T((32, 48), D.DT_FP16, space=S.Left), T((32, 48), D.DT_FP16, space=S.Mat)),
    move(T((32, 48), D.DT_FP16, valid=(17, 30), space=S.Left, compact=1), T((32, 48), D.DT_FP16, space=S.Mat)),
    move(T((32, 48), D.DT_FP16, valid=(17, 30), space=S.Right, compact=1), T((32, 48), D.DT_FP16, space=S.Mat)),
    move(T((16, 16), D.DT_FP16, space=S.Right), T((32, 48), D.DT_FP16, space=S.Mat, layout=L.ZN), (16, 32)),
    move(T((1, 64), space=S.Bias), T((1, 64), D.DT_FP16, space=S.Mat)),
    move(T((1, 64), D.DT_INT64, space=S.Scaling), T((1, 64), D.DT_INT64, space=S.Mat, layout=L.ND)),
    move(T((32, 48)), T((32, 48), valid=(21, 40), space=S.Acc)),
    move(T((16, 48)), T((32, 48), valid=(22, 40), space=S.Acc), acc_to_vec_mode=AccToVecMode.DualModeSplitM),
    move(T((32, 32)), T((32, 64), valid=(22, 64), space=S.Acc), acc_to_vec_mode=AccToVecMode.DualModeSplitN),
    move(T((32, 48)), T((32, 48), valid=(22, 40), space=S.Acc), acc_to_vec_mode=AccToVecMode.SingleModeVec1),
    move(T((16, 64), valid=(9, 50)), T((16, 64), addr=B, valid=(12, 40))),
    move(T((32, 48), D.DT_FP16, valid=(20, 35), layout=L.NZ), T((32, 48), D.DT_FP16, B, valid=(20, 35))),
    move(T((33, 48), D.DT_FP16, valid=(20, 35), layout=L.NZ, compact=2), T((33, 48), D.DT_FP16, B, valid=(20, 35))),
    move(T((32, 48), D.DT_FP16, space=S.Mat), T((32, 48), D.DT_FP16, layout=L.NZ)),
]
INSERTS = [
    Case("insert", {"dst_tile": T((64, 96), D.DT_FP16, space=S.Mat), "offset": (16, 32),
                    "src_tile": T((32, 48), D.DT_FP16, valid=(20, 35), layout=L.NZ, compact=1)}),
    Case("insert", {"dst_tile": T((96, 64), D.DT_FP16, space=S.Mat, layout=L.ZN), "offset": (16, 32),
                    "src_tile": T((32, 48), D.DT_FP16, layout=L.NZ)}),
]

CASES: list[Case] = [
    *(c for op in ("add", "sub", "mul") for d in (D.DT_FP32, D.DT_FP16, D.DT_BF16, D.DT_INT16) for c in binary(op, d)),
    *(c for d in (D.DT_FP32, D.DT_FP16, D.DT_INT32, D.DT_INT64) for c in binary("div", d)),
    *(c for op in ("maximum", "minimum") for d in (D.DT_FP32, D.DT_UINT8) for c in binary(op, d)),
    *(c for op in ("exp", "sqrt", "rsqrt", "recip") for d in (D.DT_FP32, D.DT_FP16) for c in unary(op, d)),
    *(reduction(op, "lhs", dim, D.DT_FP32) for op in ("maximum", "minimum") for dim in (0, 1)),
    *(reduction("sum", "src", dim, d) for dim in (0, 1) for d in (D.DT_FP32, D.DT_FP16, D.DT_INT16)),
    *(expand(f"expand_{op}", dim) for op in ("sub", "mul", "max", "min", "div") for dim in (0, 1)),
    Case("expands", {"out": T((8, 64), valid=(5, 33)), "scalar": 2.5}),
    Case("expands", {"out": T((16, 1), valid=(5, 1)), "scalar": 2.5}),
    Case("expands", {"out": T((16, 32), D.DT_FP16, space=S.Mat), "scalar": 0}),
    Case("cast", {"out": T((8, 64), D.DT_FP16, valid=(5, 33)), "src": T((8, 64), addr=B, valid=(5, 33))}),
    Case("cast", {"out": T((8, 64), D.DT_INT8, valid=(5, 33)), "src": T((8, 64), D.DT_FP16, B, (5, 33))}),
    *LOADS,
    *STORES,
    *ELEMENTS,
    matmul("matmul", D.DT_FP16),
    matmul("matmul", D.DT_INT8, D.DT_INT32, bias_tile=T((1, 48), D.DT_INT32, space=S.Bias)),
    matmul("matmul_acc", D.DT_BF16),
    mx("matmul_mx"),
    mx("matmul_mx_acc"),
    *MOVES,
    *INSERTS,
]
