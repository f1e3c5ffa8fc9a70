"""Bits, comparisons, masks, reductions, counting and rearranging: both executors against the plain model."""

from __future__ import annotations

from typing import Any

import pytest

from ops import vf_model as model
from ops.vf_model import Reg
from ops.vf_programs import Program, random_mask, random_reg
from pypto_pro.dtypes import DataType as D

INTS = [D.DT_INT8, D.DT_UINT8, D.DT_INT16, D.DT_UINT16, D.DT_INT32, D.DT_UINT32, D.DT_INT64, D.DT_UINT64]
FLOATS = [D.DT_FP16, D.DT_BF16, D.DT_FP32]
NUMBERS = [*INTS, *FLOATS]
SINGLES = [D.DT_FP16, D.DT_FP32]
EIGHT_BIT = [D.DT_FP8E4M3FN, D.DT_FP8E5M2, D.DT_FP8E8M0, D.DT_HF8]
PATTERNS = [*NUMBERS, *EIGHT_BIT, D.DT_BOOL]
UP_TO_32 = INTS[:6]
COMPARES = ["eq", "ne", "lt", "gt", "le", "ge"]


@pytest.mark.parametrize("op", ["and_", "or_", "xor"])
def test_bit_operations(op: str) -> None:
    p = Program(seed=1)
    for dtype in PATTERNS:
        a, b, mask = random_reg(p.rng, dtype), random_reg(p.rng, dtype), random_mask(p.rng)
        name = p.name()
        p.emit(f"{name} = vf.{op}({p.load(a)}, {p.load(b)}, {p.load_mask(mask)})")
        p.check(name, model.logic(op, a, b, mask), f"{op} {dtype.name}")
    x, y, mask = (random_mask(p.rng) for _ in range(3))
    name = p.name()
    p.emit(f"{name} = vf.{op}({p.load_mask(x)}, {p.load_mask(y)}, {p.load_mask(mask)})")
    p.check_mask(name, model.mask_logic(op, x, y, mask), f"{op} of masks")
    p.agree()


def test_not() -> None:
    p = Program(seed=2)
    for dtype in [*INTS, D.DT_BOOL, *SINGLES]:
        a, mask = random_reg(p.rng, dtype), random_mask(p.rng)
        name = p.name()
        p.emit(f"{name} = vf.not_({p.load(a)}, {p.load_mask(mask)})")
        p.check(name, model.inverted(a, mask), f"not_ {dtype.name}")
    x, mask = random_mask(p.rng), random_mask(p.rng)
    name = p.name()
    p.emit(f"{name} = vf.not_({p.load_mask(x)}, {p.load_mask(mask)})")
    p.check_mask(name, [(1 - b) & m for b, m in zip(x, mask, strict=True)], "not_ of a mask")
    p.agree()


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_shifts(left: bool) -> None:
    p, op = Program(seed=3), "shift_left" if left else "shift_right"
    for dtype in INTS:
        a, mask = random_reg(p.rng, dtype), random_mask(p.rng)
        bits = dtype.bits()
        for amount in (0, 1, bits - 1, bits, bits + 9, 65537):
            name, taken = p.name(), (amount + 32768) % 65536 - 32768
            p.emit(f"{name} = vf.{op}({p.load(a)}, {amount}, {p.load_mask(mask)})")
            p.check(name, model.shifted(a, [taken] * len(a.codes), mask, left), f"{op} {dtype.name} by {amount}")
        signed = D[dtype.name.replace("UINT", "INT")]
        steps = [int(s) for s in p.rng.integers(0, bits + 3, len(a.codes))]
        name = p.name()
        p.emit(f"{name} = vf.{op}({p.load(a)}, {p.load(Reg(signed, steps))}, {p.load_mask(mask)})")
        p.check(name, model.shifted(a, steps, mask, left), f"{op} {dtype.name} by lanes")
    p.agree()


