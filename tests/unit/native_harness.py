"""Calls one native op function on memory of our own, next to the op's meaning on a copy of the same bytes."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto_pro.diag import NOWHERE
from pypto_pro.diag.errors import ArgumentError
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, MemorySpace
from pypto_pro.hw.a5 import SPACES
from pypto_pro.ir import nodes as n
from pypto_pro.ir.types import TensorType, TileType
from pypto_pro.native import callbacks, frames, opcode, runner
from pypto_pro.native.calls import (
    NothingSpec,
    ScalarSpec,
    SequenceSpec,
    Signature,
    TensorSpec,
    TileSpec,
)
from pypto_pro.native.frames import CORE, LAUNCH, SIZE
from pypto_pro.native.program import CALLBACK, Site
from pypto_pro.ops.operands import TileArg
from pypto_pro.ops.table import lookup
from pypto_pro.ops.tensors import TensorArg

CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


@dataclass
class Tile:
    """A tile operand: type, address, valid extents."""

    type: TileType
    addr: int
    vr: int
    vc: int


@dataclass
class Tensor:
    """A tensor operand: a window of `data` that starts `base` bytes in."""

    type: TensorType
    data: np.ndarray
    base: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    transfer: tuple[int, int] | None = None


@dataclass
class Outcome:
    """Memory after the native call and after the meaning, and whether native needed the callback."""

    spaces: dict[MemorySpace, np.ndarray]
    expected: dict[MemorySpace, np.ndarray]
    tensors: list[np.ndarray] = field(default_factory=list)
    expected_tensors: list[np.ndarray] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    expected_results: list[Any] = field(default_factory=list)
    called_back: bool = False
    declined: bool = False
    refused: str = ""
    warnings: list[str] = field(default_factory=list)


def run(
    name: str, operands: tuple[Any, ...], memory: dict[MemorySpace, np.ndarray],
    attrs: tuple[tuple[str, Any], ...] = (),
    core: CoreKind = CoreKind.VECTOR, results: tuple[DataType, ...] = (), scalar: DataType = DataType.DT_FP32,
) -> Outcome:
    """Apply op `name` natively and by its meaning. `memory`: initial bytes at the start of spaces."""
    entry = lookup(name)
    assert entry is not None
    specs = tuple(_spec(o, core, scalar) for o in operands)
    signature = Signature(entry, core, specs, attrs, tuple(ScalarSpec(r) for r in results))
    symbol = opcode.function_of(signature)
    outcome = Outcome({}, {}, declined=symbol == CALLBACK)
    arena = np.zeros(frames.ARENA_BYTES, np.uint8)
    spaces = {space: arena[frames.ARENA[space] :][: SPACES[space].capacity] for space in frames.ARENA}
    for space, data in memory.items():
        spaces[space][: data.size] = data
    outcome.expected = {space: data.copy() for space, data in spaces.items()}
    _meaning(entry, signature, operands, outcome)
    _native(signature, symbol, operands, arena, outcome)
    outcome.spaces = spaces
    return outcome


def _spec(operand: Any, core: CoreKind, scalar: DataType) -> Any:
    match operand:
        case Tile():
            return TileSpec(operand.type, core is CoreKind.CUBE and operand.type.space is MemorySpace.Vec)
        case Tensor():
            return TensorSpec(operand.type)
        case tuple():
            return SequenceSpec(len(operand))
        case None:
            return NothingSpec()
        case float():
            return ScalarSpec(DataType.DT_FP32 if not scalar.is_float() else scalar)
    return ScalarSpec(DataType.DT_INDEX)


def _meaning(entry: Any, signature: Signature, operands: tuple[Any, ...], outcome: Outcome) -> None:
    args = []
    for operand in operands:
        match operand:
            case Tile(type=type_):
                mem = outcome.expected[type_.space]
                args.append(TileArg(type_, mem, operand.addr, operand.vr, operand.vc, (mem, mem)))
            case Tensor():
                copy = operand.data.copy()
                outcome.expected_tensors.append(copy)
                args.append(TensorArg(operand.type, copy.view(np.uint8).reshape(-1), operand.base, operand.dims,
                                      operand.strides, operand.transfer))
            case _:
                args.append(operand)
    with np.errstate(all="ignore"):
        made = entry.meaning(**entry.bind(args, signature.attrs))
    outcome.expected_results = list(made) if isinstance(made, tuple) else [made]


def _native(
    signature: Signature, symbol: str, operands: tuple[Any, ...], arena: np.ndarray, outcome: Outcome
) -> None:
    launch, core = np.zeros(LAUNCH[SIZE], np.uint8), np.zeros(CORE[SIZE], np.uint8)
    record = bytearray(signature.size)
    view = (ctypes.c_char * len(record)).from_buffer(record)
    for spec, operand, offset in zip(signature.specs, operands, signature.offsets, strict=False):
        struct.pack_into(*_packed(spec, operand, offset, record, outcome))
    site = Site(n.Op(signature.entry.name, ()), signature.core, signature)

    def call_back(core_address: int, record_address: int) -> None:
        outcome.called_back = True
        try:
            callbacks.run_op(site, callbacks.Core(core_address), record_address,
                             lambda _, message, *__: outcome.warnings.append(message))
        except ArgumentError as error:
            outcome.refused = error.diagnostic.message

    callback = CALL(call_back)
    launch[LAUNCH["callback"] :][:8].view(np.int64)[0] = ctypes.cast(callback, ctypes.c_void_p).value
    told = np.zeros(8, np.uint8)
    launch[LAUNCH["told"] :][:8].view(np.int64)[0] = told.ctypes.data
    words = {"launch": launch.ctypes.data, "arena": arena.ctypes.data, "ub": arena.ctypes.data,
             "kind": int(signature.core is CoreKind.VECTOR)}
    for name, value in words.items():
        core[CORE[name] :][:8].view(np.int64)[0] = value
    address = {**runner.functions(), **opcode._addresses}[symbol]
    CALL(address)(core.ctypes.data, ctypes.addressof(view))
    for spec, offset in zip(signature.results, signature.result_offsets, strict=True):
        outcome.results.append(callbacks.read_scalar(spec.dtype, ctypes.addressof(view) + offset))
    assert site.span is NOWHERE


def _packed(spec: Any, operand: Any, offset: int, record: bytearray, outcome: Outcome) -> tuple[Any, ...]:
    match spec, operand:
        case TileSpec(), Tile(addr=addr, vr=vr, vc=vc):
            return "<3q", record, offset, addr, vr, vc
        case TensorSpec(), Tensor():
            copy = operand.data.copy()
            outcome.tensors.append(copy)
            low = copy.ctypes.data
            words = (low + operand.base, low, low + copy.nbytes, *operand.dims, *operand.strides,
                     *(operand.transfer or (0, 0)), int(operand.transfer is not None))
            return f"<{len(words)}q", record, offset, *words
        case SequenceSpec(), tuple():
            return f"<{len(operand)}q", record, offset, *operand
        case NothingSpec(), _:
            return "<0s", record, offset, b""
        case ScalarSpec(dtype=dtype), _:
            return ("<f" if dtype.is_float() else "<q"), record, offset, operand
    raise AssertionError(spec)
