"""Words of messages: the nearest name for a typo, numbers with their noun."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` most likely stands for, or None when none is close; letter case counts little."""
    by_folded: dict[str, str] = {}
    for candidate in candidates:
        by_folded.setdefault(candidate.casefold(), candidate)
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A help text offering the nearest name, or None: "did you mean `set_validshape`?"."""
    found = nearest(name, candidates)
    return None if found is None else f"did you mean `{found}`?"


def counted(number: int, one: str, many: str = "") -> str:
    """`1 launch`, `2 launches`; `many` where it is not `one` with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"
