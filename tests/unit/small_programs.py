"""Random straight-line vector programs with correct synchronisation, and their source as kernels."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from interleavings import Program, Step

TILES, SLOTS = 3, 3
PIPE = "pl.PipeType."


def load(tile: int, slot: int, source: str = "x") -> Step:
    return Step("op", "MTE2", (f"{source}{slot}",), (f"t{tile}",), slot,
                text=f"pl.load(t{tile}, {source}, [{slot} * 8, 0])")  # fmt: skip


def store(slot: int, tile: int) -> Step:
    return Step("op", "MTE3", (f"t{tile}",), (f"y{slot}",), slot, text=f"pl.store(y, t{tile}, [{slot} * 8, 0])")


def add(out: int, source: int, value: int) -> Step:
    return Step("op", "V", (f"t{source}",), (f"t{out}",), value, text=f"pl.add(t{out}, t{source}, {value}.0)")


def random_ops(rng: random.Random, count: int) -> list[Step]:
    """Ops that read only what was written, and whose loads are used before they are overwritten."""
    ops: list[Step] = []
    defined: set[int] = set()
    unread: set[int] = set()
    stored: set[int] = set()
    while len(ops) < count or unread:
        choice = rng.random()
        if choice < 0.35 and len(ops) < count:
            free = [t for t in range(TILES) if t not in unread]
            if not free:
                continue
            tile = rng.choice(free)
            again = bool(stored) and rng.random() < 0.3
            ops.append(load(tile, rng.choice(sorted(stored)), "y") if again else load(tile, rng.randrange(SLOTS)))
            defined.add(tile)
            unread.add(tile)
        elif choice < 0.7 and defined:
            source = rng.choice(sorted(unread or defined))
            out = rng.choice([t for t in range(TILES) if t not in unread - {source}])
            ops.append(add(out, source, len(ops) + 1))
            unread.discard(source)
            defined.add(out)
        elif defined:
            tile = rng.choice(sorted(unread or defined))
            slot = rng.randrange(SLOTS)
            ops.append(store(slot, tile))
            unread.discard(tile)
            stored.add(slot)
    return ops


def conflict(first: Step, second: Step) -> bool:
    """Whether two ops touch a common place and one of them writes it."""
    return bool(
        set(first.writes) & {*second.reads, *second.writes} or set(first.reads) & set(second.writes)
    )


# --- ways to synchronise --------------------------------------------------------------------------------------------


def with_flags(ops: list[Step], rng: random.Random) -> Program:
    """A flag for each conflict of different pipes that nothing orders yet; a barrier for writes of one pipe."""
    program: list[Step] = []
    known: dict[str, dict[str, int]] = {p: {} for p in ("MTE2", "V", "MTE3")}
    used: dict[tuple[str, str], int] = {}
    for number, op in enumerate(ops):
        mine = known[op.pipe]
        waits: list[Step] = []
        for k in range(number - 1, -1, -1):
            before = ops[k]
            if not conflict(before, op):
                continue
            if before.pipe != op.pipe and mine.get(before.pipe, -1) < k:
                key = (before.pipe, op.pipe)
                event = used.get(key, 0)
                used[key] = event + 1
                pair = (*key, event)
                program.append(Step("set", before.pipe, pair=pair))
                waits.append(Step("wait", op.pipe, pair=pair))
                mine[before.pipe] = number - 1
                for pipe, done in known[before.pipe].items():
                    mine[pipe] = max(mine.get(pipe, -1), done)
            elif before.pipe == op.pipe != "V" and set(before.writes) & set(op.writes) and mine.get(op.pipe, -1) < k:
                waits.append(Step("bar", op.pipe))
                mine[op.pipe] = number - 1
        program += [*waits, op]
    return tuple(program)


def with_mutexes(ops: list[Step], rng: random.Random) -> Program:
    """Locks around every op: one for each place it touches that somebody writes."""
    places = sorted({p for op in ops for p in op.writes})
    ids = {place: number for number, place in enumerate(places)}
    program: list[Step] = []
    for number, op in enumerate(ops):
        taken = sorted({ids[p] for p in (*op.reads, *op.writes) if p in ids})
        program += [Step("lock", op.pipe, mutex=m) for m in taken]
        if any(writes_again(before, op) for before in ops[:number]):
            program.append(Step("bar", op.pipe))
        program.append(op)
        program += [Step("unlock", op.pipe, mutex=m) for m in taken]
    return tuple(program)


def writes_again(before: Step, op: Step) -> bool:
    return before.pipe == op.pipe != "V" and bool(set(before.writes) & set(op.writes))


def with_barriers(ops: list[Step], rng: random.Random) -> Program:
    """`bar_all` where an op conflicts with one since the last barrier."""
    program: list[Step] = []
    since: list[Step] = []
    for op in ops:
        if any(conflict(b, op) and (b.pipe != op.pipe or writes_again(b, op)) for b in since):
            program.append(Step("bar_all", "S"))
            since = []
        program.append(op)
        since.append(op)
    return tuple(program)


WAYS = (with_flags, with_mutexes, with_barriers)


def random_program(seed: int, ops: int = 5) -> Program:
    """A program of some ops with one of the three ways to synchronise."""
    rng = random.Random(seed)
    return WAYS[seed % len(WAYS)](random_ops(rng, ops), rng)


def flag(first: str, second: str, event: int) -> tuple[Step, Step]:
    pair = (first, second, event)
    return Step("set", first, pair=pair), Step("wait", second, pair=pair)


def exchange(seed: int) -> Program:
    """Blocks that store a row each, meet, and read the row of the other one; the rows are used again when seed is odd.

    Places: `own` and `other` are the rows in the workspace, `y0`, `y1` outputs of the block.
    """
    steps: list[Step] = []
    for turn in range(1 + seed % 2):
        first = turn * 4
        steps.append(load(0, turn))
        steps += [*flag("MTE2", "V", first), add(1, 0, turn + 1)]
        if turn:  # the other block has read the row, and this one has stored what it read
            steps += [Step("arrive", "MTE2", mutex=1), Step("meet", "MTE3", mutex=1)]
        steps += flag("V", "MTE3", first)
        steps.append(Step("op", "MTE3", ("t1",), ("own",), turn, text="pl.store(w, t1, [b * 8, 0])"))
        steps += [Step("arrive", "MTE3", mutex=turn * 2), Step("meet", "MTE2", mutex=turn * 2)]
        if turn:
            steps += flag("MTE3", "MTE2", first)
        steps.append(Step("op", "MTE2", ("other",), ("t2",), turn, text="pl.load(t2, w, [8 - b * 8, 0])"))
        steps += flag("MTE2", "MTE3", first)
        text = f"pl.store(y, t2, [b * 16 + {turn} * 8, 0])"
        steps.append(Step("op", "MTE3", ("t2",), (f"y{turn}",), turn, text=text))
        if not turn and seed % 2:
            steps += flag("V", "MTE2", first)
    return tuple(steps)


def of_block(program: Program, block: int) -> Program:
    """The program with the places of one of two blocks."""
    names = {"own": f"w{block}", "other": f"w{1 - block}"}

    def place(name: str) -> str:
        return names.get(name) or (name if name.startswith("x") else f"{name}.{block}")

    return tuple(
        replace(s, reads=tuple(map(place, s.reads)), writes=tuple(map(place, s.writes)), text="") for s in program
    )


def mutants(program: Program) -> Iterator[tuple[str, Program]]:
    """The program without one of its synchronisation statements, each in turn."""
    for k, step in enumerate(program):
        if step.kind != "op":
            yield step.kind, program[:k] + program[k + 1 :]


# --- as kernels -----------------------------------------------------------------------------------------------------


def statement(step: Step) -> str:
    match step.kind:
        case "op":
            return step.text
        case "set" | "wait":
            name = "sync_src" if step.kind == "set" else "sync_dst"
            first, second, event = step.pair
            return f"pl.system.{name}(set_pipe={PIPE}{first}, wait_pipe={PIPE}{second}, event_id={event})"
        case "lock" | "unlock":
            return f"pl.system.mutex_{step.kind}(pipe={PIPE}{step.pipe}, mutex_id={step.mutex})"
        case "bar":
            return f"pl.system.bar_{step.pipe.lower()}()"
        case "arrive" | "meet":
            name = "set_cross_core" if step.kind == "arrive" else "wait_cross_core"
            mode = "sync_mode=pl.CrossCoreSyncMode.INTER_BLOCK"
            return f"pl.system.{name}(pipe={PIPE}{step.pipe}, event_id={step.mutex}, {mode})"
    return "pl.system.bar_all()"


def source(name: str, program: Program) -> str:
    tensor = "pl.Tensor[[32, 64], pl.DT_FP32]"
    lines = [
        "@pl.jit(auto_mutex=False)",
        f"def {name}(x: {tensor}, w: {tensor}, y: {tensor}):",
        "    with pl.section_vector():",
        "        b = pl.get_block_idx()",
        *(
            f"        t{k} = pl.make_tile(pl.TileType(shape=[8, 64], dtype=pl.DT_FP32), addr={k * 0x800:#x})"
            for k in range(TILES)
        ),
        *(f"        {statement(step)}" for step in program),
    ]
    return "\n".join(lines) + "\n"


def kernel(folder: Path, name: str, program: Program) -> Any:
    """The program as a kernel, in a file of its own: the front end reads whole files."""
    path = folder / f"{name}.py"
    text = "import pypto_pro.language as pl\n\n\n" + source(name, program)
    path.write_text(text, encoding="utf-8")
    scope: dict[str, Any] = {"__name__": name, "__file__": str(path)}
    exec(compile(text, str(path), "exec"), scope)
    return scope[name]


def as_seen(program: Program, blocks: int = 1) -> tuple[Program, ...]:
    """The program of each block as the explorer sees it."""
    return tuple(of_block(program, block) for block in range(blocks))
