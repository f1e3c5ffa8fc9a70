"""Launching: records and arenas in memory, worker threads, stuck launches, cancellation.

The calling thread is worker 0. Others come from one pool for the process and run generated code with the GIL released;
a launch that was short last time does not wake them. A worker with nothing to run sleeps on a condition; when all would
sleep, the launch first switches to run-ahead, and when that does not help it is stuck. Ctrl-C reaches the main thread
when generated code calls `tick`, which sets the cancel flag of the launch.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import struct
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto_pro.diag.errors import ArgumentError
from pypto_pro.enums import CoreKind, MemorySpace
from pypto_pro.ir.launch import BufferValue, Launch, TilingValue
from pypto_pro.ir.nodes import Var
from pypto_pro.ir.types import PtrType, ScalarType, TensorType
from pypto_pro.native import arenas, background, frames
from pypto_pro.native.arenas import Words
from pypto_pro.native.executable import Executable
from pypto_pro.native.frames import (
    CORE,
    LAUNCH,
    RUN_CANCELLED,
    RUN_FINISHED,
    RUN_IDLE,
    RUN_STUCK,
    RUN_WAKE,
    SIZE,
    UNIT,
    WORD,
)

if TYPE_CHECKING:
    from pypto_pro.diag.errors import StuckError
    from pypto_pro.native.program import Site
    from pypto_pro.native.vector_unit import VectorUnit

KEPT_RUNS = 4
"""Memories of launches one kernel keeps for its next ones."""
SHORT_SECONDS = 150e-6
"""A launch shorter than this is not worth waking other threads for."""
SLOW_CYCLES = 400_000
"""Cycles after which a launch expected to be short asks for help all the same."""

MOST_UNITS = 1 << 14
"""Blocks that can be alive at once; far more than any device has cores."""

_PROGRESS = slice(LAUNCH["cancel"] // WORD, LAUNCH["stuck_unit"] // WORD + 1)
"""Words of the launch record that say how far it is."""

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_TICK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def thread_count() -> int:
    """Workers of a launch: PYPTO_PRO_THREADS, else one a processor."""
    given = os.environ.get("PYPTO_PRO_THREADS", "")
    if given:
        if not given.isdigit() or int(given) < 1:
            raise ValueError(f"PYPTO_PRO_THREADS must be an int from 1, found {given!r}")
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- one launch -----------------------------------------------------------------------------------------------------


class Run:
    """Memory of one launch: its record, the units, and the Python side of callbacks. Reused between launches."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self.record: Words = np.zeros(LAUNCH[SIZE] // WORD, np.int64)
        self.address = self.record.ctypes.data
        self.arguments = bytearray(WORD * max(1, sum(_words(v) for v in executable.params)))
        self._argument_view = (ctypes.c_char * len(self.arguments)).from_buffer(self.arguments)
        self.units: Words = np.zeros(0, np.int64)
        self.states: Words = np.zeros(0, np.int64)
        self.arenas: list[Words] = []
        self.n_units = 0
        self.error: BaseException | None = None
        self.warnings: dict[tuple[str, int, str], tuple[Site, str, type[Warning]]] = {}
        self.lock = threading.RLock()  # entered as it is: a signal cannot come between taking and holding it
        self.condition = threading.Condition(self.lock)
        self.started: list[background.Task] = []
        self.reusable = False
        """Whether it is whole: an interrupt may leave it half prepared."""
        self.sleeping = 0
        self.workers = 0
        self.finished = False
        self.keep: list[Any] = []
        self.vector_units: dict[int, VectorUnit] = {}
        self._hook: Any = None
        self._aimed: tuple[int, int, bool] | None = None
        self._run = _RUN(executable.run)
        self._callback = _CALLBACK(self._call_back)
        self._tick = _TICK(self._look)
        areas = np.array([w for area in executable.areas for w in area] or [0], np.int64)
        self._areas = areas
        self._set("callback", ctypes.cast(self._callback, ctypes.c_void_p).value or 0)
        self.told = np.zeros(max(len(executable.sites), 1), np.uint8)  # sites whose doubts were told
        self._set("told", self.told.ctypes.data)
        self._set("args", ctypes.addressof(self._argument_view))
        self._set("zero_list", areas.ctypes.data)
        self._set("n_zero", len(executable.areas))
        self._set("drain", executable.drain)
        self._set("polls", int(executable.plan.polls))
        self._set("parking", int(executable.plan.parking))

    def _set(self, name: str, value: int, index: int = 0) -> None:
        self.record[LAUNCH[name] // WORD + index] = value

    def _get(self, name: str) -> int:
        return int(self.record[LAUNCH[name] // WORD])

    # --- preparing ---------------------------------------------------------------------------------------------------

    def prepare(self, launch: Launch, units: int) -> None:
        """Arguments into the argument block, a fresh record, and at least `units` units."""
        self._write_arguments(launch)
        plan, blocks = self.executable.plan, launch.block_dim
        self.record[_PROGRESS] = 0
        self._set("block_dim", blocks)
        if plan.resumable:
            first = LAUNCH["participants"] // WORD
            self.record[first:] = 0
            self.record[first] = blocks if CoreKind.CUBE in plan.kinds else 0
            self.record[first + 1] = blocks * (2 if plan.mixed else 1) if CoreKind.VECTOR in plan.kinds else 0
        if self.n_units < units:
            self._make_units(units)
        if plan.parking:
            self.states = np.zeros(2 * blocks, np.int64)
            self._set("states", self.states.ctypes.data)
            self._set("n_states", blocks)
        self.error, self.finished, self.sleeping = None, False, 0
        self.started.clear()
        self.told[:] = 0
        self.warnings.clear()

    def _write_arguments(self, launch: Launch) -> None:
        position = 0
        self.keep.clear()
        for var, value in zip(self.executable.params, launch.args, strict=True):
            match value:
                case BufferValue(address=address, size_bytes=size, dims=dims):
                    words = (address, address, address + size, *(dims if isinstance(var.type, TensorType) else ()))
                    struct.pack_into(f"<{len(words)}q", self.arguments, position, *words)
                case TilingValue(data=data):
                    held = ctypes.create_string_buffer(data, len(data) + 64)
                    self.keep.append(held)
                    struct.pack_into("<q", self.arguments, position, ctypes.addressof(held))
                case _:
                    assert isinstance(var.type, ScalarType)
                    struct.pack_into("<8s", self.arguments, position, _scalar_bytes(value, var.type))
            position += _words(var) * WORD

    def _make_units(self, units: int) -> None:
        """Units with their constant fields; frames and snapshots lie behind the cores."""
        executable, size = self.executable, self.executable.unit_bytes
        slots = frames.core_slots(executable.plan.kinds)
        self.units = np.zeros(units * size // WORD, np.int64)
        self.n_units = units
        self._set("units", self.units.ctypes.data)
        self._set("unit_bytes", size)
        self.arenas += [arenas.take() for _ in range(units - len(self.arenas))]
        for k in range(units):
            base = self.units.ctypes.data + k * size
            self._unit_word(k, UNIT["arena"], self.arenas[k].ctypes.data)
            self._unit_word(k, UNIT["n_cores"], len(slots))
            frame = UNIT["cores"] + len(slots) * CORE[SIZE]
            for position, (kind, sub) in enumerate(slots):
                core = UNIT["cores"] + position * CORE[SIZE]
                room = executable.frame_room(kind)
                values = {
                    "launch": self.address, "unit": base, "arena": self.arenas[k].ctypes.data,
                    "ub": self.arenas[k].ctypes.data + sub * frames.UB_STEP, "step": executable.steps[kind],
                    "frame": base + frame, "snapshot": base + frame + room, "kind": int(kind is CoreKind.VECTOR),
                    "subblock": sub, "subblock_num": 2 if executable.plan.mixed and kind is CoreKind.VECTOR else 1,
                    "slot": position,
                }  # fmt: skip
                for name, value in values.items():
                    self._unit_word(k, core + CORE[name], value)
                frame += 2 * room

    def _unit_word(self, unit: int, offset: int, value: int) -> None:
        self.units[(unit * self.executable.unit_bytes + offset) // WORD] = value

    def _aim_ticks(self, units: int, main: bool) -> None:
        """Only the main thread's own unit looks at signals; in a parking launch any unit may run on it."""
        if self._aimed == (units, self.n_units, main):
            return
        self._aimed = (units, self.n_units, main)
        tick = (ctypes.cast(self._tick, ctypes.c_void_p).value or 0) if main else 0
        slots = len(frames.core_slots(self.executable.plan.kinds))
        for k in range(units if self.executable.plan.parking else 1):
            for position in range(slots):
                self._unit_word(k, UNIT["cores"] + position * CORE[SIZE] + CORE["tick"], tick)

    # --- running -----------------------------------------------------------------------------------------------------

    def execute(self, launch: Launch, threads: int) -> None:
        """Run to the end. Raises what a callback raised, KeyboardInterrupt, or StuckError."""
        self.reusable = False
        plan, blocks = self.executable.plan, launch.block_dim
        workers = max(1, min(threads, blocks))
        units = blocks if plan.parking else workers
        if units > MOST_UNITS:
            raise ArgumentError(
                f"the blocks of `{self.executable.name}` wait for each other, so all of them are alive at once: at most"
                f" {MOST_UNITS} here, found {blocks}"
            )
        self.prepare(launch, units)
        main = threading.current_thread() is threading.main_thread()
        self._aim_ticks(units, main)
        if main:
            self._hook, sys.unraisablehook = sys.unraisablehook, self._hear
        _running.add(self)
        try:
            self._finish_workers(workers)
        finally:
            _running.discard(self)
            if main:
                sys.unraisablehook = self._hook
        self.reusable = True
        self._conclude()

    def _finish_workers(self, workers: int) -> None:
        """Run; no helper works on the launch any more when it returns, whatever signal handlers raise meanwhile."""
        began, interrupt = time.perf_counter(), None
        while True:
            try:
                if interrupt is None:
                    self._run_workers(workers)
                else:
                    self._cancel(interrupt)
                self._join()
                break
            except BaseException as raised:
                interrupt = raised
        self.executable.last_seconds = (time.perf_counter() - began) * (1 + len(self.started))

    def _run_workers(self, workers: int) -> None:
        plan = self.executable.plan
        short = self.executable.last_seconds < SHORT_SECONDS and not plan.parking
        first = 1 if short else workers
        self._set("slow_cycles", SLOW_CYCLES if first < workers else 0)
        self.workers = 1
        self._start(range(1, first))
        if self._work(0) == RUN_WAKE:
            self._set("slow_cycles", 0)
            self._start(range(1, workers))
            self._work(0)

    def _start(self, numbers: range) -> None:
        for number in numbers:
            self.started.append(background.Task(partial(self._help, number)))
            background.submit(self.started[-1])

    def _join(self) -> None:
        """Wait for helpers that have begun; the others are not needed any more."""
        for helper in self.started:
            failed = None if helper.call_off() else helper.wait()
            if failed is not None:
                self._cancel(failed)

    def _help(self, number: int) -> int:
        """A thread of the pool as a worker, unless it comes too late."""
        with self.lock:
            if self.finished:
                return RUN_FINISHED
            self.workers += 1
        return self._work(number)

    def _work(self, number: int) -> int:
        """One worker; returns how its last run ended."""
        run, size = self._run, self.executable.unit_bytes
        unit = self.units.ctypes.data + (0 if self.executable.plan.parking else number * size)
        while True:
            status = int(run(self.address, unit, number))
            if not self.executable.plan.parking:
                return status
            if status == RUN_IDLE:
                status = self._sleep()
            elif status == RUN_WAKE:
                self._wake()
                continue
            if status != RUN_WAKE:
                self._finish()
                return status

    def _wake(self) -> None:
        with self.lock:
            self._set("wake_epoch", self._get("epoch"))
            self.condition.notify_all()

    def _finish(self) -> None:
        with self.lock:
            self.finished = True
            self.condition.notify_all()

    def _sleep(self) -> int:
        """Nothing to run for this worker: sleep until the epoch moves; RUN_WAKE to look again, else how it ended.

        The last worker awake decides: run ahead if that was not tried, else the launch is stuck.
        """
        with self.lock:
            if self.finished:
                return RUN_FINISHED
            epoch = self._get("epoch")
            self.sleeping += 1
            try:
                if self.sleeping == self.workers and not self._anything_left(epoch):
                    return self._decide()
                self._set("idle_workers", self.sleeping)
                while not self.finished and not self._anything_left(self._get("epoch")):
                    try:
                        self.condition.wait()
                    except BaseException as interrupt:
                        self._cancel(interrupt)
                        return RUN_CANCELLED
                return RUN_FINISHED if self.finished else RUN_WAKE
            finally:
                self.sleeping -= 1
                self._set("idle_workers", self.sleeping)

    def _anything_left(self, epoch: int) -> bool:
        """Whether some block can be looked at now."""
        states, parked_at = self.states[0::2], self.states[1::2]
        parked = states == frames.BLOCK_PARKED
        ready = (states == frames.BLOCK_NEW) | (states == frames.BLOCK_READY)
        return bool((ready | (parked & (parked_at != epoch))).any())

    def _decide(self) -> int:
        """All workers have nothing to run (the condition is held)."""
        if self._get("done_blocks") >= self._get("n_states") or self._get("cancel"):
            self.finished = True
        elif self.executable.plan.queues and not self._get("run_ahead"):
            self._set("run_ahead", 1)
            self._set("epoch", self._get("epoch") + 1)
            self.condition.notify_all()
            return RUN_WAKE
        else:
            self._set("stuck_unit", 1)
            self.finished = True
        self.condition.notify_all()
        return RUN_STUCK if self._get("stuck_unit") else RUN_FINISHED

    def _cancel(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
        self._set("cancel", 1)
        with self.lock:
            self.finished = True
            self.condition.notify_all()

    def _conclude(self) -> None:
        """Warnings, then errors of a finished launch."""
        if self.warnings:
            from pypto_pro.native import callbacks

            for told in self.warnings.values():
                callbacks.warn(*told)
        error, self.error = self.error, None
        if error is not None:
            raise error
        if self._get("stuck_unit"):
            raise self._stuck()

    def _stuck(self) -> StuckError:
        from pypto_pro.native.stuck import describe

        plan, address = self.executable.plan, self._get("stuck_unit")
        if plan.parking:
            units = [self.units.ctypes.data + k * self.executable.unit_bytes for k in range(self._get("n_states"))]
        else:
            units = [address]
        return describe(self.executable.name, units, self.executable.sites)

    # --- callbacks ---------------------------------------------------------------------------------------------------

    def _call_back(self, core: int, record: int) -> None:
        """Generated code needs Python: an op's meaning, or a debugging statement."""
        try:
            from pypto_pro.native import callbacks
            from pypto_pro.native.callbacks import Core

            site = self.executable.sites[callbacks.word_at(record)]
            signature = site.signature
            if signature is None or signature.entry is None:
                sys.stdout.write(callbacks.debug_output(site, Core(core), record))
            elif signature.registers:
                callbacks.run_register_op(site, self._unit_of(core), Core(core), record, self._note)
            else:
                callbacks.run_op(site, Core(core), record, self._note)
        except BaseException as error:  # it must not cross generated code; the launch ends and raises it
            self._cancel(error)

    def _unit_of(self, core: int) -> VectorUnit:
        unit = self.vector_units.get(core)
        if unit is None:
            from pypto_pro.native.callbacks import Core
            from pypto_pro.native.vector_unit import VectorUnit

            unit = self.vector_units[core] = VectorUnit(core, Core(core).space(MemorySpace.Vec, foreign=False))
        return unit

    def _note(self, site: Site, message: str, category: type[Warning], about: str) -> None:
        """A warning for the end of the launch; the first of a line counts."""
        self.warnings.setdefault((site.span.file, site.span.line, about), (site, message, category))

    def _look(self, _launch: int) -> int:
        """Called on the main thread now and then: Python runs its signal handlers here."""
        try:
            return self._get("cancel")
        except BaseException as interrupt:
            self._cancel(interrupt)
            return 1

    def _hear(self, lost: Any) -> None:
        """Takes errors that nobody can catch: signal handlers also run before the first line of a callback, outside its
        `try`, and what they raise there is the interrupt of this launch."""
        if lost.object in (self._look, self._call_back) or "ctypes callback" in (lost.err_msg or ""):
            self._cancel(lost.exc_value)
        else:
            self._hook(lost)


def _words(var: Var) -> int:
    match var.type:
        case PtrType():
            return 3
        case TensorType(dims=dims):
            return 3 + len(dims)
    return 1


def _scalar_bytes(value: bool | int | float, type_: ScalarType) -> bytes:
    """A scalar argument as `calls.load_scalar` reads it; floats are FP32 (others cannot be passed) and rounded."""
    dtype = type_.dtype
    if dtype.is_float():
        return struct.pack("<f4x", value)
    return struct.pack("<q", int(value)) if dtype.is_signed_int() else struct.pack("<Q", int(value))


_running: set[Run] = set()


@atexit.register
def _end_launches() -> None:
    """Launches of other threads that still run when the process ends are cancelled, so that no code of theirs does."""
    for run in [*_running]:
        run._cancel(SystemExit())
    ends = time.monotonic() + 1
    while _running and time.monotonic() < ends:
        time.sleep(0.001)


def launch(executable: Executable, request: Launch, threads: int | None = None) -> None:
    """Run one launch of a kernel on `threads` workers (default: see `thread_count`)."""
    try:
        run = executable.idle.pop()
    except IndexError:  # asking first would be no help: another thread may take it in between
        run = Run(executable)
    try:
        run.execute(request, threads or thread_count())
    finally:
        if run.reusable and len(executable.idle) < KEPT_RUNS:
            executable.idle.append(run)
        elif run.reusable:
            arenas.give(run.arenas)


