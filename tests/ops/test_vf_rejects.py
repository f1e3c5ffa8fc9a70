"""What register ops refuse, each at the author's line, as a class that is ParserTypeError and RuntimeError at once."""

from __future__ import annotations

import textwrap

import pytest

from pypto_pro.diag.errors import FinalRejectionError, LoweringError, ParserError, ParserSyntaxError, ParserTypeError
from unit.kernel_text import read

REGISTERS = {
    "b": "INT8", "h": "FP16", "bf": "BF16", "f": "FP32", "i": "INT32", "u": "UINT32", "w": "INT16", "q": "INT64",
    "ub": "UINT8", "uh": "UINT16", "uq": "UINT64", "e8": "FP8E4M3FN", "boolean": "BOOL",
}  # fmt: skip
HEAD = "".join(f"{n} = vf.load_align(t, dtype=pl.DT_{d})\n" for n, d in REGISTERS.items()) + (
    "on = vf.create_mask()\nm = vf.create_mask(dtype=pl.DT_UINT16)\nmb = vf.create_mask(dtype=pl.DT_BF16)\n"
    "a = vf.create_addr_reg(n, 64)\nul = vf.load_unalign_init()\nus = vf.unalign_reg_for_store()\n"
)
LOWERING, SYNTAX, TYPE = LoweringError, ParserSyntaxError, ParserTypeError
MERGING = "mode=pl.MergeMode.MERGING"
BLOCKS = "data_copy_mode=pl.DataCopyMode.DATA_BLOCK_COPY"


def parse(line: str) -> None:
    """Read a kernel whose vector function ends with a line."""
    before = f"@pl.vector_function\ndef v(t, n: pl.DT_INT64):\n{textwrap.indent(HEAD + line, '    ')}\n"
    read(TILES + "with pl.section_vector():\n    v(g.current(), n)\n", "n: pl.DT_INT64", before)


TILES = (
    "tt = pl.TileType(shape=[16, 64], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)\n"
    "g = pl.make_tile_group(type=tt, addrs=0, mutex_ids=[0])\n"
)

