"""k17: a work list walked by scalar code: tiles are doubled, incremented or skipped until a budget is used up.
Exercises struct, struct_array, while/break/continue, early-return helpers, swap, `in`, ternary, scalar writes to GM.
Tolerance: none, the result is bit-equal to numpy."""
import sys

import numpy as np

import pypto_pro.language as pl

TR, C = 4, 32
TILES = 16
ROWS = TILES * TR
BLOCKS = 2
PER = TILES // BLOCKS
BUDGET = 5
LOG_COLS = 32
EDGES = (0, 7, 15)


def classify(t, cut):
    if t % 5 == 3:
        return 2
    if t >= cut:
        return 1
    return 0


def advance(walk, by=1):
    walk.pos = walk.pos + by


@pl.jit(auto_mutex=True)
def walk_tiles(
    x: pl.Tensor[[ROWS, C], pl.DT_FP32],
    y: pl.Tensor[[ROWS, C], pl.DT_FP32],
    log: pl.Tensor[[BLOCKS, LOG_COLS], pl.DT_INT32],
    cut: pl.DT_INT32,
):
    tile_type = pl.TileType(shape=[TR, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    xs = pl.make_tile_group(type=tile_type, addrs=0x0000, mutex_ids=[0, 1])
    ys = pl.make_tile_group(type=tile_type, addrs=0x1000, mutex_ids=[2, 3])
    with pl.section_vector():
        b = pl.get_block_idx()
        walk = pl.struct("Walk", pos=0, done=0, edge=0)
        buckets = pl.struct_array(3, "Bucket", hits=0)
        walk.pos = b * PER
        while True:
            if walk.pos >= (b + 1) * PER or walk.done >= BUDGET:
                break
            t = walk.pos
            advance(walk)
            kind = classify(t, cut)
            buckets[kind].hits += 1
            if t in EDGES:
                walk.edge += 1
            if kind == 2:
                continue
            xt = xs.next()
            yt = ys.next()
            pl.load(xt, x, [t * TR, 0])
            if kind == 1:
                pl.mul(yt, xt, 2.0)
            else:
                pl.add(yt, xt, 1.0)
            pl.store(y, yt, [t * TR, 0])
            walk.done += 1
        halvings = 0
        n = walk.pos * 8 + 5
        while n > 1:
            n = n // 2
            halvings += 1
        first = buckets[0].hits
        last = buckets[2].hits
        first, last = last, first
        log[b, 0] = first
        log[b, 1] = buckets[1].hits
        log[b, 2] = last
        log[b, 3] = halvings
        log[b, 4] = walk.edge
        log[b, 5] = 1 if walk.done == BUDGET else 0


def inputs():
    rng = np.random.default_rng(1717)
    return rng.standard_normal((ROWS, C), dtype=np.float32), 6


def golden(x, cut):
    y = np.zeros_like(x)
    log = np.zeros((BLOCKS, LOG_COLS), dtype=np.int32)
    for b in range(BLOCKS):
        pos, done, edge, hits = b * PER, 0, 0, [0, 0, 0]
        while pos < (b + 1) * PER and done < BUDGET:
            t, pos = pos, pos + 1
            kind = classify(t, cut)
            hits[kind] += 1
            edge += t in EDGES
            if kind == 2:
                continue
            rows = slice(t * TR, t * TR + TR)
            y[rows] = x[rows] * 2 if kind == 1 else x[rows] + 1
            done += 1
        n = pos * 8 + 5
        log[b, :6] = hits[2], hits[1], hits[0], n.bit_length() - 1, edge, done == BUDGET
    return y, log


def main():
    x, cut = inputs()
    y = np.zeros_like(x)
    log = np.zeros((BLOCKS, LOG_COLS), dtype=np.int32)
    walk_tiles[None, BLOCKS](x, y, log, cut)
    want_y, want_log = golden(x, cut)
    ok = np.array_equal(y, want_y) and np.array_equal(log, want_log)
    print("PASS control_flow" if ok else "FAIL control_flow")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
