"""The facts of the A5 that other layers compute with."""

from __future__ import annotations

import pytest

from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, MemorySpace, PipeType, SyncCoreType, TensorLayout
from pypto_pro.hw import A5, SPACES, a5

D, L, S = DataType, TensorLayout, MemorySpace


def test_every_space_is_described() -> None:
    assert set(SPACES) == set(S)
    for space in SPACES.values():
        assert space.default_layout is None or space.default_layout in space.legal_layouts
        assert space.capacity % space.alignment == 0


@pytest.mark.parametrize(
    ("space", "capacity", "alignment", "default"),
    [
        (S.Vec, 253952, 32, None),
        (S.Mat, 524288, 32, L.NZ),
        (S.Left, 65536, 512, L.NZ),
        (S.Right, 65536, 512, L.ZN),
        (S.Acc, 262144, 64, L.NZ),
        (S.Scaling, 4096, 1, L.ND),
        (S.ScaleLeft, 4096, 32, L.ZZ),
        (S.ScaleRight, 4096, 32, L.NN),
        (S.Bias, 4096, 1, None),
    ],
)
def test_space_table(space: S, capacity: int, alignment: int, default: L | None) -> None:
    facts = SPACES[space]
    assert (facts.capacity, facts.alignment, facts.default_layout) == (capacity, alignment, default)


@pytest.mark.parametrize(
    ("space", "layout", "dtype", "legal"),
    [
        (S.Mat, L.ZN, D.DT_FP16, True),
        (S.Mat, L.ND, D.DT_FP16, False),
        (S.Mat, L.ND, D.DT_UINT64, True),
        (S.Mat, L.ZZ, D.DT_FP8E8M0, True),
        (S.Mat, L.NN, D.DT_INT8, False),
        (S.Mat, None, D.DT_FP16, True),
        (S.Left, L.ZZ, D.DT_FP16, False),
        (S.Right, L.NZ, D.DT_FP16, False),
        (S.Acc, L.NN, D.DT_FP32, False),
        (S.Vec, L.ZZ, D.DT_FP32, True),
        (S.ScaleLeft, L.ZZ, D.DT_FP8E8M0, True),
    ],
)
def test_legal_layouts(space: S, layout: L | None, dtype: DataType, legal: bool) -> None:
    assert SPACES[space].allows(layout, dtype) is legal


def test_cores_and_pipes() -> None:
    assert (A5.soc_version, A5.aic_count, A5.aiv_count) == ("DAV_3510", 32, 64)
    mixed = ((CoreKind.CUBE, 0), (CoreKind.VECTOR, 0), (CoreKind.VECTOR, 1))
    assert A5.cores_per_block(cube=True, vector=True) == A5.cores_per_block(cube=False, vector=False) == mixed
    assert A5.cores_per_block(cube=True, vector=False) == ((CoreKind.CUBE, 0),)
    assert A5.cores_per_block(cube=False, vector=True) == ((CoreKind.VECTOR, 0),)
    assert PipeType.M not in A5.pipes[CoreKind.VECTOR]
    assert PipeType.V not in A5.pipes[CoreKind.CUBE]
    assert A5.queues[CoreKind.CUBE] == A5.pipes[CoreKind.CUBE] | {PipeType.V}
    assert all(PipeType.ALL not in pipes for pipes in A5.queues.values())
    assert set().union(*a5.SYNC_ALL_IDS.values()) == a5.SYNC_ALL_RESERVED_IDS == {11, 12, 13, 14}
    assert set(a5.SYNC_ALL_IDS) == set(SyncCoreType)


def test_l1_addresses_named_by_the_specification() -> None:
    where = a5.l1_address
    assert (where(0).group, where(0).bank) == (where(0x100).group, where(0x100).bank)
    assert where(0).row != where(0x100).row
    assert where(0).group == where(0x40000).group
    assert where(0).bank != where(0x40000).bank
    assert [where(a).group for a in range(0, 0x100, 0x20)] == list(range(8))
    assert where(524287) == a5.L1Address(7, 1, 1023, 31)
    parts = {(x.group, x.bank, x.row, x.byte) for x in map(where, range(0, 1 << 19, 61))}
    assert len(parts) == len(range(0, 1 << 19, 61))


@pytest.mark.parametrize(
    ("start", "size"), [(0, 0), (0, 1), (31, 2), (96, 64), (0x3FFE0, 64), (200, 1000), (0, 1 << 19), (0x3FF00, 300)]
)
def test_l1_banks_match_a_walk_over_the_bytes(start: int, size: int) -> None:
    walked = {(x.group, x.bank) for x in map(a5.l1_address, range(start, start + size))}
    assert a5.l1_banks(start, size) == walked


def test_scale_addresses_fill_their_domain() -> None:
    assert a5.scale_address(SPACES[S.Left].capacity) == SPACES[a5.SCALE_OF[S.Left]].capacity
    assert a5.scale_address(0x8000) == 0x800
