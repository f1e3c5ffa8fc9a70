"""The object cache: found again, never trusted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_pro.native import engine, objects

SCRIPT = """
import numpy as np, sys
import pypto_pro.language as pl
from pypto_pro.native import engine, objects
made = []
original = engine.generate
engine.generate = lambda *args: made.append(1) or original(*args)

@pl.jit(auto_mutex=True)
def double(x: pl.Tensor[[16, 64], pl.DT_FP16], y: pl.Tensor[[16, 64], pl.DT_FP16]):
    t = pl.TileType(shape=[16, 64], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
    g = pl.make_tile_group(type=t, addrs=0, mutex_ids=[0])
    with pl.section_vector():
        a = g.current()
        pl.set_validshape(a, [16, 37])
        pl.load(a, x, [0, 0])
        pl.add(a, a, a)
        pl.exp(a, a)
        pl.store(y, a, [0, 0])

x = np.linspace(-8, 4, 16 * 64).reshape(16, 64).astype(np.float16)
y = np.zeros_like(x)
double[None, 1](x, y)
want = np.exp((x + x).astype(np.float32)).astype(np.float16)
assert (np.abs(y[:, :37].view(np.int16) - want[:, :37].view(np.int16)) <= 1).all()
assert (y[:, 37:] == 0).all()
print(len(made))
"""


def compiled_modules(tmp_path: Path, **environment: str) -> int:
    """How many modules a fresh process had to compile for one launch."""
    script = tmp_path / "double.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "PYPTO_PRO_CACHE_DIR": str(tmp_path / "cache"), "PYPTO_PRO_EXECUTOR": "native",
           "PYPTO_PRO_CHECK": "0", **environment}
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert compiled_modules(tmp_path) > 3
    assert compiled_modules(tmp_path) == 0


LAUNCHED_AGAIN = """
import sys
import numpy as np
import pypto_pro.language as pl

@pl.jit
def fill(y: pl.Tensor[[16, 64], pl.DT_FP32]):
    with pl.section_vector():
        a = pl.make_tile(pl.TileType(shape=[16, 64], dtype=pl.DT_FP32), addr=0, size=4096)
        pl.expands(a, 2.0)
        pl.system.bar_all()
        pl.store(y, a, [0, 0])

y = np.zeros((16, 64), np.float32)
fill[None, 1](y)
assert (y == 2).all()
print(*[name for name in sys.modules if name in ("pypto_pro.native.kernel", "pypto_pro.ir.stored")])
"""


def test_a_stored_kernel_runs_without_the_code_generator(tmp_path: Path) -> None:
    script = tmp_path / "fill.py"
    script.write_text(LAUNCHED_AGAIN)
    env = {**os.environ, "PYPTO_PRO_CACHE_DIR": str(tmp_path / "cache"), "PYPTO_PRO_EXECUTOR": "native",
           "PYPTO_PRO_CHECK": "0"}  # fmt: skip
    loaded = []
    for _ in range(2):
        done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        loaded.append(done.stdout.split())
    assert loaded[0]
    assert loaded[1] == []


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_damaged_entries_are_compiled_anew(tmp_path: Path, damage: bytes | None) -> None:
    made = compiled_modules(tmp_path)
    files = [p for p in (tmp_path / "cache").rglob("*") if p.is_file() and p.stat().st_size]
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if damage is None else damage)
    assert compiled_modules(tmp_path) == made
    assert compiled_modules(tmp_path) == 0


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the directory should be")
    assert compiled_modules(tmp_path) > 3


def test_entries_are_keyed_by_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "define void @f() {\n  ret void\n}\n"
    first = engine.object_key(text)
    real = engine.host()
    monkeypatch.setattr(engine, "host", lambda: type(real)(**{**vars_of(real), "name": "another"}))
    assert engine.object_key(text) != first


def vars_of(host: engine.Host) -> dict[str, object]:
    return {name: getattr(host, name) for name in host.__dataclass_fields__}


def test_memory_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_PRO_CACHE_DIR", str(tmp_path))
    objects.save("ab" * 32, b"code")
    objects.forget()
    assert objects.load("ab" * 32) == b"code"
    assert objects.load("cd" * 32) is None
