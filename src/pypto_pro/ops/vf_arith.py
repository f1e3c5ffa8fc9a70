"""Lane arithmetic of vector functions."""

from __future__ import annotations

from pypto_pro.ops.operands import Array
from pypto_pro.ops.vf_operands import MaskIn, Merge, RegIn, Registers, defvf, merged


@defvf("vf.add", family="vf.arith")
def add(vf: Registers, src0: RegIn, src1: RegIn, mask: MaskIn, *, mode: Merge = None) -> Array:
    """r[i] = src0[i] + src1[i] in active lanes; integers wrap, floats round to nearest even."""
    return merged(vf, src0.lanes + src1.lanes, mask, mode)
