"""Many register ops in one compiled kernel: registers and masks come from rows of a tile, results go to rows.

A `Program` collects statements with the result the model expects, runs them on an executor and compares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pypto_pro
from ops import vf_model as model
from ops.vf_model import Near, Reg
from pypto_pro.dtypes import DataType as D
from pypto_pro.native.vector_function import VectorCode
from unit.kernel_text import module

ROW = 256
SOURCE_ROWS = 300
Bytes = NDArray[np.uint8]


@dataclass
class Program:
    """Statements of one vector function and what their results must be."""

    seed: int = 0
    source: D = D.DT_UINT8
    target: D = D.DT_UINT8
    """Dtypes of the tiles; `src + n` and `dst + n` count their elements."""
    rows: list[bytes] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    expected: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self._names = 0
        self._full: dict[int, str] = {}
        self._known: dict[tuple[Any, ...], str] = {}

    # --- operands ----------------------------------------------------------------------------------------------------

    def name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def row(self, data: bytes) -> int:
        if data in self.rows:
            return self.rows.index(data)
        self.rows.append(data)
        return len(self.rows) - 1

    def load(self, reg: Reg, *, fresh: bool = False) -> str:
        """The name of a register that holds these lanes; `fresh`: one that may be overwritten."""
        key = (reg.dtype, reg.data())
        if fresh or key not in self._known:
            name = self.name()
            self.emit(f"{name} = vf.load_align({self.at(self.row(reg.data()))}, 0, dtype=pl.{reg.dtype.name})")
            if fresh:
                return name
            self._known[key] = name
        return self._known[key]

    def load_mask(self, bits: Sequence[int], tag: D = D.DT_INT8, *, fresh: bool = False) -> str:
        """The name of a mask that holds these 256 bits."""
        key = (tuple(bits), tag)
        if fresh or key not in self._known:
            name = self.name()
            packed = bytes(np.packbits(np.array(bits, np.uint8), bitorder="little"))
            self.emit(f"{name} = vf.create_mask(dtype=pl.{tag.name})")
            self.emit(f"{name} = vf.load_align({self.at(self.row(packed + bytes(ROW - len(packed))))}, 0)")
            if fresh:
                return name
            self._known[key] = name
        return self._known[key]

    def at(self, row: int) -> str:
        """The tile expression of a row of the source."""
        return f"src + {ROW * row // self.source.nbytes}"

    def full(self, width: int) -> str:
        """A mask with every lane of a width on."""
        if width not in self._full:
            tag = {1: "UINT8", 2: "UINT16", 4: "UINT32", 8: "UINT64"}[width]
            self._full[width] = self.name()
            self.emit(f"{self._full[width]} = vf.create_mask(dtype=pl.DT_{tag})")
        return self._full[width]

    # --- results -----------------------------------------------------------------------------------------------------

    def check(self, name: str, want: Reg | Near, what: str) -> None:
        """A register must hold this."""
        self.emit(f"vf.store_align({self.place()}, {name}, {self.full(want.dtype.nbytes)})")
        self.expected.append((what, want))

    def check_mask(self, name: str, bits: Sequence[int], what: str) -> None:
        """A mask must hold these bits."""
        self.emit(f"vf.store_align({self.place()}, {name})")
        self.expected.append((what, list(bits)))

    def check_bytes(self, want: bytes, what: str) -> str:
        """The text of a tile expression whose bytes must be these afterwards (they were 0xA5 before)."""
        place = self.place()
        for k in range(0, max(len(want), 1), ROW):
            part = want[k : k + ROW]
            self.expected.append((what, part + b"\xa5" * (ROW - len(part))))
        return place

    def place(self) -> str:
        """The tile expression of the next result row."""
        return f"dst + {ROW * len(self.expected) // self.target.nbytes}"

    # --- running -----------------------------------------------------------------------------------------------------

    def run(self, executor: str) -> Bytes:
        """The result rows; unwritten bytes are 0xA5."""
        body = "\n".join(f"    {line}" for line in self.lines)
        sources, results = len(self.rows) + 2, len(self.expected) + 2
        assert sources <= SOURCE_ROWS
        text = f"""
@pl.vector_function
def ops(src, dst):
{body}

