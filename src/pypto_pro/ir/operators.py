"""Python's operators for numbers that are not known yet, so that facets compute with them as they would with ints."""

from __future__ import annotations

from typing import Any, Self


class Operators:
    """Every operator by way of `binary`; what is shared by symbolic numbers and native scalars and lanes."""

    def binary(self, op: str, other: Any, swapped: bool = False) -> Self:
        """`self op other`, or `other op self`; comparisons give a BOOL."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Self:
        return self.binary("+", other)

    def __radd__(self, other: Any) -> Self:
        return self.binary("+", other, swapped=True)

    def __sub__(self, other: Any) -> Self:
        return self.binary("-", other)

    def __rsub__(self, other: Any) -> Self:
        return self.binary("-", other, swapped=True)

    def __mul__(self, other: Any) -> Self:
        return self.binary("*", other)

    def __rmul__(self, other: Any) -> Self:
        return self.binary("*", other, swapped=True)

    def __and__(self, other: Any) -> Self:
        return self.binary("&", other)

    def __or__(self, other: Any) -> Self:
        return self.binary("|", other)

    def __lt__(self, other: Any) -> Self:
        return self.binary("<", other)

    def __le__(self, other: Any) -> Self:
        return self.binary("<=", other)

    def __gt__(self, other: Any) -> Self:
        return self.binary(">", other)

    def __ge__(self, other: Any) -> Self:
        return self.binary(">=", other)

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        return self.binary("==", other)

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return self.binary("!=", other)

    __hash__ = object.__hash__
