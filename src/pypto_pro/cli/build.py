"""`pypto-pro build FILE[:KERNEL]`: compile kernels ahead of their first launch, and leave their artifacts."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from pypto_pro.cli.kernel_files import Variant, load, parse_target, usage_errors
from pypto_pro.cli.tables import print_table

if TYPE_CHECKING:
    from pypto_pro.runtime.offline import Built


@click.command()
@click.argument("target", metavar="FILE[:KERNEL]")
@click.option("--out", default="build", show_default=True, metavar="DIR", help="Where the artifacts are written.")
@click.option("--key", "keys", multiple=True, metavar="NAME=VALUE", help="A tiling key or datatype field; repeatable.")
@click.option("--all-keys", is_flag=True, help="Build every legal tiling key.")
@click.option("--shape", "shapes", multiple=True, metavar="PARAM=2x3", help="The shape of a tensor; repeatable.")
@click.option("--headers", is_flag=True, help="Also write the headers for the operator's host code.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    target: str, out: str, keys: tuple[str, ...], all_keys: bool, shapes: tuple[str, ...], headers: bool, as_json: bool
) -> None:
    """Compile the kernels of FILE, or one of them, into the disk cache, so that their first launch compiles nothing.

    The artifacts below DIR are IR and LLVM text of every core, the layout table and the tiling header. Without --key
    the first legal tiling key is built, with FP16 for every datatype variable.
    """
    file, name = parse_target(target)
    variant = Variant.of(keys, shapes)
    if all_keys and variant.key:
        raise click.UsageError("--all-keys and --key NAME=VALUE of a tiling key exclude each other")
    module = load(file)
    with usage_errors():
        built, folders = _build(module, name, out, variant, all_keys, headers)
    if as_json:
        click.echo(json.dumps({"built": [b.to_json() for b in built], "headers": [*map(str, folders)]}, indent=1))
        return
    rows = [(b.kernel, _shown(b.key), b.kind, f"{1000 * b.seconds:.0f} ms", str(b.folder)) for b in built]
    print_table(("kernel", "key", "kind", "took", "files"), rows)
    for folder in folders:
        click.echo(f"headers: {folder}")


def _build(
    module: ModuleType, name: str | None, out: str, variant: Variant, all_keys: bool, headers: bool
) -> tuple[list[Built], list[Path]]:
    from pypto_pro.runtime.inspect import find_kernel, kernels_of
    from pypto_pro.runtime.offline import build, generate_binary_headers, legal_keys

    named = [find_kernel(module, name)] if name is not None else []
    chosen = named or [*dict.fromkeys(kernels_of(module).values())] or [find_kernel(module)]
    variant.check(*chosen)
    built, folders = [], []
    for kernel in chosen:
        keyed = kernel.key_schema is not None
        schema, dtypes = kernel.dtype_schema, variant.dtypes_of(kernel)
        chosen_dtypes = schema.check(dtypes) if schema is not None else None
        for key in legal_keys(kernel) if all_keys and keyed else [variant.key if keyed else None]:
            built.append(build(kernel, out, key, variant.shapes, chosen_dtypes))
            _write_report(built[-1])
        if headers:
            folders.append(generate_binary_headers(kernel, out))
    return built, folders


def _write_report(built: Built) -> None:
    """The layout report in full, beside the plain table of the artifacts."""
    from pypto_pro.memory.check import check_layout
    from pypto_pro.memory.extract import design_of_kernel
    from pypto_pro.report.layout_markdown import layout_markdown

    report = check_layout(design_of_kernel(built.ir, dict(built.key or {})))
    (built.folder / "layout.md").write_text(layout_markdown(report), encoding="utf-8")


def _shown(key: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in key.items()) if key else ""
