"""Cases of transfers, moves, inserts and products beyond the foundations: every form whose accesses differ."""

from ops.harness import Case, G, T
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import AccToVecMode, AtomicType, MemorySpace, ReluPreMode
from pypto_pro.enums import TensorLayout as L

S = MemorySpace
F4, F8, E8 = D.DT_FP4E2M1, D.DT_FP8E4M3FN, D.DT_FP8E8M0
B = 0x8000
WORDS = T((1, 64), D.DT_INT64, 0x200, space=S.Scaling)


def load(dst: T, src: G, offsets: tuple[int, ...], order: tuple[int, int] | None = None) -> Case:
    return Case("load", {"dst_tile": dst, "src_tensor": src, "offsets": offsets}, {"order": order}, values=None)


def store(dst: G, src: T, offsets: tuple[int, ...], scale: object = None, **attrs: object) -> Case:
    operands = {"dst_tensor": dst, "src_tile": src, "offsets": offsets}
    return Case("store", operands if scale is None else {**operands, "scale": scale}, dict(attrs), values=None)


def move(dst: T, src: T, offset: tuple[int, int] | None = None, scale: object = None, **attrs: object) -> Case:
    operands = {"dst_tile": dst, "src_tile": src, "offset": offset}
    return Case("move", operands if scale is None else {**operands, "scale": scale}, dict(attrs), values=None)


def insert(dst: T, src: T, offset: tuple[int, int]) -> Case:
    return Case("insert", {"dst_tile": dst, "src_tile": src, "offset": offset}, values=None)


def acc(valid: tuple[int, int] = (20, 35), dtype: D = D.DT_FP32, **more: object) -> T:
    return T((32, 64), dtype, valid=valid, space=S.Acc, **more)  # type: ignore[arg-type]


