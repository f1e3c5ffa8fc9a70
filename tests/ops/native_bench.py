"""Runs one op's native function on the memories of a `Bench`, and compares with its meaning byte for byte."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from ops.harness import Bench, Case, T
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, MemorySpace
from pypto_pro.hw.a5 import SPACES
from pypto_pro.native import frames, opcode
from pypto_pro.native.calls import NothingSpec, ScalarSpec, Signature, Spec, TileSpec
from pypto_pro.native.program import CALLBACK
from pypto_pro.ops.operands import TileArg

_OP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_ARENA = np.zeros(frames.ARENA_BYTES // 8 + 8, np.int64)
NARROW_EPSILON = {DataType.DT_FP16: 2.0**-10, DataType.DT_BF16: 2.0**-7}


@dataclass
class NativeRun:
    """What a case left behind: memories by space, and whether the numpy meaning was asked for instead."""

    memories: dict[MemorySpace, np.ndarray]
    fell_back: bool


def spec_of(value: Any) -> Spec:
    """The static part of an operand, as the compiler would see it."""
    if isinstance(value, TileArg):
        return TileSpec(value.type)
    if value is None:
        return NothingSpec()
    is_float = isinstance(value, float)
    return ScalarSpec(DataType.DT_FP32 if is_float else DataType.DT_INDEX)


def signature_of(bench: Bench) -> Signature:
    """The signature of a case of tiles, scalars and keywords."""
    entry = bench.entry
    specs = tuple(spec_of(bench.named[p.name]) for p in entry.data_params)
    attrs = tuple((p.name, bench.named[p.name]) for p in entry.keywords)
    return Signature(entry, CoreKind.VECTOR, specs, attrs, ())


def run_native(bench: Bench) -> NativeRun:
    """Call the native function on copies of the bench's memories."""
    signature = signature_of(bench)
    symbol = opcode.function_of(signature)
    if symbol == CALLBACK:
        return NativeRun({}, True)
    asked: list[int] = []
    answer = _OP(lambda core, record: asked.append(1))
    launch = np.zeros(frames.LAUNCH[frames.SIZE] // 8, np.int64)
    launch[frames.LAUNCH["callback"] // 8] = ctypes.cast(answer, ctypes.c_void_p).value
    told = np.zeros(8, np.uint8)
    launch[frames.LAUNCH["told"] // 8] = told.ctypes.data
    core = np.zeros(frames.CORE[frames.SIZE] // 8, np.int64)
    core[frames.CORE["launch"] // 8] = launch.ctypes.data
    core[frames.CORE["arena"] // 8] = core[frames.CORE["ub"] // 8] = _ARENA.ctypes.data
    used = {MemorySpace.Vec, *(v.type.space for v in bench.named.values() if isinstance(v, TileArg))}
    spaces = {s: _ARENA.view(np.uint8)[frames.ARENA[s] : frames.ARENA[s] + SPACES[s].capacity] for s in used}
    for space, memory in spaces.items():
        memory[:] = bench.onchip[space][: memory.size]
    record = np.frombuffer(bytearray(_record(bench, signature)), np.uint8)
    _OP(opcode.addresses((symbol,))[symbol])(core.ctypes.data, record.ctypes.data)
    return NativeRun({space: memory.copy() for space, memory in spaces.items()}, bool(asked))


def _record(bench: Bench, signature: Signature) -> bytes:
    parts = [struct.pack("<2q", 0, 0)]
    for param, spec in zip(signature.entry.data_params, signature.specs, strict=True):  # type: ignore[union-attr]
        value = bench.named[param.name]
        if isinstance(spec, TileSpec):
            parts.append(struct.pack("<3q", value.addr, value.vr, value.vc))
        elif isinstance(spec, ScalarSpec):
            parts.append(struct.pack("<f4x", value) if isinstance(value, float) else struct.pack("<q", value))
    return b"".join(parts)


def check_native(case: Case) -> None:
    """The native function leaves the bytes that the meaning leaves; NaNs are alike, tolerances are the entry's."""
    bench = Bench(case)
    native = run_native(bench)
    assert not native.fell_back, f"{case.op} has no native code for {case.operands}"
    bench.run()
    for name, spec in case.operands.items():
        if isinstance(spec, T) and spec.dtype.is_float() and spec.dtype.bits() >= 16:
            _compare_floats(bench, native, name)
    for space, memory in native.memories.items():
        wanted = bench.onchip[space][: memory.size]
        wrong = np.flatnonzero(memory != wanted)
        assert wrong.size == 0, f"{case.op}: {wrong.size} bytes of {space.name} differ, first at {wrong[0]:#x}"


def _compare_floats(bench: Bench, native: NativeRun, name: str) -> None:
    """Elements of one tile; those that may differ are made equal, so that bytes can be compared afterwards."""
    wanted: TileArg = bench.named[name]
    found = TileArg(wanted.type, native.memories[wanted.type.space], wanted.addr, wanted.vr, wanted.vc)
    shape = wanted.type.shape
    with np.errstate(invalid="ignore"):
        a, b = found.values(*shape).astype(np.float64), wanted.values(*shape).astype(np.float64)
    alike = (found.bits(*shape) == wanted.bits(*shape)) | (np.isnan(a) & np.isnan(b))
    tolerance = bench.entry.tolerance
    if tolerance is not None:
        relative = max(tolerance.rtol, NARROW_EPSILON.get(wanted.dtype, 0.0)) if tolerance.rtol else 0.0
        with np.errstate(invalid="ignore"):
            alike |= (np.abs(a - b) <= tolerance.atol + relative * np.abs(b)) & np.isfinite(b)
    if not alike.all():
        i, j = np.argwhere(~alike)[0]
        raise AssertionError(f"{bench.case.op}: {name}[{i}, {j}] is {a[i, j]!r} natively and {b[i, j]!r} by meaning")
    bits = found.bits(*shape)
    found.put_bits(np.where(alike, wanted.bits(*shape), bits))
