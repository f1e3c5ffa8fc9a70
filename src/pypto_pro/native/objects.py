"""Cache of compiled object code: memory, then disk.

A disk entry is `magic, sha256 of the code, code` in a file named by the key. It is written to a temporary file and
renamed, so readers see whole entries only; one that is damaged or foreign is ignored and written anew. Nothing is ever
unpickled. `PYPTO_PRO_CACHE_DIR` moves the cache; a directory that cannot be written leaves only the memory cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from pathlib import Path

MAGIC = b"pypto-pro-object-1\n"
_memory: dict[str, bytes] = {}


def directory() -> Path:
    """Where object code is kept: PYPTO_PRO_CACHE_DIR, else the user's cache directory."""
    chosen = os.environ.get("PYPTO_PRO_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser() / "objects"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "pypto_pro" / "objects"


def load(key: str) -> bytes | None:
    """The code stored under `key`, None when there is none or it is damaged."""
    found = _memory.get(key)
    if found is None:
        found = _read(directory() / key[:2] / key)
        if found is not None:
            _memory[key] = found
    return found


def _read(path: Path) -> bytes | None:
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    head = len(MAGIC)
    if stored[:head] != MAGIC:
        return None
    digest, code = stored[head : head + 32], stored[head + 32 :]
    return code if hashlib.sha256(code).digest() == digest else None


def save(key: str, code: bytes) -> None:
    """Store code under `key`."""
    _memory[key] = code
    folder = directory() / key[:2]
    with contextlib.suppress(OSError):  # a read-only cache is no reason to fail a launch
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + hashlib.sha256(code).digest() + code)
            os.replace(temporary, folder / key)
        except OSError:
            os.unlink(temporary)
            raise


def forget() -> None:
    """Drop the memory cache (tests)."""
    _memory.clear()
