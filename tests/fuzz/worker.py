"""Runs damaged kernels and says how each was answered: one line of JSON a case, read from and written to pipes.

Every case is launched on native, every fourth one also goes through `pypto_pro.check`. What has no right to happen is
anything but an error of the language at a place, an ArgumentError, a StuckError, or a launch that ends.
"""

from __future__ import annotations

import dataclasses
import json
import linecache
import math
import os
import resource
import signal
import sys
import traceback
import types
import warnings
from typing import Any

import numpy as np
from damage import damaged

import pypto_pro
from pypto_pro.diag.errors import ArgumentError, ArgumentKindError, CheckError, ParserError, PlacementError, StuckError
from pypto_pro.dtypes import DataType
from pypto_pro.frontend.annotations import DimPolicy
from pypto_pro.frontend.signature import ParamKind, ParamSpec
from pypto_pro.runtime.jit import JitKernel

ANSWERS = (ParserError, ArgumentError, ArgumentKindError, StuckError, PlacementError, CheckError)
OURS = (AssertionError, KeyError, AttributeError, NameError, RecursionError, StopIteration, IndexError)
PACKAGE = os.path.dirname(pypto_pro.__file__)
HOST_CALL = "runs inside a kernel only"
"""In the answer to a device operation in host code, here mostly annotations."""
LAUNCH_SECONDS = 3
MEMORY_BYTES = 6 << 30
MOST_ELEMENTS, MOST_EXTENT = 1 << 26, 1 << 14
DYNAMIC_SIZE = 64


class TooLong(KeyboardInterrupt):
    """A damaged loop may run for ever; the launch must let go of it, as for Ctrl-C."""


def outcome(seed: int) -> dict[str, Any]:
    """`{"seed", "answer"}`, and `problem` when the answer is none of the language."""
    file, text = damaged(seed)
    told: dict[str, Any] = {"seed": seed, "file": file.name}
    name = f"<damaged {seed}>"
    try:
        code = compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return told | {"answer": "python"}
    module = sys.modules[name] = types.ModuleType(name)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        return told | (_defined(code, module) or _launched(module, seed))
    finally:
        signal.alarm(0)
        del sys.modules[name], linecache.cache[name]


def _defined(code: types.CodeType, module: types.ModuleType) -> dict[str, Any]:
    """Run the file; `{}` when that works. Decorators and annotations may refuse what they are given."""
    try:
        exec(code, vars(module))
    except (TypeError, ValueError, AttributeError) as error:
        return {"answer": f"{type(error).__name__} at definition"}
    except RuntimeError as error:
        answer = {"answer": f"{type(error).__name__} at definition"}
        return answer if HOST_CALL in str(error) else answer | {"problem": trace(error)}
    except BaseException as error:
        answer = {"answer": f"{type(error).__name__} at definition"}
        ours = any(f.filename.startswith(PACKAGE) for f in traceback.extract_tb(error.__traceback__))
        return answer | {"problem": trace(error)} if ours and not isinstance(error, ANSWERS) else answer
    return {}


def _launched(module: types.ModuleType, seed: int) -> dict[str, Any]:
    """Launch every kernel of the file."""
    answer = "no kernel"
    try:
        for kernel in dict.fromkeys(k for k in vars(module).values() if isinstance(k, JitKernel)):
            answer = launch(kernel, seed)
    except ANSWERS as error:
        problem = internal(error)
        return {"answer": type(error).__name__} | ({"problem": problem} if problem else {})
    except TooLong:
        return {"answer": "interrupted"}
    except BaseException as error:
        return {"answer": type(error).__name__, "problem": trace(error)}
    return {"answer": answer}


def trace(error: BaseException) -> str:
    """The end of a traceback."""
    return "".join(traceback.format_exception(error)[-12:])


def internal(error: Any) -> str | None:
    """Why an error is one of ours, not the author's."""
    if not error.diagnostic.spans:
        return f"no place: {error.diagnostic.message}"
    cause = error.__cause__
    if isinstance(cause, OURS) and cause.__traceback__ is not None:
        return f"{type(cause).__name__} inside: {error.diagnostic.message}\n{trace(cause)}"
    return None


def launch(kernel: JitKernel, seed: int) -> str:
    """Launch a kernel on fitting arguments."""
    args = [argument(spec) for spec in kernel.specs]
    form: list[Any] = [None, 2]
    if kernel.key_schema is not None:
        form.append(next(kernel.key_schema.legal_keys()))
    if kernel.datatype_schema is not None:
        form.append(dict.fromkeys(kernel.datatype_schema, DataType.DT_FP16))
    launcher = kernel[tuple(form)]
    if seed % 4 == 0:
        signal.alarm(LAUNCH_SECONDS)
        pypto_pro.check(launcher, *args)
    signal.alarm(LAUNCH_SECONDS)
    with pypto_pro.options(executor="native"):
        launcher(*args)
    signal.alarm(0)
    return "ran"


def argument(spec: ParamSpec) -> Any:
    """Something that fits a parameter, the same at every call."""
    if spec.kind is ParamKind.TENSOR:
        assert spec.dtype is not None
        shape = tuple(DYNAMIC_SIZE if isinstance(dim, DimPolicy) else dim for dim in spec.dims)
        return array(spec.dtype, shape)
    if spec.kind is ParamKind.PTR:
        return np.zeros(1 << 16, np.uint8)
    if spec.kind is ParamKind.TILING:
        assert spec.tiling_class is not None
        return tiling(spec)
    if spec.dtype is None:  # no annotation of a kernel: the first compile says so
        return 0
    return True if spec.dtype is DataType.DT_BOOL else 2.0 if spec.dtype.is_float() else 3


def array(dtype: DataType, shape: tuple[int, ...]) -> Any:
    """Small numbers of a dtype; a shape no machine holds becomes one the launch refuses."""
    kind = np.dtype(np.uint8) if dtype.numpy is None else dtype.numpy
    if math.prod(shape) > MOST_ELEMENTS:
        return np.broadcast_to(np.zeros(1, kind), [min(extent, MOST_EXTENT) for extent in shape])
    return (np.arange(int(np.prod(shape))) % 5).astype(kind).reshape(shape)


def tiling(spec: ParamSpec) -> Any:
    """An instance of the tiling class with small values."""
    values = {}
    for field in dataclasses.fields(spec.tiling_class):  # type: ignore[arg-type]
        text = str(field.type)
        length = int(text[text.index("[") + 1 : -1]) if "[" in text else None
        values[field.name] = 2 if length is None else [2] * length
    return spec.tiling_class(**values)  # type: ignore[misc]


def interrupt(*_: Any) -> None:
    """SIGALRM."""
    raise TooLong


def main() -> None:
    """Seeds from standard input, answers to the given descriptor; what kernels print goes nowhere."""
    out = os.fdopen(os.dup(1), "w")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    sys.stdout = os.fdopen(quiet, "w")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, interrupt)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(outcome(int(line))), file=out, flush=True)


if __name__ == "__main__":
    main()
