"""UB access of register ops on both executors, against byte strings built by the tables of the language reference."""

from __future__ import annotations

import pytest

from ops import vf_model as model
from ops.vf_model import Reg
from ops.vf_programs import ROW, Program, random_mask, random_reg
from pypto_pro.dtypes import DataType as D

UNTOUCHED = 0xA5
WIDTHS = {1: D.DT_UINT8, 2: D.DT_FP16, 4: D.DT_FP32, 8: D.DT_INT64}
GENERIC = {"BRC": (1, 2, 4), "US": (1, 2), "DS": (1, 2), "UNPK": (1, 2, 4), "E2B": (2, 4), "DINTLV": (1, 2, 4)}
SUFFIXES = {"BRC": (8, 16, 32), "US": (8, 16), "DS": (8, 16), "UNPK": (8, 16, 32), "E2B": (16, 32)}


def block(p: Program, size: int) -> tuple[str, bytes]:
    """Random bytes in consecutive rows of the source: (tile expression, the bytes)."""
    data = p.rng.bytes(-(-size // ROW) * ROW)
    at = ROW * len(p.rows)
    p.rows += [data[k : k + ROW] for k in range(0, len(data), ROW)]
    return f"src + {at // p.source.nbytes}", data


def width_of(dist: str, lane: int) -> int:
    """B: by the suffix, else by the register, else the last of the listed."""
    name, _, suffix = dist.partition("_B")
    if suffix:
        return int(suffix) // 8
    widths = GENERIC.get(name, (1,))
    return lane if lane in widths else widths[-1]


def loaded(dist: str, lane: int, data: bytes) -> bytes:
    """Section 7.1: the register a distribution makes of the bytes at the address."""
    name, b = dist.partition("_B")[0], width_of(dist, lane)
    unit = [data[k : k + b] for k in range(0, 512, b)]
    count, zero = ROW // b, bytes(b)
    match name:
        case "BRC":
            return unit[0] * count
        case "US":
            return b"".join(unit[i // 2] for i in range(count))
        case "DS":
            return b"".join(unit[2 * i] for i in range(count))
        case "UNPK":
            return b"".join(unit[i] + zero for i in range(count // 2))
        case "UNPK4":
            return b"".join(data[i : i + 1] + bytes(3) for i in range(64))
        case "BLK":
            return data[:32] * 8
        case "E2B":
            return b"".join(unit[g] * (32 // b) for g in range(8))
    return data[:ROW]


DISTS = ["NORM", "UNPK4", "BLK", *SUFFIXES, *(f"{n}_B{s}" for n, sizes in SUFFIXES.items() for s in sizes)]


def test_load_distributions() -> None:
    p = Program(seed=1)
    for dist in DISTS:
        for lane, dtype in WIDTHS.items():
            tile, data = block(p, 512)
            name = p.name()
            p.emit(f"{name} = vf.load_align({tile}, 0, dtype=pl.{dtype.name}, dist=pl.LoadDist.{dist})")
            p.check(name, Reg.of(dtype, loaded(dist, lane, data)), f"{dist} {dtype.name}")
    p.agree()


def test_two_target_loads() -> None:
    p = Program(seed=2)
    for dist in ("", "DINTLV_B8", "DINTLV_B16", "DINTLV_B32"):
        for lane, dtype in WIDTHS.items():
            tile, data = block(p, 512)
            keyword = f", dist=pl.LoadDist.{dist}" if dist else ""
            first, second = p.name(), p.name()
            p.emit(f"{first}, {second} = vf.load_align({tile}, 0, dtype=pl.{dtype.name}{keyword})")
            b = width_of(dist or "DINTLV", lane)
            units = [data[k : k + b] for k in range(0, 512, b)]
            p.check(first, Reg.of(dtype, b"".join(units[::2])), f"{dist} even {dtype.name}")
            p.check(second, Reg.of(dtype, b"".join(units[1::2])), f"{dist} odd {dtype.name}")
    p.agree()


def test_offsets_and_reinterpretation() -> None:
    """Numbers and [row, col] count elements of the tile's dtype; a register keeps the dtype it has."""
    p = Program(seed=3)
    tile, data = block(p, 1024)
    forms = {"96": 96, "[1, 32]": ROW + 32, "(2, 64)": 2 * ROW + 64, "i + 32": 64}
    p.emit("i = 32 * 1")
    for text, at in forms.items():
        name = p.name()
        p.emit(f"{name} = vf.load_align({tile}, {text}, dtype=pl.DT_FP16)")
        p.check(name, Reg.of(D.DT_FP16, data[at : at + ROW]), f"offset {text}")
    held = p.load(random_reg(p.rng, D.DT_FP32), fresh=True)
    p.emit(f"{held} = vf.load_align({tile}, 64, dtype=pl.DT_UINT8)")
    p.check(held, Reg.of(D.DT_FP32, data[64 : 64 + ROW]), "a register keeps its dtype")
    p.emit(f"q = {tile} + 32")
    p.emit("w = vf.load_align(q + 32, 32)")
    p.check("w", Reg.of(D.DT_UINT8, data[96 : 96 + ROW]), "tile + k")
    p.agree()


def test_address_registers() -> None:
    p = Program(seed=4)
    tile, data = block(p, 2048)
    axes = {"FP32": "2, 16", "UINT8": "1, 96, 2, 32", "FP16": "1, 32, 1, 64, 3, 16, 0, 9"}
    for i, (dtype, args) in enumerate(axes.items()):
        numbers = [int(n) for n in args.split(",")]
        width = {"FP32": 4, "UINT8": 1, "FP16": 2}[dtype]
        at = width * sum(a * b for a, b in zip(numbers[::2], numbers[1::2], strict=True))
        p.emit(f"a{i} = vf.create_addr_reg({args}, dtype=pl.DT_{dtype})")
        p.emit(f"r{i} = vf.load_align({tile}, a{i}, dtype=pl.DT_INT32)")
        p.check(f"r{i}", Reg.of(D.DT_INT32, data[at : at + ROW]), f"address register {dtype} {args}")
    reg = random_reg(p.rng, D.DT_INT16)
    out = p.check_bytes(bytes([UNTOUCHED] * 64) + reg.data() + bytes([UNTOUCHED] * 192), "store by address register")
    p.emit("s = vf.create_addr_reg(1, 64, dtype=pl.DT_UINT8)")
    p.emit(f"vf.store_align({out}, {p.load(reg)}, {p.full(2)}, s, dist=pl.StoreDist.PACK)")
    p.agree()


def test_masks_in_memory() -> None:
    p = Program(seed=5)
    tile, data = block(p, 256)
    bit = [data[k // 8] >> k % 8 & 1 for k in range(8 * ROW)]
    for text, start in (("0", 0), ("32", 32), ("64", 64)):
        for dist in ("", "NORM", "US", "DS"):
            part = bit[8 * start :]
            want = {"US": [part[j // 2] for j in range(256)], "DS": part[0:512:2]}.get(dist, part[:256])
            name = p.name()
            keyword = f", dist=pl.LoadDist.{dist}" if dist else ""
            p.emit(f"{name} = vf.create_mask(dtype=pl.DT_FP32)")
            p.emit(f"{name} = vf.load_align({tile}, {text}{keyword})")
            p.check_mask(name, want, f"mask {dist} at {text}")
    bits = random_mask(p.rng)
    whole = bytes(sum(bits[8 * k + j] << j for j in range(8)) for k in range(32))
    half = bytes(sum(bits[16 * k + 2 * j] << j for j in range(8)) for k in range(16))
    name = p.load_mask(bits)
    rest = bytes([UNTOUCHED] * (ROW - 32))
    p.emit(f"vf.store_align({p.check_bytes(whole + rest, 'mask store')}, {name})")
    ignored = p.check_bytes(whole + rest, "an offset of a mask store is ignored")
    p.emit(f"vf.store_align({ignored}, {name}, 64)")
    packed = p.check_bytes(half + bytes([UNTOUCHED] * 240), "packed mask store")
    p.emit(f"vf.store_align({packed}, {name}, dist=pl.StoreDist.PACK)")
    stepped = p.check_bytes(whole + whole + bytes([UNTOUCHED] * 192), "mask stores with post_update count bytes")
    for _ in range(2):
        p.emit(f"vf.store_align({stepped}, {name}, 32, post_update=True)")
    p.agree()


def stored(dist: str, sources: list[Reg], mask: list[int]) -> bytes:
    """Section 7.3 on memory that held 0xA5."""
    out = bytearray([UNTOUCHED] * 512)
    data, w = sources[0].data(), sources[0].width
    match dist:
        case "FIRST_ELEMENT":
            out[:w] = data[:w]
        case "PACK":
            s = max(2, w)
            for i in range(ROW // s):
                if mask[i * s]:
                    out[i * s // 2 : (i + 1) * s // 2] = data[i * s : i * s + s // 2]
        case "PACK4":
            for i in range(64):
                if mask[4 * i]:
                    out[i] = data[4 * i]
        case "INTLV" | "INTLV_B32":
            b = 4 if dist == "INTLV_B32" else w
            other = sources[1].data()
            for i in range(ROW // b):
                if mask[i * b]:
                    out[2 * i * b : (2 * i + 2) * b] = data[i * b : (i + 1) * b] + other[i * b : (i + 1) * b]
        case _:
            b = 2 if dist == "NORM_B16" else w
            for i in range(ROW // b):
                if mask[i * b]:
                    out[i * b : (i + 1) * b] = data[i * b : (i + 1) * b]
    return bytes(out)


@pytest.mark.parametrize("dist", ["NORM", "NORM_B16", "FIRST_ELEMENT", "PACK", "PACK4", "INTLV", "INTLV_B32"])
def test_store_distributions(dist: str) -> None:
    p = Program(seed=6)
    for dtype in WIDTHS.values():
        for mask in (random_mask(p.rng), [1] * 256, [int(k < 100) for k in range(256)]):
            sources = [random_reg(p.rng, dtype) for _ in range(2 if dist.startswith("INTLV") else 1)]
            names = ", ".join(p.load(s) for s in sources)
            out = p.check_bytes(stored(dist, sources, mask), f"{dist} {dtype.name}")
            p.emit(f"vf.store_align({out}, {names}, {p.load_mask(mask)}, dist=pl.StoreDist.{dist})")
    p.agree()


def test_blocks() -> None:
    """Strided 32-byte blocks, those without an active bit left out; post_update steps by repeat_stride blocks."""
    p = Program(seed=7)
    tile, data = block(p, 16 * ROW)
    mask = [int(g % 3 != 1 and k % 7 == 3) for g in range(8) for k in range(32)]
    on = [any(mask[32 * g : 32 * g + 32]) for g in range(8)]
    mode = "data_copy_mode=pl.DataCopyMode.DATA_BLOCK_COPY"
    old = "data_copy_mode=pl.DataCopyMode.DATA_BLOCK_LOAD"
    for stride, keyword in ((0, mode), (1, old), (5, mode)):
        name = p.name()
        keywords = f"dtype=pl.DT_FP16, {keyword}, block_stride={stride}"
        p.emit(f"{name} = vf.load_align({tile}, {p.load_mask(mask)}, {keywords})")
        parts = [data[32 * g * stride : 32 * g * stride + 32] if on[g] else bytes(32) for g in range(8)]
        p.check(name, Reg.of(D.DT_FP16, b"".join(parts)), f"block load {stride}")
    every = p.load_mask([1] * 256)
    for k in range(3):
        name = p.name()
        p.emit(
            f"{name} = vf.load_align({tile}, {every}, dtype=pl.DT_INT32, {mode}, block_stride=2, repeat_stride=3, "
            "post_update=True)"
        )
        parts = [data[96 * k + 64 * g : 96 * k + 64 * g + 32] for g in range(8)]
        p.check(name, Reg.of(D.DT_INT32, b"".join(parts)), f"block load, step {k}")
    reg = random_reg(p.rng, D.DT_INT32)
    for text in ("2, 1", "2"):
        out = bytearray([UNTOUCHED] * 1024)
        for g in range(8):
            if on[g]:
                out[64 * g : 64 * g + 32] = reg.data()[32 * g : 32 * g + 32]
        p.emit(f"n = {text.split(',')[0]}")
        out_tile = p.check_bytes(bytes(out), f"block store {text}")
        p.emit(f"vf.store_align({out_tile}, {p.load(reg)}, {p.load_mask(mask)}, {text.replace('2', 'n')}, {mode})")
    out = bytearray([UNTOUCHED] * 512)
    for k in range(2):
        for g in range(8):
            out[128 * k + 32 * g : 128 * k + 32 * g + 32] = reg.data()[32 * g : 32 * g + 32]
    tile_text = p.check_bytes(bytes(out), "block stores step on")
    for _ in range(2):
        p.emit(
            f"vf.store_align({tile_text}, {p.load(reg)}, {every}, {mode}, block_stride=1, repeat_stride=4, "
            "post_update=True)"
        )
    p.agree()


GATHERS = {
    D.DT_INT8: [(D.DT_UINT16, 2)], D.DT_UINT8: [(D.DT_UINT16, 2)],
    D.DT_INT16: [(D.DT_UINT16, 2), (D.DT_UINT32, 4)], D.DT_BF16: [(D.DT_UINT16, 2), (D.DT_UINT32, 4)],
    D.DT_FP32: [(D.DT_UINT32, 4)], D.DT_INT64: [(D.DT_UINT32, 8), (D.DT_UINT64, 8)],
}  # fmt: skip


@pytest.mark.parametrize("dtype", GATHERS, ids=lambda d: d.name)
def test_gather_from_a_tile(dtype: D) -> None:
    p = Program(seed=8, source=dtype)
    tile, data = block(p, 1024)
    w = dtype.nbytes
    for index, slot in GATHERS[dtype]:
        count, mask = ROW // slot, random_mask(p.rng)
        where = [int(k) for k in p.rng.integers(0, 1024 // w, ROW // index.nbytes)]
        indices = p.load(Reg(index, where))
        name = p.name()
        p.emit(f"{name} = vf.gather({tile}, {indices}, {p.load_mask(mask)})")
        parts = [
            data[where[k] * w : where[k] * w + w] + bytes(slot - w) if mask[k * slot] else bytes(slot)
            for k in range(count)
        ]
        p.check(name, Reg.of(dtype, b"".join(parts)), f"gather {dtype.name} by {index.name}")
        if w == 1:
            held = p.load(random_reg(p.rng, D.DT_UINT16), fresh=True)
            p.emit(f"{held} = vf.gather({tile}, {indices}, {p.load_mask(mask)})")
            p.check(held, Reg.of(D.DT_UINT16, b"".join(parts)), "8-bit gather into UINT16")
    mask = [int(g in (0, 3, 7) and k == 5) for g in range(8) for k in range(32)]
    starts = [32 * int(k) for k in p.rng.integers(0, 32, 64)]
    name = p.name()
    keyword = "data_copy_mode=pl.DataCopyMode.DATA_BLOCK_LOAD"
    p.emit(f"{name} = vf.gather({tile}, {p.load(Reg(D.DT_UINT32, starts))}, {p.load_mask(mask)}, {keyword})")
    parts = [data[starts[g] : starts[g] + 32] if g in (0, 3, 7) else bytes(32) for g in range(8)]
    p.check(name, Reg.of(dtype, b"".join(parts)), f"block gather {dtype.name}")
    p.agree()


def test_gather_from_a_register() -> None:
    p = Program(seed=9)
    for dtype, index in ((D.DT_INT8, D.DT_UINT8), (D.DT_FP16, D.DT_UINT16), (D.DT_FP32, D.DT_UINT32)):
        a, indices = random_reg(p.rng, dtype), random_reg(p.rng, index)
        name = p.name()
        p.emit(f"{name} = vf.gather({p.load(a)}, {p.load(indices)})")
        count = len(a.codes)
        p.check(name, Reg(dtype, [a.codes[k % count] for k in indices.codes]), f"register gather {dtype.name}")
    p.agree()


SCATTERS = {
    D.DT_UINT8: [D.DT_UINT16], D.DT_FP16: [D.DT_UINT16], D.DT_INT32: [D.DT_UINT32],
    D.DT_INT64: [D.DT_UINT32, D.DT_UINT64],
}  # fmt: skip


@pytest.mark.parametrize("dtype", SCATTERS, ids=lambda d: d.name)
def test_scatter(dtype: D) -> None:
    p = Program(seed=10, target=dtype)
    w = dtype.nbytes
    slot = max(2, w)
    for index in SCATTERS[dtype]:
        for unique in (True, False):
            reg, mask = random_reg(p.rng, dtype), random_mask(p.rng)
            lanes = ROW // index.nbytes
            where = [int(k) for k in (p.rng.permutation(512 // w)[:lanes] if unique and 512 // w >= lanes else
                                      p.rng.integers(0, 512 // w, lanes))]
            out = bytearray([UNTOUCHED] * 512)
            for k in reversed(range(ROW // slot)):  # of equal indices the lowest lane survives
                if mask[k * slot]:
                    out[where[k] * w : where[k] * w + w] = reg.data()[k * slot : k * slot + w]
            tile = p.check_bytes(bytes(out), f"scatter {dtype.name} by {index.name}")
            p.emit(f"vf.scatter({tile}, {p.load(reg)}, {p.load(Reg(index, where))}, {p.load_mask(mask)})")
    p.agree()


def test_cursors() -> None:
    """7.5: one cursor for each tile object and offset, shared by all post-update forms, apart from plain accesses."""
    p = Program(seed=11)
    tile, data = block(p, 4096)

    def expect(text: str, at: int) -> None:
        name = p.name()
        p.emit(f"{name} = {text}")
        p.check(name, Reg.of(D.DT_UINT8, data[at : at + ROW]), text)

    expect(f"vf.load_align({tile}, 64, post_update=True)", 0)
    expect(f"vf.load_align({tile}, 64)", 64)
    expect(f"vf.load({tile}, 33, post_update=True)", 64)
    p.emit("u = vf.load_unalign_init()")
    p.emit(f"vf.load_unalign_pre(u, {tile})")
    expect(f"vf.load_unalign(u, {tile}, 100, post_update=True)", 97)
    expect(f"vf.load_unalign(u, {tile})", 0)
    expect(f"vf.load({tile})", 0)
    expect(f"vf.load_align({tile}, 32, dtype=pl.DT_UINT8, post_update=True)", 197)
    p.emit(f"p = {tile}")
    expect("vf.load_align(p, 32, post_update=True)", 229)
    p.emit("p2 = p + 32")
    expect("vf.load_align(p2, 96, post_update=True)", 32)
    expect("vf.load_align(p + 32, 96, post_update=True)", 128)
    p.emit("for i in pl.range(0, 3):")
    p.emit(f"    moved = {tile} + (i * 512)")
    p.emit("    for j in pl.range(0, 2):")
    p.emit("        z = vf.load_align(moved, 256, post_update=True)")
    p.check("z", Reg.of(D.DT_UINT8, data[1280 : 1280 + ROW]), "a cursor for every run-time offset")
    p.agree()


def test_unaligned_streams() -> None:
    p = Program(seed=12)
    reg = random_reg(p.rng, D.DT_UINT8)
    counts = [1, 5, 31, 32, 64, 7, 200, 0, 3]
    whole = b"".join(reg.data()[:n] for n in counts)
    tile = p.check_bytes(whole + bytes([UNTOUCHED] * (-len(whole) % ROW)), "stream")
    p.emit("u = vf.unalign_reg_for_store()")
    for n in counts:
        p.emit(f"vf.store_unalign({tile}, {p.load(reg)}, u, {n}, post_update=True)")
    p.emit(f"vf.store_unalign_post({tile}, u, 0, post_update=True)")
    kept = len(whole) // 32 * 32
    tile = p.check_bytes(whole[:kept] + bytes([UNTOUCHED] * (-kept % ROW)), "a stream that is not flushed")
    p.emit("w = vf.unalign_reg_for_store()")
    for n in counts:
        p.emit(f"vf.store_unalign({tile}, {p.load(reg)}, w, {n}, post_update=True)")
    first, second = reg.data()[:40], reg.data()[:9]
    tile = p.check_bytes(first + second + bytes([UNTOUCHED] * (ROW - 49)), "store appends")
    p.emit(f"vf.store({tile}, {p.load(reg)}, 40, post_update=True)")
    p.emit(f"vf.store({tile}, {p.load(reg)}, 9)")
    p.emit(f"vf.store({p.check_bytes(reg.data(), 'a whole store')}, {p.load(reg)})")
    p.agree()


def test_streams_of_squeezed_lanes_and_masks() -> None:
    p = Program(seed=13, target=D.DT_INT32)
    regs = [random_reg(p.rng, D.DT_INT32) for _ in range(4)]
    masks = [random_mask(p.rng, share) for share in (0.2, 1.0, 0.0, 0.7)]
    whole = b""
    for reg, mask in zip(regs, masks, strict=True):
        packed, size = model.squeeze(reg, mask)
        whole += packed.data()[:size]
    tile = p.check_bytes(whole + bytes([UNTOUCHED] * (-len(whole) % ROW)), "squeezed stream")
    p.emit("u = vf.unalign_reg_for_store()")
    p.emit("vf.clear_spr()")
    for reg, mask in zip(regs, masks, strict=True):
        name = p.name()
        p.emit(f"{name} = vf.squeeze({p.load(reg)}, {p.load_mask(mask)}, gather_mode=pl.SqueezeMode.STORE_REG)")
        p.emit(f"vf.store_unalign({tile}, {name}, u)")
    p.emit(f"vf.store_unalign_post({tile}, u)")
    for tag, step in ((D.DT_FP32, 4), (D.DT_FP16, 2), (D.DT_INT8, 2)):
        bits = random_mask(p.rng)
        lanes = bits[::step]
        packed = bytes(sum(lanes[8 * k + j] << j for j in range(8)) for k in range(len(lanes) // 8))
        tile = p.check_bytes(packed + packed + bytes([UNTOUCHED] * (ROW - 2 * len(packed))), f"mask stream {tag.name}")
        for _ in range(2):
            p.emit(f"vf.store_unalign({tile}, {p.load_mask(bits, tag)}, u)")
        p.emit(f"vf.store_unalign_post({tile}, u)")
    p.agree()
