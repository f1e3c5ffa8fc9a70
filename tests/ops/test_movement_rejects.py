"""What transfers, moves, inserts and products refuse while the kernel is read: one row a rule, part of its text."""
# long file: tables, one row a rule

import textwrap
import warnings

import pytest

from pypto_pro.diag import errors
from unit import kernel_text

TENSORS = """x: pl.Tensor[[64, 64], pl.DT_FP32], h: pl.Tensor[[64, 64], pl.DT_FP16], b: pl.Tensor[[64, 64], pl.DT_INT8],
u8: pl.Tensor[[64, 64], pl.DT_UINT8], bf: pl.Tensor[[64, 64], pl.DT_BF16], i32: pl.Tensor[[64, 64], pl.DT_INT32],
w: pl.Tensor[[4, 16], pl.DT_INT64], nz64: pl.Tensor[[16, 16], pl.DT_INT64, pl.NZ],
flag: pl.Tensor[[64, 64], pl.DT_BOOL], cube: pl.Tensor[[4, 64, 64], pl.DT_FP32],
e8: pl.Tensor[[64, 6, 2], pl.DT_FP8E8M0], nz: pl.Tensor[[64, 64], pl.DT_FP32, pl.NZ],
dyn: pl.Tensor[[64, pl.DYNAMIC], pl.DT_FP32, pl.NZ], odd: pl.Tensor[[60, 64], pl.DT_FP32, pl.NZ],
deep: pl.Tensor[[2, 64, 64], pl.DT_FP32, pl.NZ], standing: pl.Tensor[[64, 64], pl.DT_FP32, pl.DN],
nz4: pl.Tensor[[64, 64], pl.DT_FP4E2M1, pl.NZ], f4: pl.Tensor[[64, 64], pl.DT_FP4E2M1],
e82: pl.Tensor[[64, 12], pl.DT_FP8E8M0], ed: pl.Tensor[[64, 6, pl.DYNAMIC], pl.DT_FP8E8M0], n: pl.DT_INT32,
f: pl.DT_FP32, s16: pl.DT_FP16, s8: pl.DT_INT8, u32: pl.DT_UINT32"""


