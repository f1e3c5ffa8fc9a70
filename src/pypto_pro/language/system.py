"""`pl.system`: flags, barriers, mutexes, cross-core signals and cache maintenance. Names come from the op table."""

from __future__ import annotations

from typing import Any

from pypto_pro.language.stubs import names_below, stub


def __getattr__(name: str) -> Any:
    return stub(f"system.{name}")


def __dir__() -> list[str]:
    return names_below("system")
