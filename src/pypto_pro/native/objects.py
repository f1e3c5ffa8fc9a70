"""Cache of compiled object code: memory, then disk (see `diskcache`)."""

from __future__ import annotations

from pypto_pro import diskcache

KIND = "objects"
_memory: dict[str, bytes] = {}


def load(key: str) -> bytes | None:
    """The code stored under `key`, None when there is none or it is damaged."""
    found = _memory.get(key)
    if found is None:
        found = diskcache.read(KIND, key)
        if found is not None:
            _memory[key] = found
    return found


def save(key: str, code: bytes) -> None:
    """Store code under `key`."""
    _memory[key] = code
    diskcache.write(KIND, key, code)


def forget() -> None:
    """Drop the memory cache (tests)."""
    _memory.clear()
