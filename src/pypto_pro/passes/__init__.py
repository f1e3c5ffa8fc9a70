"""The compiler passes, in order. Each is a function `Kernel -> Kernel` in a file of its own."""

from __future__ import annotations

import os
from collections.abc import Callable

from pypto_pro.ir.nodes import Kernel
from pypto_pro.ops.table import lookup
from pypto_pro.passes.auto_mutex import insert_mutexes

Pass = Callable[[Kernel], Kernel]

PASSES: tuple[tuple[str, Pass], ...] = (
    # locks are put around ops as the author wrote them, so nothing that moves or splits ops may come earlier
    ("auto_mutex", insert_mutexes),
)
FRONT_END = "frontend"
"""The name of the state before the first pass."""
NAMES = (FRONT_END, *(name for name, _ in PASSES))


def run(kernel: Kernel, after: str | None = None) -> Kernel:
    """All passes over a kernel, or those up to and including `after` (`frontend`: none).

    With PYPTO_PRO_VERIFY=1 (as under the tests) the verifier runs before the first pass and after each; what it finds
    is a mistake of the compiler and raises AssertionError. ValueError for an unknown pass name.
    """
    if after is not None and after not in NAMES:
        raise ValueError(f"unknown pass `{after}`; there are {', '.join(NAMES)}")
    verifying = os.environ.get("PYPTO_PRO_VERIFY", "0") == "1" or "PYTEST_CURRENT_TEST" in os.environ
    stage = FRONT_END
    for name, change in (("", None), *PASSES):
        if change is not None:
            if after == stage:
                break
            kernel, stage = change(kernel), name
        if verifying:
            _verify(kernel, stage)
    return kernel


def _verify(kernel: Kernel, stage: str) -> None:
    from pypto_pro.diag.render_text import render
    from pypto_pro.ir.verify import check

    found = check(kernel, lookup)
    assert not found, f"IR after {stage} breaks its rules:\n{render(found, color=False)}"