@pl.jit(auto_mutex=True)
def k(x: pl.Tensor[[{sources}, {ROW}], pl.DT_UINT8], y: pl.Tensor[[{results}, {ROW}], pl.DT_UINT8]):
    st = pl.TileType(shape=[{sources}, {ROW}], dtype=pl.DT_UINT8, target_memory=pl.MemorySpace.Vec)
    dt = pl.TileType(shape=[{results}, {ROW}], dtype=pl.DT_UINT8, target_memory=pl.MemorySpace.Vec)
    sv = pl.TileType(shape=[{sources}, {ROW // self.source.nbytes}], dtype=pl.{self.source.name},
                     target_memory=pl.MemorySpace.Vec)
    dv = pl.TileType(shape=[{results}, {ROW // self.target.nbytes}], dtype=pl.{self.target.name},
                     target_memory=pl.MemorySpace.Vec)
    a = pl.make_tile_group(type=st, addrs=0, mutex_ids=[0])
    b = pl.make_tile_group(type=dt, addrs={SOURCE_ROWS * ROW}, mutex_ids=[1])
    typed_a = pl.make_tile_group(type=sv, addrs=0, mutex_ids=[0])
    typed_b = pl.make_tile_group(type=dv, addrs={SOURCE_ROWS * ROW}, mutex_ids=[1])
    with pl.section_vector():
        pl.load(a.current(), x, [0, 0])
        pl.load(b.current(), y, [0, 0])
        ops(typed_a.current(), typed_b.current())
        pl.store(y, b.current(), [0, 0])
"""
        x = np.frombuffer(b"".join(self.rows) + bytes(2 * ROW), np.uint8).reshape(sources, ROW).copy()
        y = np.full((results, ROW), 0xA5, np.uint8)
        with pypto_pro.options(executor=executor, check=False):
            module(text)["k"][None, 1](x, y)
        return y

    def compare(self, executor: str) -> None:
        """Every result against the model; the message lists what differs. Native code runs no op through Python."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(VectorCode, "_through_python", _no_native_code)
            found = self.run(executor)
        wrong = [
            f"{executor}: {what}: {text}"
            for (what, want), data in zip(self.expected, found, strict=False)
            if (text := difference(want, bytes(data)))
        ]
        assert not wrong, "\n".join(wrong[:20]) + f"\n{len(wrong)} of {len(self.expected)} differ"

    def agree(self) -> None:
        """Both executors give what the model says."""
        self.compare("interp")
        self.compare("native")


def _no_native_code(self: VectorCode, stmt: Any, entry: Any, args: Any) -> None:
    raise AssertionError(f"{entry.name} has no native code for {args}")


def difference(want: Any, data: bytes) -> str:
    """How a result differs, empty when it does not."""
    match want:
        case Near():
            return _far(want, Reg.of(want.dtype, data))
        case Reg():
            found = Reg.of(want.dtype, data)
            pairs = enumerate(zip(found.codes, want.codes, strict=True))
            bad = [f"lane {i} is {a:#x}, not {b:#x}" for i, (a, b) in pairs if not same(a, b, want.dtype)]
            return "; ".join(bad[:4])
        case bytes():
            bad = [f"byte {i} is {data[i]}, not {want[i]}" for i in range(len(want)) if want[i] != data[i]]
            return "; ".join(bad[:6])
    bits = list(np.unpackbits(np.frombuffer(data[:32], np.uint8), bitorder="little"))
    wrong = [i for i in range(256) if bits[i] != want[i]]
    return f"mask bits {wrong[:16]} differ" if wrong else ""


def same(a: int, b: int, dtype: D) -> bool:
    """Equal codes; any NaN equals any NaN."""
    if a == b or dtype not in (D.DT_FP16, D.DT_BF16, D.DT_FP32):
        return a == b
    return model.unpack(a, dtype)[1] == model.unpack(b, dtype)[1] == model.NAN


def _far(want: Near, found: Reg) -> str:
    precision, low, high = {D.DT_FP32: (24, -126, 127), D.DT_FP16: (11, -14, 15)}[want.dtype]
    wrong = []
    for i, value in enumerate(want.values):
        got = model.as_double(model.unpack(found.codes[i], want.dtype))
        value = float(value)
        if math.isnan(value) or math.isnan(got):
            fine = math.isnan(value) and math.isnan(got)
        else:
            top = (2.0 - 2.0 ** (1 - precision)) * 2.0**high
            exponent = max(math.frexp(value)[1] - 1, low) if value and math.isfinite(value) else low
            ulp = 2.0 ** (min(exponent, high) - precision + 1)
            fine = got == value or abs(got - value) <= want.ulps * ulp or (
                abs(value) > top - ulp and math.isinf(got) and got * value > 0
            )
        if not fine:
            wrong.append(f"lane {i} is {got!r}, not {value!r}")
    return "; ".join(wrong[:4])


# --- random operands -------------------------------------------------------------------------------------------------

EDGES = {
    D.DT_FP32: [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x80000001, 0x007FFFFF, 0x7F7FFFFF, 0xFF7FFFFF,
                0x3F800000, 0xBF800000, 0x3F000000, 0x40200000, 0x4F000000, 0xCF000000, 0x5F000000],
    D.DT_FP16: [0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 1, 0x8001, 0x03FF, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00, 0x3800, 0x4100],
    D.DT_BF16: [0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 1, 0x8001, 0x007F, 0x7F7F, 0xFF7F, 0x3F80, 0xBF80, 0x3F00, 0x4020],
}  # fmt: skip


def random_reg(rng: np.random.Generator, dtype: D, *, moderate: bool = False) -> Reg:
    """Random lanes, edge values among them; `moderate`: floats around 1, small integers."""
    count = 256 // dtype.nbytes
    if dtype in EDGES:
        values = rng.normal(0, 4, count).astype(np.float32)
        if not moderate:
            values *= np.exp2(rng.integers(-30, 30, count)).astype(np.float32)
        wide = [int(v) for v in values.view(np.uint32)]
        codes = [model.formats.convert_one(c, D.DT_FP32, dtype, "CAST_RINT", False, "register") for c in wide] if (
            dtype is not D.DT_FP32
        ) else wide
        if not moderate:
            for i in rng.integers(0, count, count // 4):
                codes[i] = EDGES[dtype][int(rng.integers(len(EDGES[dtype])))]
        return Reg(dtype, codes)
    top = 1 << 8 * dtype.nbytes
    codes = [int.from_bytes(rng.bytes(dtype.nbytes), "little") for _ in range(count)]
    if moderate:
        codes = [int(c) % top for c in rng.integers(-8, 9, count)]
    elif dtype.bits() >= 8:
        edges = [0, 1, top - 1, top // 2, top // 2 - 1]
        for i in rng.integers(0, count, count // 4):
            codes[i] = edges[int(rng.integers(len(edges)))]
    return Reg(dtype, codes)


def random_mask(rng: np.random.Generator, share: float = 0.6) -> list[int]:
    """Random bits; every bit counts, so that an op that looks at the wrong ones is seen."""
    return [int(b) for b in rng.random(256) < share]
