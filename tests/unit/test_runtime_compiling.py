"""What a compile keeps and forgets: constants that change afterwards, and compiles that take too long."""

from __future__ import annotations

import re
import subprocess
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl
from pypto_pro import options
from pypto_pro.diag.errors import ArgumentError
from pypto_pro.native import engine
from pypto_pro.runtime.jit import JitKernel

BLOCK = 8
SIZES = [8, 64]
UNUSED = 5


class Mode(Enum):
    FAST = 1
    SLOW = 2


MODE = Mode.FAST


@pl.jit
def block(x: pl.Tensor[[16, 64], pl.DT_FP32], y: pl.Tensor[[16, 64], pl.DT_FP32]):
    with pl.section_vector():
        kind = pl.TileType(shape=[BLOCK, SIZES[1]], dtype=pl.DT_FP32)
        t = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0]).current()
        if MODE == Mode.FAST:
            pl.load(t, x, [0, 0])
            pl.store(y, t, [0, 0])


class Config:
    rows = 8


@dataclass
class Shape:
    cols: list[int]


CONFIG = Config()
NESTED = SimpleNamespace()
STORED = {"on": True, "off": True}
limits = ModuleType("limits")
limits.ROW = 0
SCALE = 2


def doubled(n):
    return n * SCALE // SCALE


@pl.jit
def chained(x: pl.Tensor[[16, 64], pl.DT_FP32], y: pl.Tensor[[16, 64], pl.DT_FP32]):
    with pl.section_vector():
        kind = pl.TileType(shape=[CONFIG.rows, NESTED.inner["shapes"][0].cols[1]], dtype=pl.DT_FP32)
        t = pl.make_tile_group(type=kind, addrs=doubled(0), mutex_ids=[0]).current()
        if STORED["on"]:
            pl.load(t, x, [limits.ROW, NESTED.inner[3]])
            pl.store(y, t, [0, 0])


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_PRO_CACHE_DIR", str(tmp_path))


def fresh(kernel: JitKernel, **change: Any) -> JitKernel:
    """The kernel decorated once more."""
    return pl.jit(**change)(kernel.source.fn)


def rows_written(kernel: JitKernel) -> int:
    x, y = np.ones((16, 64), np.float32), np.zeros((16, 64), np.float32)
    kernel[None, 1](x, y)
    return int(y[:, 0].sum())


