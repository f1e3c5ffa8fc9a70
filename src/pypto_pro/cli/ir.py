"""`pypto-pro ir FILE:KERNEL`: the typed IR of one specialisation, after any pass."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import click

from pypto_pro.diag.errors import DiagnosticError
from pypto_pro.diag.names import did_you_mean
from pypto_pro.dtypes import DataType

CORES = ("cube", "vector")


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


def parse_target(text: str) -> tuple[str, str | None]:
    """`FILE` or `FILE:KERNEL`; a drive letter is no kernel name."""
    file, colon, kernel = text.rpartition(":")
    return (file, kernel) if colon and kernel.isidentifier() and not Path(text).is_file() else (text, None)


@click.command()
@click.argument("target", metavar="FILE[:KERNEL]")
@click.option("--after", metavar="PASS", help="Stop after this pass; `frontend` shows the IR before all passes.")
@click.option("--core", type=click.Choice(CORES), help="Only the program of one core kind.")
@click.option("--key", "keys", multiple=True, metavar="NAME=VALUE", help="A tiling key or datatype field; repeatable.")
@click.option("--shape", "shapes", multiple=True, metavar="PARAM=2x3", help="The shape of a tensor; repeatable.")
def command(target: str, after: str | None, core: str | None, keys: tuple[str, ...], shapes: tuple[str, ...]) -> None:
    """Print the typed IR of a kernel. KERNEL may be left out when FILE holds only one.

    Shapes are needed for the dynamic and static dimensions only.
    """
    file, kernel = parse_target(target)
    if not Path(file).is_file():
        raise click.UsageError(f"no file '{file}'")
    from pypto_pro.runtime.inspect import ir_text

    chosen = dict(map(parse_key, keys))
    dtypes = {name: value for name, value in chosen.items() if isinstance(value, DataType)}
    key: dict[str, Any] = {name: value for name, value in chosen.items() if name not in dtypes}
    try:
        text = ir_text(file, kernel, after, core, key or None, dict(map(parse_shape, shapes)), datatypes=dtypes or None)
    except DiagnosticError:
        raise  # a mistake in the kernel
    except (OSError, LookupError, ValueError, TypeError) as error:
        raise click.UsageError(str(error.args[0] if isinstance(error, KeyError) else error)) from error
    click.echo(text)
