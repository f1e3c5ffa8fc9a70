"""The LLVM text behind a compiled kernel, for people: its core programs and every function they call."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_pro.enums import CoreKind
from pypto_pro.ir.nodes import Kernel
from pypto_pro.native import opcode
from pypto_pro.native.calls import Signature
from pypto_pro.native.kernel import Functions, emit
from pypto_pro.native.plan import make_plan
from pypto_pro.native.program import CALLBACK


@dataclass(frozen=True)
class Listing:
    """`programs` by core kind; `functions` (ops, vector functions, SIMT launches) by symbol; before optimisation."""

    programs: dict[CoreKind, str]
    functions: dict[str, str]


class _Noting(Functions):
    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def of(self, signature: Signature) -> str:
        symbol = super().of(signature)
        if symbol != CALLBACK and symbol not in self.texts:
            self.texts[symbol] = opcode.op_module(signature) or ""
        return symbol


def listing(kernel: Kernel) -> Listing:
    """The texts of a kernel after the passes."""
    texts: dict[str, str] = {}
    token = opcode.heard.set(texts)
    try:
        programs = emit(kernel, make_plan(kernel), [], _Noting(texts))
    finally:
        opcode.heard.reset(token)
    return Listing({core: program.text for core, program in programs.items()}, texts)
