"""The machine of one launch as plain state: cores, their pipes and memories, and the instructions in flight.

Nothing here decides what runs when; that is the engines' business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from pypto_pro.diag import Span
from pypto_pro.enums import CoreKind, MemorySpace, PipeType
from pypto_pro.hw.a5 import A5, SPACES, SSBUF_BYTES
from pypto_pro.interp.cache import ScalarCache
from pypto_pro.interp.memory import Buffer, Pool, Storage
from pypto_pro.interp.observer import Calls, Observer
from pypto_pro.interp.sites import Plan, Site
from pypto_pro.interp.sync import Counter, Flag, Idle, Mutex, Rendezvous, UnitFlag, Waitable
from pypto_pro.ir.launch import Launch
from pypto_pro.ir.nodes import Kernel

if TYPE_CHECKING:
    from pypto_pro.interp.engine import Engine


class Instr:
    """One issued instruction. `args` are its operands as captured at issue, `trips` the loop variables' values then."""

    __slots__ = ("args", "core", "mark", "number", "pipe", "plan", "site", "stage", "ticket", "trips")

    def __init__(
        self, number: int, core: Core, pipe: Pipe, site: Site, args: tuple[Any, ...], trips: tuple[int, ...]
    ) -> None:
        self.number = number
        """Position in the issue order of the whole launch."""
        self.core = core
        self.pipe = pipe
        self.site = site
        self.args = args
        self.trips = trips
        self.plan: Plan | None = None
        self.stage = 0
        self.ticket = 0
        self.mark: Any = None
        """Free for the observer."""

    def __repr__(self) -> str:
        return f"<{self.number} {self.site.name} on {self.pipe.type.name} of {self.core.name}>"


PATIENCE = 1024
"""Turns the cores of one block take among themselves before other blocks get one. A block that needs nobody ends
before the next one begins, so that its memories serve for all; one that waits for another must not keep it off."""
NOTHING: deque[Any] = deque(maxlen=0)
"""What is in flight under schedules that complete what they start; shared by all pipes."""


class Pipe:
    """An in-order instruction queue of a core. `waits_for` is set while its head is blocked."""

    __slots__ = ("core", "flight", "queue", "type", "version", "waits_for")

    def __init__(self, core: Core, type_: PipeType) -> None:
        self.core = core
        self.type = type_
        self.queue: deque[Instr] = deque()
        self.flight: deque[Any] = NOTHING
        """Started but not completed (deferring schedules only), oldest first."""
        self.waits_for: Waitable | None = None
        self.version = 0

    @property
    def empty(self) -> bool:
        """Whether everything issued to it has completed."""
        return not self.queue and not self.flight


class Core:
    """One AIC or AIV with everything that is its own."""

    def __init__(
        self, machine: Machine, kind: CoreKind, block: int, sub: int, stores: dict[MemorySpace, tuple[Storage, ...]]
    ) -> None:
        mixed = machine.kind == "mixed"
        self.machine = machine
        self.index = len(machine.cores)
        self.kind = kind
        self.block = block
        self.sub = sub
        label = "AIC" if kind is CoreKind.CUBE else f"AIV{sub}" if mixed else "AIV"
        self.name = f"{label}, block {block}"
        self.stores = stores
        self.pipes = [Pipe(self, type_) for type_ in list(PipeType)[:-1]]
        self.flags: dict[tuple[PipeType, PipeType, int], Flag] = {}
        self.mutexes: dict[int, Mutex] = {}
        self.counters: dict[int, Counter] = {}
        self.unit_flags: dict[int, UnitFlag] = {}
        self.idle = Idle(self)
        self.cache = ScalarCache(self)
        self.ssbuf = machine.ssbufs[block]
        self.subblock_num = 2 if mixed and kind is CoreKind.VECTOR else 1
        self.subblock_idx = sub if self.subblock_num == 2 else 0
        self.block_idx = block * self.subblock_num + self.subblock_idx
        self.block_num = machine.launch.block_dim
        self.vector_state = VectorState()
        self.units: dict[type, Any] = {}
        """What vector functions and SIMT launches run on, made at first use."""
        self.program: Generator[int, None, None] | None = None
        self.patience = PATIENCE
        """Turns it may still take before cores of other blocks."""
        self.parked = False
        """S waits for an instruction of its own."""
        self.finished = False
        """Its program has ended; its pipes may still be busy."""
        self.ended = False
        self.loop = -1
        """The `while` loop its program went round last, an index of `while_spans`; negative before the first."""
        self.while_spans: list[Span] = []
        self.issue: Callable[..., None]
        self.wait: Callable[..., bool]
        self.scalar: Callable[..., Any]

    @property
    def taking_turns(self) -> bool:
        """Whether its scalar unit may go on."""
        return not (self.parked or self.finished)

    @property
    def is_idle(self) -> bool:
        """Whether all pipes but S are empty."""
        return all(p.empty for p in self.pipes if p.type is not PipeType.S)

    def flag(self, set_pipe: PipeType, wait_pipe: PipeType, event: int) -> Flag:
        """The flag object of a pipe pair and id."""
        key = (set_pipe, wait_pipe, event)
        found = self.flags.get(key)
        if found is None:
            found = self.flags[key] = Flag(self, *key)
        return found

    def mutex(self, number: int) -> Mutex:
        """The mutex object of an id."""
        found = self.mutexes.get(number)
        if found is None:
            found = self.mutexes[number] = Mutex(self, number)
        return found

    def counter(self, number: int) -> Counter:
        """The cross-core counter of an id; on the AIC 16 and up belong to AIV1."""
        found = self.counters.get(number)
        if found is None:
            found = self.counters[number] = Counter(self, number)
        return found

    def unit_flag(self, address: int) -> UnitFlag:
        """The unit flag of the accumulator region at an address."""
        found = self.unit_flags.get(address)
        if found is None:
            found = self.unit_flags[address] = UnitFlag(self, address)
        return found


