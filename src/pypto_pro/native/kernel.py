"""`compile`: a kernel after the passes -> object code that runs launches."""

from __future__ import annotations

import threading

from pypto_pro.enums import CoreKind
from pypto_pro.ir.nodes import Kernel, SimtLaunch, VfCall
from pypto_pro.native import engine, opcode, runner
from pypto_pro.native.beside import beside, later
from pypto_pro.native.calls import Signature
from pypto_pro.native.executable import Executable, Plan
from pypto_pro.native.image import CompiledKernel
from pypto_pro.native.plan import make_plan, used_memory
from pypto_pro.native.program import CoreProgram, ProgramCode, Site
from pypto_pro.native.simt import make_launch
from pypto_pro.native.vector_function import Call, make_call

_one_at_a_time = threading.RLock()
"""A kernel waits for its own op functions only, so none may be on the way for another thread's kernel; `beside` sees to
those of a compile that a signal handler interrupted with its own."""


class Functions:
    """Supplies op functions to the programs of one kernel."""

    def of(self, signature: Signature) -> str:
        return opcode.function_of(signature)

    def of_call(self, program: CoreProgram, stmt: VfCall | SimtLaunch) -> Call:
        return make_call(program, stmt) if isinstance(stmt, VfCall) else make_launch(program, stmt)


def compile(kernel: Kernel) -> CompiledKernel:
    """Native code of a kernel; object code comes from the cache where it can."""
    plan = make_plan(kernel)
    sites: list[Site] = []
    with _one_at_a_time, beside():
        later(runner.functions)
        programs = emit(kernel, plan, sites, Functions())
    executable = Executable(
        kernel.name, plan, kernel.params,
        steps={core: _load(code) for core, code in programs.items()},
        run=runner.sync_functions()["run_parked"] if plan.parking else runner.functions()["run"],
        drain=runner.sync_functions()["sync_drain"] if plan.resumable else 0,
        frame_bytes={core: code.frame_bytes for core, code in programs.items()},
        sites=sites, areas=used_memory(kernel),
    )  # fmt: skip
    return CompiledKernel(executable)


def emit(kernel: Kernel, plan: Plan, sites: list[Site], functions: Functions) -> dict[CoreKind, ProgramCode]:
    """LLVM text of every core program; `sites` is filled."""
    return {p.core: CoreProgram(kernel, p, plan, sites, functions).emit() for p in kernel.programs}


def _load(program: ProgramCode) -> int:
    code = engine.compile_module(program.text, glue=True)
    known = opcode.addresses(code)
    imports = {name: known[name] for name in program.symbols if name in known}  # calls in dead code are gone
    return engine.link(code, (program.symbol,), imports)[program.symbol]
