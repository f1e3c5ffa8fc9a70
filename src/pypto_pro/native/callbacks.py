"""From generated code into Python: numpy meanings of ops without native code, accesses out of bounds, printing.

Generated code hands over (core record, operand record). The site number in the record tells which op of which kernel it
is; operands are rebuilt as `TileArg`, `TensorArg` and numbers over the native memory, so a meaning reads and writes the
very bytes. An op that would leave a memory space runs on a copy of the space extended by zeros: what lies outside
reads as zero, and writes there are dropped.
"""

from __future__ import annotations

import ctypes
import struct
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro.analysis.accesses import bounds, touches
from pypto_pro.diag.errors import ArgumentError, DiagnosticError
from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace
from pypto_pro.hw.a5 import SPACES
from pypto_pro.ir import nodes as n
from pypto_pro.ir.types import TensorType
from pypto_pro.native import frames
from pypto_pro.native.calls import (
    AddrRegSpec,
    MaskSpec,
    PtrSpec,
    RegSpec,
    ScalarSpec,
    SequenceSpec,
    Signature,
    Spec,
    StructSpec,
    TensorSpec,
    TileSpec,
    UnalignSpec,
)
from pypto_pro.native.frames import ARENA, CORE, UB_STEP, WORD, TensorRecord
from pypto_pro.native.program import Site
from pypto_pro.native.vector_unit import VectorUnit, read_register, type_of, write_register
from pypto_pro.ops.debug_text import debug_text
from pypto_pro.ops.operands import TileArg
from pypto_pro.ops.overrun import FARTHEST, OUTSIDE, OutOfBoundsWarning, Overrun, too_large, warning_text
from pypto_pro.ops.tensors import TensorArg

Bytes = NDArray[np.uint8]
Report = Callable[[Site, str, type[Warning], str], None]
"""Hears of a doubt: where, what, the kind of warning, and what it is about, of which one a line is enough."""

_FORMATS = {
    DataType.DT_BOOL: "<?", DataType.DT_INT8: "<b", DataType.DT_UINT8: "<B", DataType.DT_INT16: "<h",
    DataType.DT_UINT16: "<H", DataType.DT_INT32: "<i", DataType.DT_UINT32: "<I", DataType.DT_INT64: "<q",
    DataType.DT_UINT64: "<Q", DataType.DT_INDEX: "<q",
}  # fmt: skip