@pytest.mark.parametrize("op", COMPARES)
def test_comparisons(op: str) -> None:
    p = Program(seed=4)
    for dtype in NUMBERS:
        a, b, mask = random_reg(p.rng, dtype), random_reg(p.rng, dtype), random_mask(p.rng)
        b.codes[::3] = a.codes[::3]
        name = p.name()
        p.emit(f"{name} = vf.{op}({p.load(a)}, {p.load(b)}, {p.load_mask(mask)})")
        p.check_mask(name, model.compare(op, a, b, mask), f"{op} {dtype.name}")
        value = 0.5 if dtype.is_float() else 1
        spread = Reg(dtype, [model.scalar_code(value, dtype)] * len(a.codes))
        name = p.name()
        p.emit(f"{name} = vf.{op}({p.load(a)}, {value!r}, {p.load_mask(mask)})")
        p.check_mask(name, model.compare(op, a, spread, mask), f"{op} {dtype.name} with {value}")
    a, b, mask = random_reg(p.rng, D.DT_INT32), random_reg(p.rng, D.DT_FP16), random_mask(p.rng)
    name = p.name()
    p.emit(f"{name} = vf.{op}({p.load(a)}, {p.load(b)}, {p.load_mask(mask)}, cmp_dtype=pl.DT_UINT8)")
    p.check_mask(name, model.compare(op, a.as_(D.DT_UINT8), b.as_(D.DT_UINT8), mask), f"{op} cmp_dtype")
    p.agree()


def test_select_move_and_full() -> None:
    p = Program(seed=5)
    for dtype in [D.DT_BOOL, *UP_TO_32, *FLOATS]:
        a, b, mask = random_reg(p.rng, dtype), random_reg(p.rng, dtype), random_mask(p.rng)
        name = p.name()
        p.emit(f"{name} = vf.select({p.load(a)}, {p.load(b)}, {p.load_mask(mask)})")
        p.check(name, model.select(a, b, mask), f"select {dtype.name}")
        name = p.load(b, fresh=True)
        p.emit(f"{name} = vf.move({p.load(a)}, {p.load_mask(mask)})")
        p.check(name, model.select(a, b, mask), f"move {dtype.name}")
        name = p.name()
        p.emit(f"{name} = vf.move({p.load(a)})")
        p.check(name, a, f"whole move {dtype.name}")
    for dtype in [*NUMBERS, *EIGHT_BIT, D.DT_FP4E2M1, D.DT_FP4E1M2]:
        a, old, mask = random_reg(p.rng, dtype), random_reg(p.rng, dtype), random_mask(p.rng)
        count = len(a.codes)
        for pos, code in (("LOWEST", a.codes[0]), ("HIGHEST", a.codes[-1])):
            name = p.load(old, fresh=True)
            keywords = f"mode=pl.MergeMode.MERGING, pos=pl.DuplicatePos.{pos}"
            p.emit(f"{name} = vf.full({p.load(a)}, {p.load_mask(mask)}, {keywords})")
            p.check(name, model.select(Reg(dtype, [code] * count), old, mask), f"full {dtype.name} {pos}")
        name = p.name()
        p.emit(f"{name} = vf.full({p.load(a)})")
        p.check(name, Reg(dtype, [a.codes[0]] * count), f"full {dtype.name} without a mask")
    p.agree()


def test_full_of_numbers_and_masks() -> None:
    p = Program(seed=6)
    for dtype in NUMBERS:
        for value in (0, 7, -3, 0.1, 2.75):
            mask = random_mask(p.rng)
            name = p.name()
            p.emit(f"{name} = vf.full({value!r}, {p.load_mask(mask)}, dtype=pl.{dtype.name})")
            code = model.scalar_code(value, dtype)
            count = 256 // dtype.nbytes
            p.check(name, Reg(dtype, model.masked([code] * count, mask, dtype.nbytes)), f"full {dtype.name} {value}")
    x, y, mask = (random_mask(p.rng) for _ in range(3))
    for text, want in {
        f"vf.select({p.load_mask(x)}, {p.load_mask(y)}, {p.load_mask(mask)})": [
            a if m else b for a, b, m in zip(x, y, mask, strict=True)
        ],
        f"vf.move({p.load_mask(x)})": x,
        f"vf.move({p.load_mask(x)}, {p.load_mask(mask)})": [a & m for a, m in zip(x, mask, strict=True)],
    }.items():
        name = p.name()
        p.emit(f"{name} = {text}")
        p.check_mask(name, want, text)
    p.agree()


