"""Runs a transfer or product three ways on equal bytes: as the reference says (a golden function), by the op's meaning,
and natively.

`T` is a tile, `G` a tensor with a buffer of its own. A golden function gets the memories and changes them; whatever it
leaves alone must stay.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from pypto_pro.diag import NOWHERE
from pypto_pro.diag.errors import ArgumentError
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, MemorySpace, TensorLayout
from pypto_pro.hw.a5 import SPACES
from pypto_pro.ir import nodes as n
from pypto_pro.ir.types import TensorType, TileType
from pypto_pro.native import callbacks, frames, opcode, runner
from pypto_pro.native.calls import NothingSpec, ScalarSpec, SequenceSpec, Signature, TensorSpec, TileSpec
from pypto_pro.native.program import CALLBACK, Site
from pypto_pro.ops.operands import TileArg
from pypto_pro.ops.table import lookup
from pypto_pro.ops.tensors import TensorArg

Space = MemorySpace | str
AIV1 = "Vec of AIV1"
CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True)
class T:
    """A tile: declared shape, dtype, byte address, valid extents (None: full), and the attributes of its type."""

    shape: tuple[int, int]
    dtype: DataType = DataType.DT_FP32
    space: MemorySpace = MemorySpace.Vec
    addr: int = 0
    valid: tuple[int, int] | None = None
    layout: TensorLayout | None = None
    fractal: int | None = None
    pad: int | None = None
    compact: int = 0
    static: tuple[int, int] = (-1, -1)

    @property
    def type(self) -> TileType:
        """The tile type."""
        return TileType(
            self.shape, self.dtype, self.space, self.static, self.layout, self.fractal, self.pad, self.compact
        )

    @property
    def extents(self) -> tuple[int, int]:
        """Valid rows and columns."""
        return self.valid or self.shape


@dataclass(frozen=True)
class G:
    """A tensor: extents and strides (None: contiguous) in elements, strides of `set_stride`, bytes before it."""

    dims: tuple[int, ...]
    dtype: DataType = DataType.DT_FP32
    strides: tuple[int, ...] | None = None
    layout: TensorLayout = TensorLayout.ND
    transfer: tuple[int, int] | None = None
    before: int = 24
    data: Any = field(default=None, compare=False, hash=False)

    @property
    def steps(self) -> tuple[int, ...]:
        """Strides in elements."""
        if self.strides is not None:
            return self.strides
        return tuple(int(np.prod(self.dims[k + 1 :], dtype=np.int64)) for k in range(len(self.dims)))

    @property
    def size(self) -> int:
        """Bytes of the buffer: the tensor, and some before and behind it."""
        last = sum((d - 1) * s for d, s in zip(self.dims, self.steps, strict=True))
        return self.before + (last + 1) * self.dtype.nbytes + 40


@dataclass
class Memories:
    """All bytes an op may touch."""

    spaces: dict[Space, np.ndarray]
    buffers: dict[str, np.ndarray]

    def copy(self) -> Memories:
        """The same bytes, apart."""
        return Memories({k: v.copy() for k, v in self.spaces.items()}, {k: v.copy() for k, v in self.buffers.items()})


@dataclass(frozen=True)
class Call:
    """An op on operands by name; keywords that are absent have their defaults."""

    op: str
    operands: dict[str, Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    core: CoreKind = CoreKind.VECTOR


@dataclass
class Outcome:
    """What native execution left, whether the meaning had to run for it, what it said."""

    memories: Memories
    called_back: bool = False
    refused: str = ""
    warnings: list[str] = field(default_factory=list)


@lru_cache(maxsize=64)
def noise(what: Any, size: int) -> np.ndarray:
    """Random bytes; made once, never written."""
    return np.random.default_rng(abs(hash(str(what))) % 2**32).integers(0, 256, size, np.uint8)


def fresh(call: Call) -> Memories:
    """Random bytes in every space the operands use, and in every buffer."""
    used: set[Space] = {spec.space for spec in call.operands.values() if isinstance(spec, T)}
    if MemorySpace.Vec in used:
        used.add(AIV1)
    sizes = {s: SPACES[MemorySpace.Vec if s == AIV1 else s].capacity for s in used}  # type: ignore[index]
    spaces = {space: noise(space, size).copy() for space, size in sizes.items()}
    buffers = {}
    for name, spec in call.operands.items():
        if isinstance(spec, G):
            buffers[name] = noise(name, spec.size).copy()
            if spec.data is not None:
                raw = np.ascontiguousarray(spec.data).view(np.uint8).reshape(-1)
                buffers[name][spec.before : spec.before + raw.size] = raw
    return Memories(spaces, buffers)


def named(call: Call, memories: Memories) -> dict[str, Any]:
    """Operands and keywords as a meaning takes them."""
    entry = lookup(call.op)
    assert entry is not None
    given: dict[str, Any] = {p.name: p.default for p in entry.params if not p.required}
    for name, spec in call.operands.items():
        if isinstance(spec, T):
            mem, peers = memories.spaces[spec.space], ()
            if spec.space is MemorySpace.Vec:
                peers = (mem, memories.spaces[AIV1])
            given[name] = TileArg(spec.type, mem, spec.addr, *spec.extents, peers)
        elif isinstance(spec, G):
            type_ = TensorType(spec.dtype, spec.dims, spec.layout)
            given[name] = TensorArg(type_, memories.buffers[name], spec.before, spec.dims, spec.steps, spec.transfer)
        else:
            given[name] = spec
    return {**given, **call.attrs}


def meaning(call: Call, memories: Memories) -> None:
    """Apply the op's meaning."""
    entry = lookup(call.op)
    assert entry is not None
    assert entry.meaning is not None
    with np.errstate(all="ignore"):
        entry.meaning(**named(call, memories))


