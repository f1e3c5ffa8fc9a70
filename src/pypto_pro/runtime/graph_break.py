"""Launches inside `torch.compile`: the tracer breaks its graph at a launch and stays out of this package's code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_kept_out: list[Callable[..., Any]] = []


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that torch must call, not trace. Works without torch; `keep_out` completes it with torch."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    function._torchdynamo_disable_msg = "a kernel launch"  # type: ignore[attr-defined]
    _kept_out.append(function)
    return function


def keep_out() -> None:
    """Tell torch's frame evaluation, when torch is loaded, to run the marked functions and all they call as they are.

    Costs one look-up once done. A torch without this interface traces into a launch and breaks the graph there.
    """
    torch = sys.modules.get("torch")
    if not _kept_out or not hasattr(torch, "compile"):
        return
    interface = sys.modules.get("torch._C._dynamo.eval_frame")
    if interface is None or not hasattr(interface, "set_code_exec_strategy"):
        return
    skip = interface._FrameAction.SKIP
    while _kept_out:
        function = _kept_out.pop()
        interface.set_code_exec_strategy(function.__code__, interface._FrameExecStrategy(skip, skip))
