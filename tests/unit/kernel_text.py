"""Kernels written as text in tests: compiled with a source that the front end can find, read to IR, or run."""

from __future__ import annotations

import itertools
import linecache
import sys
import textwrap
import types
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pypto_pro
from pypto_pro.frontend.parse import Specialisation, parse_kernel
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import Kernel, Op, Stmt
from pypto_pro.ir.printer import print_kernel
from pypto_pro.ir.verify import check
from pypto_pro.ops.table import lookup

PRELUDE = """
import pypto_pro.language as pl
from pypto_pro.language import Vf as vf
"""
X = "x: pl.Tensor[[64, 64], pl.DT_FP32]"
N = "n: pl.DT_INT32"
TILES = """
tt = pl.TileType(shape=[16, 64], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
g = pl.make_tile_group(type=tt, addrs=0, mutex_ids=[0, 1])
h = pl.make_tile_group(type=tt, addrs=0x4000, mutex_ids=[2, 3])
solo = pl.make_tile_group(type=tt, addrs=0x8000, mutex_ids=[4])
"""
_numbers = itertools.count()


def module(text: str, **names: Any) -> dict[str, Any]:
    """The globals of a module with that text behind `PRELUDE`; lines of errors count from its first line."""
    source = PRELUDE + textwrap.dedent(text)
    name = f"<kernel {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    made = sys.modules[name] = types.ModuleType(name)  # dataclasses look their module up
    vars(made).update(names)
    exec(compile(source, name, "exec", dont_inherit=True), vars(made))
    return vars(made)


def kernel_of(body: str, params: str = f"{X}, {N}", before: str = "", options: str = "", **names: Any) -> Any:
    """The kernel object of a body inside `with pl.section_vector():` (unless it opens sections itself)."""
    body = textwrap.dedent(body).strip("\n")
    if "section_" not in body:
        body = "with pl.section_vector():\n" + textwrap.indent(body, "    ")
    text = f"{textwrap.dedent(before)}\n@pl.jit({options})\ndef k({params}):\n{textwrap.indent(body, '    ')}\n"
    return module(text, **names)["k"]


def read(
    body: str, params: str = f"{X}, {N}", before: str = "", *, key: Any = None, static: Any = (), datatypes: Any = None,
    **names: Any,
) -> Kernel:
    """The verified IR of a body."""
    kernel = kernel_of(body, params, before, **names)
    special = Specialisation(static, key or {}, datatypes or {})
    found = parse_kernel(kernel.source, special, auto_mutex=kernel.options.auto_mutex)
    complaints = check(found, lookup)
    assert not complaints, "\n".join(f"{c.message} at {c.spans}" for c in complaints) + "\n" + print_kernel(found)
    return found


def statements(kernel: Kernel, kind: type[Stmt]) -> list[Any]:
    """All statements of a class, in order."""
    return [s for program in kernel.programs for s in walk.statements(program.body) if isinstance(s, kind)]


def ops(kernel: Kernel) -> list[str]:
    """Names of all ops, in order."""
    return [op.name for op in statements(kernel, Op)]


def text_of(kernel: Kernel) -> str:
    """The IR text of the programs, without declarations of types."""
    return print_kernel(kernel)


def agree(body: str, *args: Any, count: int = 8, params: str = "", before: str = "", **names: Any) -> NDArray[np.int64]:
    """The values that a body stores in `out[0, i]` on both executors, as Python does running the same text."""
    head = f"out: pl.Tensor[[1, {count}], pl.DT_INT64]"
    kernel = kernel_of(body, ", ".join(p for p in (head, params) if p), before, **names)
    host = np.full((1, count), -99, np.int64)
    special = Specialisation()
    complaints = check(parse_kernel(kernel.source, special), lookup)
    assert not complaints, "\n".join(f"{c.message} at {c.spans[0].line}" for c in complaints)
    kernel.source.fn(host, *args)
    for executor in ("interp", "native"):
        device = np.full((1, count), -99, np.int64)
        with pypto_pro.options(executor=executor):
            kernel(device, *args)
        shown = print_kernel(parse_kernel(kernel.source, special))
        assert np.array_equal(device, host), f"{executor} {device[0]}\nhost {host[0]}\n{body}\n{shown}"
    return host[0]


def run(body: str, *args: Any, count: int = 8, params: str = "", before: str = "", **names: Any) -> NDArray[np.int64]:
    """The INT64 values that a body stores in `out[0, i]`, run on the simulator."""
    head = f"out: pl.Tensor[[1, {count}], pl.DT_INT64]"
    kernel = kernel_of(body, ", ".join(p for p in (head, params) if p), before, **names)
    out = np.full((1, count), -99, np.int64)
    with pypto_pro.options(executor="interp"):
        kernel(out, *args)
    return out[0]
