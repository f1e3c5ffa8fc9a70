"""Arithmetic register ops of both executors against the plain model: all dtypes, random masks, both merge modes."""

from __future__ import annotations

import pytest

from ops import vf_model as model
from ops.vf_programs import Program, random_mask, random_reg
from pypto_pro.dtypes import DataType as D

INTS = [D.DT_INT8, D.DT_UINT8, D.DT_INT16, D.DT_UINT16, D.DT_INT32, D.DT_UINT32, D.DT_INT64, D.DT_UINT64]
FLOATS = [D.DT_FP16, D.DT_BF16, D.DT_FP32]
NUMBERS = [*INTS, *FLOATS]
SINGLES = [D.DT_FP16, D.DT_FP32]
SIGNED = [D.DT_INT8, D.DT_INT16, D.DT_INT32, D.DT_INT64]

BINARY = {
    "add": NUMBERS, "sub": NUMBERS, "mul": [*INTS[2:], *FLOATS], "div": [*INTS, *SINGLES], "max": NUMBERS,
    "min": NUMBERS, "prelu": SINGLES, "abs_sub": [*SINGLES, D.DT_INT64],
}  # fmt: skip
SCALARS = {
    "adds": NUMBERS, "subs": NUMBERS, "muls": [*INTS[2:], *SINGLES], "maxs": NUMBERS, "mins": NUMBERS,
    "leaky_relu": SINGLES,
}  # fmt: skip
UNARY = {"abs": [*SIGNED, *SINGLES], "neg": [*SIGNED, *SINGLES], "relu": [*SINGLES, D.DT_INT32, D.DT_INT64]}


@pytest.mark.parametrize("op", BINARY)
def test_two_registers(op: str) -> None:
    p = Program(seed=len(op))
    for dtype in BINARY[op]:
        a, b, mask = random_reg(p.rng, dtype), random_reg(p.rng, dtype), random_mask(p.rng)
        name = p.name()
        p.emit(f"{name} = vf.{op}({p.load(a)}, {p.load(b)}, {p.load_mask(mask)})")
        p.check(name, model.binary(op, a, b, mask), f"{op} {dtype.name}")
    p.agree()


@pytest.mark.parametrize("op", ["add", "max", "min"])
def test_merging_keeps_the_old_lanes(op: str) -> None:
    p = Program(seed=7)
    for dtype in NUMBERS:
        a, b, old, mask = *(random_reg(p.rng, dtype) for _ in range(3)), random_mask(p.rng)
        name = p.load(old, fresh=True)
        p.emit(f"{name} = vf.{op}({p.load(a)}, {p.load(b)}, {p.load_mask(mask)}, mode=pl.MergeMode.MERGING)")
        p.check(name, model.binary(op, a, b, mask, old), f"{op} merging {dtype.name}")
        name = p.load(old, fresh=True)
        p.emit(f"{name} = vf.{op}({name}, {p.load(b)}, {p.load_mask(mask)}, mode=pl.MergeMode.ZEROING)")
        p.check(name, model.binary(op, old, b, mask), f"{op} zeroing in place {dtype.name}")
    p.agree()


@pytest.mark.parametrize("op", SCALARS)
def test_register_and_number(op: str) -> None:
    p = Program(seed=11)
    for dtype in SCALARS[op]:
        if dtype.is_float():
            values: list[float | int] = [0.1, -2.5, 0.0, -0.0, 1e30]
            values += [] if op in ("leaky_relu", "muls") else [3]
        else:
            values = [3, -7, 200, 1 << 31]
        for value in values:
            a, mask = random_reg(p.rng, dtype), random_mask(p.rng)
            name = p.name()
            p.emit(f"{name} = vf.{op}({p.load(a)}, {value!r}, {p.load_mask(mask)})")
            p.check(name, model.with_scalar(op, a, value, mask), f"{op} {dtype.name} {value}")
    p.agree()


