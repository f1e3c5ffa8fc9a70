"""`layout --plan --write`: what is written is correct as it stands, or nothing is written and the reason is said."""

from __future__ import annotations

import itertools
from pathlib import Path

import click.testing
import numpy as np
import pytest

import pypto_pro
from pypto_pro.cli.layout import command
from pypto_pro.diag import Severity
from pypto_pro.runtime.inspect import find_kernel, load_file

SOURCE = """
import pypto_pro.language as pl

BASE = 0


def row():
    return pl.TileType(shape=[8, 64], dtype=pl.DT_FP32)


def group(address, mutex_id):
    return pl.make_tile_group(type=row(), addrs=BASE + address, mutex_ids=[mutex_id]).current()


@pl.jit
def kernel(x: pl.Tensor[[64, 64], pl.DT_FP32], y: pl.Tensor[[64, 64], pl.DT_FP32]):
    w = pl.make_tile_group(type=row(), addrs=0x4000, mutex_ids=[0]).current()
    s = SUMS
    a = pl.make_tile_group(type=row(), addrs=0x0, mutex_ids=[ID]).current()
    with pl.section_vector():
        pl.load(w, x, [0, 0])
        pl.exp(s, w)
        for r in pl.range(0, 64, 8):
            pl.load(a, x, [r, 0])
            pl.add(a, a, s)
            pl.store(y, a, [r, 0])
"""
counter = itertools.count()
LITERAL = "pl.make_tile_group(type=row(), addrs=0x2000, mutex_ids=[2]).current()"


def write(folder: Path, mutex_id: int, sums: str = LITERAL) -> tuple[Path, click.testing.Result]:
    """A kernel whose loop could load over `w`; with mutex id 0 the order for that is there."""
    file = folder / f"kernel_{next(counter)}.py"  # a module is loaded once
    file.write_text(SOURCE.replace("ID", str(mutex_id)).replace("SUMS", sums), encoding="utf-8")
    return file, click.testing.CliRunner().invoke(command, [str(file), "--plan", "--write"])


def errors(file: Path) -> list[str]:
    file = file.rename(file.with_stem("edited"))
    arrays = np.ones((64, 64), np.float32), np.zeros((64, 64), np.float32)
    report = pypto_pro.check(find_kernel(load_file(file))[None, 1], *arrays)
    return [f.code for f in report.findings if f.severity is Severity.ERROR]


@pytest.mark.parametrize(("mutex_id", "shared"), [(1, False), (0, True)])
def test_only_proved_sharing_is_written(mutex_id: int, shared: bool, tmp_path: Path) -> None:
    file, result = write(tmp_path, mutex_id)
    assert result.exit_code == 0
    assert ("shares with" in result.stdout) is shared
    assert "L122" not in result.stdout
    told = "not shared, since nothing orders it yet: 1 pair of slots. `--plan` without --write lists what to add (L122)"
    assert (told in result.stderr) is not shared
    assert "0x4000" not in file.read_text(encoding="utf-8"), "the hole is closed"
    assert errors(file) == []


def test_what_a_hand_has_to_finish_is_not_written(tmp_path: Path) -> None:
    file, result = write(tmp_path, 0, "group(0x800, 2)")
    assert result.exit_code == 0
    assert "by hand" not in result.stderr, "the plan leaves it where it is"
    before = SOURCE.replace("ID", "0").replace("SUMS", "group(0x400, 2)")
    file, result = write(tmp_path, 0, "group(0x400, 2)")
    assert result.exit_code == 1
    assert "by hand, line 18: `s` addrs=0x00800" in result.stderr
    assert "nothing written: until the addresses above are changed by hand: Vec: " in result.stderr
    assert "`--pin s` plans around them" in result.stderr
    assert file.read_text(encoding="utf-8") == before