@pytest.mark.parametrize("executor", ["native", "interp"])
def test_a_constant_that_changes_is_warned_of_and_has_no_effect(
    executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = fresh(block)
    with options(executor=executor):
        assert rows_written(kernel) == 8
        monkeypatch.setitem(globals(), "BLOCK", 16)
        with pytest.warns(RuntimeWarning, match="global `BLOCK` is 16 now; `block` was compiled with 8") as caught:
            assert rows_written(kernel) == 8
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert rows_written(kernel) == 8  # once a change
            monkeypatch.setitem(globals(), "BLOCK", 8)
            assert rows_written(kernel) == 8
        assert rows_written(fresh(block)) == 8
        monkeypatch.setitem(globals(), "BLOCK", 16)
        assert rows_written(fresh(block)) == 16


def test_lists_enum_members_and_deleted_names_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fresh(block)
    rows_written(kernel)
    for name, value, shown in (("SIZES", [8, 32], r"\[8, 32\]"), ("MODE", Mode.SLOW, "Mode.SLOW")):
        monkeypatch.setitem(globals(), name, value)
        with pytest.warns(RuntimeWarning, match=f"global `{name}` is .*{shown}"):
            assert rows_written(kernel) == 8
    monkeypatch.undo()
    SIZES.append(3)
    try:
        with pytest.warns(RuntimeWarning, match="SIZES"):
            rows_written(kernel)
    finally:
        SIZES.pop()
    monkeypatch.delitem(globals(), "BLOCK")
    with pytest.warns(RuntimeWarning, match="global `BLOCK` is .deleted. now"):
        rows_written(kernel)


def test_constants_the_kernel_does_not_read_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fresh(block)
    rows_written(kernel)
    monkeypatch.setitem(globals(), "UNUSED", 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows_written(kernel)


CHAINS: list[tuple[str, str, Callable[[pytest.MonkeyPatch], None]]] = [
    # how the kernel reaches it, what it is after the change, the change
    ("CONFIG.rows", "16", lambda patch: patch.setattr(CONFIG, "rows", 16)),
    ("CONFIG.rows", "9", lambda patch: patch.setattr(Config, "rows", 9)),
    ("CONFIG.rows", "7", lambda patch: patch.setitem(globals(), "CONFIG", SimpleNamespace(rows=7))),
    ("CONFIG.rows", r"\(deleted\)", lambda patch: patch.delattr(Config, "rows")),
    ("limits.ROW", "4", lambda patch: patch.setattr(limits, "ROW", 4)),
    ("STORED['on']", "False", lambda patch: patch.setitem(STORED, "on", False)),
    ("NESTED.inner[3]", "32", lambda patch: patch.setitem(NESTED.inner, 3, 32)),
    ("NESTED.inner['shapes'][0].cols", r"\[8, 32\]", lambda patch: NESTED.inner["shapes"][0].cols.__setitem__(1, 32)),
    ("NESTED.inner['shapes'][0].cols", r"\[1\]", lambda patch: patch.setitem(NESTED.inner, "shapes", [Shape([1])])),
    ("global `SCALE`", "3", lambda patch: patch.setitem(globals(), "SCALE", 3)),
]  # fmt: skip


@pytest.mark.parametrize("again", [False, True], ids=["compiled", "from disk"])
@pytest.mark.parametrize(("text", "now", "change"), CHAINS, ids=[f"{row[0]} {row[1]}" for row in CHAINS])
def test_parts_of_objects_are_watched(
    text: str, now: str, change: Callable[[pytest.MonkeyPatch], None], again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    NESTED.inner = {"shapes": [Shape([8, 64])], 3: 0}
    kernel = fresh(chained)
    assert rows_written(kernel) == 8
    if again:
        kernel = fresh(chained)
        assert rows_written(kernel) == 8
        assert next(iter(kernel.variants)).stored is not None
    monkeypatch.setitem(STORED, "off", False)  # not read
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows_written(kernel)
    change(monkeypatch)
    shown = text if text.startswith("global") else f"`{text}`"
    with pytest.warns(RuntimeWarning, match=re.escape(shown) + f" is .*{now}.* now; `chained` was compiled with"):
        assert rows_written(kernel) == 8
    x, y = np.ones((16, 64), np.float32), np.zeros((16, 64), np.float32)
    notes = [f.message for f in pypto_pro.check(kernel[None, 1], x, y).findings if f.kind == "stale_capture"]
    assert any(note.startswith(shown) for note in notes)


def test_lists_of_the_scope_around_a_kernel_are_watched() -> None:
    sizes = [8, 64]
    table = {"rows": 8}

    @pl.jit
    def local(x: pl.Tensor[[16, 64], pl.DT_FP32], y: pl.Tensor[[16, 64], pl.DT_FP32]):
        with pl.section_vector():
            kind = pl.TileType(shape=[table["rows"], sizes[1]], dtype=pl.DT_FP32)
            t = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0]).current()
            pl.load(t, x, [0, 0])
            pl.store(y, t, [0, 0])

    assert rows_written(local) == 8
    sizes[1], table["rows"] = 32, 4
    with pytest.warns(RuntimeWarning) as caught:
        assert rows_written(local) == 8
    assert sorted(str(one.message).partition(" now")[0] for one in caught) == [
        "`table['rows']` is 4", "global `sizes` is [8, 32]",
    ]  # fmt: skip


def test_the_check_notes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fresh(block)
    rows_written(kernel)
    monkeypatch.setitem(globals(), "BLOCK", 16)
    x, y = np.ones((16, 64), np.float32), np.zeros((16, 64), np.float32)
    found = [f for f in pypto_pro.check(kernel[None, 1], x, y).findings if f.kind == "stale_capture"]
    assert len(found) == 1
    assert "BLOCK" in found[0].message


# --- time limits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0, -1, True, "soon"])
def test_a_time_limit_is_a_number_above_zero(seconds: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        fresh(block, compile_timeout=seconds)
    with pytest.raises(ArgumentError, match="compile_timeout"), options(compile_timeout=seconds):
        pass


def test_the_front_end_may_run_out_of_time() -> None:
    kernel = fresh(block, compile_timeout=1e-9)
    for _ in range(2):
        with pytest.raises(subprocess.TimeoutExpired, match="block"):
            rows_written(kernel)
    assert len(kernel.variants) == 0


def test_native_may_run_out_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    real, now = engine.generate, time.monotonic
    late = [0.0]

    def slow(text: str, quick: bool = False) -> bytes:
        late[0] += 1000
        return real(text, quick)

    monkeypatch.setattr(engine, "generate", slow)
    monkeypatch.setattr(engine.time, "monotonic", lambda: now() + late[0])
    monkeypatch.setattr(engine.objects, "_memory", {})
    kernel = fresh(block)
    with options(executor="native", compile_timeout=900):
        with pytest.raises(subprocess.TimeoutExpired):
            rows_written(kernel)
    monkeypatch.undo()
    assert rows_written(kernel) == 8


@pl.jit
def roots(x: pl.Tensor[[3, 72], pl.DT_FP32], y: pl.Tensor[[3, 72], pl.DT_FP32]):
    with pl.section_vector():
        kind = pl.TileType(shape=[3, 72], dtype=pl.DT_FP32)
        t = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0]).current()
        pl.load(t, x, [0, 0])
        pl.sqrt(t, t)
        pl.store(y, t, [0, 0])


def test_modules_behind_one_that_failed_are_there_for_the_next_kernel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYPTO_PRO_CACHE_DIR", str(tmp_path))
    with monkeypatch.context() as patched:
        calls = iter(range(100))

        def fails_once(text: str, quick: bool = False) -> bytes:
            if next(calls) == 1:
                raise engine.OutOfTime
            return real(text, quick)

        real = engine.generate
        patched.setattr(engine, "generate", fails_once)
        patched.setattr(engine.objects, "_memory", {})
        with pytest.raises(subprocess.TimeoutExpired), options(executor="native"):
            roots[None, 1](np.ones((3, 72), np.float32), np.zeros((3, 72), np.float32))
    x, y = np.full((3, 72), 9, np.float32), np.zeros((3, 72), np.float32)
    with options(executor="native"):
        fresh(roots)[None, 1](x, y)
    assert (y == 3).all()


def test_the_option_of_the_decorator_beats_the_setting() -> None:
    with options(compile_timeout=1e-9):
        assert rows_written(fresh(block, compile_timeout=600)) == 8
        with pytest.raises(subprocess.TimeoutExpired):
            rows_written(fresh(block, auto_mutex=False))
