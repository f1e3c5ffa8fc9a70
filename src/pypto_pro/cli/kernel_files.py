"""What the commands that name a kernel of a file share: the target, keys and shapes, loading, and what goes wrong."""

from __future__ import annotations

import ast
import contextlib
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from pypto_pro.cli.scripts import describe
from pypto_pro.diag.errors import DiagnosticError
from pypto_pro.diag.names import did_you_mean
from pypto_pro.dtypes import DataType

if TYPE_CHECKING:
    from pypto_pro.runtime.jit import JitKernel


def parse_target(text: str) -> tuple[str, str | None]:
    """`FILE` or `FILE:KERNEL`; a drive letter is no kernel name."""
    file, colon, kernel = text.rpartition(":")
    return (file, kernel) if colon and kernel.isidentifier() and not Path(text).is_file() else (text, None)


def parse_key(text: str) -> tuple[str, object]:
    """`NAME=VALUE`: the value of a tiling key as a Python literal, `DT_...` of a datatype variable as a `DataType`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"'{text}' is not NAME=VALUE")
    if value.startswith("DT_"):
        return name, _dtype(value)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _dtype(name: str) -> DataType:
    if name not in DataType.__members__:
        near = did_you_mean(name, DataType.__members__)
        raise click.BadParameter(f"unknown dtype '{name}'" + (f"; {near}" if near else ""))
    return DataType[name]


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`param=2x3` gives ("param", (2, 3)); `param=` the empty shape of rank 0."""
    name, equals, dims = text.partition("=")
    parts = [part for part in dims.split("x") if part]
    if not equals or not name or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"'{text}' is not PARAM=2x3 with positive sizes")
    return name, tuple(int(part) for part in parts)


@dataclass(frozen=True)
class Variant:
    """The choices of `--key` and `--shape`: a tiling key (None: the first legal one), datatypes and shapes by name."""

    key: Mapping[str, Any] | None
    datatypes: Mapping[str, DataType] | None
    shapes: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, keys: Sequence[str], shapes: Sequence[str]) -> Variant:
        """From the texts of the options. BadParameter for one that is malformed."""
        given = dict(map(parse_key, keys))
        datatypes = {name: value for name, value in given.items() if isinstance(value, DataType)}
        key = {name: value for name, value in given.items() if name not in datatypes}
        return cls(key or None, datatypes or None, dict(map(parse_shape, shapes)))

    def check(self, *kernels: JitKernel) -> None:
        """ValueError for a choice among none, and for a dtype that is none or that no parameter takes."""
        typed = {name: kernel for kernel in kernels if kernel.dtype_schema for name in kernel.dtype_schema.variables}
        for name in self.key or ():
            if name in typed and all(kernel.key_schema is None for kernel in kernels):
                raise ValueError(f"`{name}` of `{typed[name].source.name}` takes a dtype: --key {name}=DT_FP16")
        names = " and ".join(f"`{kernel.source.name}`" for kernel in kernels)
        has = "has" if len(kernels) == 1 else "have"
        if self.key and all(kernel.key_schema is None for kernel in kernels):
            raise ValueError(f"{names} {has} no tiling key; --key {next(iter(self.key))} chooses nothing")
        if self.datatypes and all(kernel.dtype_schema is None for kernel in kernels):
            raise ValueError(f"{names} {has} no datatype variables; --key {next(iter(self.datatypes))} chooses nothing")
        for name in self.datatypes or ():
            if name not in typed:
                each = ", ".join(f"--key {parameter}=DT_FP16" for parameter in typed)
                raise ValueError(f"`{name}` takes no dtype; {names} {has} {', '.join(typed)}, chosen as {each}")

    def completed(self, kernel: JitKernel) -> Variant:
        """With what it leaves open: the first legal tiling key, and dtypes; standard error says what was taken."""
        key = self.key
        if key is None and kernel.key_schema is not None:
            key = next(kernel.key_schema.legal_keys(), None)  # compiling says that there is none
        datatypes = self.dtypes_of(kernel)
        made = replace(self, key=key, datatypes=datatypes)
        given = self.specialisation()
        taken = [f"{name}={value}" for name, value in made.specialisation().items() if name not in given]
        if taken:
            click.echo(f"chosen without --key: {', '.join(taken)}", err=True)
        return made

    def dtypes_of(self, kernel: JitKernel) -> Mapping[str, DataType] | None:
        """A dtype for every parameter of the kernel that wants one: as given, as of its variable, or FP16."""
        schema, given = kernel.dtype_schema, self.datatypes or {}
        if schema is None:
            return self.datatypes
        of_variable = {schema.variables[name]: dtype for name, dtype in given.items() if name in schema.variables}
        open_ = {p: of_variable.get(v, DataType.DT_FP16) for p, v in schema.variables.items() if p not in given}
        return {**given, **open_}

    def specialisation(self) -> dict[str, object]:
        """The choices as a report's heading shows them."""
        shapes = {name: "x".join(map(str, dims)) for name, dims in self.shapes.items()}
        return {**(self.key or {}), **{name: dtype.name for name, dtype in (self.datatypes or {}).items()}, **shapes}


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """What a wrong request raises becomes wrong usage, status 2; a mistake in the kernel stays what it is."""
    try:
        yield
    except (DiagnosticError, click.ClickException):
        raise
    except (OSError, LookupError, ValueError, TypeError, RuntimeError) as error:
        raise click.UsageError(str(error.args[0] if isinstance(error, KeyError) else error)) from error


def load(file: str) -> ModuleType:
    """The author's file, imported on device npu; what it prints goes to standard error, away from the answer.

    What it raises on the way is shown as Python would, and ends with status 2. A file that ends itself with status 0
    is a file like any other.
    """
    if not Path(file).is_file():
        raise click.UsageError(f"no file '{file}'")
    import pypto_pro.torch_shim  # noqa: F401  (so that files which import torch_npu load)
    from pypto_pro.runtime.inspect import load_file

    try:
        with contextlib.redirect_stdout(sys.stderr):
            return load_file(file)
    except DiagnosticError:
        raise
    except (Exception, SystemExit) as error:  # anything: it is the author's program
        click.echo(describe(error, file) + f"{file} does not load{_where(error, file)}", err=True)
        click.get_current_context().exit(2)


def _where(error: BaseException, file: str) -> str:
    """The last line of the file itself that was running, and what keeps it from running here."""
    path = str(Path(file).resolve())
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    if not lines or isinstance(error, ImportError):
        return ""
    guard = 'what runs the kernels belongs under `if __name__ == "__main__":`, which is not run here'
    return f": line {lines[-1]} raised {type(error).__name__}. Only its kernels are needed; {guard}"
