"""Constants a variant was compiled with, looked at again at every launch: `BLOCK`, `cfg.x`, `TABLE['k'][2]`.

A launch pays for it, so a look is a few reads and an identity test; only lists are printed and compared.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pypto_pro.frontend.closure import is_constant

_GONE = object()

Step = tuple[bool, Any]
"""(whether it is an attribute, its name or the key of a subscript)."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A constant as it was. `text` is how the kernel reaches it, from the name `root` of `space`."""

    text: str
    space: Mapping[str, Any]
    root: str
    steps: tuple[Step, ...]
    value: Any
    is_fixed: bool
    """Whether the value cannot change in place."""
    printed: str

    def __str__(self) -> str:
        return f"`{self.text}`" if self.steps else f"global `{self.text}`"

    def changed(self) -> str | None:
        """What it is now, printed, when that differs; `(deleted)` when it is gone."""
        now = _reach(self.space, self.root, self.steps) if self.steps else self.space.get(self.root, _GONE)
        if now is self.value and self.is_fixed:
            return None
        printed = "(deleted)" if now is _GONE else repr(now)
        return None if printed == self.printed else printed


def watch(texts: Iterable[str], spaces: Sequence[Mapping[str, Any]]) -> tuple[Watched, ...]:
    """What to look at again: each text in every scope (a function's module, the locals around a kernel) that has it."""
    return tuple(found for text in sorted(texts) for space in spaces for found in _watched(text, space))


def _watched(text: str, space: Mapping[str, Any]) -> Iterator[Watched]:
    root, *rest = _steps(ast.parse(text, mode="eval").body)
    steps = tuple(rest)
    value = _reach(space, root[1], steps)
    if is_constant(value):
        yield Watched(text, space, root[1], steps, value, _is_fixed(value), repr(value))


def _is_fixed(value: Any) -> bool:
    """Whether a constant cannot change in place."""
    return not isinstance(value, list) and (not isinstance(value, tuple) or all(map(_is_fixed, value)))


def _steps(node: ast.expr) -> Iterator[Step]:
    match node:
        case ast.Name(id=name):
            yield True, name
        case ast.Attribute(value=base, attr=name):
            yield from _steps(base)
            yield True, name
        case ast.Subscript(value=base, slice=key):
            yield from _steps(base)
            yield False, ast.literal_eval(key)


def _reach(space: Mapping[str, Any], root: str, steps: Sequence[Step]) -> Any:
    """The object at the end of the steps, `_GONE` when one of them leads nowhere."""
    value = space.get(root, _GONE)
    try:
        for is_attribute, key in steps:
            value = getattr(value, key) if is_attribute else value[key]
    except Exception:  # an author's own `__getattr__` may raise anything
        return _GONE
    return value