def test_one_register() -> None:
    p = Program(seed=3)
    for op, dtypes in UNARY.items():
        for dtype in dtypes:
            a, mask = random_reg(p.rng, dtype), random_mask(p.rng)
            name = p.name()
            p.emit(f"{name} = vf.{op}({p.load(a)}, {p.load_mask(mask)})")
            p.check(name, model.unary(op, a, mask), f"{op} {dtype.name}")
    p.agree()


def test_roots_powers_and_logarithms() -> None:
    p = Program(seed=5)
    for dtype in SINGLES:
        for moderate in (True, False):
            a, mask = random_reg(p.rng, dtype, moderate=moderate), random_mask(p.rng)
            cases = {
                "exp": model.near_unary(model.exponential, a, mask, 2.0),
                "ln": model.near_unary(model.logarithm, a, mask, 2.0),
                "log": model.near_unary(model.logarithm, a, mask, 2.0),
                "log2": model.scaled_log(a, mask, 1.4426950408889634),
                "log10": model.scaled_log(a, mask, 0.4342944819032518),
                "sqrt": model.square_root(a, mask),
            }
            for op, want in cases.items():
                name = p.name()
                p.emit(f"{name} = vf.{op}({p.load(a)}, {p.load_mask(mask)})")
                p.check(name, want, f"{op} {dtype.name}")
            name = p.name()
            p.emit(f"{name} = vf.sqrt({p.load(a)}, {p.load_mask(mask)}, precision=True)")
            p.check(name, model.square_root(a, mask, True), f"precise sqrt {dtype.name}")
            name = p.name()
            p.emit(f"{name} = vf.exp({p.load(a)}, {p.load_mask(mask)}, precision='high')")
            p.check(name, model.near_unary(model.exponential, a, mask, 2.0), f"exp precision {dtype.name}")
    p.agree()


def test_truncate_in_every_mode() -> None:
    p = Program(seed=13)
    for dtype in FLOATS:
        for moderate in (True, False):
            a, mask = random_reg(p.rng, dtype, moderate=moderate), random_mask(p.rng)
            for rule in (None, "CAST_TRUNC", "CAST_RINT", "CAST_CEIL", "CAST_FLOOR"):
                keyword = "" if rule is None else f", round_mode=pl.VFRoundMode.{rule}"
                name = p.name()
                p.emit(f"{name} = vf.truncate({p.load(a)}, {p.load_mask(mask)}{keyword})")
                p.check(name, model.truncated(a, mask, rule or "CAST_TRUNC"), f"truncate {dtype.name} {rule}")
    p.agree()


def test_fused_forms_round_once() -> None:
    p = Program(seed=17)
    for dtype in [*INTS[2:], *FLOATS]:
        for moderate in (True, False):
            a, b, c = (random_reg(p.rng, dtype, moderate=moderate) for _ in range(3))
            mask = random_mask(p.rng)
            name = p.load(c, fresh=True)
            p.emit(f"{name} = vf.mul_add_dst({p.load(a)}, {p.load(b)}, {p.load_mask(mask)})")
            p.check(name, model.multiply_add(a, b, c, mask), f"mul_add_dst {dtype.name}")
            if dtype.is_float():
                name = p.load(c, fresh=True)
                p.emit(f"{name} = vf.mul_dst_add({p.load(a)}, {p.load(b)}, {p.load_mask(mask)})")
                p.check(name, model.multiply_add(c, a, b, mask), f"mul_dst_add {dtype.name}")
            if dtype in (*SINGLES, D.DT_INT64, D.DT_UINT64):
                factor = 3.14159 if dtype.is_float() else 12345
                name = p.load(c, fresh=True)
                p.emit(f"{name} = vf.axpy({p.load(a)}, {factor!r}, {p.load_mask(mask)})")
                spread = model.Reg(dtype, [model.scalar_code(factor, dtype)] * len(a.codes))
                p.check(name, model.multiply_add(a, spread, c, mask), f"axpy {dtype.name}")
    p.agree()