class _Names:
    """Attributes of `prefix` as source text."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def __getattr__(self, name: str) -> str:
        return f"{self.prefix}{name}"


def t(
    shape: list[int], dtype: str = "pl.DT_FP32", space: str = "pl.MemorySpace.Vec", layout: str | None = None,
    fractal: int | None = None, pad: int | None = None, compact: int | None = None, valid: list[int] | None = None,
) -> str:
    """Source text of a tile type."""
    given = {"layout": layout, "fractal": fractal, "pad": pad, "compact": compact, "valid_shape": valid}
    more = "".join(f", {name}={value}" for name, value in given.items() if value is not None)
    return f"pl.TileType(shape={shape}, dtype={dtype}, target_memory={space}{more})"


S, pl = _Names("pl.MemorySpace."), _Names("pl.")
F32, F16, BF16, I8, U8, I16, I32, I64, U64, BOOL = (
    f"pl.DT_{n}" for n in ("FP32", "FP16", "BF16", "INT8", "UINT8", "INT16", "INT32", "INT64", "UINT64", "BOOL"))
E8, HF8, F8, F85, F4, F41, INT4 = (
    f"pl.DT_{n}" for n in ("FP8E8M0", "HF8", "FP8E4M3FN", "FP8E5M2", "FP4E2M1", "FP4E1M2", "INT4"))
TYPES = {
    "vec": t([16, 64]), "half": t([16, 64], F16), "byte": t([16, 64], I8), "wide": t([16, 64], I64), "col": t([64, 1]),
    "nzv": t([16, 64], layout=pl.NZ), "znv": t([64, 16], layout=pl.ZN), "mat": t([64, 64], F32, S.Mat),
    "mat16": t([64, 64], F16, S.Mat), "matzn": t([64, 64], F16, S.Mat, pl.ZN), "acc": t([64, 64], F32, S.Acc),
    "acci": t([64, 64], I32, S.Acc), "left": t([64, 64], F16, S.Left), "right": t([64, 64], F16, S.Right),
    "channel": t([1, 64], I64, S.Scaling),
}


def text(body: str, section: str) -> str:
    """A body with `$name` for a tile of the type of that name, `${expr}` of any type."""
    lines, made = [], {}

    def tile(expr: str) -> str:
        if expr not in made:
            made[expr] = f"t{len(made)}"
            lines.append(f"{made[expr]} = pl.make_tile({eval(expr, globals(), TYPES)}, addr=0)")
        return made[expr]

    while "$" in body:
        start = body.index("$")
        if body[start + 1] == "{":
            depth, end = 0, start + 1
            while True:
                depth += {"{": 1, "}": -1}.get(body[end], 0)
                end += 1
                if not depth:
                    break
            expr = body[start + 2 : end - 1]
        else:
            end = start + 1
            while body[end : end + 1].isalnum():
                end += 1
            expr = body[start + 1 : end]
        body = body[:start] + tile(expr) + body[end:]
    return f"with pl.section_{section}():\n" + textwrap.indent("\n".join([*lines, body]), "    ")


def rejected(body: str, section: str) -> errors.ParserError:
    with pytest.raises(errors.ParserError) as caught:
        kernel_text.read(text(body, section), TENSORS.replace("\n", " "))
    return caught.value


def accepted(body: str, section: str) -> None:
    kernel_text.read(text(body, section), TENSORS.replace("\n", " "))


LOADS = [
    ("vector", "pl.load(x, $vec, [0, 0])", "must be a tile"),
    ("vector", "pl.load($vec, 1, [0, 0])", "must be a tensor"),
    ("cube", "pl.load($left, h, [0, 0])", "tile in Vec or Mat"),
    ("cube", "pl.load($acc, x, [0, 0])", "tile in Vec or Mat"),
    ("vector", "pl.load(${t([16, 64], BOOL)}, flag, [0, 0])", "transfers do not move"),
    *(("vector", f"pl.load(${{t([16, 64], 'pl.DT_{name}')}}, x, [0, 0])", "transfers do not move")
      for name in ("INT4", "UINT4", "FP4", "HF4")),
    ("vector", "pl.load($half, x, [0, 0])", "needs one width"),
    ("vector", "pl.load($vec, x, [0])", "2 axes"),
    ("vector", "pl.load($vec, x, [0, 0, 0])", "2 axes"),
    ("vector", "pl.load($vec, x, [0, -1])", "not negative"),
    ("vector", "pl.load($vec, x, [64, 0])", "size 64"),
    ("vector", "pl.load_tile($vec, x, [4, 0])", "size 64"),
    ("vector", "pl.load($vec, x, [0, 0], order=[0, 0])", "two different axes"),
    ("vector", "pl.load($vec, x, [0, 0], order=[0, 2])", "two different axes"),
    ("vector", "pl.load_tile($vec, x, [0, 0], order=[0, 2])", "two different axes"),
    ("vector", "pl.load($vec, x, [0, 0], order=[0])", "two tensor axes"),
    ("vector", "pl.load($vec, x, [0, 0], order=[1, 0])", "stride 64 along axis 0"),
    ("vector", "v = pl.make_tensor(x, [64, 32], [64, 2])\npl.load($vec, v, [0, 0])", "stride 2 along axis 1"),
    ("vector", "v = pl.make_tensor(x, [64, 64], [1, 64])\npl.load($vec, v, [0, 0])", "stride 64 along axis 1"),
    ("vector", "pl.load($vec, cube, [0, 0, 0], order=[0, 1])", "stride 64 along axis 1"),
    ("vector", "pl.load(${t([64, 6], F32, layout=pl.DN)}, x, [0, 0])", "stride 64 along axis 0"),
    ("cube", "v = pl.make_tensor(x, [64, 64], [1, 64])\npl.load($mat, v, [0, 0])", "stride 64 along axis 1"),
    ("cube", "v = pl.make_tensor(x, [64, 32], [64, 2])\npl.load($mat, v, [0, 0], order=[1, 0])",
     "stride 2 along axis 1"),
    ("vector", "pl.load(${t([8, 4])}, x, [0, 0])", "is 16 B, not a multiple of 32 B; declare [8, 8]"),
    ("vector", "pl.load(${t([4, 1])}, x, [0, 0])", "a column of"),
    ("vector", "pl.load($nzv, x, [0, 0])", "NZ from NZ tensors"),
    ("vector", "pl.load($znv, x, [0, 0])", "NZ from NZ tensors"),
    ("vector", "pl.load($vec, nz, [0, 0])", "NZ from NZ tensors"),
    ("vector", "pl.load($nzv, dyn, [0, 0])", "two axes known at compile time"),
    ("vector", "pl.load($nzv, deep, [0, 0, 0])", "two axes known at compile time"),
    ("vector", "pl.load($nzv, odd, [0, 0])", "made of boxes"),
    ("vector", "pl.load($nzv, nz, [0, 0], order=[1, 0])", "its own order"),
    ("cube", "pl.load($matzn, h, [0, 0])", "order must be descending"),
    ("cube", "pl.load(${t([16, 16], I64, S.Mat)}, w, [0, 0])", "elements up to 32 bits"),
    ("cube", "pl.load(${t([64, 64], F32, S.Mat, None, 1024)}, x, [0, 0])", "boxes of 512 bytes"),
    ("cube", "pl.load(${t([24, 64], F32, S.Mat)}, x, [0, 0])", "must fill its declared shape"),
    ("cube", "pl.load(${t([16, 12], F32, S.Mat)}, x, [0, 0])", "must fill its declared shape"),
    ("cube", "pl.load(${t([16400, 32], I8, S.Mat)}, b, [0, 0])", "16384 rows"),
    ("cube", "pl.load(${t([64, 64], F4, S.Mat)}, f4, [0, 0], order=[1, 0])", "needs a ZN tile"),
    ("cube", "pl.load(${t([64, 12], E8, S.Mat, pl.ZZ)}, e82, [0, 0])", "at least 3 axes"),
    ("cube", "pl.load(${t([64, 12], E8, S.Mat, pl.ZZ)}, ed, [0, 0, 0])", "at least 3 axes"),
    ("cube", "pl.load(${t([64, 12], E8, S.Mat, pl.ZZ)}, e8, [0, 0, 0], order=[0, 2])", "names the phase axis"),
    ("cube", "pl.load(${t([64, 12], E8, S.Mat, pl.ZZ)}, e8, [0, 0, 1])", "offset along their axis is 0"),
    ("cube", "v = pl.make_tensor(e8, [16, 6, 2], [48, 4, 2])\n"
     "pl.load(${t([16, 12], E8, S.Mat, pl.ZZ)}, v, [0, 0, 0])", "stride 2 along its phase axis"),
    ("cube", "pl.load(${t([16, 16], I64, S.Mat, pl.ND)}, nz64, [0, 0])", "takes no NZ tensor"),
    ("cube", "pl.load(${t([64, 12], E8, S.Mat, pl.ZZ)}, e8, [n, n, 0])", None),
    ("cube", "pl.load(${t([64, 64], E8, S.Mat, pl.ZZ)}, b, [0, 0])", "only takes MX scales"),
    ("cube", "pl.load(${t([64, 64], E8, S.Mat, pl.ZZ, 512)}, e82, [0, 0])", "only takes MX scales"),
    ("cube", "pl.load_tile(${t([64, 12], E8, S.Mat, pl.ZZ)}, e8, [0, 0, 0])", "use load"),
    ("vector", "pl.load(${t([16, 64], I64, pad=2)}, w, [0, 0])", "padded with zeros only"),
    ("vector", "pl.load(${t([4, 4, 8])}, x, [0, 0])", "must be 2D"),
    ("vector", "pl.load(${t([64])}, x, [0, 0])", "must be 2D"),
    ("vector", "pl.load(${t([16, 64], I32)}, x, [0, 0])", None),
    ("vector", "pl.load($half, bf, [0, 0])", None),
    ("vector", "pl.load(${t([16, 128], F41)}, f4, [0, 0])", None),
    ("vector", "pl.load(${t([16, 128], F4)}, u8, [0, 0])", "needs one width"),
    ("vector", "pl.load($vec, standing, [0, 0])", None),
    ("vector", "pl.load($vec, x, [63, 63])", None),
    ("vector", "pl.load($vec, x, [n, n + 1])", None),
    ("vector", "pl.load($vec, x, [0, 0], order=[-2, -1])", "two different axes"),
    ("vector", "pl.load($vec, x, [0, 0], [0, 1])", "positional"),
    ("vector", "pl.load($vec, x)", "misses 'offsets'"),
    ("vector", "pl.load(${t([16, 64], fractal=7)}, x, [0, 0])", "must be one of 32, 512, 1024"),
    ("vector", "pl.load(${t([16, 64], compact=3)}, x, [0, 0])", "must be one of 0 (null), 1 (normal)"),
    ("vector", "pl.load(${t([16, 64], U64, pad=3)}, w, [0, 0])", "padded with zeros only"),
    ("vector", "pl.load(${t([16, 64], I64, pad=1)}, w, [0, 0])", None),
    ("vector", "pl.load($nzv, nz4, [0, 0])", "needs one width"),
    ("vector", "pl.load(${t([16, 64], F4, layout=pl.NZ)}, nz4, [0, 0])", "cannot hold fp4e2m1"),
    ("cube", "pl.load($vec, x, [0, 0])", "runs on the vector core"),
    ("vector", "pl.load($mat, x, [0, 0])", "runs on the cube core"),
    ("cube", "pl.load(${t([64, 8192], I8, S.Mat)}, b, [0, 0])", None),
    ("cube", "pl.load(${t([64, 16384], I8, S.Mat)}, b, [0, 0])", "524288 elements"),
    ("cube", "pl.load(${t([64, 64], F32, S.Mat, None, 7)}, x, [0, 0])", "must be one of 32, 512, 1024"),
    ("cube", "pl.load(${t([64, 64], F4, S.Mat, pl.ZN)}, f4, [0, 0], order=[1, 0])", None),
    ("cube", "pl.load(${t([64, 64], E8, S.Mat)}, e82, [0, 0])", None),
    ("cube", "pl.load(${t([16, 16], I64, S.Mat, pl.ND)}, w, [0, 0], order=[1, 0])", "stride 16 along axis 0"),
]

STORES = [
    ("vector", "pl.store($vec, x, [0, 0])", "must be a tensor"),
    ("vector", "pl.store(x, x, [0, 0])", "must be a tile"),
    ("cube", "pl.store(x, $mat, [0, 0])", "tile in Vec or Acc"),
    ("vector", "pl.store(flag, ${t([16, 64], BOOL)}, [0, 0])", "transfers do not move"),
    ("vector", "pl.store(h, $vec, [0, 0])", "needs one width"),
    ("vector", "pl.store(x, $vec, [0, 0], order=[1, 0])", "order must be ascending"),
    ("vector", "pl.store_tile(x, $vec, [0, 0], order=[1, 0])", "order must be ascending"),
    ("vector", "pl.store(x, $vec, [0, 0], order=[1, 1])", "two different axes"),
    ("vector", "pl.store(x, $vec, [64, 0])", "size 64"),
    ("vector", "pl.store_tile(x, $vec, [4, 0])", "size 64"),
    ("vector", "pl.store(x, $vec, [0, 0], atomic=1)", "pl.AtomicType member"),
    ("vector", "pl.store(x, $vec, [0, 0], phase=1)", "pl.STPhase member"),
    ("vector", "pl.store(x, $vec, [0, 0], relu_pre_mode=pl.ReluPreMode.NormalRelu)", "belongs to stores from Acc"),
    ("vector", "pl.store(x, $vec, [0, 0], scale=2.0)", "belongs to stores from Acc"),
    ("vector", "pl.store(x, $vec, [0, 0], phase=pl.STPhase.Final)", "belongs to stores from Acc"),
    ("vector", "pl.store(x, $nzv, [0, 0])", "only ND and DN tiles"),
    ("vector", "pl.store(nz, $vec, [0, 0])", "stored from Acc"),
    ("vector", "v = pl.make_tensor(x, [64, 32], [64, 2])\npl.store(v, $vec, [0, 0])", "stride 2 along axis 1"),
    ("vector", "pl.store(u8, ${t([16, 64], U8)}, [0, 0], atomic=pl.AtomicType.AtomicAdd)", "AtomicAdd takes"),
    ("vector", "pl.store(w, $wide, [0, 0], atomic=pl.AtomicType.AtomicAdd)", "AtomicAdd takes"),
    ("cube", "pl.store(b, $acc, [0, 0])", "or with a scale"),
    ("cube", "pl.store(h, $acci, [0, 0])", "INT32 leaves Acc as INT32"),
    ("cube", "pl.store(x, $acci, [0, 0])", "INT32 leaves Acc as INT32"),
    ("cube", "pl.store(x, $acci, [0, 0], scale=1.0)", "a scaled exit from INT32 gives INT8, FP16"),
    ("cube", "pl.store(x, ${t([64, 64], F16, S.Acc)}, [0, 0])", "an accumulator is FP32 or INT32"),
    ("cube", "pl.store(x, ${t([16, 4096], F32, S.Acc)}, [0, 0])", "too large for one exit"),
    ("cube", "pl.store(nz, $acc, [0, n])", "offsets are literally [0, 0]"),
    ("cube", "pl.store(odd, $acc, [0, 0])", "made of boxes"),
    ("cube", "pl.store(dyn, $acc, [0, 0])", "two axes known at compile time"),
    ("cube", "pl.store(nz, ${t([64, 64], F32, S.Acc, valid=[32, 64])}, [0, 0])", "stored as a whole"),
    ("cube", "pl.store(nz, ${t([64, 32], F32, S.Acc)}, [0, 0])", "is smaller"),
    ("cube", "pl.store(nz, $acc, [16, 0])", "offsets are literally [0, 0]"),
    ("cube", "pl.store(nz, $acc, [0, 0])", None),
    ("cube", "pl.store(x, ${t([8208, 16], F32, S.Acc)}, [0, 0])", "8192 rows"),
    ("cube", "pl.store(u8, $acc, [0, 0])", "or with a scale"),
    ("cube", "pl.store(i32, $acc, [0, 0])", "or with a scale"),
    ("cube", "pl.store(x, $acc, [0, 0], order=[1, 0])", "order must be ascending"),
    ("vector", "pl.store(x, $vec, [0, -1])", "not negative"),
    ("vector", "pl.store(x, $vec, [0])", "2 axes"),
    ("vector", "pl.store_tile(x, $vec, [0, 1])", "size 64"),
    ("vector", "pl.store(x, $vec, [0, 0], relu_pre_mode=1)", "pl.ReluPreMode member"),
    ("vector", "pl.store(x, $vec, [0, 0], scale=None, order=None, phase=pl.STPhase.Unspecified, "
     "relu_pre_mode=pl.ReluPreMode.NoRelu)", None),
    ("vector", "pl.store(i32, $vec, [0, 0])", None),
    ("cube", "pl.store(x, $acc, [0, 0], pre_quant_scalar=1.0)", "unexpected keyword argument 'pre_quant_scalar'"),
    ("cube", "pl.store(x, $acc, [0, 0], fp_tile=$acc)", "unexpected keyword argument 'fp_tile'"),
]

SCALES = [
    ("pl.store(b, $acc, [0, 0], scale=$channel, relu_pre_mode=pl.ReluPreMode.NormalRelu)",
     ["cannot be used together with relu_pre_mode"]),
    ("pl.store_tile(b, $acc, [0, 0], scale=$channel, relu_pre_mode=pl.ReluPreMode.NormalRelu)",
     ["cannot be used together with relu_pre_mode"]),
    ("pl.store(b, $acc, [0, 0], scale=$channel, phase=pl.STPhase.Final)", ["cannot be combined with phase"]),
    ("pl.store(b, $acc, [0, 0], scale=$channel, order=[0, 1])", ["neither order nor atomic"]),
    ("pl.store(b, $acc, [0, 0], scale=$channel, atomic=pl.AtomicType.AtomicAdd)", ["neither order nor atomic"]),
    ("pl.move(${t([32, 64])}, $acc, scale=$channel, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)",
     ["only supports single-mode"]),
    ("pl.store(b, $acc, [0, 0], scale=$channel, phase=pl.STPhase.Unspecified, "
     "relu_pre_mode=pl.ReluPreMode.NoRelu)", None),
    ("pl.store(b, $acc, [0, 0], scale=f)", None),
    ("pl.store(b, $acc, [0, 0], scale=n)", None),
    ("pl.store(b, $acc, [0, 0], scale=2)", None),
    ("pl.store(b, $acc, [0, 0], scale=w)", ["scale Tensor is not supported for per-channel quantization"]),
    ("pl.move(${t([64, 64], I8)}, $acc, scale=w)", ["scale Tensor is not supported for per-channel quantization"]),
    ("pl.store(u8, $acc, [0, 0], scale=1.0)", ["cannot give UINT8"]),
    ("pl.store(bf, $acc, [0, 0], scale=1.0)", ["cannot give BF16"]),
    ("pl.store(bf, $acci, [0, 0], scale=1.0)", ["BF16"]),
    ("pl.store(b, $acc, [0, 0], scale=${t([1, 64], I64, S.Mat, pl.ND)})", ["MemorySpace.Scaling"]),
    ("pl.store(b, $acc, [0, 0], scale=${t([64], I64, S.Scaling)})", ["scale tile must be 2D"]),
    ("pl.store(b, $acc, [0, 0], scale=${t([1, 1, 64], I64, S.Scaling)})", ["scale tile must be 2D"]),
    ("pl.store(b, $acc, [0, 0], scale=${t([2, 64], I64, S.Scaling)})", ["shape [1, N]", "row == 1"]),
    ("pl.store(b, $acc, [0, 0], scale=${t([1, 40], I64, S.Scaling)})", ["multiple of 16"]),
    ("pl.store(b, $acc, [0, 0], scale=${t([1, 528], I64, S.Scaling)})", ["up to 512"]),
    ("pl.store(b, $acc, [0, 0], scale=${t([1, 64], F32, S.Scaling)})",
     ["scale tile dtype FP32 is not supported", "npu_trans_quant_param"]),
    ("pl.store(b, $acc, [0, 0], scale=${t([1, 64], U64, S.Scaling)})", ["scale tile dtype must be INT64"]),
    ("pl.store(b, $acc, [0, 0], scale=${t([1, 64], F16, S.Scaling)})", ["scale tile dtype must be INT64"]),
    ("pl.store(b, $acc, [0, 0], scale='2.0')", ["scale must be"]),
    ("pl.store(b, $acc, [0, 0], scale=[1.0, 2.0])", ["scale must be"]),
    ("pl.store(b, $acc, [0, 0], scale=(1.0, 2.0))", ["scale must be"]),
    ("pl.store(b, $acc, [0, 0], scale=pl.DT_FP32)", ["scale must be"]),
    ("pl.store(b, $acc, [0, 0], scale=s16)", ["scale runtime scalar dtype fp16 is not supported"]),
    ("pl.store(b, $acc, [0, 0], scale=s8)", ["scale runtime scalar dtype int8 is not supported"]),
    ("pl.store(b, $acc, [0, 0], scale=u32)", ["scale runtime scalar dtype uint32 is not supported"]),
    ("pl.move(${t([64, 64], F16)}, $acc, scale=s16)", ["scale runtime scalar dtype fp16 is not supported"]),
]

MOVES = [
    ("cube", "pl.move($vec, x)", "must be a tile"),
    ("cube", "pl.move($vec, $mat)", "no path from Mat to Vec"),
    ("cube", "pl.move($mat, $acc)", "no path from Acc to Mat"),
    ("cube", "pl.move($left, $acc)", "no path from Acc to Left"),
    ("cube", "pl.move(${t([1, 64], F32, S.Bias)}, $acc)", "no path from Acc to Bias"),
    ("cube", "pl.move($mat16, $left)", "no path from Left to Mat"),
    ("cube", "pl.move($acc, $mat)", "no path from Mat to Acc"),
    ("vector", "pl.move(${t([1, 64], F32, S.Bias)}, $vec)", "no path from Vec to Bias"),
    ("cube", "pl.move(${t([32, 64], F16, S.Left)}, $mat16)", "must have one shape"),
    ("cube", "pl.move(${t([64, 32], F16, S.Left)}, ${t([32, 64], F16, S.Mat)})", "must have one shape"),
    ("vector", "pl.move($vec, ${t([8, 64])})", "must have one shape"),
    ("cube", "pl.move(${t([128, 64], F16, S.Left)}, $mat16, [0, 0])", "is larger than"),
    ("cube", "pl.move(${t([16, 16], F16, S.Left)}, $mat16, [64, 0])", "extent 64"),
    ("cube", "pl.move(${t([16, 16], F16, S.Left)}, $mat16, [0, -16])", "extent 64"),
    ("cube", "pl.move(${t([16, 16], F16, S.Left)}, $mat16, [0])", "2 elements"),
    ("cube", "pl.move($left, ${t([64, 64], BF16, S.Mat)})", "equal dtypes"),
    ("cube", "pl.move(${t([64, 64], I32, S.Left)}, ${t([64, 64], I32, S.Mat)})", "equal dtypes among"),
    ("cube", "pl.move(${t([64, 64], E8, S.Left)}, ${t([64, 64], E8, S.Mat)})", "equal dtypes among"),
    ("cube", "pl.move(${t([64, 8], F32, S.Right)}, ${t([64, 8], F32, S.Mat)})", "must fill its declared shape"),
    ("cube", "pl.move(${t([64, 24], F32, S.Left)}, ${t([64, 24], F32, S.Mat, pl.ZN)})", "must fill its declared shape"),
    ("cube", "pl.move(${t([48, 64], I8, S.Left)}, ${t([48, 64], I8, S.Mat, pl.ZN)})", "must fill its declared shape"),
    ("cube", "pl.move(${t([32, 48], I8, S.Right)}, ${t([64, 64], I8, S.Mat)}, [0, 0])", "squares of 32"),
    ("cube", "pl.move(${t([64, 4], E8, S.ScaleLeft)}, ${t([64, 4], E8, S.Mat, pl.NN)})",
     "must fill its declared shape"),
    ("cube", "pl.move(${t([64, 16], E8, S.ScaleLeft)}, ${t([64, 16], E8, S.Mat, pl.NN)})", "goes ZZ to ZZ"),
    ("cube", "pl.move(${t([16, 64], E8, S.ScaleRight)}, ${t([16, 64], E8, S.Mat, pl.ZZ)})", "goes NN to NN"),
    ("cube", "pl.move(${t([1, 64], I64, S.Scaling)}, ${t([1, 64], I64, S.Mat)})", "goes ND to ND"),
    ("cube", "pl.move(${t([2, 64], I64, S.Scaling)}, ${t([2, 64], I64, S.Mat, pl.ND)})", "multiple of 16 up to 512"),
    ("cube", "pl.move(${t([1, 40], I64, S.Scaling)}, ${t([1, 40], I64, S.Mat, pl.ND)})", "multiple of 16 up to 512"),
    ("cube", "pl.move(${t([1, 528], I64, S.Scaling)}, ${t([1, 528], I64, S.Mat, pl.ND)})", "multiple of 16 up to 512"),
    ("cube", "pl.move(${t([1, 64], F16, S.Bias)}, ${t([1, 64], F16, S.Mat)})", "a bias is INT32, or FP32"),
    ("cube", "pl.move(${t([1, 64], F32, S.Bias)}, ${t([1, 64], I32, S.Mat)})", "a bias is INT32, or FP32"),
    ("cube", "pl.move(${t([1, 8], F32, S.Bias)}, ${t([1, 8], F32, S.Mat)})", "multiple of 16 up to 1024"),
    ("cube", "pl.move(${t([1, 1040], F32, S.Bias)}, ${t([1, 1040], F32, S.Mat)})", "multiple of 16 up to 1024"),
    ("cube", "pl.move(${t([16, 64], F32, S.Bias)}, ${t([16, 64], F32, S.Mat)})", "multiple of 16 up to 1024"),
    ("cube", "pl.move($left, $mat16, relu_pre_mode=pl.ReluPreMode.NormalRelu)", "belong to Acc -> Vec"),
    ("cube", "pl.move($left, $mat16, scale=1.0)", "belong to Acc -> Vec"),
    ("vector", "pl.move($nzv, $vec, acc_to_vec_mode=pl.AccToVecMode.SingleModeVec1)", "belong to Acc -> Vec"),
    ("cube", "pl.move(${t([64, 64], F16)}, $acc, [0, 0], scale=1.0)", "takes no offset"),
    ("cube", "pl.move(${t([64, 64], layout=pl.ZN)}, $acc)", "from Acc to Vec a move goes"),
    ("cube", "pl.move(${t([32, 64], layout=pl.NZ)}, $acc, [0, 0])", "leaves to ND tiles"),
    ("cube", "pl.move(${t([64, 64], I8)}, $acc)", "or with a scale"),
    ("cube", "pl.move(${t([64, 64])}, $acci)", "INT32 leaves Acc as INT32"),
    ("cube", "pl.move(${t([32, 64], F16)}, $acc, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)", "convert nothing"),
    ("cube", "pl.move(${t([32, 64])}, $acc, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM, scale=1.0)",
     "convert nothing"),
    ("cube", "pl.move(${t([32, 64], layout=pl.DN)}, $acc, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)", "is DN"),
    ("cube", "pl.move(${t([64, 4])}, ${t([64, 16], F32, S.Acc)}, [0, 0])", "not a multiple of 32 B"),
    ("cube", "pl.move(${t([64, 64])}, $acc, acc_to_vec_mode=2)", "pl.AccToVecMode member"),
    ("vector", "pl.move($vec, $nzv)", "from Vec to Vec a move goes"),
    ("vector", "pl.move($half, $vec)", "equal dtypes"),
    ("vector", "pl.move(${t([16, 64], I16, layout=pl.NZ)}, ${t([16, 64], I16)})", "equal dtypes among"),
    ("vector", "pl.move(${t([16, 64], layout=pl.ZN)}, $vec, [0, 0])", None),
    ("vector", "pl.move(${t([12, 64], layout=pl.ZN)}, ${t([12, 64])})", "rows a multiple of 8"),
    ("vector", "pl.move(${t([64, 64], F16, S.Mat)}, ${t([64, 64], F16)})", "from Vec to Mat a move goes"),
    ("vector", "pl.move(${t([64, 64], I16, S.Mat)}, ${t([64, 64], I16, layout=pl.NZ)})", "equal dtypes among"),
    ("vector", "pl.move($vec, ${t([16, 64], valid=[-1, -1])}[0:8, 1:9])", "starts 4 B into a 32 B block"),
    ("cube", "pl.move(${t([64, 64], I8)}, $acc, [0, 0], scale=$channel)", "takes no offset"),
    ("cube", "pl.move(${t([64, 64], I8)}, $acc, scale=$channel, relu_pre_mode=pl.ReluPreMode.NormalRelu)",
     "cannot be used together with relu_pre_mode"),
    ("cube", "pl.move(${t([64, 64], BF16)}, $acc, scale=1.0)", "BF16"),
    ("cube", "pl.move(${t([64, 64], U8)}, $acc, scale=1.0)", "UINT8"),
    ("cube", "pl.move(${t([64, 64], I32)}, $acci, scale=1.0)", "gives INT8, FP16"),
    ("cube", "pl.move(${t([64, 64])}, $acc, phase=pl.STPhase.Final)", "unexpected keyword argument 'phase'"),
    ("cube", "pl.move(${t([4, 4, 64])}, $acc)", "must be 2D"),
    ("cube", "pl.move(${t([32, 64])}, $acc, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM, "
     "relu_pre_mode=pl.ReluPreMode.NormalRelu)", "convert nothing"),
    ("cube", "pl.move(${t([16, 64])}, $acc)", "must have one shape"),
    ("cube", "pl.move(${t([16, 64])}, $acc, acc_to_vec_mode=pl.AccToVecMode.SingleModeVec0)", None),
    ("cube", "pl.move(${t([64, 128])}, ${t([128, 64], F32, S.Acc)})", None),
    ("cube", "pl.move(${t([16, 16], F16, S.Left)}, $mat16, [0, 64])", "extent 64"),
    ("cube", "pl.move(${t([16, 16], F16, S.Left)}, $mat16, [8, n])", None),
    ("cube", "pl.move(${t([32, 64], F4, S.Right)}, ${t([32, 64], F4, S.Mat)})", "must fill its declared shape"),
    ("cube", "pl.move(${t([64, 32], F4, S.Right)}, ${t([64, 32], F4, S.Mat, pl.ZN)})", None),
    ("cube", "pl.move(${t([1, 64], I32, S.Bias)}, ${t([1, 64], F32, S.Mat)})", "a bias is INT32, or FP32"),
    ("cube", "pl.move(${t([1, 64], I64, S.Scaling)}, ${t([1, 64], U64, S.Mat, pl.ND)})", "equal dtypes"),
    ("cube", "pl.move(${t([1, 64], U64, S.Scaling)}, ${t([1, 64], U64, S.Mat, pl.ND)})", None),
    ("cube", "pl.move($vec, ${t([16, 64])})", "runs on the vector core"),
    ("vector", "pl.move(${t([64, 16], layout=pl.DN)}, $vec)", "from Vec to Vec a move goes"),
    ("vector", "pl.move(${t([32, 64])}, $vec, [0, 0])", "is larger than"),
    ("vector", "pl.move(${t([16, 64], I64, layout=pl.NZ)}, $wide)", "equal dtypes among"),
    ("vector", "pl.move(${t([64, 64], F16, S.Mat)}, ${t([32, 64], F16, layout=pl.NZ)})", "must have one shape"),
    ("vector", "pl.move(${t([64, 32], F16, S.Mat, pl.ZN)}, ${t([32, 64], F16, layout=pl.NZ)}, [0, 0])", None),
    ("vector", "pl.move(${t([64, 32], F16, S.Mat, pl.ZN)}, ${t([32, 64], F16, layout=pl.NZ)}, [0, 8])",
     "must be a multiple of 16"),
    ("vector", "pl.move(${t([64, 64], I32, S.Mat)}, ${t([64, 64], I32, layout=pl.NZ)})", "equal dtypes among"),
]

INSERTS = [
    ("vector", "pl.insert($nzv, $nzv, [0, 0])", "tile in Mat"),
    ("vector", "pl.insert($mat16, ${t([16, 64], F16, layout=pl.NZ)}, [0])", "2 elements"),
    ("vector", "pl.insert($mat16, ${t([16, 64], F16, layout=pl.NZ)}, [64, 0])", "extent 64"),
    ("vector", "pl.insert($mat16, ${t([16, 64], F16, layout=pl.NZ)}, [0, 64])", "extent 64"),
    ("vector", "pl.insert($mat16, ${t([16, 64], F16, layout=pl.NZ)}, [-1, 0])", "extent 64"),
    ("vector", "pl.insert($mat16, ${t([16, 64], F16, layout=pl.NZ)}, [0, 8])", "must be a multiple of 16"),
    ("vector", "pl.insert($mat16, $nzv, [0, 0])", "equal dtypes among"),
    ("vector", "pl.insert(${t([64, 64], I16, S.Mat)}, ${t([16, 64], I16, layout=pl.NZ)}, [0, 0])",
     "equal dtypes among"),
    ("vector", "pl.insert(${t([64, 64], U8, S.Mat)}, ${t([16, 64], U8, layout=pl.NZ)}, [0, 0])", "equal dtypes among"),
    ("vector", "pl.insert($mat16, $half, [0, 0])", "found ND to NZ"),
    ("vector", "pl.insert($mat16, ${t([16, 64], F16, layout=pl.NZ)}, [0, 0, 0])", "2 elements"),
    ("vector", "pl.insert($mat16, ${t([16, 64], F16, layout=pl.NZ)})", "misses 'offset'"),
    ("vector", "pl.insert($mat16, ${t([16, 64], F16, layout=pl.NZ)}, [60, 0])", None),
    ("vector", "pl.insert(${t([16, 64], I64, S.Mat, pl.ND)}, $wide, [0, 0])", "equal dtypes among"),
    ("cube", "pl.insert($mat16, ${t([16, 64], F16, layout=pl.NZ)}, [0, 0])", "runs on the vector core"),
    ("cube", "pl.insert($mat, $acc, [0, 0])", "tile in Vec"),
]

MX_LEFT, MX_RIGHT = "${t([64, 128], F8, S.Left)}", "${t([128, 64], F8, S.Right)}"
MX_A, MX_B = "${t([64, 4], E8, S.ScaleLeft)}", "${t([4, 64], E8, S.ScaleRight)}"
PRODUCTS = [
    ("cube", "pl.matmul($mat, $left, $right)", "tile in Acc"),
    ("cube", "pl.matmul($acc, $mat16, $right)", "tile in Left"),
    ("cube", "pl.matmul($acc, $left, $mat16)", "tile in Right"),
    ("cube", "pl.matmul($acc, $left, $right, $mat)", "tile in Bias"),
    ("cube", "pl.matmul($acc, $left, $right, bias_tile=${t([1, 64], F32, S.Bias)})",
     "unexpected keyword argument 'bias_tile'"),
    ("cube", "pl.matmul($acc, $left, ${t([64, 64], BF16, S.Right)})", "no FP16 x BF16 product"),
    ("cube", "pl.matmul($acc, ${t([64, 64], U8, S.Left)}, ${t([64, 64], U8, S.Right)})", "no UINT8 x UINT8 product"),
    ("cube", "pl.matmul($acc, ${t([64, 64], HF8, S.Left)}, ${t([64, 64], F8, S.Right)})", "no HF8 x FP8E4M3FN product"),
    ("cube", "pl.matmul($acci, $left, $right)", "must be FP32"),
    ("cube", "pl.matmul(${t([64, 64], F16, S.Acc)}, $left, $right)", "must be FP32"),
    ("cube", "pl.matmul($acc, ${t([64, 64], I8, S.Left)}, ${t([64, 64], I8, S.Right)})", "must be INT32"),
    ("cube", "pl.matmul($acc, $left, $right, ${t([1, 64], I32, S.Bias)})", "must be FP32"),
    ("cube", "pl.matmul($acc, $left, $right, ${t([2, 64], F32, S.Bias)})", "must be one row"),
    ("cube", "pl.matmul($acc, ${t([64, 32], F16, S.Left)}, $right)", "K must be equal"),
    ("cube", "pl.matmul(${t([32, 64], F32, S.Acc)}, $left, $right)", "[64, 64] is needed"),
    ("cube", "pl.matmul($acc, ${t([64, 64], F16, S.Left, valid=[64, 48])}, "
     "${t([64, 64], F16, S.Right, valid=[32, 64])})", "K must be equal"),
    ("cube", "pl.matmul($acc, $left, $right, phase=2)", "pl.AccPhase member"),
    ("cube", "pl.matmul_acc($acc, $mat, $left, $right)", "tile in Acc"),
    ("cube", f"q = pl.make_tile({TYPES['acc']}, addr=0x4000)\npl.matmul_acc($acc, q, $left, $right)",
     "product is added"),
    ("cube", "pl.matmul($acc, $left, $right, None, phase=pl.AccPhase.Unspecified)", None),
    ("cube", "pl.matmul($acc, $left, $right, phase=pl.STPhase.Final)", "pl.AccPhase member"),
    ("cube", "pl.matmul_acc($acc, $acc, $left, $right, ${t([1, 64], F32, S.Bias)})", "takes 4 positional"),
    ("cube", "pl.matmul($acc, $left)", "misses 'rhs_tile'"),
    ("vector", "pl.matmul($acc, $left, $right)", "runs on the cube core"),
    ("cube", "pl.matmul(${t([64, 64], BF16, S.Acc)}, $left, $right)", "must be FP32"),
    ("cube", "pl.matmul($acci, ${t([64, 64], HF8, S.Left)}, ${t([64, 64], HF8, S.Right)})", "must be FP32"),
    ("cube", "pl.matmul($acc, ${t([64, 64], F4, S.Left)}, ${t([64, 64], F4, S.Right)})", "product"),
    ("cube", "pl.matmul($acc, ${t([64, 64], INT4, S.Left)}, ${t([64, 64], INT4, S.Right)})", "product"),
    ("cube", "pl.matmul_acc($acc, $acc, $left, ${t([64, 64], BF16, S.Right)})", "no FP16 x BF16 product"),
    ("cube", f"pl.matmul_mx($acc, {MX_LEFT}, {MX_RIGHT}, None, {MX_B})", "needs scale_a"),
    ("cube", f"pl.matmul_mx($acc, {MX_LEFT}, ${{t([128, 64], F85, S.Right)}}, {MX_A}, {MX_B})", None),
    ("cube", f"pl.matmul_mx($acc, {MX_LEFT}, {MX_RIGHT}, scale_a={MX_A}, scale_b={MX_B})", None),
    ("cube", f"pl.matmul_mx($acc, ${{t([64, 128], F16, S.Left)}}, ${{t([128, 64], F16, S.Right)}}, {MX_A}, {MX_B})",
     "no MX product"),
    ("cube", f"pl.matmul_mx($acc, {MX_LEFT}, {MX_RIGHT}, {MX_A})", "needs scale_b"),
    ("cube", f"pl.matmul_mx($acc, {MX_LEFT}, {MX_RIGHT}, {MX_A}, {MX_A})", "tile in ScaleRight"),
    ("cube", "pl.matmul_mx($acc, ${t([64, 96], F8, S.Left)}, ${t([96, 64], F8, S.Right)}, "
     "${t([64, 4], E8, S.ScaleLeft)}, ${t([4, 64], E8, S.ScaleRight)})", "multiple of 64"),
    ("cube", f"pl.matmul_mx($acc, ${{t([64, 64], F8, S.Left)}}, {MX_RIGHT}, {MX_A}, {MX_B})", "K must be equal"),
    ("cube", f"pl.matmul_mx($acci, {MX_LEFT}, {MX_RIGHT}, {MX_A}, {MX_B})", "must be FP32"),
    ("cube", f"pl.matmul_mx($acc, ${{t([64, 128], F4, S.Left)}}, {MX_RIGHT}, {MX_A}, {MX_B})", "no MX product"),
    ("cube", f"pl.matmul_mx($acc, {MX_LEFT}, {MX_RIGHT}, ${{t([64, 2], E8, S.ScaleLeft)}}, {MX_B})", "must be FP8E8M0"),
    ("cube", f"q = pl.make_tile({t([64, 4], E8, S.ScaleLeft)}, addr=0x20)\n"
     f"pl.matmul_mx($acc, {MX_LEFT}, {MX_RIGHT}, q, {MX_B})", "(data address >> 4)"),
    ("cube", f"pl.matmul_mx_acc($acc, ${{t([64, 64], I32, S.Acc)}}, {MX_LEFT}, {MX_RIGHT}, {MX_A}, {MX_B})",
     "must have one type"),
]
PADS = [
    ("cube", "pl.fillpad(${t([64, 64], F16, S.Mat, pad=1)}, ${t([64, 64], F16, S.Mat, pad=1)})", None),
    ("cube", "pl.fillpad($mat16, $mat16)", None),
    ("cube", "pl.fillpad(${t([64, 64], F16, S.Mat, pl.ZN, pad=1)}, ${t([64, 64], F16, S.Mat, pl.ZN, pad=1)})",
     "padded as NZ"),
    ("cube", "pl.fillpad(${t([64, 64], F16, S.Mat, pad=3)}, ${t([64, 64], F16, S.Mat, pad=3)})", "not min"),
    ("cube", "pl.fillpad(${t([64, 64], F16, S.Mat, pad=1)}, $mat16)", "of one type"),
    ("cube", "pl.fillpad($mat16, $mat16, mode=pl.FillPadMode.EXPAND)", "of one type"),
    ("cube", f"q = pl.make_tile({t([64, 64], F16, S.Mat)}, addr=0x8000)\npl.fillpad(q, $mat16)", "different addresses"),
    ("vector", "pl.fillpad(${t([16, 64], pad=1)}, $mat)", "one space is needed"),
]

SCALARS = [
    ("cube", "pl.system.set_mm_layout_transform(True)", "positional"),
    ("cube", "pl.system.dcci($mat)", "tile in Vec"),
    ("vector", "pl.system.dcci(x, 1.5)", "integer"),
    ("vector", "pl.system.dcci(x, [0])", "2 axes"),
    ("vector", "pl.system.dcci($vec, [0, 0])", "one linear number"),
    ("vector", "m = pl.struct('M', a=n)\npl.ssbuf_store(m, 2)", "not a multiple of 4"),
    ("vector", "m = pl.struct('M', a=n)\npl.ssbuf_load(m, 256)", "outside 0..256"),
    ("vector", "pl.getval(${t([16, 64], F8)}, 0)", "no scalar access"),
    ("vector", "pl.getval($vec, 1.5)", "must be an integer"),
    ("vector", "pl.setval($vec, 0, x)", "must be a scalar"),
    ("cube", "pl.getval($mat, 0)", "tile in Vec"),
]
TYPE_ERRORS = [
    ("pl.system.dcci(1)", "must be a tile or a tensor"),
    ("pl.ssbuf_store(x, 0)", "must be a struct"),
    ("m = pl.struct('M', a=n)\npl.ssbuf_load(m)", "misses 'offset'"),
    ("m = pl.struct('M', a=n)\npl.ssbuf_store(m, 0, 1)", "takes 2 positional"),
    ("q = pl.getval(n, 0)", "must be a tile or a tensor"),
    ("pl.setval(n, 0, 1)", "must be a tile or a tensor"),
]
"""The reference calls these type errors: ParserTypeError."""
ALL = [*LOADS, *STORES, *(("cube", body, parts) for body, parts in SCALES), *MOVES, *INSERTS, *PRODUCTS, *PADS,
       *SCALARS]


@pytest.mark.parametrize(("section", "body", "parts"), ALL, ids=[row[1] for row in ALL])
def test_refused(section: str, body: str, parts: str | list[str] | None) -> None:
    if parts is None:
        accepted(body, section)
        return
    error = rejected(body, section)
    at = 0
    for part in [parts] if isinstance(parts, str) else parts:
        assert part in error.message[at:], error.message
        at = error.message.index(part, at)
    is_member = isinstance(parts, str) and parts.endswith("member")  # a number for an enum is a final rejection
    assert type(error) is (errors.FinalRejectionError if is_member else errors.ParserSyntaxError)


@pytest.mark.parametrize("op", ["load($vec, x", "load_tile($vec, x", "store(x, $vec", "store_tile(x, $vec"])
@pytest.mark.parametrize("order", ["[n, 0]", "[0.0, 1]", "[True, False]", "1", "'01'"])
def test_an_order_is_a_list_of_compile_time_ints(op: str, order: str) -> None:
    error = rejected(f"pl.{op}, [0, 0], order={order})", "vector")
    assert type(error) is errors.FinalRejectionError
    assert "compile-time" in error.message


def test_an_operand_without_a_keyword_is_not_offered_as_one() -> None:
    error = rejected("pl.matmul($acc, $left, $right, bias_tile=$mat)", "cube")
    assert error.diagnostic.help == "`bias_tile` is given by position, without its name"


def test_tile_offsets_warn_where_they_count_what_is_not_meant() -> None:
    """Descending order scales by sorted position, which square tiles do not show; 4-bit tensors are placed in bytes."""
    turned = "pl.load_tile(${t([64, 8], layout=pl.DN)}, x, [0, 0], order=[1, 0])"
    with pytest.warns(RuntimeWarning, match="64 rows of the tile and axis 1 in its 8 columns") as caught:
        accepted(turned, "vector")
    assert caught[0].filename.startswith("<kernel")
    for op, wide in (("load_tile(${t([16, 64], F4)}, f4", "load"), ("store_tile(f4, ${t([16, 64], F4)}", "store")):
        for offsets in ("[0, n]", "[n, n + 1]"):
            with pytest.warns(RuntimeWarning, match=f"use `{wide}` with an offset in bytes"):
                accepted(f"pl.set_stride(f4, [128, 1])\npl.{op}, {offsets})", "vector")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accepted("pl.set_stride(f4, [128, 1])\npl.load_tile(${t([16, 128], F4)}, f4, [n, 0])", "vector")
        accepted(turned.replace("[64, 8]", "[8, 8]"), "vector")
        accepted("pl.load_tile($vec, x, [0, 0], order=[0, 1])\npl.load_tile($vec, x, [0, 0])", "vector")


@pytest.mark.parametrize(("body", "part"), TYPE_ERRORS, ids=[row[0] for row in TYPE_ERRORS])
def test_type_errors_of_the_scalar_unit(body: str, part: str) -> None:
    error = rejected(body, "vector")
    assert part in error.message
    assert type(error) is errors.ParserTypeError


def test_a_dict_as_scale_is_the_one_type_error() -> None:
    error = rejected('pl.store(b, $acc, [0, 0], scale={"a": 1})', "cube")
    assert type(error) is errors.ParserTypeError
    assert "Unsupported closure variable type: dict" in error.message
