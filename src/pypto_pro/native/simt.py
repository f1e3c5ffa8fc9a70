"""SIMT launches: the body as a function of one thread, called for every thread in turn.

Threads of a launch may run in any order and share nothing the language could order, so one after the other is a valid
schedule; each has its own copies of the scalars.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import llvmlite.ir as ir

from pypto_pro.dtypes import DataType
from pypto_pro.hw.a5 import WARP_SIZE
from pypto_pro.ir import nodes as n
from pypto_pro.ir.types import ScalarType
from pypto_pro.native import codecs, opcode
from pypto_pro.native.calls import ScalarSpec, Signature, load_scalar
from pypto_pro.native.emit import I64, PTR, VOID, Code, Value
from pypto_pro.native.frames import CORE
from pypto_pro.native.issue import operand, spec_of, write_record
from pypto_pro.native.vector_function import Call, VectorCode, VectorExpressions, captured_variables, issue_of
from pypto_pro.ops.table import entry_of

if TYPE_CHECKING:
    from pypto_pro.native.program import CoreProgram


def make_launch(program: CoreProgram, stmt: n.SimtLaunch) -> Call:
    """Compile a launch and say how to issue it."""
    return issue_of(program, ThreadCode(program, stmt, captured_variables(program, stmt)))


class ThreadExpressions(VectorExpressions):
    """Expressions of a thread: the coordinates of thread, block and grid."""

    coordinates: dict[str, Value]

    def _read(self, expr: Any) -> Value:
        if isinstance(expr, n.Query) and expr.name in self.coordinates:
            return codecs.convert(self.code, self.coordinates[expr.name], DataType.DT_INDEX, expr.type.dtype)
        return super()._read(expr)


class ThreadCode(VectorCode):
    """Emits the function of one thread, and the loop over threads that is issued."""

    def __init__(self, program: CoreProgram, stmt: n.SimtLaunch, captured: list[n.Var]) -> None:
        super().__init__(program, stmt, captured)
        self.name = f"simt_{stmt.name}"
        counts = [t.value if isinstance(t, n.Const) else 1 for t in stmt.threads]
        self.counts = tuple(int(c) for c in (*counts, 1, 1, 1)[:3])
        module = ir.Module("threads")
        function = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR, I64, I64, I64]), "thread_function")
        self.code = self.storage.code = Code(function)
        self.core, self.record, *threads = function.args
        self.expressions = ThreadExpressions(self.code, self.core, self.storage, self._block_num())
        self.expressions.coordinates = self._coordinates(threads)
        self._records: dict[int, Value] = {}

    def _coordinates(self, threads: list[Value]) -> dict[str, Value]:
        b, (nx, ny, nz) = self.code.b, self.counts
        linear = b.add(threads[0], b.mul(I64(nx), b.add(threads[1], b.mul(I64(ny), threads[2]))))
        cores = b.mul(self._block_num(), self.code.load(I64, self.core, CORE["subblock_num"]))
        rows = {
            "thread_idx": threads, "block_dim": [I64(nx), I64(ny), I64(nz)], "grid_dim": [cores, I64(1), I64(1)],
            "block_idx": [self.code.load(I64, self.core, CORE["block_idx"]), I64(0), I64(0)],
        }  # fmt: skip
        found = {f"{name}.{axis}": values[k] for name, values in rows.items() for k, axis in enumerate("xyz")}
        return {**found, "linear_thread_idx": linear, "warp_size": I64(WARP_SIZE)}

    def emit(self) -> str:
        """Compile both functions; the symbol of the loop."""
        for var, offset in self.places.items():
            self._receive(var, offset)
        self.begin(self.stmt.body, self.places)
        self.block(self.stmt.body)
        self.code.b.ret_void()
        self._emit_loop()
        text = str(self.code.module)
        symbol = f"{self.name}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        text = text.replace('@"thread_function"', f'@"{symbol}_thread"').replace('@"launch_function"', f'@"{symbol}"')
        opcode.load(symbol, text)
        return symbol

    def _emit_loop(self) -> None:
        module = self.code.module
        function = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR]), "launch_function")
        code = Code(function)
        core, record = function.args
        nx, ny, nz = self.counts
        thread = module.globals["thread_function"]
        thread.linkage = "internal"
        with code.loop(0, nz) as z, code.loop(0, ny) as y, code.loop(0, nx) as x:
            code.b.call(thread, [core, record, x, y, z])
        code.b.ret_void()

    def leave(self) -> None:
        """`return` ends the thread."""
        self.code.b.ret_void()

    def op(self, stmt: n.Op) -> None:
        """Element reads and writes: the ops' own functions, made part of the thread."""
        entry = entry_of(stmt.name)
        args = tuple(operand(self.expressions, arg) for arg in stmt.args)
        specs = tuple(spec_of(a, self.program.kind) for a in args)
        results = tuple(ScalarSpec(v.type.dtype) for v in stmt.results if isinstance(v.type, ScalarType))
        signature = Signature(entry, self.program.kind, specs, stmt.attrs, results)
        memory = self._records.setdefault(signature.size, self.code.bytes_slot(signature.size))
        write_record(self.code, memory, signature, self.program.site(stmt, signature), args)
        function = opcode.inlined(self.code.module, signature)
        assert function is not None, "elements of tiles and tensors are accessed natively"
        self.code.b.call(function, [self.core, memory])
        for var, spec, offset in zip(stmt.results, results, signature.result_offsets, strict=True):
            self.assign(var, load_scalar(self.code, spec.dtype, memory, offset))
