"""Facts of the Ascend 950 ("A5"): what other layers look up instead of knowing. No behaviour, no latencies."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, MemorySpace, PipeType, SyncCoreType, TensorLayout

KIB = 1024


@dataclass(frozen=True)
class Space:
    """One memory space. `capacity` and `alignment` in bytes; an `alignment` of 1 is not enforced at all."""

    space: MemorySpace
    physical: str
    """The vendor's name of the buffer."""
    capacity: int
    """Bytes the placement rules give to tiles; 0 for global memory, which they do not govern."""
    alignment: int
    default_layout: TensorLayout | None
    legal_layouts: frozenset[TensorLayout]
    """Layouts a tile of any dtype may declare (`TileType`); see also `layouts_of_dtype`."""
    owner: CoreKind | None
    """The core kind with one instance of it per core; None for global memory."""
    layouts_of_dtype: tuple[tuple[TensorLayout, frozenset[DataType]], ...] = ()
    """Layouts that only some dtypes may declare."""

    def allows(self, layout: TensorLayout | None, dtype: DataType) -> bool:
        """Whether a tile of `dtype` may declare `layout`; None (no layout) is the space's default and always legal."""
        if layout is None or layout in self.legal_layouts:
            return True
        return any(layout is only and dtype in dtypes for only, dtypes in self.layouts_of_dtype)


@dataclass(frozen=True)
class Machine:
    """A chip: its cores and the pipes of each kind."""

    soc_version: str
    arch: str
    aic_count: int
    aiv_count: int
    aivs_per_block: int
    pipes: MappingProxyType[CoreKind, frozenset[PipeType]]
    """Pipes a synchronisation operation of a core may name."""
    queues: MappingProxyType[CoreKind, frozenset[PipeType]]
    """Instruction queues of a core: its pipes, and V on the cube core for `expands` on a Mat tile."""

    def cores_per_block(self, *, cube: bool, vector: bool) -> tuple[tuple[CoreKind, int], ...]:
        """(kind, index in the block) of the cores of one block; a kernel with neither section is mixed."""
        if cube == vector:
            aivs = tuple((CoreKind.VECTOR, s) for s in range(self.aivs_per_block))
            return ((CoreKind.CUBE, 0), *aivs)
        return ((CoreKind.CUBE if cube else CoreKind.VECTOR, 0),)


_L = TensorLayout
_INT64 = frozenset({DataType.DT_INT64, DataType.DT_UINT64})
_E8M0 = frozenset({DataType.DT_FP8E8M0})


def _space(
    space: MemorySpace,
    physical: str,
    capacity: int,
    alignment: int,
    default: TensorLayout | None,
    *others: TensorLayout,
    owner: CoreKind | None = CoreKind.CUBE,
    only: tuple[tuple[TensorLayout, frozenset[DataType]], ...] = (),
) -> Space:
    legal = frozenset(others) | ({default} if default else frozenset())
    return Space(space, physical, capacity, alignment, default, legal, owner, only)


SPACES: MappingProxyType[MemorySpace, Space] = MappingProxyType(
    {
        s.space: s
        for s in (
            _space(MemorySpace.DDR, "GM", 0, 1, None, _L.ND, _L.DN, _L.NZ, owner=None),
            # the buffer has 256 KiB; its top 8 KiB are reserved
            _space(MemorySpace.Vec, "UB", 248 * KIB, 32, None, *_L, owner=CoreKind.VECTOR),
            _space(MemorySpace.Mat, "L1", 512 * KIB, 32, _L.NZ, _L.ZN,
                   only=((_L.ND, _INT64), (_L.ZZ, _E8M0), (_L.NN, _E8M0))),
            _space(MemorySpace.Left, "L0A", 64 * KIB, 512, _L.NZ),
            _space(MemorySpace.Right, "L0B", 64 * KIB, 512, _L.ZN),
            _space(MemorySpace.Acc, "L0C", 256 * KIB, 64, _L.NZ),
            _space(MemorySpace.Scaling, "FB", 4 * KIB, 1, _L.ND),
            _space(MemorySpace.ScaleLeft, "L0A_MX", 4 * KIB, 32, _L.ZZ),
            _space(MemorySpace.ScaleRight, "L0B_MX", 4 * KIB, 32, _L.NN),
            _space(MemorySpace.Bias, "BT", 4 * KIB, 1, None, _L.ND),
        )
    }
)  # fmt: skip

