"""What the checks advise, where the cause can be told from what looks alike."""

from __future__ import annotations

import numpy as np

import pypto_pro
import pypto_pro.language as pl

MAT, LEFT, RIGHT, ACC = pl.MemorySpace.Mat, pl.MemorySpace.Left, pl.MemorySpace.Right, pl.MemorySpace.Acc
V, FIX = pl.PipeType.V, pl.PipeType.FIX


@pl.jit
def short_accumulator(
    a: pl.Tensor[[32, 16], pl.DT_FP16], b: pl.Tensor[[16, 32], pl.DT_FP16], c: pl.Tensor[[32, 32], pl.DT_FP32],
    packed: pl.DT_INT32,
):
    with pl.section_cube():
        free = [-1, -1]
        half = pl.DT_FP16
        left = pl.make_tile_group(
            type=pl.TileType(shape=[32, 16], dtype=half, target_memory=LEFT, valid_shape=free, compact=1),
            addrs=0, mutex_ids=[0],
        ).current()
        mat = pl.make_tile_group(
            type=pl.TileType(shape=[32, 16], dtype=half, target_memory=MAT), addrs=0, mutex_ids=[1]
        ).current()
        mat_b = pl.make_tile_group(
            type=pl.TileType(shape=[16, 32], dtype=half, target_memory=MAT), addrs=0x1000, mutex_ids=[2]
        ).current()
        right = pl.make_tile_group(
            type=pl.TileType(shape=[16, 32], dtype=half, target_memory=RIGHT), addrs=0, mutex_ids=[3]
        ).current()
        acc = pl.make_tile_group(
            type=pl.TileType(shape=[32, 32], dtype=pl.DT_FP32, target_memory=ACC, valid_shape=free, compact=1),
            addrs=0, mutex_ids=[4],
        ).current()
        pl.set_validshape(acc, [6 * packed, 32])
        pl.load(mat, a, [0, 0])
        pl.load(mat_b, b, [0, 0])
        pl.move(left, mat)
        pl.move(right, mat_b)
        pl.matmul(acc, left, right)
        pl.store(c, acc, [0, 0])


def test_a_forgotten_valid_shape_of_the_left_operand() -> None:
    a, b, c = np.ones((32, 16), np.float16), np.ones((16, 32), np.float16), np.zeros((32, 32), np.float32)
    found = pypto_pro.check(short_accumulator, a, b, c, 1).findings
    (pitch,) = [f for f in found if f.kind == "stride_mismatch"]
    assert pitch.help == (
        "give both the same valid rows with pl.set_validshape: `left[0]` of line"
        f" {pitch.spans[1].line} has 32, `acc[0]` 6"
    )


@pl.jit
def uneven(x: pl.Tensor[[16, 64], pl.DT_FP32]):
    with pl.section_cube():
        for _ in pl.range(0, 3):
            pl.system.wait_cross_core(pipe=FIX, event_id=1)
    with pl.section_vector():
        pl.system.set_cross_core(pipe=V, event_id=1)
        for _ in pl.range(pl.get_subblock_idx(), 2):
            pl.system.set_cross_core(pipe=V, event_id=1)


def test_a_vector_core_that_signals_less_often() -> None:
    (stuck,) = pypto_pro.check(uneven, np.zeros((16, 64), np.float32)).findings
    assert stuck.kind == "deadlock"
    assert "AIV1 sends 2, AIV0 3" in stuck.notes[0]
    assert [s.label for s in stuck.spans[1:]] == ["sent by AIV0 2 times, by AIV1 1 times"]
    assert stuck.help == "let AIV1 signal as often, or use UNICAST_BLOCK on both sides"
