"""Running kernels written as IR text on the simulator, for the tests of it."""

from __future__ import annotations

import io
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto_pro import interp
from pypto_pro.interp import Observer, RunResult
from pypto_pro.ir.launch import ArgValue, BufferValue, Launch
from pypto_pro.ir.parser import parse_kernel

STORE = "order=None, atomic=AtomicType.AtomicNone, relu_pre_mode=None, phase=None"


@dataclass(frozen=True)
class Outcome:
    """What a run gave back and printed."""

    result: RunResult
    printed: str

    @property
    def waits(self) -> list[tuple[str, str, str]]:
        """(core, pipe, op) of everything blocked."""
        return [(b.core.name, b.instr.pipe.type.name, b.instr.site.name) for b in self.result.blocked]


def argument(value: Any) -> ArgValue:
    """An array as the launch sees it, None as the null pointer, numbers as they are."""
    if value is None:
        return BufferValue(0, 0)
    if isinstance(value, np.ndarray):
        return BufferValue(value.ctypes.data, value.nbytes, value.shape)
    return value  # type: ignore[no-any-return]


def kernel_text(params: str, *, vector: str = "", cube: str = "", types: str = "") -> str:
    """IR text of a kernel with a body per core kind."""
    lines = [types, "@kernel(auto_mutex=False)", f"def k({params}):"]
    for head, body in (("cube", cube), ("vector", vector)):
        if body:
            lines += [f"    with {head}:", textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)]
    return "\n".join(lines) + "\n"


def run_text(
    text: str, *args: Any, blocks: int = 1, schedule: str = "in_order", seed: int = 0, observer: Observer | None = None
) -> Outcome:
    """Parse and run; `args` in parameter order."""
    out = io.StringIO()
    launch = Launch(tuple(argument(a) for a in args), blocks)
    result = interp.run(parse_kernel(text), launch, schedule=schedule, seed=seed, observer=observer, out=out)
    return Outcome(result, out.getvalue())


def run_vector(params: str, body: str, *args: Any, types: str = "", **how: Any) -> Outcome:
    """A vector-only kernel."""
    return run_text(kernel_text(params, vector=body, types=types), *args, **how)


EVERY_SCHEDULE = [("in_order", 0), ("latest", 0), *(("random", seed) for seed in range(4))]
