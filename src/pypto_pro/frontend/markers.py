"""Decorators that only mark a function for the front end: vector functions, pipeline stages, SIMT functions, inline."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])

VECTOR, STAGE, SIMT = "vector_function", "pipeline.stage", "simt.function"
_KIND = "__pypto_kind__"
_THREADS = "__pypto_max_threads__"
_STUB = "__pypto_stub__"


def _mark(fn: F, kind: str) -> F:
    setattr(fn, _KIND, kind)
    return fn


def kind_of(fn: Any) -> str | None:
    """What a function was marked as, None for a plain one."""
    kind = getattr(fn, _KIND, None)
    return kind if isinstance(kind, str) else None


def max_threads_of(fn: Any) -> Any:
    """The launch bound given to `simt.function`, unchecked; None for a SIMT helper."""
    return getattr(fn, _THREADS, None)


def mark_stub(fn: F) -> F:
    """Mark a host declaration of a language op, which kernels may only name through the module alias."""
    setattr(fn, _STUB, True)
    return fn


def is_stub(fn: Any) -> bool:
    """Whether the function declares a language op."""
    return bool(getattr(fn, _STUB, False))


def vector_function(fn: F) -> F:
    """Mark a function on registers (`vf.*`); it is expanded where vector code calls it."""
    return _mark(fn, VECTOR)


def stage(fn: F) -> F:
    """Mark a stage of the automatic pipeline; without the `pipeline` option it is a plain helper."""
    return _mark(fn, STAGE)


def inline(fn: F) -> F:
    """Does nothing: plain functions are expanded in place anyway. Emits a DeprecationWarning."""
    warnings.warn("pl.inline does nothing: helpers are expanded in place", DeprecationWarning, stacklevel=2)
    return fn


@overload
def simt_function(fn: F) -> F: ...
@overload
def simt_function(fn: None = None, *, max_threads: int) -> Callable[[F], F]: ...
def simt_function(fn: Any = None, *, max_threads: Any = None) -> Any:
    """Mark a thread function: launchable with `max_threads` (1..2048), a helper of other SIMT functions without.

    TypeError when called with neither argument. The bound itself is checked at the first launch.
    """
    if fn is None and max_threads is None:
        raise TypeError("pl.simt.function() needs max_threads=..., or is written without parentheses")

    def mark(body: F) -> F:
        setattr(body, _THREADS, max_threads)
        return _mark(body, SIMT)

    return mark if fn is None else mark(fn)