REJECTS = [
    # offsets
    ("r = vf.load_align(t, [3])", LOWERING, "a number or [row, col], found 1 items"),
    ("vf.store_align(t, f, on, [0, 1, 2])", LOWERING, "found 3 items"),
    # dtypes
    ("r = vf.abs(u, on)", LOWERING, "accepted are"),
    ("r = vf.abs(bf, on)", LOWERING, "accepted are"),
    ("r = vf.add(f, i, on)", LOWERING, "one dtype"),
    ("h = vf.add(f, f, on)", LOWERING, "use a new name"),
    ("r = vf.mul(b, b, on)", LOWERING, "accepted are"),
    ("r = vf.div(bf, bf, on)", LOWERING, "accepted are"),
    ("r = vf.exp(bf, on)", LOWERING, "accepted are"),
    ("r = vf.exp(i, on)", LOWERING, "accepted are"),
    ("r = vf.ln(bf, on)", LOWERING, "accepted are"),
    ("r = vf.log2(i, on)", LOWERING, "accepted are"),
    ("r = vf.log10(bf, on)", LOWERING, "accepted are"),
    ("r = vf.sqrt(i, on)", LOWERING, "accepted are"),
    ("r = vf.relu(bf, on)", LOWERING, "accepted are"),
    ("r = vf.neg(u, on)", LOWERING, "accepted are"),
    ("r = vf.add(e8, e8, on)", LOWERING, "accepted are"),
    ("r = vf.prelu(f, h, on)", LOWERING, "one dtype"),
    ("r = vf.abs_sub(i, i, on)", LOWERING, "accepted are"),
    ("r = vf.truncate(i, on)", LOWERING, "accepted are"),
    ("r = vf.pair_reduce_sum(i, on)", LOWERING, "accepted are"),
    ("r = vf.reduce_sum(bf, on)", LOWERING, "accepted are"),
    ("r = vf.reduce_max(b, on)", LOWERING, "accepted are"),
    ("r = vf.reduce_min(q, on, datablock=True)", LOWERING, "16- and 32-bit"),
    ("r = vf.not_(bf, on)", LOWERING, "accepted are"),
    ("r = vf.not_(mb, on)", LOWERING, "accepted are"),
    ("r = vf.not_(e8, on)", LOWERING, "accepted are"),
    ("r = vf.and_(f, i, on)", LOWERING, "one dtype"),
    ("r = vf.and_(on, i, on)", LOWERING, "mask is needed"),
    ("r = vf.and_(i, on, on)", LOWERING, "data register"),
    ("r = vf.xor(f, f, on, dtype=pl.DT_UINT32)", LOWERING, "must be the dtype"),
    ("r = vf.shift_left(f, 1, on)", LOWERING, "accepted are"),
    ("r = vf.shift_right(i, u, on)", LOWERING, "accepted are"),
    ("r = vf.shift_left(i, w, on)", LOWERING, "as wide as"),
    ("r = vf.select(q, q, on)", LOWERING, "accepted are"),
    ("r = vf.select(e8, e8, on)", LOWERING, "accepted are"),
    ("r = vf.select(f, h, on)", LOWERING, "different width"),
    ("r = vf.squeeze(bf, on)", LOWERING, "accepted are"),
    ("r = vf.squeeze(q, on)", LOWERING, "accepted are"),
    ("r = vf.squeeze(i, on, dtype=pl.DT_UINT16)", LOWERING, "cannot take"),
    ("r = vf.move(q, on)", LOWERING, "accepted are"),
    ("r = vf.move(e8)", LOWERING, "accepted are"),
    ("h = vf.move(f, on)", LOWERING, "use a new name"),
    ("r = vf.mask_gen_with_reg_tensor(b)", LOWERING, "accepted are"),
    ("r = vf.mask_gen_with_reg_tensor(q)", LOWERING, "accepted are"),
    ("r = vf.mask_gen_with_reg_tensor(h, offset=16)", LOWERING, "16 blocks"),
    ("r = vf.mask_gen_with_reg_tensor(f, offset=32)", LOWERING, "32 blocks"),
    ("r = vf.unsqueeze(on)", LOWERING, "cannot be DT_FP32"),
    ("r = vf.unsqueeze(on, dtype=pl.DT_INT64)", LOWERING, "8, 16 or 32 bits"),
    ("r = vf.arange(0, dtype=pl.DT_BF16)", LOWERING, "does not exist"),
    ("r = vf.arange(0, dtype=pl.DT_FP8E5M2)", LOWERING, "does not exist"),
    ("r = vf.histograms(ub, on)", LOWERING, "must be a UINT16"),
    ("uh = vf.histograms(b, on)", LOWERING, "accepted are"),
    # scalars
    ("r = vf.leaky_relu(f, 1, on)", LOWERING, "int literal"),
    ("r = vf.muls(bf, 2.0, on)", LOWERING, "accepted are"),
    ("r = vf.muls(b, 2, on)", LOWERING, "accepted are"),
    ("r = vf.muls(f, 2, on)", LOWERING, "int literal"),
    ("r = vf.adds(f, True, on)", LOWERING, "accepted are"),
    ("r = vf.muls_cast(f, 2, on, dtype=pl.DT_FP16)", LOWERING, "int literal"),
    ("r = vf.eq(q, 1.0, on)", LOWERING, "narrower"),
    ("r = vf.eq(f, pl.const(1.0, pl.DT_FP16), on)", LOWERING, "narrower"),
    # comparisons
    ("r = vf.lt(f, h, on)", LOWERING, "cmp_dtype"),
    ("r = vf.lt(e8, e8, on)", LOWERING, "accepted are"),
    ("r = vf.lt(boolean, boolean, on)", LOWERING, "accepted are"),
    ("r = vf.lt(f, f, on, cmp_dtype=pl.DT_FP8E5M2)", LOWERING, "cannot be compared"),
    # merging, rounding, layouts
    *((f"r = vf.{op}(f, f, on, {MERGING})", LOWERING, "MERGING") for op in (
        "sub", "mul", "div", "prelu", "abs_sub", "mul_add_dst", "mul_dst_add", "and_", "or_", "xor")),
    *((f"r = vf.{op}(f, on, {MERGING})", LOWERING, "MERGING") for op in (
        "abs", "neg", "relu", "exp", "ln", "log", "log2", "log10", "sqrt", "truncate", "pair_reduce_sum")),
    *((f"r = vf.{op}(f, 1.0, on, {MERGING})", LOWERING, "MERGING") for op in (
        "adds", "subs", "muls", "maxs", "mins", "leaky_relu", "axpy")),
    ("r = vf.reduce_sum(f, on, merge_mode=pl.MergeMode.MERGING)", LOWERING, "MERGING"),
    ("r = vf.not_(i, on, mode=pl.MergeMode.MERGING)", LOWERING, "MERGING"),
    ("r = vf.shift_left(i, 1, on, mode=pl.MergeMode.MERGING)", LOWERING, "MERGING"),
    ("r = vf.astype(f, on, dtype=pl.DT_FP16, mode=pl.MergeMode.MERGING)", LOWERING, "MERGING"),
    ("r = vf.move(f, on, mode=pl.MergeMode.ZEROING)", LOWERING, "ZEROING"),
    ("r = vf.truncate(f, on, round_mode=pl.VFRoundMode.CAST_ROUND)", LOWERING, "CAST_ROUND"),
    ("r = vf.truncate(f, on, round_mode=pl.VFRoundMode.CAST_ODD)", LOWERING, "CAST_ODD"),
    ("r = vf.exp_sub(h, h, on)", LOWERING, "dtype=pl.DT_FP32"),
    ("r = vf.exp_sub(h, f, on, dtype=pl.DT_FP32)", LOWERING, "one dtype"),
    ("r = vf.exp_sub(f, f, on, layout=pl.CastLayout.TWO)", LOWERING, "TWO"),
    ("r = vf.muls_cast(f, 2.0, on, dtype=pl.DT_FP16, layout=pl.CastLayout.THREE)", LOWERING, "THREE"),
    ("r = vf.muls_cast(f, 2.0, on)", TYPE, "dtype="),
    ("r = vf.muls_cast(f, 2.0, on, dtype=pl.DT_BF16)", LOWERING, "FP16"),
    ("r = vf.muls_cast(h, 2.0, on, dtype=pl.DT_FP16)", LOWERING, "accepted are"),
    # astype
    ("r = vf.astype(f, on)", TYPE, "dtype="),
    ("r = vf.astype(f, on, dtype=pl.DT_FP32)", LOWERING, "cannot be converted"),
    ("r = vf.astype(h, on, dtype=pl.DT_FP32, round_mode=pl.VFRoundMode.CAST_FLOOR)", LOWERING, "CAST_FLOOR"),
    ("r = vf.astype(f, on, dtype=pl.DT_BF16, round_mode=pl.VFRoundMode.CAST_ODD)", LOWERING, "CAST_ODD"),
    ("r = vf.astype(f, on, dtype=pl.DT_FP16, round_mode=pl.VFRoundMode.CAST_HYBRID)", LOWERING, "CAST_HYBRID"),
    ("r = vf.astype(f, on, dtype=pl.DT_HF8, round_mode=pl.VFRoundMode.CAST_RINT)", LOWERING, "CAST_RINT"),
    ("r = vf.astype(h, on, dtype=pl.DT_FP32, saturate=pl.SaturateMode.ON)", LOWERING, "saturate=ON"),
    ("r = vf.astype(f, on, dtype=pl.DT_HF8, saturate=pl.SaturateMode.OFF)", LOWERING, "saturate=OFF"),
    ("r = vf.astype(f, on, dtype=pl.DT_INT32, layout=pl.CastLayout.ONE)", LOWERING, "layout ONE"),
    ("r = vf.astype(f, on, dtype=pl.DT_FP16, layout=pl.CastLayout.TWO)", LOWERING, "layout TWO"),
    # pack, interleave, bit_cast
    ("r = vf.pack(i)", TYPE, "dtype="),
    ("r = vf.unpack(w)", TYPE, "dtype="),
    ("r = vf.bit_cast(f)", TYPE, "dtype="),
    ("r = vf.pack(i, dtype=pl.DT_UINT8)", LOWERING, "cannot be packed"),
    ("r = vf.unpack(b, dtype=pl.DT_INT32)", LOWERING, "cannot be unpacked"),
    ("r, s = vf.interleave(f, h)", LOWERING, "different width"),
    ("r, s = vf.interleave(on, m, dtype=pl.DT_INT64)", LOWERING, "8, 16 or 32 bits"),
    ("r, s = vf.de_interleave(on, m, dtype=pl.DT_INT64)", LOWERING, "8, 16 or 32 bits"),
    ("r, s = vf.interleave(f, on)", LOWERING, "data register"),
    ("r, r = vf.interleave(f, f)", LOWERING, "different registers"),
    # full
    ("r = vf.full(3, on)", TYPE, "dtype="),
    ("r = vf.full(3.0, on, pos=pl.DuplicatePos.HIGHEST)", LOWERING, "pos="),
    ("r = vf.full(3.0, on, dtype=pl.DT_FP8E5M2)", LOWERING, "cannot be broadcast"),
    # two results
    ("r = vf.mull(i, i, on)", SYNTAX, "gives 2 registers"),
    ("r = vf.addc(i, i, on, on)", SYNTAX, "gives 2 registers"),
    ("r, s = vf.add(f, f, on)", SYNTAX, "2 registers"),
    ("c, r = vf.addc(i, i, on, on)", LOWERING, "must be a mask already"),
    ("c, r = vf.subc(i, i, on, on)", LOWERING, "must be a mask already"),
    ("on, r = vf.addc(f, f, on, on)", LOWERING, "accepted are"),
    ("r, s = vf.mull(w, w, on)", LOWERING, "accepted are"),
    # gather and scatter
    ("r = vf.gather(f, u, on)", LOWERING, "neither a mask"),
    ("r = vf.gather(f, u, data_copy_mode=pl.DataCopyMode.NORM)", LOWERING, "neither a mask"),
    ("r = vf.gather(t, u)", LOWERING, "needs a mask"),
    ("r = vf.gather(t, uh, on)", LOWERING, "accepted are"),
    ("r = vf.gather(h, u)", LOWERING, "accepted are"),
    (f"r = vf.gather(t, u, on, {BLOCKS})", LOWERING, "DATA_BLOCK_LOAD"),
    ("vf.scatter(t, f, uh, on)", LOWERING, "accepted are"),
    ("vf.scatter(t, e8, uh, on)", LOWERING, "accepted are"),
    # load_align
    ("on = vf.load_align(t, 0, dist=pl.LoadDist.BRC)", LOWERING, "NORM, US or DS"),
    ("r = vf.load_align(t, dist=pl.LoadDist.BRC)", LOWERING, "pass 0"),
    ("r = vf.load_align(t, 0, dist=pl.LoadDist.DINTLV_B32)", LOWERING, "two registers"),
    ("r, s = vf.load_align(t, 0, dist=pl.LoadDist.BRC)", LOWERING, "DINTLV"),
    ("r, s = vf.load_align(t, 0, block_stride=1)", LOWERING, "stride"),
    (f"r = vf.load_align(t, 3, {BLOCKS}, block_stride=1)", LOWERING, "mask as second operand"),
    ("r = vf.load_align(t, on)", LOWERING, "DATA_BLOCK_COPY"),
    ("r = vf.load_align(t, a, post_update=True)", LOWERING, "address register"),
    ("r = vf.load_align(t, a, dist=pl.LoadDist.BRC)", LOWERING, "BRC_B"),
    ("r = vf.load_align(t, 0, block_stride=2)", LOWERING, "DATA_BLOCK_COPY"),
    # store_align
    ("vf.store_align(t, f)", LOWERING, "mask"),
    ("vf.store_align(t, f, on, [1, 2], post_update=True)", LOWERING, "plain step"),
    ("vf.store_align(t, on, dist=pl.StoreDist.PACK4)", LOWERING, "NORM or PACK"),
    (f"vf.store_align(t, on, {BLOCKS})", LOWERING, "no strides"),
    ("vf.store_align(t, on, block_stride=1)", LOWERING, "no strides"),
    ("vf.store_align(t, f, f, dist=pl.StoreDist.INTLV)", LOWERING, "even, odd, mask"),
    ("vf.store_align(t, f, f, on, post_update=True, dist=pl.StoreDist.INTLV)", LOWERING, "even, odd, mask"),
    ("vf.store_align(t, f, f, on, 3, dist=pl.StoreDist.INTLV)", LOWERING, "even, odd, mask"),
    (f"vf.store_align(t, q, on, 1, {BLOCKS})", LOWERING, "8, 16 or 32 bits"),
    (f"vf.store_align(t, f, on, 1, {BLOCKS}, block_stride=1)", LOWERING, "twice"),
    ("vf.store_align(t, f, on, 1, 2)", LOWERING, "strides belong"),
    # streams and special registers
    ("vf.store(t, h)", LOWERING, "keeps the dtype"),
    ("vf.store(t, f, 65)", LOWERING, "64 elements"),
    ("vf.store_unalign(t, on, us, 1)", LOWERING, "whole"),
    ("vf.store_unalign(t, f, ul, 1)", LOWERING, "other direction"),
    ("vf.load_unalign_pre(us, t)", LOWERING, "other direction"),
    ("r = vf.load_unalign(t, ul)", LOWERING, "unaligned register"),
    ("x = vf.create_addr_reg(1, 2, 3)", LOWERING, "pairs"),
    ("x = vf.create_addr_reg(1, 2, 3, 4, 5, 6, 7, 8, 9)", LOWERING, "at most"),
    ("x = vf.create_addr_reg(1)", LOWERING, "misses"),
    # form
    ("vf.add(f, f, on)", SYNTAX, "assigned to a name"),
    ("r = vf.add(vf.abs(f, on), f, on)", SYNTAX, "assigned to a name"),
    ("r = vf.add(f, f)", LOWERING, "misses `mask`"),
    ("r = vf.add(f, f, on, on)", LOWERING, "at most"),
    ("r = vf.add(t, f, on)", LOWERING, "a register, found"),
    ("r = vf.add(f, f, on, mode=1)", FinalRejectionError, "MergeMode"),
    ("vf.mem_bar(mode=0)", FinalRejectionError, "MemBarMode"),
    ("r = vf.create_mask(pattern=0)", FinalRejectionError, "MaskPattern"),
    ("r = vf.load_align(t, 0, dist=pl.StoreDist.NORM)", FinalRejectionError, "LoadDist"),
    ("r = vf.reg_tensor(pl.DT_FP32)", SYNTAX, "cannot be called"),
    ("r = vf.nonsense(f)", ParserError, "nonsense"),
    ("r = vf.add(f, f, on, merge=1)", SYNTAX, "unexpected keyword argument"),
]