def memory(address: int, size: int) -> Bytes:
    """`size` bytes of host memory as an array, not owned."""
    if size <= 0:
        return np.zeros(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def word_at(address: int) -> int:
    """A signed word of host memory."""
    return int(ctypes.c_int64.from_address(address).value)


class Core:
    """What Python looks up in a core record."""

    def __init__(self, address: int) -> None:
        self.address = address

    def field(self, name: str) -> int:
        """A word of the record."""
        return word_at(self.address + CORE[name])

    def space(self, space: MemorySpace, foreign: bool, sub: int = 0) -> Bytes:
        """The bytes of a memory space of this core's block."""
        if space is MemorySpace.Vec and not foreign:
            start = self.field("ub")
        else:
            start = self.field("arena") + ARENA[space] + sub * UB_STEP
        return memory(start, frames.capacity(space))

    @property
    def name(self) -> str:
        """`AIC of block 3`, `AIV1 of block 0`."""
        vector = f"AIV{self.field('subblock')}" if self.field("subblock_num") > 1 else "AIV"
        kind = "AIC" if self.field("kind") == 0 else vector
        block = word_at(self.field("unit") + frames.UNIT["block"])
        return f"{kind} of block {block}"


def read_operands(signature: Signature, core: Core, record: int) -> tuple[Any, ...]:
    """The operands of a record as op meanings take them."""
    return tuple(
        _read(spec, core, record + offset) for spec, offset in zip(signature.specs, signature.offsets, strict=False)
    )


def _read(spec: Spec, core: Core, address: int) -> Any:
    match spec:
        case TileSpec(type=type_, foreign=foreign):
            addr, rows, cols = struct.unpack("<3q", ctypes.string_at(address, spec.size))
            peers = tuple(core.space(type_.space, True, sub) for sub in (0, 1)) if foreign else ()
            return TileArg(type_, core.space(type_.space, foreign), addr, rows, cols, peers)
        case TensorSpec(type=tensor):
            return _read_tensor(tensor, address)
        case ScalarSpec(dtype=dtype):
            return read_scalar(dtype, address)
        case SequenceSpec(length=length):
            return struct.unpack(f"<{length}q", ctypes.string_at(address, length * WORD))
        case PtrSpec():
            return word_at(address)
        case StructSpec():
            return word_at(address)
    return None


def read_scalar(dtype: DataType, address: int) -> Any:
    """A scalar of a record."""
    if dtype.is_float():
        return struct.unpack("<f", ctypes.string_at(address, 4))[0]
    return struct.unpack(_FORMATS[dtype], ctypes.string_at(address, max(1, dtype.nbytes)))[0]


def _read_tensor(type_: TensorType, address: int) -> TensorArg:
    places = TensorRecord(type_.rank)
    words = struct.unpack(f"<{places.size // WORD}q", ctypes.string_at(address, places.size))
    base, low, high = words[:3]
    rank = type_.rank
    dims, strides = words[3 : 3 + rank], words[3 + rank : 3 + 2 * rank]
    row, col, is_set = words[3 + 2 * rank :]
    return TensorArg(type_, memory(low, high - low), base - low, dims, strides, (row, col) if is_set else None)


def write_result(value: Any, dtype: DataType, address: int) -> None:
    """A scalar result into its word: floats as FP32, others in their width."""
    if dtype.is_float():
        ctypes.memmove(address, struct.pack("<f", float(np.float32(value))), 4)
    else:
        ctypes.memmove(address, np.asarray(value, dtype.numpy).tobytes(), dtype.nbytes)


# --- running a meaning ------------------------------------------------------------------------------------------------


def run_register_op(site: Site, unit: VectorUnit, core: Core, record: int, report: Report) -> None:
    """Apply the meaning of a register op; targets start with what they held."""
    signature = site.signature
    assert signature is not None
    assert signature.entry is not None
    operands = []
    for spec, offset in zip(signature.specs, signature.offsets, strict=False):
        register = read_register(spec, record + offset)
        operands.append(_read(spec, core, record + offset) if register is None else register)
    places = [record + offset for offset in signature.result_offsets]
    unit.old = tuple(read_register(spec, at) for spec, at in zip(signature.results, places, strict=True))
    unit.targets = tuple(type_of(spec) for spec in signature.results)
    registers = (RegSpec, MaskSpec, AddrRegSpec, UnalignSpec)
    unit.sources = tuple(type_of(spec) if isinstance(spec, registers) else None for spec in signature.specs)
    leaf = signature.entry.leaf
    unit.outside = lambda message: report(site, f"`{leaf}` covers {message}{OUTSIDE}", OutOfBoundsWarning, "tile")
    named = signature.entry.bind(operands, signature.attrs)
    with _answered(site, named):
        result = signature.entry.meaning(unit, **named)  # type: ignore[misc]
    results = result if isinstance(result, tuple) else (result,)
    for value, spec, at in zip(results, signature.results, places, strict=False):
        if isinstance(spec, ScalarSpec):
            write_result(value, spec.dtype, at)
        else:
            write_register(value, spec, at)


def run_op(site: Site, core: Core, record: int, report: Report) -> None:
    """Apply the meaning of a site's op. `report` hears of accesses out of bounds and other doubts.

    Where native code only asks to tell its doubts, nothing else is done. ArgumentError when the operands fail a
    requirement of the op.
    """
    signature = site.signature
    assert signature is not None
    assert signature.entry is not None
    entry = signature.entry
    named = entry.bind(read_operands(signature, core, record), signature.attrs)
    unmet = entry.unmet(named)
    if unmet is not None:
        raise ArgumentError(unmet, site.span)
    for doubt in entry.doubts(named):
        report(site, f"`{entry.leaf}`: {doubt.message}", RuntimeWarning, doubt.kind)
    if word_at(record + frames.DOUBTED):
        return
    needs = _overruns(site, named, report)
    if needs is None:
        for spec, offset in zip(signature.results, signature.result_offsets, strict=False):
            assert isinstance(spec, ScalarSpec)
            write_result(0, spec.dtype, record + offset)
        return
    copies = _extended(named, needs)
    moved = {name: replace(tile, mem=copies[key]) for name, tile in named.items()
             if isinstance(tile, TileArg) and (key := tile.mem.ctypes.data) in copies}
    with _answered(site, named):
        result = entry.meaning(**{**named, **moved})  # type: ignore[misc]
    for name, tile in moved.items():
        named[name].mem[:] = tile.mem[: named[name].mem.size]
    results = result if isinstance(result, tuple) else (result,)
    for value, spec, offset in zip(results, signature.results, signature.result_offsets, strict=False):
        assert isinstance(spec, ScalarSpec)
        write_result(value, spec.dtype, record + offset)


@contextmanager
def _answered(site: Site, named: Mapping[str, Any]) -> Iterator[None]:
    """Operands that an op cannot work on, such as negative valid extents, are the author's: ArgumentError at the op."""
    try:
        with np.errstate(all="ignore"):
            yield
    except DiagnosticError:
        raise
    except (ValueError, IndexError, OverflowError) as error:
        assert site.signature is not None
        assert site.signature.entry is not None
        shapes = [f"`{name}` has valid shape ({t.vr}, {t.vc})" for name, t in named.items() if isinstance(t, TileArg)]
        note = "; ".join(shapes) or None
        raise ArgumentError(f"`{site.signature.entry.leaf}` cannot work on these operands: {error}", site.span,
                            note=note) from error  # fmt: skip


def _overruns(site: Site, named: Mapping[str, Any], report: Report) -> list[tuple[str, int]] | None:
    """Tiles that reach past their space, with the bytes the space would need; everything outside is reported.

    None for operands that start before their space or that no space could hold: the op is left out.
    """
    found, runs = [], True
    assert site.signature is not None
    assert site.signature.entry is not None
    leaf = site.signature.entry.leaf
    for name, tile in named.items():
        if not isinstance(tile, TileArg):
            continue
        huge = too_large(name, _written_as(site, name), tile, tile.mem.size, SPACES[tile.type.space].physical)
        if huge is not None:
            report(site, warning_text(leaf, huge), OutOfBoundsWarning, name)
            return None
    for touch in touches(site.signature.entry, named):
        operand = named[touch.operand]
        name = _written_as(site, touch.operand)
        what = touch.operand, name, touch.effect
        if touch.past:
            past = Overrun(*what, operand.addr, touch.past, touch.end, "the tile")
            report(site, warning_text(leaf, past), OutOfBoundsWarning, touch.operand)
        low, high = bounds(touch.regions)
        size = operand.mem.size
        if low >= 0 and high <= size:
            continue
        where = SPACES[operand.type.space].physical if isinstance(operand, TileArg) else "GM"
        text = warning_text(leaf, Overrun(*what, low, high, size, where))
        if isinstance(operand, TileArg):
            runs = runs and low >= 0 and high <= FARTHEST
            found.append((touch.operand, high))
        report(site, text, OutOfBoundsWarning, touch.operand)
    return found if runs else None


def _written_as(site: Site, operand: str) -> str:
    """The author's name of an operand of an op, empty where it has none."""
    assert isinstance(site.node, n.Op)
    assert site.signature is not None
    assert site.signature.entry is not None
    names = [p.name for p in site.signature.entry.data_params]
    match dict(zip(names, site.node.args, strict=False)).get(operand):
        case n.Local(var=var) | n.Slot(group=var):
            return var.name.split("$", 1)[0]
    return ""


def _extended(named: Mapping[str, Any], needs: list[tuple[str, int]]) -> dict[int, Bytes]:
    """Copies of the memories that are too short, by address of the original, long enough for what the op does."""
    copies: dict[int, Bytes] = {}
    for name, high in needs:
        kept = named[name].mem
        size = max(high, kept.size, copies[kept.ctypes.data].size if kept.ctypes.data in copies else 0)
        longer = np.zeros(size, np.uint8)
        longer[: kept.size] = kept
        copies[kept.ctypes.data] = longer
    return copies


# --- warnings and printing --------------------------------------------------------------------------------------------


def warn(site: Site, message: str, category: type[Warning]) -> None:
    """A warning at the author's line."""
    span = site.span
    warnings.warn_explicit(message, category, span.file, max(span.line, 1))


def debug_output(site: Site, core: Core, record: int) -> str:
    """What a debugging statement prints, empty for nothing."""
    node, signature = site.node, site.signature
    assert isinstance(node, n.Debug)
    assert signature is not None
    return debug_text(node, read_operands(signature, core, record))
