"""Placement at a launch: what must not run at all, looked at before the whole report is even imported.

`certain_errors` is on the way of every first launch, so only a suspicion pays for the rest of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto_pro.hw.a5 import SCALE_OF, scale_address
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import GroupDecl, Kernel, TileDecl
from pypto_pro.ir.types import GroupType, TileType
from pypto_pro.layouts import slot_size
from pypto_pro.memory.machine import Chip

if TYPE_CHECKING:
    from pypto_pro.memory.finding import LayoutFinding

CERTAIN = ("L101", "L102", "L103", "L111")
"""Errors that no run survives: off alignment, negative, over the capacity, scales where nobody looks for them."""


def certain_errors(kernel: Kernel, chip: Chip | None = None) -> tuple[LayoutFinding, ...]:
    """Findings that forbid a run of a kernel behind all passes, with their rows; overlaps never do."""
    chip = chip or Chip()
    found = [s for p in kernel.programs for s in walk.statements(p.body) if isinstance(s, TileDecl | GroupDecl)]
    if all(_lies_well(d, chip) for d in found) and (_every_scale_fits(found) or not _scales_astray(kernel)):
        return ()
    from pypto_pro.memory.kernel_report import table_findings

    return tuple(f for f in table_findings(kernel, chip) if f.code in CERTAIN)


def _type_of(decl: TileDecl | GroupDecl) -> TileType:
    type_ = decl.var.type.tile if isinstance(decl.var.type, GroupType) else decl.var.type
    assert isinstance(type_, TileType)
    return type_


def _lies_well(decl: TileDecl | GroupDecl, chip: Chip) -> bool:
    """Whether every slot is aligned and inside its space."""
    type_ = _type_of(decl)
    limits, size = chip[type_.target_memory], slot_size(type_.shape, type_.dtype)
    if isinstance(decl, TileDecl):
        size = max(size, decl.size or 0)
    last = None if limits.capacity is None else limits.capacity - size
    return all(a >= 0 and a % limits.alignment == 0 and (last is None or a <= last) for a in _addresses(decl))


def _addresses(decl: TileDecl | GroupDecl) -> tuple[int, ...]:
    return decl.addrs if isinstance(decl, GroupDecl) else (decl.addr,)


def _every_scale_fits(decls: list[TileDecl | GroupDecl]) -> bool:
    """Whether scales and data fit whichever of them meet in a product: mostly there is one of each, or none."""
    for data, scale in SCALE_OF.items():
        wanted = {scale_address(a) for d in decls if _type_of(d).target_memory is data for a in _addresses(d)}
        if any(_type_of(s).target_memory is scale and not wanted <= {*_addresses(s)} for s in decls):
            return False
    return True


def _scales_astray(kernel: Kernel) -> bool:
    """Whether some data slot of an MX product has no scale slot at the address the matrix unit looks at.

    Groups need not turn together, so which slots meet is not asked: a data slot that no scale slot fits is wrong in
    any case.
    """
    from pypto_pro.memory.extract import design_of_kernel
    from pypto_pro.memory.table import slot_addresses

    design = design_of_kernel(kernel)
    for scale in design.tiles:
        for name in (scale.scale_of, *scale.scales_too):
            data = design.tile(name) if name is not None else None
            if data is not None and not {scale_address(a) for a in slot_addresses(data)} <= {*slot_addresses(scale)}:
                return True
    return False
