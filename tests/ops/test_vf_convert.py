"""`vf.astype` on both executors against the plain model: every pair, layout, rounding mode and saturation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto_pro
from ops import vf_model as model
from ops.vf_model import Reg
from ops.vf_programs import Program, random_mask, random_reg
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import VFRoundMode
from pypto_pro.numerics import convert, decode
from unit.kernel_text import module

FIVE = ("CAST_RINT", "CAST_ROUND", "CAST_FLOOR", "CAST_CEIL", "CAST_TRUNC")
ANY, OFF, BOTH = ("",), ("", "OFF"), ("", "OFF", "ON")
F16, BF, F32 = D.DT_FP16, D.DT_BF16, D.DT_FP32
I4, I8, I16, I32, I64 = D.DT_INT4, D.DT_INT8, D.DT_INT16, D.DT_INT32, D.DT_INT64
U8, U16, U32 = D.DT_UINT8, D.DT_UINT16, D.DT_UINT32
E4, E5, E8, HF8, E2, E1 = (
    D.DT_FP8E4M3FN, D.DT_FP8E5M2, D.DT_FP8E8M0, D.DT_HF8, D.DT_FP4E2M1, D.DT_FP4E1M2,
)  # fmt: skip

# (source, target): layouts, rounding modes, saturation; from the table of the entry and its open points
ROWS = {
    (F16, I4): (4, FIVE, BOTH), (F16, I8): (2, FIVE, BOTH), (F16, U8): (2, FIVE, BOTH), (F16, I16): (1, FIVE, BOTH),
    (F16, U16): (1, FIVE, BOTH), (F16, I32): (2, FIVE, OFF), (F16, U32): (2, FIVE, BOTH), (BF, I32): (2, FIVE, BOTH),
    (BF, U32): (2, FIVE, BOTH), (F32, I16): (2, FIVE, BOTH), (F32, I32): (1, FIVE, BOTH), (F32, U32): (1, FIVE, BOTH),
    (F32, I64): (2, FIVE, BOTH),
    (HF8, F16): (2, ANY, OFF), (HF8, F32): (4, ANY, OFF), (E4, F32): (4, ANY, OFF), (E5, F32): (4, ANY, OFF),
    (E8, BF): (2, ANY, OFF), (E2, BF): (4, ANY, OFF), (E1, BF): (4, ANY, OFF), (BF, F32): (2, ANY, OFF),
    (F16, F32): (2, ANY, OFF),
    (F16, HF8): (2, ("", "CAST_ROUND", "CAST_HYBRID"), BOTH), (F16, BF): (1, FIVE, OFF), (BF, F16): (1, FIVE, BOTH),
    (BF, E2): (4, FIVE, OFF), (BF, E1): (4, FIVE, OFF), (BF, E8): (2, ANY, OFF),
    (F32, HF8): (4, ("", "CAST_ROUND", "CAST_HYBRID"), ("", "ON")), (F32, E4): (4, ("", "CAST_RINT"), ("", "ON")),
    (F32, E5): (4, ("", "CAST_RINT"), ("", "ON")), (F32, F16): (2, (*FIVE, "CAST_ODD"), BOTH),
    (F32, BF): (2, FIVE, BOTH),
    (I4, F16): (4, ANY, OFF), (I4, BF): (4, ANY, OFF), (I8, F16): (2, ANY, OFF), (U8, F16): (2, ANY, OFF),
    (I16, F16): (1, FIVE, OFF), (U16, F16): (1, FIVE, OFF), (I16, F32): (2, ANY, OFF), (U16, F32): (2, ANY, OFF),
    (I32, F32): (1, FIVE, OFF), (U32, F32): (1, FIVE, OFF), (I32, F16): (2, FIVE, OFF), (U32, F16): (2, FIVE, OFF),
    (I64, F32): (2, FIVE, OFF),
    (I4, I16): (4, ANY, OFF), (I8, I16): (2, ANY, OFF), (I8, I32): (4, ANY, OFF), (U8, U16): (2, ANY, OFF),
    (U8, U32): (4, ANY, OFF), (I16, I32): (2, ANY, OFF), (I16, U32): (2, ANY, OFF), (U16, U32): (2, ANY, OFF),
    (I32, I64): (2, ANY, OFF), (U32, I64): (2, ANY, OFF),
    (I16, I4): (4, ANY, BOTH), (I16, U8): (2, ANY, BOTH), (I16, I8): (2, ANY, BOTH), (U16, U8): (2, ANY, BOTH),
    (U16, I8): (2, ANY, BOTH), (I32, U8): (4, ANY, BOTH), (I32, I8): (4, ANY, BOTH), (I32, I16): (2, ANY, BOTH),
    (I32, U16): (2, ANY, BOTH), (U32, U8): (4, ANY, BOTH), (U32, I8): (4, ANY, BOTH), (U32, I16): (2, ANY, BOTH),
    (U32, U16): (2, ANY, BOTH), (I64, I32): (2, ANY, BOTH), (I64, U32): (2, ANY, BOTH),
}  # fmt: skip
LAYOUTS = ("ZERO", "ONE", "TWO", "THREE")
SOURCES = sorted({source for source, _ in ROWS}, key=lambda d: d.name)


def rule_of(mode: str, target: D) -> str:
    """The rule a mode stands for; HF8 rounds ties away by default."""
    if target is HF8:
        return "CAST_ROUND"
    return mode or "CAST_RINT"


def clamps(saturate: str, source: D, target: D) -> bool:
    return saturate == "ON" or (not saturate and source is F32 and target in (HF8, E4, E5))


@pytest.mark.parametrize("source", SOURCES, ids=lambda d: d.name)
def test_every_pair(source: D) -> None:
    p, turn = Program(seed=source.value.bits), 0
    for (own, target), (layouts, modes, saturations) in ROWS.items():
        if own is not source:
            continue
        for k, (mode, saturate) in enumerate((m, s) for m in modes for s in saturations):
            a, mask = random_reg(p.rng, source, moderate=k % 2 == 1), random_mask(p.rng, 0.8)
            part, turn = turn % layouts, turn + 1
            keywords = [f"dtype=pl.{target.name}"]
            keywords += [f"layout=pl.CastLayout.{LAYOUTS[part]}"] if part or turn % 3 == 0 else []
            keywords += [f"round_mode=pl.VFRoundMode.{mode}"] if mode else []
            keywords += [f"saturate=pl.SaturateMode.{saturate}"] if saturate else []
            name = p.name()
            p.emit(f"{name} = vf.astype({p.load(a)}, {p.load_mask(mask)}, {', '.join(keywords)})")
            want = model.astype(a, mask, target, part, rule_of(mode, target), clamps(saturate, source, target))
            p.check(name, want, f"{source.name} to {', '.join(keywords)}")
    p.agree()


def test_halves_of_two_conversions_join() -> None:
    p = Program(seed=99)
    a, b = random_reg(p.rng, F32, moderate=True), random_reg(p.rng, F32, moderate=True)
    on = [1] * 256
    names = []
    for part, source in enumerate((a, b)):
        names.append(p.name())
        layout = f"layout=pl.CastLayout.{LAYOUTS[part]}"
        p.emit(f"{names[-1]} = vf.astype({p.load(source)}, {p.full(4)}, dtype=pl.DT_FP16, {layout})")
    joined = p.name()
    p.emit(f"{joined} = vf.or_({names[0]}, {names[1]}, {p.full(2)})")
    parts = [model.astype(r, on, F16, k, "CAST_RINT", False).codes for k, r in enumerate((a, b))]
    p.check(joined, Reg(F16, [x | y for x, y in zip(*parts, strict=True)]), "joined halves")
    p.agree()


# --- every element of at most 16 bits, natively ----------------------------------------------------------------------

REGISTERS = 32
"""Registers of source elements a kernel takes at once."""


def chunks_of_kernels(source: D) -> list[list[tuple[D, str, str]]]:
    """(target, mode, saturation) of a source, as many a kernel as results fit beside the source."""
    rows = [
        (target, mode, saturate)
        for (own, target), (_, modes, saturations) in ROWS.items()
        for mode in modes for saturate in saturations if own is source and saturate != "OFF"
    ]
    return [rows[k : k + 20] for k in range(0, len(rows), 20)]


def conversions(source: D, rows: list[tuple[D, str, str]]) -> Any:
    """A kernel that converts `REGISTERS` registers in all these ways, part ZERO."""
    lines = []
    for k, (target, mode, saturate) in enumerate(rows):
        keywords = f"dtype=pl.{target.name}" + (f", round_mode=pl.VFRoundMode.{mode}" if mode else "")
        keywords += f", saturate=pl.SaturateMode.{saturate}" if saturate else ""
        lines.append(f"        v{k} = vf.astype(r, on, {keywords})")
        lines.append(f"        vf.store_align(dst + {k * REGISTERS * 256}, v{k}, on, 256 * i)")
    body = "\n".join(lines)
    return module(f"""
