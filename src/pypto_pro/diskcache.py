"""Entries on disk that processes share: object code, whole compiled kernels.

An entry is `magic, SHA-256 of the data, data` in the file `<directory>/<kind>/<two digits>/<key>`. It is written to a
temporary file and renamed, so readers see whole entries only; one that is damaged or foreign counts as absent and is
written anew, with a RuntimeWarning. Nothing is ever unpickled. Together the entries stay below PYPTO_PRO_CACHE_MB
megabytes (default 1024): those not used for longest go first. PYPTO_PRO_CACHE_DIR moves the cache; a directory that
cannot be written is no reason to fail.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MAGIC = b"pypto-pro-entry-1\n"
_HEAD = len(MAGIC) + 32
DEFAULT_MB = 1024
MEGABYTE = 1 << 20
TOUCH_SECONDS = 3600.0
"""How exactly the time of last use is kept."""
STALE_SECONDS = 3600.0
"""Age at which a temporary file belongs to a process that died."""
TRIM_EVERY = 16 * MEGABYTE
"""Bytes one process writes between two looks at the size of the whole."""
TRIM_SECONDS = 600.0
"""Time between two looks by any process."""
SCRATCH, LOOKED = ".tmp", "looked"

_written = 0


@dataclass(frozen=True)
class Entry:
    """One file of the cache: `kind` is the folder, `used` the time of last use in seconds since the epoch."""

    kind: str
    path: str
    size_bytes: int
    used: float


def directory() -> Path:
    """Where the cache is: PYPTO_PRO_CACHE_DIR, else the user's cache directory."""
    chosen = os.environ.get("PYPTO_PRO_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "pypto_pro"


def limit_bytes() -> int:
    """Most bytes all entries may take: PYPTO_PRO_CACHE_MB megabytes, the default for a text that is no number."""
    given = os.environ.get("PYPTO_PRO_CACHE_MB", "")
    return (int(given) if given.isdigit() else DEFAULT_MB) * MEGABYTE


@cache
def package_stamp() -> str:
    """The stamp of the installed package. Another stamp, other code."""
    return tree_stamp(os.path.dirname(__file__))


def tree_stamp(root: str) -> str:
    """A stamp of the files below a directory: names, sizes and times."""
    folders, rows = [root], []
    while folders:
        with os.scandir(folders.pop()) as found:
            for entry in found:
                name = entry.name
                if name.endswith(".pyc") or name.startswith((".", "__pycache__")):
                    continue
                if entry.is_dir():
                    folders.append(entry.path)
                else:
                    status = entry.stat()
                    rows.append((entry.path[len(root) :], status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(sorted(rows)).encode("utf-8", "surrogateescape")).hexdigest()


def _path(kind: str, key: str) -> str:
    return os.path.join(directory(), kind, key[:2], key)


def read(kind: str, key: str) -> bytes | None:
    """The data stored under `key` (hex digits), None when there is none or it is damaged."""
    path = _path(kind, key)
    try:
        with open(path, "rb") as file:
            stored = file.read()
            age = time.time() - os.fstat(file.fileno()).st_mtime
    except OSError:
        return None
    data = memoryview(stored)[_HEAD:]
    if not stored.startswith(MAGIC) or hashlib.sha256(data).digest() != stored[len(MAGIC) : _HEAD]:
        warnings.warn(f"cache entry {path} is damaged or foreign; it is made anew", RuntimeWarning, stacklevel=2)
        return None
    if age > TOUCH_SECONDS:
        with contextlib.suppress(OSError):
            os.utime(path)
    return bytes(data)


def write(kind: str, key: str, data: bytes) -> None:
    """Store data under `key` (hex digits); without effect where the directory cannot be written."""
    global _written
    import tempfile

    path = _path(kind, key)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), suffix=SCRATCH)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + hashlib.sha256(data).digest() + data)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
        due = _written == 0 and _is_overdue()
        _written += _HEAD + len(data)
        if due or _written >= TRIM_EVERY:
            _written = 1
            trim()


def _is_overdue() -> bool:
    """Whether no process looked at the size of the whole lately; the caller is about to."""
    mark = os.path.join(directory(), LOOKED)
    try:
        if time.time() - os.stat(mark).st_mtime < TRIM_SECONDS:
            return False
    except OSError:
        pass
    with contextlib.suppress(OSError), open(mark, "w"):
        pass
    return True


def entries() -> Iterator[Entry]:
    """Every entry there is; files that vanish meanwhile are left out."""
    yield from (entry for entry in _files() if not entry.path.endswith(SCRATCH))


def _files() -> Iterator[Entry]:
    root = str(directory())
    for kind in _below(root):
        for folder in _below(kind.path):
            for file in _below(folder.path):
                with contextlib.suppress(OSError):
                    status = file.stat()
                    yield Entry(kind.name, file.path, status.st_size, status.st_mtime)


def _below(path: str) -> list[os.DirEntry[str]]:
    """What a directory holds, nothing for what is no directory."""
    try:
        with os.scandir(path) as found:
            return [*found]
    except OSError:
        return []


def trim(limit: int | None = None) -> int:
    """Remove what was not used for longest until the entries take at most `limit` bytes (default: the setting), and
    what processes that died left behind; the number of entries removed."""
    limit = limit_bytes() if limit is None else limit
    found = sorted(_files(), key=lambda entry: entry.used)
    total = sum(entry.size_bytes for entry in found)
    removed, now = 0, time.time()
    for entry in found:
        is_scratch = entry.path.endswith(SCRATCH)
        if total <= limit if not is_scratch else now - entry.used < STALE_SECONDS:
            continue
        with contextlib.suppress(OSError):
            os.unlink(entry.path)
            total -= entry.size_bytes
            removed += not is_scratch
    return removed


def clear() -> tuple[int, int]:
    """Remove every entry; (entries, bytes) removed. Other files in the directory stay."""
    found = [*entries()]
    count = trim(0)
    return count, sum(entry.size_bytes for entry in found)
