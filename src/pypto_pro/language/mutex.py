"""`pl.mutex`: another place to find `pl.system.mutex_lock` and `pl.system.mutex_unlock`."""

from __future__ import annotations

from typing import Any

from pypto_pro.language.stubs import stub

_NAMES = ("mutex_lock", "mutex_unlock")


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"pl.mutex has {' and '.join(_NAMES)}, not `{name}`")
    return stub(f"system.{name}")


def __dir__() -> list[str]:
    return list(_NAMES)
