"""`pypto-pro ir FILE:KERNEL`: the typed IR of one specialisation, after any pass."""

from __future__ import annotations

import click

from pypto_pro.cli.kernel_files import Variant, load, parse_target, usage_errors

CORES = ("cube", "vector")


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
    file, name = parse_target(target)
    variant = Variant.of(keys, shapes)
    module = load(file)
    from pypto_pro.enums import CoreKind
    from pypto_pro.ir.printer import print_kernel
    from pypto_pro.runtime.inspect import find_kernel, kernel_ir

    with usage_errors():
        kernel = find_kernel(module, name)
        variant.check(kernel)
        variant = variant.completed(kernel)
        found = kernel_ir(kernel, after, variant.key, variant.shapes, variant.datatypes)
    click.echo(print_kernel(found, CoreKind(core) if core is not None else None))
