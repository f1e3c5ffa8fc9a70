"""Arithmetic of extents that `regions` and `issue` facets write once for ints and for abstract numbers.

Abstract numbers bring + - * // % and comparisons as operators; what Python spells with `min`, `max` and `if` is here.
"""

from __future__ import annotations

from typing import Any


def least(first: Any, *others: Any) -> Any:
    """The smallest of some numbers."""
    for other in others:
        if isinstance(first, int):
            first = min(first, other) if isinstance(other, int) else other.least(first)
        else:
            first = first.least(other)
    return first


def most(first: Any, second: Any) -> Any:
    """The larger of two numbers."""
    if isinstance(first, int):
        return max(first, second) if isinstance(second, int) else second.most(first)
    return first.most(second)


def choose(condition: Any, then: Any, other: Any) -> Any:
    """`then if condition else other`."""
    if isinstance(condition, bool):
        return then if condition else other
    return condition.choose(then, other)


def up(value: Any, step: int) -> Any:
    """`value` rounded up to a multiple of `step`."""
    return (value + (step - 1)) // step * step
