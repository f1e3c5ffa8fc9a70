"""Runs one op entry on byte memories that a test controls, and checks that its regions are honest.

A case is data: operand specifications by parameter name, keywords, and nothing else. `T` describes a tile, `G` a
tensor; numbers and tuples are passed as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from pypto_pro.analysis.accesses import touches
from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, TensorLayout
from pypto_pro.hw.a5 import SPACES
from pypto_pro.ir.types import TensorType, TileType
from pypto_pro.ops.entry import Effect
from pypto_pro.ops.operands import TileArg
from pypto_pro.ops.table import lookup
from pypto_pro.ops.tensors import TensorArg


@dataclass(frozen=True)
class T:
    """A tile operand: declared shape, dtype, byte address; `valid` None = full."""

    shape: tuple[int, int]
    dtype: DataType = DataType.DT_FP32
    addr: int = 0
    valid: tuple[int, int] | None = None
    layout: TensorLayout | None = None
    space: MemorySpace = MemorySpace.Vec
    compact: int = 0
    pad: int | None = None
    fractal: int | None = None
    data: Any = field(default=None, compare=False)
    """Element bits or values [rows, cols] it holds at (0, 0); None: as the case says."""

    def type(self) -> TileType:
        return TileType(self.shape, self.dtype, self.space, (-1, -1), self.layout, self.fractal, self.pad, self.compact)


@dataclass(frozen=True)
class G:
    """A tensor operand over a buffer of its own: extents, dtype, strides in elements (None = contiguous)."""

    dims: tuple[int, ...]
    dtype: DataType = DataType.DT_FP32
    strides: tuple[int, ...] | None = None
    layout: TensorLayout = TensorLayout.ND


@dataclass(frozen=True)
class Case:
    """An op applied to operands; `values`: (low, high) range the memories are filled from, None = random bytes."""

    op: str
    operands: dict[str, Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    values: tuple[float, float] | None = (-4.0, 4.0)
    seed: int = 0


@lru_cache(maxsize=64)
def noise(space: MemorySpace, seed: int) -> np.ndarray:
    """Random bytes to fill a memory space with; made once, never written."""
    rng = np.random.default_rng([seed, space.value])
    return rng.integers(0, 256, max(SPACES[space].capacity, 1), np.uint8)


class Bench:
    """Memories and operands of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        found = lookup(case.op)
        assert found is not None, case.op
        self.entry = found
        self.rng = np.random.default_rng(case.seed)
        self.onchip = {space: noise(space, case.seed).copy() for space in SPACES}
        self.other_vec = noise(MemorySpace.Vec, case.seed + 1).copy()
        self.buffers: dict[str, np.ndarray] = {}
        self.named: dict[str, Any] = {p.name: p.default for p in self.entry.params if not p.required}
        for name, spec in case.operands.items():
            self.named[name] = self._make(name, spec)
        self.named.update(case.attrs)
        if case.values is not None:
            for name, spec in case.operands.items():
                self._fill(name, spec, *case.values)
        for name, spec in case.operands.items():
            if isinstance(spec, T) and spec.data is not None:
                self.named[name].put(np.asarray(spec.data).astype(spec.dtype.numpy))

    def _make(self, name: str, spec: Any) -> Any:
        if isinstance(spec, T):
            type_ = spec.type()
            rows, cols = spec.valid or spec.shape
            mem = self.onchip[spec.space]
            return TileArg(type_, mem, spec.addr, rows, cols, (self.onchip[MemorySpace.Vec], self.other_vec))
        if isinstance(spec, G):
            strides = spec.strides
            if strides is None:
                strides = tuple(int(np.prod(spec.dims[k + 1 :], dtype=np.int64)) for k in range(len(spec.dims)))
            size = int(sum((d - 1) * s for d, s in zip(spec.dims, strides, strict=True)) + 1) * spec.dtype.nbytes
            self.buffers[name] = self.rng.integers(0, 256, size, np.uint8)
            return TensorArg(TensorType(spec.dtype, spec.dims, spec.layout), self.buffers[name], 0, spec.dims, strides)
        return spec

    def _fill(self, name: str, spec: Any, low: float, high: float) -> None:
        """Well-behaved values of the element dtype in the operand's storage (the whole declared extent)."""
        operand = self.named[name]
        if isinstance(spec, T):
            operand.put_bits(self.random_bits(spec.dtype, spec.shape, low, high))
        elif isinstance(spec, G) and spec.dtype.bits() >= 8:
            count = len(self.buffers[name]) // spec.dtype.nbytes
            self.buffers[name][:] = self.random_bits(spec.dtype, (count,), low, high).view(np.uint8)

    def random_bits(self, dtype: DataType, shape: tuple[int, ...], low: float, high: float) -> np.ndarray:
        if not dtype.is_float() or np.dtype(dtype.numpy) == np.uint8 or dtype.bits() < 16:
            top = 1 << min(dtype.bits(), 63)
            return self.rng.integers(0, top, shape, np.uint64).astype(dtype.bits_dtype)
        return self.rng.uniform(low, high, shape).astype(np.float32).astype(dtype.numpy).view(dtype.bits_dtype)

    def memories(self) -> dict[str, np.ndarray]:
        """Every byte array an op could touch, by a name for messages."""
        found = {space.name: mem for space, mem in self.onchip.items()}
        return {**found, "Vec of AIV1": self.other_vec, **self.buffers}

    def run(self) -> Any:
        with np.errstate(all="ignore"):
            assert self.entry.meaning is not None
            return self.entry.meaning(**self.named)

    def masks(self, *effects: Effect) -> dict[str, np.ndarray]:
        """Bytes declared with one of the effects, as boolean masks by memory."""
        masks = {name: np.zeros(mem.size, bool) for name, mem in self.memories().items()}
        for touch in touches(self.entry, self.named):
            if touch.effect not in effects:
                continue
            operand = self.named[touch.operand]
            if isinstance(operand, TileArg):
                name = "Vec of AIV1" if touch.sub == 1 else operand.type.space.name
            else:
                name = touch.operand
            for region in touch.regions:
                for k in range(region.rows):
                    start = region.start + k * region.pitch
                    masks[name][start : start + region.row_bytes] = True
        return masks