def test_squeeze() -> None:
    p = Program(seed=7)
    for dtype in [*UP_TO_32, *SINGLES]:
        for share in (0.0, 0.3, 0.9, 1.0):
            a, mask = random_reg(p.rng, dtype), random_mask(p.rng, share)
            name = p.name()
            p.emit(f"{name} = vf.squeeze({p.load(a)}, {p.load_mask(mask)})")
            p.check(name, model.squeeze(a, mask)[0], f"squeeze {dtype.name} {share}")
    a, mask = random_reg(p.rng, D.DT_INT32), random_mask(p.rng)
    name = p.name()
    p.emit(f"{name} = vf.squeeze({p.load(a)}, {p.load_mask(mask)}, dtype=pl.DT_UINT32)")
    p.check(name, Reg(D.DT_UINT32, model.squeeze(a, mask)[0].codes), "squeeze as UINT32")
    p.agree()


PATTERN_LANES: dict[str, Any] = {
    "ALL": lambda i, n: True, "ALLF": lambda i, n: False, "H": lambda i, n: i < n // 2, "Q": lambda i, n: i < n // 4,
    "M3": lambda i, n: i % 3 == 0, "M4": lambda i, n: i % 4 == 0,
    **{f"VL{v}": lambda i, n, v=v: i < v for v in (1, 2, 3, 4, 8, 16, 32, 64, 128)},
}  # fmt: skip