def test_products_near_ties_are_rounded_once() -> None:
    """Lanes whose product, rounded first, would change which way the sum goes."""
    p = Program(seed=19)
    cases = {
        D.DT_FP16: (0x3C01, 0x3C01, 0x0001), D.DT_BF16: (0x3F81, 0x3F81, 0x0001), D.DT_FP32: (0x3F800001,) * 2 + (1,),
    }  # fmt: skip
    for dtype, (x, y, tiny) in cases.items():
        count = 256 // dtype.nbytes
        sign = 1 << dtype.bits() - 1
        a, b = (model.Reg(dtype, [(v + i % 7) % (1 << dtype.bits()) for i in range(count)]) for v in (x, y))
        c = model.Reg(dtype, [tiny | (sign if i % 2 else 0) for i in range(count)])
        name = p.load(c, fresh=True)
        p.emit(f"{name} = vf.mul_add_dst({p.load(a)}, {p.load(b)}, {p.full(dtype.nbytes)})")
        p.check(name, model.multiply_add(a, b, c, [1] * 256), f"near ties {dtype.name}")
    p.agree()


def test_exp_of_a_difference_and_multiply_with_conversion() -> None:
    p = Program(seed=23)
    for dtype in SINGLES:
        a, b, mask = *(random_reg(p.rng, dtype, moderate=True) for _ in range(2)), random_mask(p.rng)
        for part, layout in enumerate(("ZERO", "ONE")):
            name = p.name()
            keywords = f"layout=pl.CastLayout.{layout}, dtype=pl.DT_FP32"
            p.emit(f"{name} = vf.exp_sub({p.load(a)}, {p.load(b)}, {p.load_mask(mask)}, {keywords})")
            p.check(name, model.exp_sub(a, b, mask, part), f"exp_sub {dtype.name} {layout}")
    for factor in (0.125, 1e-7, 3e5, -1.0009765625):
        a, mask = random_reg(p.rng, D.DT_FP32), random_mask(p.rng)
        for part, layout in enumerate(("ZERO", "ONE")):
            name = p.name()
            keywords = f"dtype=pl.DT_FP16, layout=pl.CastLayout.{layout}"
            p.emit(f"{name} = vf.muls_cast({p.load(a)}, {factor!r}, {p.load_mask(mask)}, {keywords})")
            p.check(name, model.muls_cast(a, factor, mask, part), f"muls_cast {factor} {layout}")
    p.agree()


@pytest.mark.parametrize("op", ["addc", "subc"])
def test_carries(op: str) -> None:
    p = Program(seed=29)
    for dtype in (D.DT_INT32, D.DT_UINT32):
        a, b = random_reg(p.rng, dtype), random_reg(p.rng, dtype)
        for carry_in in (random_mask(p.rng), [0] * 256, [1] * 256):
            mask = random_mask(p.rng)
            bits, total = model.carry(a, b, carry_in, mask, op == "subc")
            flags, name = p.load_mask([1] * 256, fresh=True), p.name()
            p.emit(f"{flags}, {name} = vf.{op}({p.load(a)}, {p.load(b)}, {p.load_mask(carry_in)}, {p.load_mask(mask)})")
            p.check(name, total, f"{op} {dtype.name}")
            p.check_mask(flags, bits, f"{op} carry {dtype.name}")
    p.agree()


def test_whole_product() -> None:
    p = Program(seed=31)
    for dtype in (D.DT_INT32, D.DT_UINT32):
        a, b, mask = random_reg(p.rng, dtype), random_reg(p.rng, dtype), random_mask(p.rng)
        low, high = p.name(), p.name()
        p.emit(f"{low}, {high} = vf.mull({p.load(a)}, {p.load(b)}, {p.load_mask(mask)})")
        wanted = model.whole_product(a, b, mask)
        p.check(low, wanted[0], f"mull low {dtype.name}")
        p.check(high, wanted[1], f"mull high {dtype.name}")
    p.agree()
