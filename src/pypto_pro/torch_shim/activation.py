"""When the stand-in takes effect: at once if torch is loaded, else right after torch is; `torch_npu` resolves to it."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import multiprocessing.spawn
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from pypto_pro.diag.errors import DiagnosticError
from pypto_pro.torch_shim.missing import MissingModuleError, author_site, missing_module

_MODULES = {
    "torch_npu": "pypto_pro.torch_shim.torch_npu",
    "torch_npu.npu": "pypto_pro.torch_shim.npu",
    "torch_npu.npu.amp": "pypto_pro.torch_shim.amp",
    "torch_npu.profiler": "pypto_pro.torch_shim.profiler",
}
_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"


class ActivationError(DiagnosticError, RuntimeError):
    """The stand-in cannot be used in this process."""

    default_code = "P006"


def activate() -> None:
    """Let "npu" mean the stand-in in this process. Calling it again does nothing; there is no way back.

    torch is not imported here. ActivationError when the real `torch_npu`, or another device, is loaded already, or when
    torch has no interface for devices written in Python.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if "torch_npu" in sys.modules:
        raise ActivationError(
            "`torch_npu` is loaded already: the stand-in cannot take its place",
            hint="start the script with `pypto-pro run`, or import pypto_pro.torch_shim first",
        )
    if sys.modules.get("torch") is not None:
        _install()
    sys.meta_path.insert(0, _Finder())
    multiprocessing.spawn.get_command_line = _spawned


_plain_command_line = multiprocessing.spawn.get_command_line


def _spawned(**prepared: Any) -> list[Any]:
    """The command line of a process that multiprocessing starts anew, which has the stand-in as well."""
    line = _plain_command_line(**prepared)
    if "-c" not in line:  # a frozen program, which starts itself
        return line
    program = line.index("-c") + 1
    return [*line[:program], f"import {__package__}; {line[program]}", *line[program + 1 :]]


class _Finder(importlib.abc.MetaPathFinder):
    """Answers for torch_npu, and installs the stand-in once torch is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The stand-in's modules under their names; torch's own spec with the installation behind it."""
        if fullname == "torch":
            return _torch_spec()
        if fullname in _MODULES:
            return importlib.util.spec_from_loader(fullname, _Alias(_MODULES[fullname]), is_package=True)
        if fullname.startswith("torch_npu."):
            raise missing_module(fullname)
        return None


class _Alias(importlib.abc.Loader):
    """Loads a module of this package under the name scripts know."""

    def __init__(self, real_name: str) -> None:
        self.real_name = real_name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of this package. MissingModuleError without torch."""
        if importlib.util.find_spec("torch") is None:
            raise MissingModuleError(
                f"`{spec.name}` needs torch, which is not installed",
                author_site(),
                hint="pip install 'pypto-pro[torch]'",
            )
        importlib.import_module("torch")
        module = importlib.import_module(self.real_name)
        module.__path__ = []  # so that a missing sub-module reaches the finder
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it ran under its real name."""


class _ThenInstall(importlib.abc.Loader):
    """torch's loader, with the installation after it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As torch's own loader does."""
        return self.inner.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        """Load torch without device libraries that would take the key, then install."""
        module.__loader__ = self.inner
        if module.__spec__ is not None:
            module.__spec__.loader = self.inner
        before = os.environ.get(_AUTOLOAD)
        os.environ[_AUTOLOAD] = "0"
        try:
            self.inner.exec_module(module)
        finally:
            if before is None:
                del os.environ[_AUTOLOAD]
            else:
                os.environ[_AUTOLOAD] = before
        _install()


def _torch_spec() -> ModuleSpec | None:
    """torch's spec as the other finders have it; None when it is not installed."""
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            continue
        spec = finder.find_spec("torch", None)
        if spec is not None:
            if spec.loader is not None:
                spec.loader = _ThenInstall(spec.loader)
            return spec
    return None


def _install() -> None:
    """Give torch the device."""
    import torch

    interface = getattr(torch._C, "_acc", None)
    if not hasattr(interface, "register_python_privateuseone_device_guard"):
        message = f"torch {torch.__version__} has no interface for devices written in Python"
        raise ActivationError(message, hint="pip install 'pypto-pro[torch]' installs a version that has it")
    taken = torch._C._get_privateuse1_backend_name()
    if taken != "privateuseone":
        raise ActivationError(f"torch has a device `{taken}` from another library: the stand-in cannot be added")
    from pypto_pro.torch_shim.device import register

    register()
