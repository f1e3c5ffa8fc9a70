"""What the static rules of tile vector ops refuse, and that they take every case the other tests run."""

from typing import Any

import pytest

from ops import cases_vector
from ops.harness import Case, T
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import FillPadMode, MemorySpace, QuantMode, RoundMode, TensorLayout
from pypto_pro.ir.types import ScalarType, TileType
from pypto_pro.ops.operands import ScalarInfo, TileInfo
from pypto_pro.ops.table import lookup

F32, F16, I32, U8, U32 = D.DT_FP32, D.DT_FP16, D.DT_INT32, D.DT_UINT8, D.DT_UINT32


def info(name: str, value: Any) -> Any:
    """An operand as rules see it; `valid` of a `T` counts as fixed by its type."""
    if isinstance(value, T):
        type_ = TileType(value.shape, value.dtype, value.space, value.valid or (-1, -1), value.layout, value.fractal,
                         value.pad, value.compact)
        return TileInfo(type_, name, value.addr)
    if isinstance(value, D):  # a scalar known at run time only
        return ScalarInfo(ScalarType(value), None, name)
    if value is None:
        return None
    return ScalarInfo(ScalarType(F32 if isinstance(value, float) else D.DT_INDEX), value, name)


def check(case: Case) -> None:
    """Ask the rules of the op a case ends up as."""
    entry = lookup(case.op)
    assert entry is not None
    named: dict[str, Any] = {p.name: p.default for p in entry.params if not p.required}
    named.update({name: info(name, value) for name, value in case.operands.items()})
    named.update(case.attrs)
    if "rewrite" in entry.facets:
        name, others = entry.facets["rewrite"](**named)
        target = lookup(name)
        assert target is not None
        entry, named = target, {**{p.name: p.default for p in target.params if not p.required}, **others}
    if "rules" in entry.facets:
        entry.facets["rules"](**named)


@pytest.mark.parametrize("case", [c for c in cases_vector.CASES if c.op != "select"], ids=lambda c: c.op)
def test_cases_are_legal(case: Case) -> None:
    check(case)


def t(dtype: D = F32, shape: tuple[int, int] = (8, 64), addr: int = 0, valid: tuple[int, int] | None = None,
      **more: Any) -> T:
    return T(shape, dtype, addr, valid, **more)


