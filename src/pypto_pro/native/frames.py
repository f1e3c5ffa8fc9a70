"""Memory records shared by generated code and Python: launch, unit (one running block), core, and what they hold.

All fields are 8-byte words unless a size is given; a record is a dict from field name to byte offset, with its size
under `SIZE`. Generated code reads and writes them at these offsets, Python through numpy views.

    launch    one a launch: arguments, cancel flag, rendezvous of the whole launch, scheduling state
    unit      one running block: header, then up to three cores, each with its synchronisation state and its frame
    arena     on-chip memory of one block: UB of both AIVs, then the cube core's buffers, then run-ahead queues
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto_pro.enums import CoreKind, MemorySpace, PipeType
from pypto_pro.hw.a5 import SPACES, SSBUF_BYTES, UB_PHYSICAL_BYTES

Fields = dict[str, int]
SIZE = "SIZE"
WORD = 8


def fields(*names: str | tuple[str, int]) -> Fields:
    """Offsets of fields laid out in order; a plain name is one word, a pair gives its size in words."""
    offsets: Fields = {}
    position = 0
    for item in names:
        name, words = (item, 1) if isinstance(item, str) else item
        offsets[name] = position
        position += words * WORD
    offsets[SIZE] = position
    return offsets


# --- launch -----------------------------------------------------------------------------------------------------------

RING = 64
"""How many INTER_BLOCK arrivals one core may be ahead of the slowest one."""
IDS = 16
COUNTERS = 32

LAUNCH = fields(
    "block_dim", "cancel", "run_ahead", "next_block", "done_blocks", "epoch", "wake_epoch", "idle_workers",
    "stuck_unit",
    "args", "kernel", "callback", "told", "tick", "units", "unit_bytes", "states", "n_states", "zero_list", "n_zero",
    "polls", "parking", "slow_cycles", "drain",
    ("participants", 2),  # cores of each kind in the launch: cube, vector
    ("rounds", 2 * IDS), ("ring", 2 * IDS * RING), ("meetings", 3),
)  # fmt: skip

# --- unit and core ----------------------------------------------------------------------------------------------------

N_PIPES = len(PipeType) - 1
QUEUE_BYTES = 1 << 16
"""Size of the ring that holds instructions of one pipe waiting behind an unsatisfied wait."""
UNIT_FLAG_STEP = 1024
N_UNIT_FLAGS = SPACES[MemorySpace.Acc].capacity // UNIT_FLAG_STEP

UNIT = fields("arena", "n_cores", "block", "run_ahead", "status", "cores")
CORE_INSTANCES = 3

FLAG_WORDS = N_PIPES * N_PIPES * IDS // WORD + 1
MUTEXES = 32
STATE_WORDS = 4 + FLAG_WORDS + MUTEXES + N_UNIT_FLAGS + 2 * N_PIPES
"""What else than memory steers a polling program: special registers, flags, mutexes, unit flags, queues."""

CORE = fields(
    "launch", "unit", "arena", "ub", "step", "frame", "kind", "subblock", "block_idx", "subblock_num", "slot",
    "budget", "resume", "moved", "wrote", "status", "site", "tick", "retry", "queued",
    "spr", "mask_count_mode", "mask_high", "mask_low", "call_number",
    "snapshot",
    # polling: see `polling`
    "touched", "copied", "ref_stamp", "cycle_stamp", "rounds", "round_limit", ("state", STATE_WORDS),
    ("ref_state", STATE_WORDS),
    # synchronisation; counters as of the receiving core
    ("direct", COUNTERS), ("taken", COUNTERS), ("arrivals", IDS), ("pair_arrivals", IDS), ("meeting_target", 3),
    # run-ahead: per pipe ring positions, flags (set pipe, wait pipe, event), mutex tickets, unit flags of Acc regions
    ("head", N_PIPES), ("tail", N_PIPES), ("flags", FLAG_WORDS),
    ("tickets", MUTEXES), ("released", MUTEXES), ("unit_flags", N_UNIT_FLAGS),
)  # fmt: skip

STEP_DONE, STEP_YIELD, STEP_WAIT, STEP_POLL, STEP_CANCEL, STEP_ENDLESS = range(6)
"""What `step` returns: finished, gave way, meets an unsatisfied wait, polls memory, launch cancelled, is in a loop that
nothing ends."""
RUN_FINISHED, RUN_STUCK, RUN_IDLE, RUN_WAKE, RUN_CANCELLED = range(5)
"""What a worker's run returns: nothing left, nobody can go on, nothing for this worker, wake others, cancelled."""
BLOCK_NEW, BLOCK_READY, BLOCK_RUNNING, BLOCK_PARKED, BLOCK_DONE = range(5)
"""States of a block of a launch whose blocks can wait for each other."""
STATE_BYTES = 2 * WORD  # state, epoch at which it was parked

