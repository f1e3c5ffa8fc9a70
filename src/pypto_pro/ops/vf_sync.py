"""Order between UB accesses inside one vector function: mem_bar."""

from __future__ import annotations

from typing import Annotated

from pypto_pro.enums import MemBarMode
from pypto_pro.ops.entry import Keyword
from pypto_pro.ops.vf_builder import VectorUnitBuilder
from pypto_pro.ops.vf_operands import Registers, defvf

Mode = Annotated[MemBarMode | None, Keyword(enum=MemBarMode)]


@defvf("vf.mem_bar", family="vf.sync", results=0)
def mem_bar(vf: Registers, *, mode: Mode = None) -> None:
    """Earlier accesses of the first kind finish before later ones of the second begin; default VST_VLD."""
    vf.barrier(mode or MemBarMode.VST_VLD)


@mem_bar.lower
def _(k: VectorUnitBuilder, mode: MemBarMode | None) -> None:
    """Native register ops run in program order."""
