"""Kernels of a file without launching them: finding one, and its IR as text (`pypto-pro ir FILE:KERNEL`)."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pypto_pro.diag.names import did_you_mean
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind
from pypto_pro.frontend.specialise import Reading
from pypto_pro.ir.nodes import Kernel
from pypto_pro.ir.printer import print_kernel
from pypto_pro.runtime.jit import JitKernel


def load_file(file: str | Path) -> ModuleType:
    """A Python file as a module that others can find (dataclasses with postponed annotations need that).

    The file runs as on import, not as a script; one that ends itself with status 0 has run. FileNotFoundError, or what
    the file itself raises.
    """
    path = Path(file).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return module
        sys.modules.pop(path.stem, None)
        if before is not None:
            sys.modules[path.stem] = before
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module


def kernels_of(module: ModuleType) -> dict[str, JitKernel]:
    """The jit kernels of a module by name, in order of definition; imported ones included."""
    return {name: value for name, value in vars(module).items() if isinstance(value, JitKernel)}


def find_kernel(module: ModuleType, name: str | None = None) -> JitKernel:
    """A kernel by name, or the only one. LookupError naming what there is."""
    found = kernels_of(module)
    if name is None:
        if len({id(kernel) for kernel in found.values()}) == 1:
            return next(iter(found.values()))
        if not found:
            raise LookupError(f"{module.__name__} has no kernels")
        raise LookupError(f"{module.__name__} has {len(found)} kernels, name one: {', '.join(found)}")
    if name not in found:
        hint = did_you_mean(name, found)
        listed = ", ".join(found) or "none"
        raise LookupError(f"{module.__name__} has no kernel `{name}`; {hint or f'there are {listed}'}")
    return found[name]


def kernel_ir(
    kernel: JitKernel,
    after: str | None = None,
    key: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    datatypes: Mapping[str, DataType] | None = None,
    *,
    to_run: bool = True,
) -> Kernel:
    """The IR of one variant behind a pass (None: all).

    Without a key the first legal one is taken; `shapes` are those of tensors with STATIC axes; `datatypes` as at a
    launch, `to_run` as in `Reading`. Raises ValueError and TypeError for a wrong signature, and what the front
    end raises.
    """
    schema = kernel.key_schema
    if schema is not None:
        key = schema.check(dict(key)) if key is not None else next(schema.legal_keys(), None)
        if key is None:
            raise ValueError(f"`{schema.owner.__name__}` has no legal key")
    chosen: tuple[tuple[str, DataType], ...] = ()
    if kernel.dtype_schema is not None:
        chosen = kernel.dtype_schema.check(dict(datatypes or {}))
    static = kernel.binder.static_from_shapes(shapes or {})
    return kernel.compile(static, key, chosen, after, reading=Reading(to_run=to_run))


def ir_text(
    file: str | Path,
    kernel: str | None,
    after: str | None = None,
    core: str | None = None,
    key: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    datatypes: Mapping[str, DataType] | None = None,
    lines: bool = False,
) -> str:
    """IR text of a kernel of a file, for one core kind (`cube`, `vector`) or both.

    `lines` adds the source line of each statement. FileNotFoundError, LookupError, ValueError for a wrong request.
    """
    kinds = [kind.value for kind in CoreKind]
    if core is not None and core not in kinds:
        raise ValueError(f"core is {core!r}; valid are {', '.join(kinds)}")
    found: Any = kernel_ir(find_kernel(load_file(file), kernel), after, key, shapes, datatypes)
    return print_kernel(found, CoreKind(core) if core is not None else None, lines=lines)
