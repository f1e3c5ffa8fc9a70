"""`Vf`, the namespace of register operations: `from pypto_pro.language import Vf as vf`."""

from __future__ import annotations

from typing import Any

from pypto_pro.language.stubs import names_below, stub


class _Namespace(type):
    def __getattr__(cls, name: str) -> Any:
        return stub(f"vf.{name}")

    def __dir__(cls) -> list[str]:
        return names_below("vf")


class Vf(metaclass=_Namespace):
    """Operations on vector and mask registers, for functions marked `@pl.vector_function`.

    On the host every member only declares its signature; calling one raises RuntimeError.
    """