@pl.vector_function
def ops(src, dst):
    on = vf.create_mask(dtype=pl.DT_UINT8)
    for i in pl.range(0, {REGISTERS}):
        r = vf.load_align(src, 256 * i, dtype=pl.{source.name})
{body}

@pl.jit(auto_mutex=True)
def k(x: pl.Tensor[[{REGISTERS}, 256], pl.DT_UINT8], y: pl.Tensor[[{len(rows) * REGISTERS}, 256], pl.DT_UINT8]):
    a = pl.make_tile_group(type=pl.TileType(shape=[{REGISTERS}, 256], dtype=pl.DT_UINT8), addrs=0, mutex_ids=[0])
    b = pl.make_tile_group(
        type=pl.TileType(shape=[{len(rows) * REGISTERS}, 256], dtype=pl.DT_UINT8), addrs={REGISTERS * 256},
        mutex_ids=[1])
    with pl.section_vector():
        pl.load(a.current(), x, [0, 0])
        ops(a.current(), b.current())
        pl.store(y, b.current(), [0, 0])
""")["k"]


def placed(lanes: np.ndarray, source: D, target: D, mode: str, saturate: str) -> np.ndarray:
    """Bytes of the results of registers [n, lanes] in part ZERO (section 6 of the vector function text)."""
    rule = VFRoundMode[mode] if mode else None
    clamp = True if saturate == "ON" else None
    if target.bits() == 4:
        codes = convert(lanes, source, target, rule, clamp, "register")
        made = np.zeros((len(lanes), 64, 4), np.uint8)
        made[:, :, 0] = codes[:, 0::2] | codes[:, 1::2] << 4
    elif target.nbytes > source.nbytes:
        ratio = target.nbytes // source.nbytes
        made = convert(lanes[:, ::ratio], source, target, rule, clamp, "register")
    else:
        made = np.zeros((*lanes.shape, source.nbytes // target.nbytes), target.bits_dtype)
        made[:, :, 0] = convert(lanes, source, target, rule, clamp, "register")
    return np.ascontiguousarray(made).reshape(len(lanes), -1).view(np.uint8)


def alike(found: np.ndarray, wanted: np.ndarray, target: D) -> bool:
    """Equal bytes, any NaN for another."""
    if target not in (BF, F16, F32):
        return np.array_equal(found, wanted)
    a, b = found.view(target.bits_dtype), wanted.view(target.bits_dtype)
    return bool(np.all((a == b) | (np.isnan(decode(a, target)) & np.isnan(decode(b, target)))))


@pytest.mark.parametrize("source", [s for s in SOURCES if 4 < s.bits() <= 16], ids=lambda d: d.name)
def test_every_element_natively(source: D) -> None:
    """All codes through every pair, mode and saturation; `convert`, the meaning, is exhausted in its own tests."""
    times = 4 // source.nbytes  # a widening to 32 bits reads one lane of that many
    codes = np.repeat(np.arange(1 << source.bits(), dtype=source.bits_dtype), times)
    registers = np.resize(codes, (max(codes.size * source.nbytes // 256, REGISTERS), 256 // source.nbytes))
    for rows in chunks_of_kernels(source):
        kernel = conversions(source, rows)
        for start in range(0, len(registers), REGISTERS):
            lanes = registers[start : start + REGISTERS]
            x, y = lanes.view(np.uint8), np.zeros((len(rows) * REGISTERS, 256), np.uint8)
            with pypto_pro.options(executor="native", check=False):
                kernel[None, 1](x, y)
            for (target, mode, saturate), found in zip(rows, y.reshape(-1, REGISTERS, 256), strict=True):
                wanted = placed(lanes, source, target, mode, saturate)
                assert alike(found, wanted, target), (target, mode, saturate, start)