BUDGET = 1 << 20
"""Loop weight between two looks at the cancel flag."""
BUDGET_OF_A_BLOCK = BUDGET // 32
"""What beginning a block, or giving it a turn, weighs."""
BUDGET_OF_OPS = 4096
"""What one trip of a loop that issues ops weighs; other trips weigh 1."""


# --- arena ------------------------------------------------------------------------------------------------------------

_GAP = 4096  # never accessed; keeps neighbouring buffers on different pages

_CUBE_SPACES = (
    MemorySpace.Mat, MemorySpace.Left, MemorySpace.Right, MemorySpace.Acc, MemorySpace.Scaling, MemorySpace.ScaleLeft,
    MemorySpace.ScaleRight, MemorySpace.Bias,
)  # fmt: skip


def _place() -> tuple[dict[MemorySpace, int], int, int]:
    position = 2 * (UB_PHYSICAL_BYTES + _GAP)
    places = {MemorySpace.Vec: 0}
    for space in _CUBE_SPACES:
        places[space] = position
        position += -(-SPACES[space].capacity // _GAP) * _GAP + _GAP
    ssbuf = position
    return places, ssbuf, ssbuf + _GAP


ARENA, ARENA_SSBUF, ARENA_QUEUES = _place()
"""Byte offset of each space in a block's arena (Vec: of AIV0), of SSBUF, and of the run-ahead queues."""
SCRATCH_BYTES = 2 << 20
ARENA_SCRATCH = ARENA_QUEUES + CORE_INSTANCES * N_PIPES * QUEUE_BYTES
"""Where the matrix engine packs its operands: 4 bytes an element of Left and Right, 4-bit ones included."""
ARENA_ZEROS = ARENA_SCRATCH + SCRATCH_BYTES
"""Zeros nobody writes: one row of an accumulator."""
UB_STEP = UB_PHYSICAL_BYTES + _GAP
"""From one AIV's UB to the other's."""
ARENA_SHADOW = ARENA_ZEROS + 4 * 4096
"""What the memory spaces held when a polling core's state was last noted; pages nobody notes are never touched."""
ARENA_BYTES = ARENA_SHADOW + ARENA_SSBUF
assert SSBUF_BYTES <= _GAP


def capacity(space: MemorySpace) -> int:
    """Bytes of a space that ops may touch."""
    return SPACES[space].capacity


# --- run-time descriptors ---------------------------------------------------------------------------------------------

TILE_ADDR, TILE_ROWS, TILE_COLS, TILE_IDS = (k * WORD for k in range(4))
"""Tile descriptor: address, valid rows, valid columns, then mutex ids."""


def tile_bytes(max_ids: int) -> int:
    """Size of a tile descriptor with room for `max_ids` mutex ids."""
    return TILE_IDS + max_ids * WORD


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """Offsets of a tensor record of one rank: base and buffer bounds (host addresses), extents, strides, transfer."""

    rank: int

    BASE = 0
    LOW = WORD
    HIGH = 2 * WORD

    @property
    def dims(self) -> int:
        """Extents, elements."""
        return 3 * WORD

    @property
    def strides(self) -> int:
        """Strides, elements."""
        return self.dims + self.rank * WORD

    @property
    def transfer(self) -> int:
        """Tile row stride, tile column stride (elements) of `set_stride`, then 1 when they are set."""
        return self.strides + self.rank * WORD

    @property
    def size(self) -> int:
        """Bytes."""
        return self.transfer + 3 * WORD


UNALIGN_BYTES = 2 * WORD + 256
"""A staging register of an unaligned stream: address, number of pending bytes, room for them."""
PTR_BYTES = 3 * WORD
"""A pointer value: address, then the bounds of the buffer it came from."""

DOUBTED = WORD
"""Word of an operand record: 1 when a callback is only to tell what is doubtful about the operands, else 0."""
OPERANDS = 2 * WORD
"""An operand record starts with the site number and the word `DOUBTED`; operands follow, then results."""


def core_slots(kinds: tuple[CoreKind, ...]) -> tuple[tuple[CoreKind, int], ...]:
    """(kind, subblock) of the cores of a block whose kernel has programs of `kinds`."""
    if len(kinds) == 2:
        return ((CoreKind.CUBE, 0), (CoreKind.VECTOR, 0), (CoreKind.VECTOR, 1))
    return ((kinds[0], 0),)
