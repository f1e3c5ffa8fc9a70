"""A stand-in for `pypto_pro.language`: kernels only announce their launch, so recorder tests need no executor."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from pypto_pro.runtime.launch_hooks import LaunchEvent, notify


class StubKernel:
    """Announces launches; computes nothing."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def __getitem__(self, form: Any) -> Callable[..., None]:
        block_dim = form[1] if isinstance(form, tuple) else form
        return lambda *args, **kwargs: self._launch(block_dim, args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self._launch(1, args, kwargs)

    def _launch(self, block_dim: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = inspect.signature(self.fn).bind(*args, **kwargs)
        notify(LaunchEvent(self.fn.__name__, block_dim, bound.arguments))


class _Anything(ModuleType):
    """Every attribute exists and may be called or subscripted, as annotations need it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name)

    def __getitem__(self, item: Any) -> Any:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self


def jit(target: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`@pl.jit` and `@pl.jit(...)`."""
    return StubKernel if target is None else StubKernel(target)


def install(monkeypatch: Any) -> None:
    """Make `import pypto_pro.language as pl` give the stand-in."""
    import pypto_pro

    stub = _Anything("pypto_pro.language")
    stub.__dict__["jit"] = jit
    stub.__dict__["__path__"] = []
    monkeypatch.setitem(sys.modules, "pypto_pro.language", stub)
    monkeypatch.setattr(pypto_pro, "language", stub, raising=False)