def check_honest(case: Case) -> None:
    """What is not declared written stays, and what is not declared read does not matter."""
    bench = Bench(case)
    writes = bench.masks(Effect.WRITE, Effect.CLOBBER, Effect.ATOMIC, Effect.MAY_WRITE)
    reads = bench.masks(Effect.READ, Effect.ATOMIC, Effect.MAY_READ)
    before = {name: mem.copy() for name, mem in bench.memories().items()}
    bench.run()
    after = {name: mem.copy() for name, mem in bench.memories().items()}
    changed_any = False
    for name, old in before.items():
        changed = old != after[name]
        changed_any |= bool(changed.any())
        stray = np.flatnonzero(changed & ~writes[name])
        assert stray.size == 0, f"{case.op} wrote {stray.size} undeclared bytes of {name}, first at {stray[0]:#x}"

    other = Bench(case)
    noise = np.random.default_rng(999)
    for name, mem in other.memories().items():
        kept = mem.copy()
        mem[:] = noise.integers(0, 256, mem.size, np.uint8)
        mem[reads[name]] = kept[reads[name]]
    other.run()
    written, perhaps = bench.masks(Effect.WRITE, Effect.ATOMIC), bench.masks(Effect.MAY_WRITE)
    for name, mem in other.memories().items():
        written[name] |= perhaps[name] & (before[name] != after[name])
        wrong = np.flatnonzero((mem != after[name]) & written[name])
        assert wrong.size == 0, (
            f"{case.op} depends on undeclared bytes: {wrong.size} result bytes of {name} differ, first {wrong[0]:#x}"
        )
    assert changed_any or not any(m.any() for m in written.values()), f"{case.op} declared writes and changed nothing"
