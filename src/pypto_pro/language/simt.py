"""`pl.simt`: thread functions. `function` marks one; `launch` and the queries come from the op table."""

from __future__ import annotations

from typing import Any

from pypto_pro.frontend.markers import simt_function as function
from pypto_pro.language.stubs import names_below, stub

__all__ = ["function"]


def __getattr__(name: str) -> Any:
    return stub(f"simt.{name}")


def __dir__() -> list[str]:
    return sorted({"function", *names_below("simt")})
