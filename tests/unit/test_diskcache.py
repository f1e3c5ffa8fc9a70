"""Entries on disk: whole or absent, bounded, shared between processes; and the command that shows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from pypto_pro import diskcache
from pypto_pro.cli import main

KEY, OTHER = "ab" * 32, "cd" * 32


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYPTO_PRO_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("PYPTO_PRO_CACHE_MB", raising=False)
    return tmp_path


def file_of(root: Path, key: str = KEY) -> Path:
    return root / "kernels" / key[:2] / key


def test_what_was_written_is_read(root: Path) -> None:
    assert diskcache.read("kernels", KEY) is None
    diskcache.write("kernels", KEY, b"data")
    assert diskcache.read("kernels", KEY) == b"data"
    assert diskcache.read("objects", KEY) is None
    diskcache.write("kernels", KEY, b"")
    assert diskcache.read("kernels", KEY) == b""
    assert [*root.rglob("*.tmp")] == []


@pytest.mark.parametrize(
    "damage",
    [lambda b: b"", lambda b: b[:-1], lambda b: b[:20], lambda b: b"\x80\x04N.", lambda b: b[:-1] + b"?",
     lambda b: b"pypto-pro-entry-0\n" + b[18:]],
)  # fmt: skip
def test_damaged_and_foreign_entries_count_as_absent_with_a_note(root: Path, damage: object) -> None:
    diskcache.write("kernels", KEY, b"data")
    file = file_of(root)
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    with pytest.warns(RuntimeWarning, match="damaged or foreign"):
        assert diskcache.read("kernels", KEY) is None
    diskcache.write("kernels", KEY, b"data")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert diskcache.read("kernels", KEY) == b"data"


def test_a_directory_that_cannot_be_written_is_no_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "file").write_text("")
    monkeypatch.setenv("PYPTO_PRO_CACHE_DIR", str(root / "file"))
    diskcache.write("kernels", KEY, b"data")
    assert diskcache.read("kernels", KEY) is None


def test_the_least_recently_used_go_first(root: Path) -> None:
    for age, key in enumerate(("aa" * 32, "bb" * 32, "cc" * 32)):
        diskcache.write("kernels", key, bytes(1000))
        os.utime(file_of(root, key), (1e9 - age, 1e9 - age))
    assert diskcache.read("kernels", "cc" * 32) is not None  # used now
    assert diskcache.trim(2500) == 1
    assert {Path(entry.path).name[:2] for entry in diskcache.entries()} == {"aa", "cc"}


def test_the_bound_holds_while_writing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_PRO_CACHE_MB", "1")
    monkeypatch.setattr(diskcache, "TRIM_EVERY", 200_000)
    monkeypatch.setattr(diskcache, "_written", 0)
    for k in range(30):
        diskcache.write("objects", f"{k:064x}", bytes(100_000))
    assert sum(entry.size_bytes for entry in diskcache.entries()) <= diskcache.MEGABYTE + 300_000


def test_a_process_looks_when_nobody_did_lately(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_PRO_CACHE_MB", "0")
    looked = []
    for age in (0, 60, 10_000):
        monkeypatch.setattr(diskcache, "_written", 0)
        if (root / diskcache.LOOKED).exists():
            then = (root / diskcache.LOOKED).stat().st_mtime - age
            os.utime(root / diskcache.LOOKED, (then, then))
        diskcache.write("kernels", KEY, b"data")
        looked.append(diskcache.read("kernels", KEY) is None)
    assert looked == [True, False, True]


def test_scratch_of_dead_processes_goes_that_of_live_ones_stays(root: Path) -> None:
    diskcache.write("kernels", KEY, b"data")
    old, new = (file_of(root).with_name(name) for name in ("old.tmp", "new.tmp"))
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (1e9, 1e9))
    assert diskcache.trim() == 0
    assert not old.exists()
    assert new.exists()


def test_clear_removes_entries_only(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diskcache, "_written", 0)
    diskcache.write("kernels", KEY, b"data")
    diskcache.write("objects", OTHER, b"more")
    (root / "notes.txt").write_text("mine")
    count, size = diskcache.clear()
    assert (count, size > 0) == (2, True)
    assert {path.name for path in root.rglob("*") if path.is_file()} == {"notes.txt", diskcache.LOOKED}


WRITER = """
import sys
from pypto_pro import diskcache
for k in range(200):
    diskcache.write("kernels", "ab" * 32, sys.argv[1].encode() * 5000)
    found = diskcache.read("kernels", "ab" * 32)
    assert found in (b"x" * 5000, b"y" * 5000), found[:20]
"""


def test_processes_write_the_same_entry_at_once(root: Path) -> None:
    made = [subprocess.Popen([sys.executable, "-W", "error", "-c", WRITER, name]) for name in "xy"]
    assert [process.wait(60) for process in made] == [0, 0]


def test_the_stamp_of_a_package_tells_changed_files(tmp_path: Path) -> None:
    def stamp() -> str:
        return diskcache.tree_stamp(str(tmp_path))

    (tmp_path / "sub" / "__pycache__").mkdir(parents=True)
    (tmp_path / "sub" / "a.py").write_text("x = 1")
    seen = [stamp()]
    (tmp_path / "sub" / "__pycache__" / "a.pyc").write_bytes(b"made by Python")
    assert stamp() == seen[0]
    os.utime(tmp_path / "sub" / "a.py", (1e9, 1e9))
    seen.append(stamp())
    (tmp_path / "sub" / "a.py").write_text("x = 10")
    os.utime(tmp_path / "sub" / "a.py", (1e9, 1e9))
    seen.append(stamp())
    (tmp_path / "sub" / "a.py").rename(tmp_path / "sub" / "b.py")
    seen.append(stamp())
    assert len(set(seen)) == 4


def run(*args: str) -> str:
    done = CliRunner().invoke(main, ["cache", *args])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command(root: Path) -> None:
    assert run("path").strip() == str(root)
    assert "0.0 of" in run()
    diskcache.write("kernels", KEY, bytes(10_000))
    facts = json.loads(run("show", "--json"))
    assert facts["kinds"]["kernels"]["entries"] == 1
    assert facts["kinds"]["kernels"]["bytes"] > 10_000
    assert "whole kernels" in run("show")
    assert "removed 1 entries" in run("clear")
    assert json.loads(run("show", "--json"))["kinds"] == {}
