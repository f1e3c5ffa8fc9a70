"""What the vocabulary does when Python itself runs it: plain ranges, plain namespaces, sections that do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


@contextmanager
def section_vector() -> Iterator[None]:
    """Code of the vector cores."""
    yield


@contextmanager
def section_cube() -> Iterator[None]:
    """Code of the cube core."""
    yield


def struct(name: str, /, **fields: Any) -> SimpleNamespace:
    """A C struct of scalars, arrays and structs, passed by reference."""
    return SimpleNamespace(**fields)


def struct_array(size: int, name: str, /, **fields: Any) -> list[SimpleNamespace]:
    """`size` structs of one layout."""
    return [SimpleNamespace(**fields) for _ in range(size)]


def make_tuple(**fields: Any) -> SimpleNamespace:
    """An immutable group of named values."""
    return SimpleNamespace(**fields)


def constexpr(condition: Any) -> Any:
    """Assert that a condition is known at compile time."""
    return condition