@pytest.mark.parametrize(("line", "kind", "message"), REJECTS, ids=[line for line, _, _ in REJECTS])
def test_rejected(line: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        parse(line)
    assert message in str(caught.value)
    assert line.splitlines()[-1] in str(caught.value)  # the excerpt shows the author's line
    if kind is LOWERING:
        assert isinstance(caught.value, ParserTypeError)
        assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize("line", [
    "r = vf.add(q, q, on)", "r = vf.div(b, b, on)", "r = vf.abs(q, on)", "r = vf.muls(q, 2, on)",
    "r = vf.axpy(uq, 2, on)", "r = vf.eq(uq, 1, on)", "r = vf.select(f, i, on)", "r = vf.eq(f, u, on)",
    "f = vf.select(i, i, on)", "f = vf.squeeze(i, on)", "f, i = vf.interleave(u, u)", "h = vf.load_align(t)",
    "mb = vf.create_mask(dtype=pl.DT_FP32)", "r = vf.full(n, on, dtype=pl.DT_FP32)", "r = vf.full(0.0)",
    "r = vf.load_unalign(ul, t, 64, post_update=True)", "r = vf.load(t, 64, post_update=True, count=3)",
    "vf.store(t, f, 40, post_update=True)", "vf.store_align(t, on, a)", "vf.store_align(t, f, on, a)",
    "vf.store_unalign_post(t, us, 64)", "x = vf.create_addr_reg(n, 1, n, 2, n, 3, n, 4, dtype=pl.DT_INT8)",
    "r = vf.exp(f, on, precision='high')", "uh = vf.gather(uh, uh)", "c, r = vf.interleave(on, m)",
    # a name that is not read in a loop keeps its register all the same
    "for _ in pl.range(0, n):\n    m = vf.load_align(t, 0)\n    vf.store_align(t, f, m)",
    "for _ in pl.range(0, n):\n    uh = vf.histograms(ub, on)",
    "if n > 3:\n    uh = vf.histograms(ub, on)\nuh = vf.histograms(ub, on)",
])  # fmt: skip
def test_accepted(line: str) -> None:
    parse(line)