class VectorState:
    """Special registers of a vector core: AR and the mask pair with its mode."""

    __slots__ = ("ar", "count_mode", "mask_high", "mask_low")

    def __init__(self) -> None:
        self.ar = 0
        self.count_mode = False
        self.mask_high = self.mask_low = (1 << 64) - 1

    @property
    def mask(self) -> tuple[bool, int, int]:
        """(count mode?, high 64 bits, low 64 bits) of the mask register, as a call captures it."""
        return self.count_mode, self.mask_high, self.mask_low


class Machine:
    """All cores of a launch, their memories and the objects they share."""

    def __init__(
        self, kernel: Kernel, launch: Launch, observer: Observer | None, poison: int, out: TextIO
    ) -> None:
        self.kernel = kernel
        self.out = out
        self.launch = launch
        self.kind = kernel.kind
        self.observer = observer
        self.calls = Calls(observer)
        self.storages: list[Storage] = []
        self.buffers: list[Buffer] = []
        self.ssbufs = [bytearray(SSBUF_BYTES) for _ in range(launch.block_dim)]
        self.cores: list[Core] = []
        self.rendezvous: dict[Any, Rendezvous] = {}
        self.spare_counter = np.zeros(1, np.int32)
        """Stands in for the counter of a soft `sync_all` whose workspace has no room for it."""
        self.engine: Engine
        self.begin: Callable[[Core], Generator[int, None, None]]
        """Starts the program of a core, which a core does at its first turn."""
        self.forget: Callable[[], None]
        """Drops what the sites keep about operands."""
        self.pool = Pool(poison)
        for block in range(launch.block_dim):
            self._add_block(block)

    def _add_block(self, block: int) -> None:
        cube = self.kernel.program(CoreKind.CUBE) is not None
        vector = self.kernel.program(CoreKind.VECTOR) is not None
        kinds = A5.cores_per_block(cube=cube, vector=vector)
        vec: list[Storage] = []
        shared: dict[MemorySpace, tuple[Storage, ...]] = {}
        for kind, sub in kinds:
            owner = "AIC" if kind is CoreKind.CUBE else f"AIV{sub}" if cube else "AIV"
            for space in SPACES.values():
                if space.owner is kind:
                    name = f"{space.physical} of {owner}, block {block}"
                    made = Storage(name, space.space, space.capacity, self.pool)
                    self.storages.append(made)
                    if kind is CoreKind.VECTOR:
                        vec.append(made)
                    else:
                        shared[space.space] = (made,)
        for kind, sub in kinds:
            own = tuple(vec) if kind is CoreKind.CUBE else (vec[sub],)
            stores = {**shared, MemorySpace.Vec: own} if own else dict(shared)
            self.cores.append(Core(self, kind, block, sub, stores))

    def core_over(self, core: Core) -> None:
        """A core has ended; with the last one of its block the block's memories are free for another."""
        core.program = None
        cores = self.block_cores(core.block)
        if len(self.cores) == len(cores) or not all(c.ended for c in cores):
            return  # the only block stays as it ended
        self.forget()
        for store in {id(s): s for c in cores for found in c.stores.values() for s in found}.values():
            store.release()

    def block_core(self, block: int, kind: CoreKind, sub: int = 0) -> Core | None:
        """A core of a block, None when this kernel has none there."""
        return next((c for c in self.block_cores(block) if c.kind is kind and c.sub == sub), None)

    def block_cores(self, block: int) -> list[Core]:
        """All cores of a block."""
        each = len(self.cores) // self.launch.block_dim
        return self.cores[block * each : (block + 1) * each]
