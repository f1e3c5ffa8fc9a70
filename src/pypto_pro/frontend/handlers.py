"""The compile-time vocabulary: calls the front end itself understands, by dotted name without the module alias."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeAlias

from pypto_pro.frontend.context import Context
from pypto_pro.frontend.values import Value

Handler: TypeAlias = Callable[[Context, ast.Call, "str | None"], "Value | None"]

_HANDLERS: dict[str, Handler] = {}


def handles(*keys: str) -> Callable[[Handler], Handler]:
    """Register a function for calls of these names; the third argument names the variable about to be bound."""

    def add(body: Handler) -> Handler:
        for key in keys:
            if key in _HANDLERS:
                raise ValueError(f"{key} has two handlers")
            _HANDLERS[key] = body
        return body

    return add


def handler_of(key: str) -> Handler | None:
    """The handler of a name, None when it is no construct."""
    return _HANDLERS.get(key)


def handled() -> tuple[str, ...]:
    """Every name with a handler, for nearest-name help."""
    return tuple(_HANDLERS)
