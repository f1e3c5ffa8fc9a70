"""Running an author's script in this process as `python SCRIPT ARGS...` would, with device "npu" being the CPU."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


def run_as_main(script: str, args: Sequence[str]) -> None:
    """Run a file as the program `__main__`; its module stays until the process ends, as Python's own does.

    Raises whatever the script raises, SystemExit included, SyntaxError for a file that is no Python, and OSError for
    one that cannot be read.
    """
    import pypto_pro.torch_shim  # noqa: F401  (its import is what activates it)

    path = str(Path(script).resolve())  # as Python does: source lines are found wherever the script goes
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    module = ModuleType("__main__")
    module.__dict__.update(__file__=path, __cached__=None)
    sys.modules["__main__"] = module
    sys.argv = [script, *args]
    sys.path[0] = str(Path(path).parent)
    exec(code, module.__dict__)


def describe(error: BaseException, script: str) -> str:
    """The traceback of what a script raised, from its own frame on; with the way to get torch when that is missing."""
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        error.add_note("install it with: pip install 'pypto-pro[torch]'")
    path = str(Path(script).resolve())
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != path:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))
