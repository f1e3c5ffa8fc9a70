"""How many beats each stage lags behind the first."""

from __future__ import annotations

from collections.abc import Sequence

from pypto_pro.enums import CoreKind


def delays(kinds: Sequence[CoreKind], preload: int) -> tuple[int, ...]:
    """The delay of every stage of a chain, given their core kinds in order.

    The first stage of the second core kind follows one beat behind; every later stage runs `preload` beats behind the
    one before it on the same core.
    """
    found: list[int] = []
    last: dict[CoreKind, int] = {}
    for i, kind in enumerate(kinds):
        first = 0 if i == 0 else found[-1] + 1
        found.append(last[kind] + preload if kind in last else first)
        last[kind] = found[-1]
    return tuple(found)