LOADS = [
    load(T((16, 128), F4, valid=(9, 62), space=S.Mat), G((40, 64), F4), (3, 5)),
    load(T((128, 16), F4, valid=(60, 9), space=S.Mat, layout=L.ZN), G((40, 64), F4), (3, 5), (1, 0)),
    load(T((16, 128), F4, valid=(9, 64)), G((40, 64), F4), (3, 5)),
    load(T((32, 64), D.DT_FP16, space=S.Mat), G((32, 64), D.DT_FP16, layout=L.NZ), (0, 0)),
    load(T((32, 64), valid=(20, 40), layout=L.NZ), G((32, 64), layout=L.NZ), (0, 0)),
    load(T((64, 8), valid=(37, 5), layout=L.DN, pad=3), G((9, 64)), (1, 2), (1, 0)),
    load(T((1, 64), D.DT_FP16, valid=(1, 35), space=S.Mat), G((4, 64), D.DT_FP16), (2, 3)),
    load(T((4, 16), D.DT_INT64, valid=(3, 13), space=S.Mat, layout=L.ND), G((7, 30), D.DT_INT64), (1, 2)),
    load(T((16, 1), valid=(9, 1)), G((40, 6)), (3, 4)),
    load(T((16, 64), valid=(0, 9)), G((40, 60)), (3, 4)),
]
STORES = [
    store(G((40, 64), F4), T((16, 128), F4, valid=(9, 62)), (3, 5)),
    store(G((40, 1)), T((16, 1), valid=(9, 1)), (3, 0)),
    store(G((32, 64), D.DT_INT8, layout=L.NZ), T((32, 64), valid=(32, 64), space=S.Acc), (0, 0), 0.5),
    store(G((40, 70), D.DT_INT8), acc(), (2, 3), WORDS),
    store(G((40, 70), D.DT_HF8), acc(compact=1), (2, 3), 1.5, relu_pre_mode=ReluPreMode.NormalRelu),
    store(G((40, 70), D.DT_INT8), acc(), (2, 3), 0.5, atomic=AtomicType.AtomicAdd),
    store(G((40, 70)), acc((0, 9)), (2, 3)),
]
TO_OPERANDS = [
    move(T((64, 64), F8, valid=(17, 40), space=S.Left, compact=1), T((64, 64), F8, space=S.Mat, layout=L.ZN)),
    move(T((64, 64), F8, valid=(40, 17), space=S.Right), T((64, 64), F8, space=S.Mat)),
    move(T((64, 128), F4, valid=(17, 70), space=S.Left, compact=1), T((64, 128), F4, space=S.Mat, layout=L.ZN)),
    move(T((32, 32), D.DT_FP32, valid=(17, 8), space=S.Left, compact=1),
         T((32, 32), D.DT_FP32, space=S.Mat, layout=L.ZN)),
    move(T((32, 32), F8, space=S.Left), T((64, 128), F8, space=S.Mat), (17, 70)),
    move(T((1, 64), D.DT_FP16, space=S.Left), T((1, 64), D.DT_FP16, space=S.Mat)),
    move(T((64, 8), E8, valid=(19, 6), space=S.ScaleLeft, layout=L.ZZ, compact=1),
         T((64, 8), E8, space=S.Mat, layout=L.ZZ)),
    move(T((4, 32), E8, space=S.ScaleRight, layout=L.NN), T((8, 64), E8, space=S.Mat, layout=L.NN), (4, 16)),
    move(T((1, 32), space=S.Bias), T((1, 64), D.DT_BF16, space=S.Mat), (0, 16)),
]
EXITS = [
    move(T((32, 64), D.DT_INT8), acc(), scale=WORDS),
    move(T((32, 64), D.DT_FP16, layout=L.DN), acc(), scale=0.5, relu_pre_mode=ReluPreMode.NormalRelu),
    move(T((32, 64), D.DT_FP16, layout=L.NZ), acc()),
    move(T((32, 64), layout=L.NZ, fractal=1024), acc()),
    move(T((16, 64), layout=L.NZ), acc((21, 64)), acc_to_vec_mode=AccToVecMode.DualModeSplitM),
    move(T((32, 32), layout=L.NZ), acc((21, 40)), acc_to_vec_mode=AccToVecMode.DualModeSplitN),
    move(T((16, 32), valid=(13, 20)), acc(), (4, 16), acc_to_vec_mode=AccToVecMode.SingleModeVec1),
    move(T((16, 64), valid=(20, 35)), acc(compact=1), (0, 16), acc_to_vec_mode=AccToVecMode.DualModeSplitM),
]
FROM_VEC = [
    move(T((4, 64), addr=B), T((8, 128)), (3, 4)),
    move(T((64, 1), addr=B, valid=(50, 1)), T((64, 1))),
    move(T((16, 48), D.DT_FP16, B, (16, 37), L.ZN), T((16, 48), D.DT_FP16)),
    move(T((33, 64), F8, B, (20, 40), L.NZ, compact=2), T((33, 64), F8, valid=(20, 40))),
    move(T((32, 64), F8, valid=(20, 40), space=S.Mat), T((32, 64), F8, layout=L.NZ)),
    move(T((2, 16), D.DT_INT64, 0x20, (2, 13), L.ND, S.Mat), T((2, 16), D.DT_INT64)),
    move(T((64, 32), D.DT_FP16, space=S.Mat, layout=L.ZN), T((32, 64), D.DT_FP16, layout=L.NZ)),
    move(T((16, 32), D.DT_FP16, space=S.Mat), T((32, 64), D.DT_FP16, layout=L.NZ), (16, 32)),
    insert(T((96, 64), F8, space=S.Mat, layout=L.ZN), T((64, 48), F8, valid=(33, 20), layout=L.ZN, compact=1), (32, 5)),
    insert(T((64, 96), F8, space=S.Mat), T((64, 48), F8, valid=(33, 20), layout=L.ZN), (32, 5)),
    insert(T((64, 128), F4, space=S.Mat), T((32, 64), F4, valid=(20, 33), layout=L.NZ, compact=1), (16, 64)),
    insert(T((32, 48), D.DT_FP16, 0x400, space=S.Mat), T((32, 32), D.DT_FP16, valid=(20, 32), layout=L.NZ), (16, 16)),
    insert(T((48, 32), D.DT_FP16, 0x400, space=S.Mat, layout=L.ZN), T((32, 32), D.DT_FP16, layout=L.NZ), (3, 32)),
]


def product(op: str, lhs: D, rhs: D) -> Case:
    operands = {
        "dst_tile": T((32, 64), valid=(20, 35), space=S.Acc, compact=1),
        "lhs_tile": T((32, 128), lhs, valid=(20, 64), space=S.Left, compact=1),
        "rhs_tile": T((128, 64), rhs, valid=(64, 35), space=S.Right, compact=1),
    }
    if op.endswith("acc"):
        operands["acc_tile"] = operands["dst_tile"]
    if "mx" in op:
        operands["scale_a"] = T((32, 4), E8, valid=(20, 2), space=S.ScaleLeft, layout=L.ZZ, compact=1)
        operands["scale_b"] = T((4, 64), E8, valid=(2, 35), space=S.ScaleRight, layout=L.NN, compact=1)
    return Case(op, operands)


PRODUCTS = [
    product("matmul", D.DT_FP32, D.DT_FP32), product("matmul", D.DT_HF8, D.DT_HF8), product("matmul_acc", F8, F8),
    product("matmul", D.DT_FP8E5M2, F8), product("matmul_mx", F4, D.DT_FP4E1M2), product("matmul_mx_acc", F8, F8),
]

CASES: list[Case] = [*LOADS, *STORES, *TO_OPERANDS, *EXITS, *FROM_VEC, *PRODUCTS]
