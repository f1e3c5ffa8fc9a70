# long file: one class, the statements of a core program with their suspension points
"""A core program -> one LLVM function `i32 step(core)`.

A kernel without cross-core waits gets plain functions: variables on the stack, promoted to registers by LLVM. In a
resumable one every variable lives in the frame, so that the function may return at a wait and be entered again: no SSA
value outlives a suspension point, and the entry jumps to the point the core record names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import llvmlite.ir as ir

from pypto_pro.diag import Span
from pypto_pro.enums import AccPhase, CoreKind, CrossCoreSyncMode, MemorySpace, PipeType, STPhase
from pypto_pro.hw.a5 import UNICAST_AIV1_STEP
from pypto_pro.ir import nodes as n
from pypto_pro.ir.types import PtrType, ScalarType, StructType, TensorType
from pypto_pro.ir.walk import statements
from pypto_pro.native import endless, frames
from pypto_pro.native.calls import ScalarSpec, Signature, load_scalar
from pypto_pro.native.emit import I1, I32, I64, PTR, VOID, Code, Value
from pypto_pro.native.executable import Plan
from pypto_pro.native.expressions import Expressions
from pypto_pro.native.frames import (
    BUDGET_OF_OPS,
    CORE,
    LAUNCH,
    N_UNIT_FLAGS,
    STEP_CANCEL,
    STEP_DONE,
    STEP_POLL,
    STEP_WAIT,
    STEP_YIELD,
    UNIT_FLAG_STEP,
    WORD,
)
from pypto_pro.native.issue import IssuedTile, operand, spec_of, write_record
from pypto_pro.native.plan import participants, polls_memory, reads_tensor, takes_part, writes_shared
from pypto_pro.native.scalars import Scalar, index_value
from pypto_pro.native.services import SERVICES
from pypto_pro.native.statements import Statements, spent_budget
from pypto_pro.native.storage import Storage, binders, most_ids, owners
from pypto_pro.native.sync_code import (
    DO_FLAG_SET,
    DO_FLAG_WAIT,
    DO_MEET,
    DO_SET,
    DO_UNIT_SET,
    DO_UNIT_WAIT,
    DO_UNLOCK,
    DO_WAIT,
    flag_index,
)
from pypto_pro.ops.entry import DescriptorUpdate, OpEntry
from pypto_pro.ops.table import entry_of

SCALAR_PIPE = PipeType.S
CALLBACK = "op_callback"


@dataclass(frozen=True)
class Site:
    """One place of the source that Python may have to talk about: an op, a wait, a debugging statement."""

    node: n.Stmt
    core: CoreKind
    signature: Signature | None = None

    @property
    def span(self) -> Span:
        """Where it stands."""
        return self.node.span


class Functions(Protocol):
    """Who supplies the functions of ops."""

    def of(self, signature: Signature) -> str:
        """Symbol of the function that runs calls of this signature."""

    def of_call(self, program: CoreProgram, stmt: n.VfCall | n.SimtLaunch) -> Any:
        """What runs a vector function or SIMT launch: see `vector_function`."""


@dataclass
class ProgramCode:
    """A finished program: module text, name of its step function, bytes of its frame."""

    text: str
    symbol: str
    frame_bytes: int
    symbols: set[str] = field(default_factory=set)


class CoreProgram(Statements):
    """Emits one core program of a kernel."""

    def __init__(
        self, kernel: n.Kernel, program: n.Program, plan: Plan, sites: list[Site], functions: Functions
    ) -> None:
        self.kernel, self.program, self.plan = kernel, program, plan
        self.sites, self.functions = sites, functions
        self.kind = program.core
        module = ir.Module("program")
        step = ir.Function(module, ir.FunctionType(I32, [PTR]), f"step_{program.core.value}")
        code = Code(step)
        self.core = step.args[0]
        launch = code.load(PTR, self.core, CORE["launch"])
        self.arguments = code.load(PTR, launch, LAUNCH["args"])
        block_num = code.load(I64, launch, LAUNCH["block_dim"])
        frame = code.load(PTR, self.core, CORE["frame"]) if plan.resumable else None
        storage = Storage(code, owners(program.body, kernel.params), most_ids(program.body), frame)
        super().__init__(code, Expressions(code, self.core, storage, block_num), storage)
        self.symbols: set[str] = set()
        self._records: dict[int, Value] = {}
        self._resume: Any = None
        self._points = 0
        self._kept: dict[n.While, Any] = {}
        self._poll_sizes: list[Any] = []
        self._binders: dict[str, set[int]] | None = None

    def emit(self) -> ProgramCode:
        """The whole function."""
        code = self.code
        begin = code.block("begin")
        if self.plan.resumable:
            self._resume = code.b.switch(code.load(I64, self.core, CORE["resume"]), begin)
        else:
            code.b.branch(begin)
        self.start(begin)
        self._parameters()
        self.begin(self.program.body, self.kernel.params)
        self.block(self.program.body)
        self.leave()
        for call in self._poll_sizes:
            call.operands[2] = I64(self.storage.frame_bytes)
        text = str(code.module)
        symbol = f"step_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        text = text.replace(f'@"step_{self.program.core.value}"', f'@"{symbol}"')
        return ProgramCode(text, symbol, self.storage.frame_bytes, self.symbols)

    def _parameters(self) -> None:
        """Parameters become variables; the words of the argument block follow `argument_words`."""
        code, position = self.code, 0
        for var in self.kernel.params:
            address = self.storage.address(var)
            match var.type:
                case ScalarType(dtype=dtype):
                    self.assign(var, load_scalar(code, dtype, self.arguments, position * WORD))
                case PtrType():
                    code.copy_bytes(address, code.at(self.arguments, position * WORD), frames.PTR_BYTES)
                case TensorType(dims=dims):
                    pointer = tuple(code.load(I64, self.arguments, (position + k) * WORD) for k in range(3))
                    given = [code.load(I64, self.arguments, (position + 3 + k) * WORD) for k in range(len(dims))]
                    extents = [g if d is None else I64(d) for d, g in zip(dims, given, strict=True)]
                    self.write_tensor(address, pointer, extents, None)
                case StructType():
                    code.store(code.load(PTR, self.arguments, position * WORD), address)
            position += argument_words(var)

    def statement(self, stmt: n.Stmt) -> None:
        """A read of the AR register comes after the vector functions issued before it."""
        match stmt:
            case n.Assign(value=n.Query(name="spr")) if self.plan.queues:
                self.suspending(lambda: self.call("sync_idle", I32, [self.core, I64(PipeType.V.value)]))
        super().statement(stmt)

    # --- suspension --------------------------------------------------------------------------------------------------

    def suspending(self, attempt: Callable[[], Value], status: int = STEP_WAIT) -> None:
        """Go on when `attempt` gives 0, else return `status` and attempt again when resumed.

        `attempt` is emitted once, in a block of its own, and must compute all it needs from variables.
        """
        code = self.code
        retry, going = code.block("retry"), code.block("go")
        code.b.branch(retry)
        self.start(retry)
        result = attempt()
        suspended = code.block("suspend")
        code.b.cbranch(code.b.icmp_unsigned("==", result, I32(0)), going, suspended)
        self.start(suspended)
        self._suspend(retry, status)
        self.start(going)

    def give_way(self, status: int) -> None:
        """Return `status`; when resumed go on here."""
        after = self.code.block("resumed")
        self._suspend(after, status)
        self.start(after)

    def _suspend(self, target: Any, status: int) -> None:
        self._points += 1
        self._resume.add_case(I64(self._points), target)
        self.code.store(I64(self._points), self.core, CORE["resume"])
        self.code.b.ret(I32(status))

    def leave(self) -> None:
        """The program ends once its queues are empty."""
        if self.plan.queues:
            self.suspending(lambda: self.call("sync_barrier", I32, [self.core]))
        self.code.b.ret(I32(STEP_DONE))

    def back_edge(self, loop: n.For | n.While) -> None:
        """Look at the cancel flag now and then; a loop that polls memory gives way."""
        code = self.code
        weight = BUDGET_OF_OPS if any(isinstance(s, n.Op | n.VfCall | n.SimtLaunch) for s in loop.body) else 1
        self.symbols.add("run_tick")
        with spent_budget(code, self.core, weight) as stop:
            with code.b.if_then(stop, likely=False):
                code.b.ret(I32(STEP_CANCEL))
            if isinstance(loop, n.While) and endless.may_never_end(loop):
                endless.emit_look(self, loop)
        if polls_memory(loop, self.plan.mixed):
            self._poll_sizes.append(self.call("sync_poll", VOID, [self.core, I64(0), I64(self.site(loop))]))
            self.give_way(STEP_POLL)

    def loop_begins(self, loop: n.While) -> None:
        """What went round before tells nothing about the loop any more."""
        if endless.may_never_end(loop):
            endless.emit_reset(self, loop)

    def call(self, symbol: str, returns: Any, args: list[Value]) -> Value:
        """Call a function of the executor that the program is linked with."""
        self.symbols.add(symbol)
        return self.code.call(symbol, returns, args)

    # --- ops ---------------------------------------------------------------------------------------------------------

    def op(self, stmt: n.Op) -> None:
        """Issue an op: descriptor updates first, then the call with everything by value."""
        entry, operands, attrs = self._resolved(stmt)
        if entry.service is not None:
            SERVICES[entry.service](self, entry.bind(operands, attrs))
            return
        if "issue" in entry.facets:
            self._update_descriptors(entry, operands, attrs)
            entry, operands, attrs = self._resolved(stmt)
        signature = self._signature(entry, operands, attrs, stmt)
        site = self.site(stmt, signature)
        pipe = entry.pipe_of(**entry.bind(operands, attrs))
        function = self.functions.of(signature)
        before, after = self._unit_flag(operands, attrs)
        if before is not None and self.plan.queues:
            self._do(stmt, pipe or SCALAR_PIPE, DO_UNIT_WAIT, lambda: (self._unit_flag_index(stmt), I64(before)))

        def record() -> Value:
            # where the call may suspend, operands are evaluated anew at the place it is resumed at
            current = self._resolved(stmt)[1] if self._queues(pipe or SCALAR_PIPE) else operands
            memory = self.record_memory(signature.size)
            write_record(self.code, memory, signature, site, current)
            return memory

        self.issue(function, signature.size, record, pipe or SCALAR_PIPE, site)
        self._take_results(stmt, signature)
        if after is not None and self.plan.queues:
            self._do(stmt, pipe or SCALAR_PIPE, DO_UNIT_SET, lambda: (self._unit_flag_index(stmt), I64(after)))
        self._after_op(stmt)

    def _resolved(self, stmt: n.Op) -> tuple[OpEntry, tuple[Any, ...], tuple[tuple[str, Any], ...]]:
        """The entry an op ends up as after rewrites, its operands, and its keywords."""
        entry = entry_of(stmt.name)
        operands = tuple(operand(self.expressions, arg) for arg in stmt.args)
        attrs = stmt.attrs
        while "rewrite" in entry.facets:
            name, named = entry.facets["rewrite"](**entry.bind(operands, attrs))
            target = entry_of(name)
            values = {p.name: named.get(p.name, p.default) for p in target.params}
            operands = tuple(values[p.name] for p in target.data_params)
            attrs = tuple((p.name, values[p.name]) for p in target.keywords)
            entry = target
        return entry, operands, attrs

    def _signature(
        self, entry: OpEntry, operands: tuple[Any, ...], attrs: tuple[tuple[str, Any], ...], stmt: n.Op
    ) -> Signature:
        specs = tuple(spec_of(value, self.kind) for value in operands)
        results = tuple(ScalarSpec(v.type.dtype) for v in stmt.results if isinstance(v.type, ScalarType))
        return Signature(entry, self.kind, specs, attrs, results)

    def _update_descriptors(self, entry: OpEntry, operands: tuple[Any, ...], attrs: Any) -> None:
        """Valid shapes the op leaves behind; what must hold besides is checked by the op's function."""
        named = entry.bind(operands, attrs)
        for update in entry.facets["issue"](**named):
            if isinstance(update, DescriptorUpdate):
                tile = named[update.operand]
                assert isinstance(tile, IssuedTile)
                rows, cols = index_value(self.code, update.rows), index_value(self.code, update.cols)
                self.set_valid(tile.descriptor, rows, cols)

    def kept(self, loop: n.While, size: int) -> Value:
        """Memory that keeps its bytes while a loop runs: the frame's, where the loop may be suspended."""
        if loop not in self._kept:
            scalar = n.Assign | n.SetField | n.CopyStruct | n.StructDecl | n.If | n.For | n.While | n.Break | n.Continue
            calm = all(isinstance(s, scalar) for s in statements(loop.body))
            framed = self.plan.resumable and not calm
            self._kept[loop] = self.storage.reserve(size) if framed else self.code.bytes_slot(size)
        kept = self._kept[loop]
        return self.code.at(self.storage.frame, kept) if isinstance(kept, int) else kept

    def record_memory(self, size: int) -> Value:
        """Stack memory for a record; calls of one size class share it."""
        rounded = -(-size // 64) * 64
        if rounded not in self._records:
            self._records[rounded] = self.code.bytes_slot(rounded)
        return self._records[rounded]

    def _queues(self, pipe: PipeType) -> bool:
        """Whether instructions of a pipe may have to wait in its queue."""
        return self.plan.queues and pipe is not SCALAR_PIPE

    def issue(self, symbol: str, size: int, record: Callable[[], Value], pipe: PipeType, site: int) -> None:
        """Call an op function, or queue the call when its pipe is waiting."""
        self.symbols.add(symbol)
        if not self._queues(pipe):
            self.code.call(symbol, VOID, [self.core, record()])
            return

        def attempt() -> Value:
            address = self.code.declare(symbol, VOID, [PTR, PTR])
            where = self.code.b.bitcast(address, PTR)
            args = [self.core, I64(pipe.value), where, record(), I64(size), I64(site)]
            return self.call("sync_issue", I32, args)

        self.suspending(attempt)

    def _take_results(self, stmt: n.Op, signature: Signature) -> None:
        memory = self._records.get(-(-signature.size // 64) * 64)
        for var, spec, offset in zip(stmt.results, signature.results, signature.result_offsets, strict=True):
            assert isinstance(spec, ScalarSpec)
            self.assign(var, load_scalar(self.code, spec.dtype, memory, offset))

    def _after_op(self, stmt: n.Op) -> None:
        """Mark writes for polling loops; in a mixed kernel cores take turns at every GM access."""
        if not stmt.results:
            self.mark_writes(writes_shared(stmt, self.kind, self.plan.peeks))
        if self.plan.mixed and reads_tensor(stmt) and not stmt.results:
            self.code.store(I64(1), self.core, CORE["moved"])
            self.give_way(STEP_YIELD)

    def mark_writes(self, wrote: bool) -> None:
        """Note for polling loops that the core wrote memory, and whether others can notice."""
        if self.plan.polls:
            self.code.store(I64(1), self.core, CORE["wrote" if wrote else "touched"])

    def bound_outside(self, call: n.Stmt) -> set[str]:
        """Names of variables that get a value outside a vector function or SIMT call."""
        if self._binders is None:
            self._binders = binders(self.program.body)
        params = {v.name for v in self.kernel.params}
        return params | {name for name, where in self._binders.items() if where != {id(call)}}

    def site(self, stmt: n.Stmt, signature: Signature | None = None) -> int:
        """Number of a new site."""
        self.sites.append(Site(stmt, self.kind, signature))
        return len(self.sites) - 1

    # --- unit flags --------------------------------------------------------------------------------------------------

    def _unit_flag(self, operands: tuple[Any, ...], attrs: Any) -> tuple[int | None, int | None]:
        """(value an op with a phase waits for, value it leaves) of the unit flag of its Acc tile."""
        phases = [v for _, v in attrs if isinstance(v, AccPhase | STPhase)]
        if not phases or phases[0].name == "Unspecified" or self._acc_operand(operands) is None:
            return None, None
        produces = isinstance(phases[0], AccPhase)
        return int(not produces), int(produces) if phases[0].name == "Final" else None

    def _acc_operand(self, operands: tuple[Any, ...]) -> IssuedTile | None:
        tiles = (o for o in operands if isinstance(o, IssuedTile))
        return next((t for t in tiles if t.type.space is MemorySpace.Acc), None)

    def _unit_flag_index(self, stmt: n.Op) -> Value:
        tile = self._acc_operand(self._resolved(stmt)[1])
        assert tile is not None
        return self.code.intrinsic("umin", (tile.addr // UNIT_FLAG_STEP).value, I64(N_UNIT_FLAGS - 1))

    # --- synchronisation ---------------------------------------------------------------------------------------------

    def special(self, stmt: n.Stmt) -> None:
        """Calls of functions, debugging, and synchronisation."""
        match stmt:
            case n.VfCall() | n.SimtLaunch():
                call = self.functions.of_call(self, stmt)
                self.issue(call.symbol, call.size, call.record, PipeType.V, call.site)
                self.mark_writes(writes_shared(stmt, self.kind, self.plan.peeks))
            case n.Debug():
                self._debug(stmt)
            case n.SetCross() | n.WaitCross() | n.SyncAll() if self.plan.resumable:
                self._cross(stmt)
            case n.SetFlag() | n.WaitFlag() | n.Barrier() | n.Lock() | n.Unlock() if self.plan.queues:
                self._intra(stmt)

    def _do(self, stmt: n.Stmt, pipe: PipeType, kind: int, operands: Callable[[], tuple[Value, ...]]) -> None:
        """A synchronisation instruction with up to three operands."""
        site = self.site(stmt)

        def attempt() -> Value:
            words = operands()
            words += (I64(0),) * (3 - len(words))
            return self.call("sync_do", I32, [self.core, I64(pipe.value), I64(kind), *words, I64(site)])

        self.suspending(attempt)

    def _cross(self, stmt: n.Stmt) -> None:
        value = self.expressions.index
        match stmt:
            case n.SetCross(pipe=pipe, event=event, mode=mode):
                self._do(stmt, pipe, DO_SET, lambda: (value(event), I64(mode.value)))
            case n.WaitCross(pipe=pipe, event=event, mode=mode):
                for step in self._counters(mode):
                    self._do(stmt, pipe, DO_WAIT, partial(self._counter, event, mode, step))
            case n.SyncAll():
                self._sync_all(stmt)

    def _counters(self, mode: CrossCoreSyncMode) -> tuple[int, ...]:
        """Offsets of the counters a wait takes one credit from, one after the other."""
        if self.kind is CoreKind.CUBE and mode is CrossCoreSyncMode.INTRA_BLOCK:
            return 0, UNICAST_AIV1_STEP
        return (0,)

    def _counter(self, event: n.Expr, mode: CrossCoreSyncMode, step: int) -> tuple[Value]:
        """Index of a counter, kept inside the array: the operands of a wait."""
        wide = self.kind is CoreKind.CUBE and mode is CrossCoreSyncMode.UNICAST_BLOCK
        index = self.code.b.and_(self.expressions.index(event), I64(31 if wide else 15))
        return (self.code.b.add(index, I64(step)),)

    def _sync_all(self, stmt: n.SyncAll) -> None:
        if self.plan.queues:
            self.suspending(lambda: self.call("sync_barrier", I32, [self.core]))
        if not takes_part(self.kind, stmt.core_type):
            return

        def operands() -> tuple[Value, ...]:
            everybody = participants(self.plan, stmt.core_type, Scalar(self.code, self.expressions.block_num))
            count = everybody.value
            if stmt.used_cores is not None:
                given = self.expressions.index(stmt.used_cores)
                count = self.code.b.select(self.code.b.icmp_signed(">", given, I64(0)), given, count)
            return I64(stmt.core_type.value), count

        self._do(stmt, SCALAR_PIPE, DO_MEET, operands)

    def _intra(self, stmt: n.Stmt) -> None:
        value = self.expressions.index
        match stmt:
            case n.SetFlag(set_pipe=first, wait_pipe=second, event=event):
                self._do(stmt, first, DO_FLAG_SET, lambda: (flag_index(self.code, first, second, value(event)),))
            case n.WaitFlag(set_pipe=first, wait_pipe=second, event=event):
                self._do(stmt, second, DO_FLAG_WAIT, lambda: (flag_index(self.code, first, second, value(event)),))
            case n.Barrier(pipe=PipeType.ALL):
                self.suspending(lambda: self.call("sync_barrier", I32, [self.core]))
            case n.Lock() | n.Unlock():
                self._mutex(stmt)

    def _mutex(self, stmt: n.Lock | n.Unlock) -> None:
        """Lock or unlock, unless an operand of the same op already named the same id."""
        code = self.code
        mine = self.expressions.index(stmt.mutex)
        taken = I1(0)
        for other in stmt.unless:
            taken = code.b.or_(taken, code.b.icmp_signed("==", mine, self.expressions.index(other)))
        needed, after = code.block("mutex"), code.block("mutex_done")
        code.b.cbranch(taken, after, needed)
        self.start(needed)
        if isinstance(stmt, n.Unlock):
            self._do(stmt, stmt.pipe, DO_UNLOCK, lambda: (code.b.and_(self.expressions.index(stmt.mutex), I64(31)),))
        else:
            site = self.site(stmt)

            def attempt() -> Value:
                mutex = self.expressions.index(stmt.mutex)
                return self.call("sync_lock", I32, [self.core, I64(stmt.pipe.value), mutex, I64(site)])

            self.suspending(attempt)
        code.b.branch(after)
        self.start(after)

    # --- debugging ---------------------------------------------------------------------------------------------------

    def _debug(self, stmt: n.Debug) -> None:
        operands = tuple(operand(self.expressions, arg) for arg in stmt.args)
        signature = Signature(None, self.kind, tuple(spec_of(v, self.kind) for v in operands), stmt.attrs, ())
        site = self.site(stmt, signature)
        memory = self.record_memory(signature.size)
        write_record(self.code, memory, signature, site, operands)
        self.call(CALLBACK, VOID, [self.core, memory])
        if stmt.what == "trap":
            self.leave()
            self.start(self.code.block("unreached"))


def argument_words(var: n.Var) -> int:
    """Words a parameter takes in the argument block: pointers 3, tensors 3 and one an axis, everything else 1."""
    match var.type:
        case PtrType():
            return 3
        case TensorType(dims=dims):
            return 3 + len(dims)
    return 1
