"""Host declarations of the language's operations, made from the op table when a name is first looked up.

They exist for help(), signatures and mistakes: an operation only runs inside a kernel.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from pypto_pro.diag.names import did_you_mean
from pypto_pro.frontend.markers import mark_stub


@cache
def stub(key: str) -> Callable[..., Any]:
    """The declaration of an op by its dotted name (`add`, `system.bar_all`, `vf.exp`).

    Called on the host it checks the arguments against the signature (TypeError) and raises RuntimeError.
    AttributeError, with the nearest name, when there is no such op.
    """
    from pypto_pro.ops.table import keys, lookup

    entry = lookup(key)
    if entry is None:
        owner, _, _ = key.rpartition(".")
        hint = did_you_mean(key, (known for known in keys() if known.rpartition(".")[0] == owner))
        raise AttributeError(f"the language has no `{_shown(key)}`" + (f"; {hint}" if hint else ""))
    signature = _signature(entry)

    def declared(*args: Any, **kwargs: Any) -> Any:
        if signature is not None:
            signature.bind(*args, **kwargs)
        raise RuntimeError(f"{_shown(key)} is an operation of the device: it runs inside a kernel only")

    declared.__name__ = declared.__qualname__ = key.rpartition(".")[2]
    declared.__doc__ = entry.doc
    if signature is not None:
        declared.__signature__ = signature  # type: ignore[attr-defined]
    return mark_stub(declared)


def _shown(key: str) -> str:
    return key if key.startswith("vf.") else f"pl.{key}"


def _signature(entry: Any) -> inspect.Signature | None:
    """The signature of an op; None for vocabulary whose arguments only the front end knows."""
    if not entry.params and entry.meaning is None:
        return None
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return inspect.Signature(
        [inspect.Parameter(p.name, kinds[p.keyword_only], default=p.default) for p in entry.params]
    )


def names_below(owner: str) -> list[str]:
    """Names of the ops in a namespace: "" for `pl` itself, `system`, `vf`, `simt`."""
    from pypto_pro.ops.table import keys

    return sorted(key.rpartition(".")[2] for key in keys() if key.rpartition(".")[0] == owner)