NZ = {"layout": TensorLayout.NZ}
DN = {"layout": TensorLayout.DN}
IDX = t(U32, addr=0x4000)
TE, VE = TypeError, ValueError
REJECTS: list[tuple[str, dict[str, Any], dict[str, Any], type[Exception], str]] = [
    # dtypes
    ("mul", {"out": t(U8), "lhs": t(U8), "rhs": t(U8)}, {}, TE, "UINT8; accepted are INT16"),
    ("div", {"out": t(D.DT_BF16), "lhs": t(D.DT_BF16), "rhs": 2.0}, {}, TE, "BF16"),
    ("add", {"out": t(), "lhs": t(F16), "rhs": t()}, {}, TE, "must have one dtype"),
    ("add", {"out": t(), "lhs": 1.0, "rhs": t()}, {}, TE, "the left operand must be a tile"),
    ("abs", {"out": t(U8), "src": t(U8)}, {}, TE, "UINT8"),
    ("neg", {"out": t(D.DT_INT8), "src": t(D.DT_INT8)}, {}, TE, "INT8"),
    ("relu", {"out": t(D.DT_BF16), "src": t(D.DT_BF16)}, {}, TE, "BF16"),
    ("exp", {"out": t(I32), "src": t(I32)}, {}, TE, "INT32"),
    ("and_", {"out": t(), "lhs": t(), "rhs": t()}, {}, TE, "FP32"),
    ("shl", {"out": t(I32), "lhs": t(I32), "rhs": 3}, {}, TE, "shift count"),
    ("shr", {"out": t(), "lhs": t(), "rhs": t()}, {}, TE, "FP32"),
    ("xor", {"out": t(I32), "lhs": t(I32), "rhs": 3, "tmp": t(I32)}, {}, TE, "must be a tile"),
    ("eq", {"out": t(D.DT_INT8), "lhs": t(), "rhs": 0.0}, {}, TE, "UINT8"),
    ("lt", {"out": t(U8), "lhs": t(), "rhs": t(F16)}, {}, TE, "one dtype"),
    ("gt", {"out": t(U8), "lhs": 1.0, "rhs": t()}, {}, TE, "must be a tile"),
    ("select", {"out": t(D.DT_BF16), "mask": t(U8), "lhs": t(D.DT_BF16), "rhs": 0.0, "tmp": t(U8)}, {}, TE,
     "BF16"),
    ("select", {"out": t(), "mask": t(U32), "lhs": t(), "rhs": 0.0, "tmp": t(U8)}, {}, TE, "UINT8"),
    ("add_relu", {"out": t(D.DT_BF16), "lhs": t(D.DT_BF16), "rhs": t(D.DT_BF16)}, {}, TE, "BF16"),
    ("add_relu_cast", {"out": t(D.DT_UINT16), "lhs": t(), "rhs": t()},
     {"target_type": D.DT_UINT16, "mode": RoundMode.CAST_RINT}, TE, "no cast from FP32 to UINT16"),
    ("axpy", {"out": t(), "src": t(), "alpha": t()}, {}, TE, "scalar"),
    ("axpy", {"out": t(F16), "src": t(), "alpha": 0.5}, {}, TE, "FP16"),
    ("axpy", {"out": t(), "src": t(F16), "alpha": F32}, {}, TE, "run-time alpha"),
    ("cast", {"out": t(D.DT_BF16), "src": t(F16)}, {"mode": RoundMode.CAST_RINT}, TE, "no cast from FP16 to BF16"),
    ("sum", {"out": t(U8, (64, 1)), "src": t(U8), "tmp": t(U8)}, {"dim": 0}, TE, "UINT8"),
    ("argmax", {"out": t(F32, (8, 1)), "src": t(), "tmp": t()}, {"dim": 0}, TE, "INT32"),
    ("argmax", {"out": t(I32, (8, 1)), "src": t(U8), "tmp": t(U8)}, {"dim": 0}, TE, "UINT8"),
    ("expand_sub", {"out": t(), "src": t(), "scalar": 1.0}, {"dim": 0}, TE, "plain tile-scalar op"),
    ("expand_mul", {"out": t(), "src": t(), "scalar": t(F16, (16, 1))}, {"dim": 0}, TE, "one dtype"),
    ("gather", {"out": t(addr=64), "src": t(), "idx": t(D.DT_INT16, addr=0x8000), "tmp": None}, {}, TE, "INT16"),
    ("gather", {"out": t(addr=64), "src": t(), "idx": IDX, "tmp": IDX}, {"cmp_mode": 4}, TE, "five operands"),
    ("gather", {"out": t(addr=64), "src": t(), "idx": IDX, "tmp": IDX, "extra": IDX}, {}, TE, "cmp_mode"),
    ("gatherb", {"out": t(D.DT_INT64), "src": t(D.DT_INT64), "offsets": IDX}, {}, TE, "INT64"),
    ("gatherb", {"out": t(), "src": t(), "offsets": t(I32)}, {}, TE, "UINT32"),
    ("gathermask", {"out": t(F16), "src": t()}, {"pattern_mode": 1}, TE, "one width"),
    ("scatter", {"out": t(F16), "src": t(F16, addr=0x1000), "idx": t(I32, addr=0x8000)}, {}, TE, "INT16"),
    ("scatter", {"out": t(), "src": t(addr=0x1000), "idx": t(addr=0x8000)}, {}, TE, "INT32"),
    ("histogram", {"dst": t(U32, (8, 256)), "src": t(U8), "idx": t(U8, (32, 1))}, {"is_msb": True}, TE, "UINT16"),
    ("histogram", {"dst": t(I32, (8, 256)), "src": t(D.DT_UINT16), "idx": t(U8, (32, 1))}, {"is_msb": True}, TE,
     "UINT32"),
    ("sort32", {"dst": t(I32), "src": t(I32), "idx": IDX, "tmp": None}, {}, TE, "INT32"),
    ("sort32", {"dst": t(), "src": t(), "idx": t(I32), "tmp": None}, {}, TE, "UINT32"),
    ("quant", {"out": t(U8), "src": t(), "scale": t(F32, (8, 1))}, {"mode": QuantMode.SYM}, TE, "INT8"),
    ("dequant", {"out": t(), "src": t(I32), "scale": t(F32, (8, 1)), "offset": t(F32, (8, 1))}, {}, TE, "INT8"),
    ("dequant", {"out": t(), "src": t(D.DT_INT8), "scale": t(F32, (8, 1)), "offset": None}, {}, TE, "tile"),
    ("fill_index", {"out": t(F32, (1, 64)), "start": 0}, {}, TE, "FP32"),
    ("fill_index", {"out": t(I32, (1, 64)), "start": 0.5}, {}, TE, "integer"),
    ("set_vec_mask", {"mask_high": 0, "mask_low": 0.5}, {}, TE, "integer"),
    # shapes and layouts
    ("add", {"out": t(), "lhs": t(shape=(8, 1)), "rhs": 1.0}, {}, VE, r"use a \[1, 8\] tile at the same address"),
    ("exp", {"out": t(**NZ), "src": t(**NZ)}, {}, VE, "NZ"),
    ("exp", {"out": t(F16, (8, 24)), "src": t(F16, (8, 24))}, {}, VE, "48 B, not a multiple of 32"),
    ("maximum", {"out": t(F32, (8, 1)), "lhs": t(), "rhs": t()}, {"dim": 2}, VE, "dim must be 0"),
    ("maximum", {"out": t(F32, (8, 1)), "lhs": t(), "rhs": 1.0}, {"dim": 0}, TE, "scratch operand"),
    ("maximum", {"out": t(F32, (8, 1), valid=(4, 1)), "lhs": t(valid=(8, 64)), "rhs": t()}, {"dim": 0}, VE,
     "4 valid rows"),
    ("sum", {"out": t(F32, (8, 64), valid=(8, 64)), "src": t(), "tmp": t()}, {"dim": 0}, VE, "one valid column"),
    ("sum", {"out": t(F32, (64, 1)), "src": t(), "tmp": t()}, {"dim": 1}, VE, "row-major"),
    ("argmin", {"out": t(I32, (8, 1)), "src": t(valid=(0, 64)), "tmp": t()}, {"dim": 0}, VE, "no valid"),
    ("expand_sub", {"out": t(), "src": t(), "scalar": t(F32, (8, 1))}, {"dim": 1}, VE, "row-major"),
    ("expand_sub", {"out": t(), "src": t(), "scalar": t(F32, (8, 1))}, {"dim": 3}, VE, "dim must be"),
    ("expand_min", {"out": t(), "src": t(), "scalar": t(F32, (1, 64))}, {"dim": 0}, VE, "one row for the 8"),
    ("expand_sub", {"out": t(**DN), "src": t(), "scalar": t(F32, (8, 1))}, {"dim": 0}, VE, "DN"),
    ("partadd", {"out": t(valid=(5, 60)), "src0": t(valid=(4, 60)), "src1": t(valid=(5, 30))}, {}, VE,
     "one source must"),
    ("partadd", {"out": t(valid=(5, 60)), "src0": t(valid=(5, 60)), "src1": t(valid=(6, 60))}, {}, VE, "no more"),
    ("partmul", {"out": t(), "src0": t(), "src1": t(shape=(4, 64))}, {}, VE, "one shape"),
    ("gather", {"out": t(), "src": t(), "idx": IDX, "tmp": None}, {}, VE, "different tiles"),
    ("gatherb", {"out": t(valid=(8, 60)), "src": t(), "offsets": IDX}, {}, VE, "whole number"),
    ("gathermask", {"out": t(), "src": t()}, {"pattern_mode": 8}, VE, "from 1 to 7"),
    ("histogram", {"dst": t(U32, (8, 128)), "src": t(D.DT_UINT16), "idx": t(U8, (32, 1))}, {"is_msb": True}, VE,
     "256 columns"),
    ("histogram", {"dst": t(U32, (8, 256)), "src": t(U32), "idx": t(U8, (2, 64))}, {"is_msb": False}, VE, "ND"),
    ("sort32", {"dst": t(shape=(8, 128)), "src": t(valid=(8, 45)), "idx": IDX, "tmp": None}, {}, VE, "scratch"),
    ("sort32", {"dst": t(**DN), "src": t(), "idx": IDX, "tmp": None}, {}, VE, "DN"),
    ("mrgsort", {"dst": t(shape=(2, 256)), "src": t(shape=(1, 256), addr=0x8000)}, {"block_len": 64}, VE, "one row"),
    ("mrgsort", {"dst": t(shape=(1, 256)), "src": t(shape=(1, 256))}, {"block_len": 64}, VE, "different tiles"),
    ("mrgsort", {"dst": t(shape=(1, 256)), "src": t(shape=(1, 256), addr=0x8000)}, {"block_len": 48}, VE, "64"),
    ("mrgsort", {"dst": t(shape=(1, 256)), "src": t(shape=(1, 256), addr=0x8000, valid=(1, 200))}, {"block_len": 64},
     VE, "200 valid columns"),
    ("mrgsort2", {"src0": t(shape=(1, 64)), "src1": t(shape=(1, 64)), "dst": t(shape=(1, 128)),
                  "tmp": t(shape=(1, 64))}, {}, VE, "fewer"),
    ("cast", {"out": t(), "src": t(F16)}, {"mode": RoundMode.CAST_RINT}, VE, "one address"),
    ("expand_sub", {"out": t(), "src": t(), "scalar": t()}, {"dim": 1}, VE, r"\[1, C\]"),
    ("quant", {"out": t(U8), "src": t(), "scale": t(F32, (8, 1))}, {"mode": QuantMode.ASYM}, VE, "offset="),
    ("quant", {"out": t(D.DT_INT8), "src": t(), "scale": t()}, {}, VE, r"\[R, 1\]"),
    ("dequant", {"out": t(valid=(5, 64)), "src": t(D.DT_INT8), "scale": t(F32, (8, 1), valid=(4, 1)),
                 "offset": t(F32, (8, 1))}, {}, VE, "valid rows"),
    ("fill_index", {"out": t(I32, (2, 64)), "start": 0}, {}, VE, "one row"),
    ("expands", {"out": t(), "scalar": t()}, {}, TE, "must be a scalar"),
    ("expands", {"out": t(D.DT_INT64, (8, 1)), "scalar": 0}, {}, VE, "DN"),
    ("expands", {"out": t(F32, (4096, 512), space=MemorySpace.Mat), "scalar": 0}, {}, VE, "32767"),
    ("transpose", {"out": t(shape=(64, 8)), "src": t(D.DT_FP16, addr=0x8000)}, {}, VE, "one width"),
    ("transpose", {"out": t(D.DT_INT64), "src": t(D.DT_INT64, addr=0x8000)}, {}, TE, "INT64"),
    ("transpose", {"out": t(shape=(64, 8)), "src": t()}, {}, VE, "different tiles"),
    ("transpose", {"out": t(F32, (8, 64)), "src": t(valid=(8, 64), addr=0x8000)}, {}, VE, "does not hold"),
    ("transpose", {"out": t(F16, (512, 512)), "src": t(F16, (512, 512), addr=0x8000)}, {}, VE, "16-bit indices"),
    ("fillpad", {"out": t(addr=64), "src": t()}, {}, VE, "no pad value"),
    ("fillpad", {"out": t(pad=1), "src": t()}, {}, VE, "different tiles"),
    ("fillpad", {"out": t(pad=1, addr=64, shape=(8, 128)), "src": t()}, {}, VE, "of the shape of"),
    ("fillpad", {"out": t(pad=1, addr=64, shape=(4, 64)), "src": t()}, {"mode": FillPadMode.EXPAND}, VE, "at least"),
    ("fillpad", {"out": t(pad=1), "src": t(addr=64)}, {"mode": FillPadMode.INPLACE}, VE, "different addresses"),
    ("fillpad", {"out": t(D.DT_INT64, pad=1, addr=64), "src": t(D.DT_INT64)}, {}, VE, "one width"),
    ("fillpad", {"out": t(F16, (32, 32), pad=2, space=MemorySpace.Mat, **NZ),
                 "src": t(F16, (32, 32), pad=2, space=MemorySpace.Mat, **NZ)}, {}, VE, "not max"),
    ("cmp", {"out": t(U8), "lhs": t(), "rhs": t()}, {"cmp_mode": 6}, VE, "from 0"),
    ("muls", {"out": t(U8), "lhs": t(U8), "scalar": 2}, {}, TE, "UINT8"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "operands", "attrs", "error", "text"), REJECTS,
                         ids=[f"{r[0]}-{k}" for k, r in enumerate(REJECTS)])
def test_reject(op: str, operands: dict[str, Any], attrs: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        check(Case(op, operands, attrs))