# --- native ----------------------------------------------------------------------------------------------------------

_ARENA = np.zeros(frames.ARENA_BYTES + 64, np.uint8)


def _space(space: Space) -> np.ndarray:
    if space == AIV1:
        return _ARENA[frames.UB_STEP :][: SPACES[MemorySpace.Vec].capacity]
    assert isinstance(space, MemorySpace)
    return _ARENA[frames.ARENA[space] :][: SPACES[space].capacity]


def signature_of(call: Call) -> Signature:
    """What the compiler would know of the call."""
    entry = lookup(call.op)
    assert entry is not None
    specs = []
    for param in entry.data_params:
        spec = call.operands.get(param.name)
        match spec:
            case T():
                specs.append(TileSpec(spec.type, call.core is CoreKind.CUBE and spec.space is MemorySpace.Vec))
            case G():
                specs.append(TensorSpec(TensorType(spec.dtype, spec.dims, spec.layout)))
            case tuple():
                specs.append(SequenceSpec(len(spec)))
            case None:
                specs.append(NothingSpec())
            case _:
                specs.append(ScalarSpec(DataType.DT_FP32 if isinstance(spec, float) else DataType.DT_INT64))
    attrs = tuple((p.name, call.attrs.get(p.name, p.default)) for p in entry.keywords)
    results = (ScalarSpec(call.operands["container"].dtype),) if entry.results else ()
    return Signature(entry, call.core, tuple(specs), attrs, results)


def native(call: Call, memories: Memories) -> Outcome:
    """Run the native function on the memories."""
    signature = signature_of(call)
    symbol = opcode.function_of(signature)
    assert symbol != CALLBACK, f"{call} has no native code"
    outcome = Outcome(memories)
    record = bytearray(signature.size)
    for param, spec, offset in zip(signature.entry.data_params, signature.specs, signature.offsets, strict=False):  # type: ignore[union-attr]
        _pack(record, offset, spec, call.operands.get(param.name), memories.buffers.get(param.name))
    site = Site(n.Op(call.op, ()), call.core, signature)
    assert site.span is NOWHERE

    def call_back(core_address: int, record_address: int) -> None:
        outcome.called_back |= not callbacks.word_at(record_address + frames.DOUBTED)
        try:
            callbacks.run_op(site, callbacks.Core(core_address), record_address,
                             lambda _, message, *__: outcome.warnings.append(message))
        except ArgumentError as error:
            outcome.refused = error.diagnostic.message

    launch, core = (np.zeros(fields[frames.SIZE] // 8 + 8, np.int64) for fields in (frames.LAUNCH, frames.CORE))
    callback = CALL(call_back)
    launch[frames.LAUNCH["callback"] // 8] = ctypes.cast(callback, ctypes.c_void_p).value
    told = np.zeros(8, np.uint8)
    launch[frames.LAUNCH["told"] // 8] = told.ctypes.data
    words = {"launch": launch.ctypes.data, "arena": _ARENA.ctypes.data, "ub": _ARENA.ctypes.data,
             "kind": int(call.core is CoreKind.VECTOR)}
    for name, value in words.items():
        core[frames.CORE[name] // 8] = value
    for space, data in memories.spaces.items():
        _space(space)[:] = data
    view = (ctypes.c_char * len(record)).from_buffer(record)
    address = {**runner.functions(), **opcode._addresses}[symbol]
    CALL(address)(core.ctypes.data, ctypes.addressof(view))
    for space, data in memories.spaces.items():
        data[:] = _space(space)
    return outcome


def _pack(record: bytearray, offset: int, spec: Any, operand: Any, buffer: np.ndarray | None) -> None:
    match operand:
        case T(addr=addr):
            words: tuple[Any, ...] = (addr, *operand.extents)
        case G():
            assert buffer is not None
            low = buffer.ctypes.data
            words = (low + operand.before, low, low + buffer.size, *operand.dims, *operand.steps,
                     *(operand.transfer or (0, 0)), int(operand.transfer is not None))
        case tuple():
            words = operand
        case float():
            struct.pack_into("<f", record, offset, operand)
            return
        case None:
            return
        case _:
            words = (operand,)
    struct.pack_into(f"<{len(words)}q", record, offset, *words)


# --- comparing -------------------------------------------------------------------------------------------------------

Golden = Callable[[Memories], None]


def check(call: Call, golden: Golden, before: Memories | None = None) -> Outcome:
    """The meaning and native code leave what the golden function leaves, and native code needs no meaning for it."""
    start = before or fresh(call)
    wanted, meant, made = start.copy(), start.copy(), start.copy()
    golden(wanted)
    meaning(call, meant)
    outcome = native(call, made)
    assert not outcome.called_back, f"{call} ran its meaning: {outcome.refused} {outcome.warnings}"
    for found, how in ((meant, "by meaning"), (made, "natively")):
        compare(call, wanted, found, how)
    return outcome


def compare(call: Call, wanted: Memories, found: Memories, how: str) -> None:
    """Equal bytes everywhere."""
    for group in ("spaces", "buffers"):
        for name, expected in getattr(wanted, group).items():
            wrong = np.flatnonzero(getattr(found, group)[name] != expected)
            assert wrong.size == 0, (
                f"{call} {how}: {wrong.size} bytes of {name} are wrong, the first at {wrong[0]:#x}, "
                f"{getattr(found, group)[name][wrong[0]]:#x} instead of {expected[wrong[0]]:#x}"
            )