UB_PHYSICAL_BYTES = 256 * KIB
SSBUF_BYTES = 256

_P = PipeType
_PIPES = {
    # MTE3 of the cube core carries no transfer of the language, but it takes barriers and signals
    CoreKind.CUBE: frozenset({_P.S, _P.MTE1, _P.MTE2, _P.MTE3, _P.M, _P.FIX}),
    CoreKind.VECTOR: frozenset({_P.S, _P.MTE2, _P.MTE3, _P.V}),
}

A5 = Machine(
    soc_version="DAV_3510",
    arch="a5",
    aic_count=32,
    aiv_count=64,
    aivs_per_block=2,
    pipes=MappingProxyType(_PIPES),
    queues=MappingProxyType({**_PIPES, CoreKind.CUBE: _PIPES[CoreKind.CUBE] | {_P.V}}),
)

FULLY_ORDERED_PIPES = frozenset({_P.S, _P.V, _P.M})
"""Pipes whose later instructions see every effect of earlier ones; others need a barrier between two writes."""

# --- synchronisation ids ------------------------------------------------------------------------------------------

MUTEX_IDS = range(32)
FLAG_IDS = range(16)
NAMED_FLAG_IDS = range(8)
"""Flag ids the device library names; higher ones are accepted."""
CROSS_CORE_IDS = range(16)
UNICAST_AIC_IDS = range(32)
"""Run-time ids of UNICAST_BLOCK on the cube core: id for AIV0, id + `UNICAST_AIV1_STEP` for AIV1."""
UNICAST_AIV1_STEP = 16
CROSS_CORE_COUNTER_MAX = 15
"""A SET that would pass it is a hardware exception."""
SYNC_ALL_IDS: MappingProxyType[SyncCoreType, tuple[int, ...]] = MappingProxyType(
    {SyncCoreType.AIV_ONLY: (14,), SyncCoreType.AIC_ONLY: (11,), SyncCoreType.MIX: (11, 12, 13)}
)
"""Cross-core ids a hard `sync_all` uses itself."""
SYNC_ALL_RESERVED_IDS = frozenset(range(11, 15))

# --- vector registers and threads ---------------------------------------------------------------------------------

REGISTER_BYTES = 256
MASK_BYTES = 32
WARP_SIZE = 32
MAX_THREADS = 1024

# --- L1 banks -----------------------------------------------------------------------------------------------------

L1_BANKS = 16
L1_BANK_BYTES = 32 * KIB
L1_BANK_GROUPS = 8
L1_ROW_BYTES = 32
L1_HALF = L1_BANKS * L1_BANK_BYTES // 2
"""Addresses from here on are in the second bank of each group."""


@dataclass(frozen=True, slots=True)
class L1Address:
    """Where a byte of L1 sits: bank group 0..7, bank 0..1 of the group, row 0..1023, byte 0..31."""

    group: int
    bank: int
    row: int
    byte: int


def l1_address(addr: int) -> L1Address:
    """Split a byte address: bits 4..0 byte, 7..5 group, 17..8 row, 18 bank of the group."""
    return L1Address(group=addr >> 5 & 7, bank=addr >> 18 & 1, row=addr >> 8 & 1023, byte=addr & 31)


def l1_banks(start: int, size: int) -> frozenset[tuple[int, int]]:
    """(group, bank) of every bank that the bytes `[start, start + size)` touch."""
    if size <= 0:
        return frozenset()
    touched: set[tuple[int, int]] = set()
    for bank in (0, 1):  # the two halves of the address range; inside one, rows go round the eight groups
        low, high = max(start, bank * L1_HALF), min(start + size, (bank + 1) * L1_HALF)
        if low < high:
            first, last = low // L1_ROW_BYTES, (high - 1) // L1_ROW_BYTES
            count = min(last - first + 1, L1_BANK_GROUPS)
            touched |= {((first + k) % L1_BANK_GROUPS, bank) for k in range(count)}
    return frozenset(touched)


# --- MX scales ----------------------------------------------------------------------------------------------------

SCALE_OF = MappingProxyType({MemorySpace.Left: MemorySpace.ScaleLeft, MemorySpace.Right: MemorySpace.ScaleRight})
SCALE_GROUP = 32
"""Consecutive K elements sharing one scale."""


def scale_address(data_addr: int) -> int:
    """Address in ScaleLeft / ScaleRight that the matrix engine derives from a Left / Right data address."""
    return data_addr >> 4
