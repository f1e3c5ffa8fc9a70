"""Kernels of chained stages for the pipeline tests: source text, inputs and the result numpy gives.

A task is a tile of 32 x 32 small integers, so that every executor gives the same bits. A cube stage multiplies by a
permutation matrix, a vector stage adds its own number; cube -> vector channels are halves in Vec, vector -> cube
channels whole tiles in Mat.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernel_text import module
from numpy.typing import NDArray

T, H = 32, 16
MAT, VEC = "pl.MemorySpace.Mat", "pl.MemorySpace.Vec"
CUBE_LOCALS = "w_g, m_g, l_g, r_g, ac_g"
VECTOR_LOCALS = "f_g, u_g, h_g, nz_g"
SETUP = """
half = pl.TileType(shape=[16, 32], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
half16 = pl.TileType(shape=[16, 32], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec)
blocked = pl.TileType(shape=[16, 32], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec, layout=pl.NZ)
whole = pl.TileType(shape=[32, 32], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat)
left = pl.TileType(shape=[32, 32], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left)
right = pl.TileType(shape=[32, 32], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right)
sums = pl.TileType(shape=[32, 32], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc)
f_g = pl.make_tile_group(type=half, addrs=0x20000, mutex_ids=[16, 17])
u_g = pl.make_tile_group(type=half, addrs=0x22000, mutex_ids=[18, 19])
h_g = pl.make_tile_group(type=half16, addrs=0x24000, mutex_ids=[20])
nz_g = pl.make_tile_group(type=blocked, addrs=0x26000, mutex_ids=[21, 22])
w_g = pl.make_tile_group(type=whole, addrs=0, mutex_ids=[16])
m_g = pl.make_tile_group(type=whole, addrs=0x2000, mutex_ids=[17, 18])
l_g = pl.make_tile_group(type=left, addrs=0, mutex_ids=[19, 20])
r_g = pl.make_tile_group(type=right, addrs=0, mutex_ids=[21])
ac_g = pl.make_tile_group(type=sums, addrs=0, mutex_ids=[22, 23])
with pl.section_cube():
    pl.load(w_g.current(), w, [0, 0])
    pl.move(r_g.current(), w_g.current())
"""
LOOP = "for i in pl.range(0, n):"
NESTED = ("for o in pl.range(0, m):", LOOP)


@dataclass(frozen=True)
class Chain:
    """A chain of stages: `kinds` such as "CVC", slots and ids of every channel, and the loops around it."""

    kinds: str
    slots: tuple[int, ...] = ()
    config: str = "pl.pipeline.PipelineConfig()"
    nested: bool = False
    ids: tuple[tuple[str, str], ...] = ()  # (fwd_ids, bwd_ids) of a channel as text, where not the usual ones
    before: str = ""  # statements of the loop ahead of the stages
    together: bool = False  # channels of one memory space share their addresses

    @property
    def channels(self) -> int:
        """One between each two neighbours."""
        return len(self.kinds) - 1

    def slots_of(self, channel: int) -> int:
        """Two, where nothing else is asked for."""
        return self.slots[channel] if self.slots else 2

    def source(self) -> str:
        """The text of stages and kernel."""
        stages = [self._stage(k) for k in range(len(self.kinds))]
        dtype = "pl.DT_FP16" if self.kinds[0] == "C" else "pl.DT_FP32"
        head = (
            f"@pl.jit(pipeline={self.config})\n"
            f"def kernel(x: pl.Tensor[[pl.DYNAMIC, 32], {dtype}], w: pl.Tensor[[32, 32], pl.DT_FP16],\n"
            "           y: pl.Tensor[[pl.DYNAMIC, 32], pl.DT_FP32], m: pl.DT_INT32, n: pl.DT_INT32):\n"
        )
        body = SETUP + "".join(map(self._channel, range(self.channels))) + self._loops()
        return "\n".join(stages) + "\n" + head + textwrap.indent(body.strip("\n"), "    ") + "\n"

    def kernel(self) -> Any:
        """The kernel object."""
        return module(self.source())["kernel"]

    def _channel(self, k: int) -> str:
        slots = self.slots_of(k)
        first = 4 * k
        many = slots if slots <= 2 else 1  # ids of one direction: one a slot, or one for all
        usual = tuple(str([(first + d + i) % 16 for i in range(many)]) for d in (0, 2))
        fwd, bwd = self.ids[k] if self.ids else usual
        kind, addr = ("half", 0x4000 * k) if self.kinds[k] == "C" else ("whole", 0x8000 + 0x4000 * k)
        if self.together:
            addr -= 0x4000 * (k - k % 2)
        base = 8 * (k % 2) if self.together else 4 * k
        mutexes = list(range(base, base + slots))
        return (f"ch{k} = pl.make_tile_group(type={kind}, addrs={addr:#x}, mutex_ids={mutexes}, fwd_ids={fwd}, "
                f"bwd_ids={bwd})\n")  # fmt: skip

    def _loops(self) -> str:
        lines = list(NESTED) if self.nested else [LOOP]
        text = "".join("    " * depth + line + "\n" for depth, line in enumerate(lines))
        inner = ["off = (o * n + i) * 32" if self.nested else "off = i * 32", *self.before.splitlines()]
        for k, kind in enumerate(self.kinds):
            inner += [f"with pl.section_{'cube' if kind == 'C' else 'vector'}():", f"    s{k}({self._parameters(k)})"]
        return text + textwrap.indent("\n".join(inner), "    " * len(lines)) + "\n"

    def _parameters(self, k: int) -> str:
        names = ["off", "x", "y", CUBE_LOCALS if self.kinds[k] == "C" else VECTOR_LOCALS]
        names += [f"ch{c}" for c in (k - 1, k) if 0 <= c < self.channels]
        return ", ".join(names)

    def _stage(self, k: int) -> str:
        lines = self._cube(k) if self.kinds[k] == "C" else self._vector(k)
        body = textwrap.indent("\n".join(lines), "    ")
        return f"@pl.pipeline.stage\ndef s{k}({self._parameters(k)}):\n{body}\n"

    def _cube(self, k: int) -> list[str]:
        lines = ["lt = l_g.next()", "ac = ac_g.next()"]
        if k == 0:
            lines += ["mt = m_g.next()", "pl.load(mt, x, [off, 0])", "pl.move(lt, mt)"]
        else:
            lines += [f"a = ch{k - 1}.next()", "pl.move(lt, a)"]
        lines += ["pl.matmul(ac, lt, r_g.current())"]
        if k == self.channels:
            return [*lines, "pl.store(y, ac, [off, 0])"]
        return [*lines, f"t = ch{k}.next()", "pl.move(t, ac, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)"]

    def _vector(self, k: int) -> list[str]:
        lines = ["row = pl.get_subblock_idx() * 16", "u = u_g.next()"]
        if k == 0:
            lines += ["f = f_g.next()", "pl.load(f, x, [off + row, 0])", f"pl.add(u, f, {k + 1}.0)"]
        else:
            lines += [f"t = ch{k - 1}.next()", f"pl.add(u, t, {k + 1}.0)"]
        if k == self.channels:
            return [*lines, "pl.store(y, u, [off + row, 0])"]
        return [
            *lines, "hf = h_g.next()", "nz = nz_g.next()", "pl.cast(hf, u, mode=pl.RoundMode.CAST_RINT)",
            "pl.move(nz, hf)", f"a = ch{k}.next()", "pl.insert(a, nz, [row, 0])",
        ]  # fmt: skip

    # --- values ---

    def inputs(self, tasks: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
        """(x, w): small integers and a permutation matrix."""
        rng = np.random.default_rng(seed)
        dtype = np.float16 if self.kinds[0] == "C" else np.float32
        x = rng.integers(-9, 10, (max(tasks, 1) * T, T)).astype(dtype)
        return x, np.eye(T, dtype=np.float16)[rng.permutation(T)]

    def expected(self, x: NDArray[Any], w: NDArray[Any], tasks: int) -> NDArray[Any]:
        """What `tasks` tasks make of y, which was all -1."""
        value = x.astype(np.float32)
        for k, kind in enumerate(self.kinds):
            value = value @ w.astype(np.float32) if kind == "C" else value + np.float32(k + 1)
        y = np.full((x.shape[0], T), -1.0, np.float32)
        y[: tasks * T] = value[: tasks * T]
        return y