def test_masks_of_patterns_and_counts() -> None:
    p = Program(seed=8)
    for dtype in (D.DT_INT8, D.DT_FP8E4M3FN, D.DT_FP16, D.DT_FP32, D.DT_INT64):
        width, count = dtype.nbytes, 256 // dtype.nbytes
        for pattern, rule in PATTERN_LANES.items():
            bits = [int(j % width == 0 and rule(j // width, count)) for j in range(256)]
            name = p.name()
            p.emit(f"{name} = vf.create_mask(pattern=pl.MaskPattern.{pattern}, dtype=pl.{dtype.name})")
            p.check_mask(name, bits, f"{pattern} {dtype.name}")
        for limit in (0, 1, 5, count - 1, count, 300, 0xFFFFFFFF, -1):
            bits = [int(j % width == 0 and j // width < limit % (1 << 32)) for j in range(256)]
            name = p.name()
            p.emit(f"{name} = vf.update_mask({limit}, dtype=pl.{dtype.name})")
            p.check_mask(name, bits, f"update_mask {limit} {dtype.name}")
    p.agree()


def test_masks_from_register_bits() -> None:
    p = Program(seed=9)
    for dtype in (D.DT_FP16, D.DT_BF16, D.DT_INT16, D.DT_UINT16, D.DT_FP32, D.DT_INT32, D.DT_UINT32):
        a, lanes = random_reg(p.rng, dtype), 256 // dtype.nbytes
        for block in (0, 3, 8 * dtype.nbytes - 1):
            data = a.data()[block * lanes // 8 :]
            bits = [data[lane // 8] >> lane % 8 & 1 for lane in range(lanes) for _ in range(dtype.nbytes)]
            name = p.name()
            p.emit(f"{name} = vf.mask_gen_with_reg_tensor({p.load(a)}, offset={block})")
            p.check_mask(name, bits, f"mask_gen {dtype.name} {block}")
    for dtype in UP_TO_32:
        mask = random_mask(p.rng)
        name = p.name()
        p.emit(f"{name} = vf.unsqueeze({p.load_mask(mask)}, dtype=pl.{dtype.name})")
        p.check(name, model.unsqueeze(mask, dtype), f"unsqueeze {dtype.name}")
    p.agree()


@pytest.mark.parametrize("op", ["reduce_max", "reduce_min", "reduce_sum"])
def test_reductions(op: str) -> None:
    p = Program(seed=10)
    for dtype in [*INTS[2:], *SINGLES]:
        for share in (0.0, 0.5, 1.0):
            for moderate in (True, False):
                a, mask = random_reg(p.rng, dtype, moderate=moderate), random_mask(p.rng, share)
                for blocks in (False, True):
                    if blocks and dtype.nbytes == 8:
                        continue
                    name = p.name()
                    p.emit(f"{name} = vf.{op}({p.load(a)}, {p.load_mask(mask)}, datablock={blocks})")
                    want = model.reduce_sum(a, mask, blocks) if op == "reduce_sum" else model.reduce_extreme(
                        a, mask, op == "reduce_max", blocks
                    )
                    p.check(name, want, f"{op} {dtype.name} {share} {blocks}")
    p.agree()


def test_pair_sums_and_counting() -> None:
    p = Program(seed=11)
    for dtype in SINGLES:
        a, mask = random_reg(p.rng, dtype), random_mask(p.rng)
        name = p.name()
        p.emit(f"{name} = vf.pair_reduce_sum({p.load(a)}, {p.load_mask(mask)})")
        p.check(name, model.pair_sum(a, mask), f"pair_reduce_sum {dtype.name}")
    for dtype in [*INTS, *SINGLES]:
        for start in (0, 100, -5, 2.5):
            for order in ("INCREASE_ORDER", "DECREASE_ORDER"):
                name = p.name()
                p.emit(f"{name} = vf.arange({start}, dtype=pl.{dtype.name}, index_order=pl.IndexOrder.{order})")
                p.check(name, model.arange(start, dtype, order[0] == "D"), f"arange {dtype.name} {start} {order}")
    p.agree()


def test_histograms() -> None:
    p = Program(seed=12)
    a, mask = random_reg(p.rng, D.DT_UINT8), random_mask(p.rng)
    crowded = Reg(D.DT_UINT8, [int(c) for c in p.rng.choice([0, 3, 127, 128, 255], 256)])
    for source in (a, crowded):
        for base, bin_type in ((0, "BIN0"), (128, "BIN1")):
            for cumulative, kind in ((True, "ACCUMULATE"), (False, "FREQUENCY")):
                old = random_reg(p.rng, D.DT_UINT16)
                name = p.load(old, fresh=True)
                keywords = f"bin_type=pl.BinType.{bin_type}, hist_type=pl.HistType.{kind}"
                p.emit(f"{name} = vf.histograms({p.load(source)}, {p.load_mask(mask)}, {keywords})")
                p.check(name, model.histogram(old, source, mask, base, cumulative), f"histograms {bin_type} {kind}")
    p.agree()


@pytest.mark.parametrize("op", ["interleave", "de_interleave"])
def test_interleaving(op: str) -> None:
    p, plain = Program(seed=13), getattr(model, op)
    for dtype in [*NUMBERS, D.DT_HF8]:
        a, b = random_reg(p.rng, dtype), random_reg(p.rng, dtype)
        first, second = p.name(), p.name()
        p.emit(f"{first}, {second} = vf.{op}({p.load(a)}, {p.load(b)})")
        for name, codes in zip((first, second), plain(a.codes, b.codes), strict=True):
            p.check(name, Reg(dtype, codes), f"{op} {dtype.name}")
    a, b = random_reg(p.rng, D.DT_INT16), random_reg(p.rng, D.DT_FP16)
    first, second = p.name(), p.name()
    p.emit(f"{first}, {second} = vf.{op}({p.load(a)}, {p.load(b)}, dtype=pl.DT_UINT8)")
    for name, codes in zip((first, second), plain(a.as_(D.DT_UINT8).codes, b.as_(D.DT_UINT8).codes), strict=True):
        p.check(name, Reg(D.DT_UINT8, codes), f"{op} as bytes")
    for dtype in (D.DT_INT8, D.DT_FP16, D.DT_FP32):
        x, y = random_mask(p.rng), random_mask(p.rng)
        first, second = p.name(), p.name()
        p.emit(f"{first}, {second} = vf.{op}({p.load_mask(x)}, {p.load_mask(y)}, dtype=pl.{dtype.name})")
        parts = plain(model.slots(x, dtype.nbytes), model.slots(y, dtype.nbytes))
        for name, part in zip((first, second), parts, strict=True):
            p.check_mask(name, model.flat(part), f"{op} of masks {dtype.name}")
    x, y = random_mask(p.rng), random_mask(p.rng)  # the width follows the tag
    first, second = p.name(), p.name()
    p.emit(f"{first}, {second} = vf.{op}({p.load_mask(x, D.DT_FP32)}, {p.load_mask(y, D.DT_FP32)})")
    for name, part in zip((first, second), plain(model.slots(x, 4), model.slots(y, 4)), strict=True):
        p.check_mask(name, model.flat(part), f"{op} of masks by tag")
    p.agree()


PACKS = {
    D.DT_UINT8: [D.DT_INT16, D.DT_UINT16], D.DT_UINT16: [D.DT_INT32, D.DT_UINT32],
    D.DT_UINT32: [D.DT_INT64, D.DT_UINT64],
}  # fmt: skip
UNPACKS = {
    D.DT_INT16: D.DT_INT8, D.DT_UINT16: D.DT_UINT8, D.DT_INT32: D.DT_INT16, D.DT_UINT32: D.DT_UINT16,
    D.DT_INT64: D.DT_INT32, D.DT_UINT64: D.DT_UINT32,
}  # fmt: skip


def test_pack_and_unpack() -> None:
    p = Program(seed=14)
    for part in (None, "LOWER", "UPPER"):
        keyword = "" if part is None else f", part=pl.PackPart.{part}"
        upper = part == "UPPER"
        for narrow, sources in PACKS.items():
            for source in sources:
                a, name = random_reg(p.rng, source), p.name()
                p.emit(f"{name} = vf.pack({p.load(a)}, dtype=pl.{narrow.name}{keyword})")
                p.check(name, model.pack_register(a, narrow, upper), f"pack {source.name} {part}")
        for wide, source in UNPACKS.items():
            a, name = random_reg(p.rng, source), p.name()
            p.emit(f"{name} = vf.unpack({p.load(a)}, dtype=pl.{wide.name}{keyword})")
            p.check(name, model.unpack_register(a, wide, upper), f"unpack {source.name} {part}")
        x, packed, unpacked = random_mask(p.rng), p.name(), p.name()
        zeros = [0] * 128
        p.emit(f"{packed} = vf.pack({p.load_mask(x)}{keyword})")
        p.check_mask(packed, zeros + x[::2] if upper else x[::2] + zeros, f"pack of a mask {part}")
        p.emit(f"{unpacked} = vf.unpack({p.load_mask(x)}{keyword})")
        half = x[128:] if upper else x[:128]
        p.check_mask(unpacked, [half[j // 2] if j % 2 == 0 else 0 for j in range(256)], f"unpack of a mask {part}")
    p.agree()


def test_bit_casts() -> None:
    p = Program(seed=15)
    for source, target in ((D.DT_FP32, D.DT_UINT32), (D.DT_FP32, D.DT_UINT8), (D.DT_INT8, D.DT_INT64)):
        a, name = random_reg(p.rng, source), p.name()
        p.emit(f"{name} = vf.bit_cast({p.load(a)}, dtype=pl.{target.name})")
        p.check(name, a.as_(target), f"bit_cast {source.name} {target.name}")
    a, b, mask = random_reg(p.rng, D.DT_FP32), random_reg(p.rng, D.DT_INT32), random_mask(p.rng)
    name = p.name()
    p.emit(
        f"{name} = vf.xor(vf.bit_cast({p.load(a)}, dtype=pl.DT_UINT32), "
        f"vf.bit_cast({p.load(b)}, dtype=pl.DT_UINT32), {p.load_mask(mask)})"
    )
    p.check(name, model.logic("xor", a.as_(D.DT_UINT32), b.as_(D.DT_UINT32), mask), "nested bit_cast")
    held = p.load(a, fresh=True)
    p.emit(f"{held} = vf.bit_cast({p.load(b)}, dtype=pl.DT_INT32)")
    p.check(held, b.as_(D.DT_FP32), "a register keeps its dtype")
    p.agree()
