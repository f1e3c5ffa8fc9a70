"""`pypto-pro layout FILE`: the on-chip address table of a kernel or plan file, its proofs, and better addresses."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pypto_pro.cli.kernel_files import Variant, load, parse_target, usage_errors

if TYPE_CHECKING:
    from pypto_pro.enums import MemorySpace
    from pypto_pro.memory.advice import Advice
    from pypto_pro.memory.check import LayoutReport
    from pypto_pro.memory.design import Design, Parallel

PLAN_SUFFIXES = (".yaml", ".yml", ".json")
FORMATS = ("text", "md", "json", "svg")
FILE_WIDTH = 200
READS = {"read": "read", "move": "read", "write": "write", "load": "write", "insert": "write"}


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    file: str
    kernel: str | None
    variant: Variant
    capacities: tuple[str, ...]
    views: tuple[str, ...]
    parallel: tuple[str, ...]
    separate: tuple[str, ...]
    reuse: bool
    proved: bool
    scatter: bool
    pins: tuple[str, ...]
    solver: str


@click.command()
@click.argument("target", metavar="FILE[:KERNEL]")
@click.option("--kernel", help="The kernel of a Python file, or the case of a plan file.")
@click.option("--shape", "shapes", multiple=True, metavar="PARAM=2x3", help="The shape of a tensor.")
@click.option("--key", "keys", multiple=True, metavar="NAME=VALUE", help="A tiling key or datatype field.")
@click.option("--capacity", "capacities", multiple=True, metavar="SPACE=BYTES", help="The capacity of the product.")
@click.option("--view", "views", multiple=True, metavar="A=B", help="B deliberately reinterprets the bytes of A.")
@click.option("--parallel", multiple=True, metavar="A:OP,B:OP", help="L1 accesses that may run at the same time.")
@click.option("--plan", "planning", is_flag=True, help="Choose better addresses.")
@click.option("--no-reuse", is_flag=True, help="Plan as if everything were in use all the time.")
@click.option("--proved", is_flag=True, help="Plan only sharing whose order is there: no new mutex ids or flags.")
@click.option("--scatter", is_flag=True, help="Plan the slots of a group one by one.")
@click.option("--separate", multiple=True, metavar="A=B", help="Plan two L1 slots into different banks.")
@click.option("--pin", "pins", multiple=True, metavar="NAME", help="A tile that keeps its address in the plan.")
@click.option("--solver", type=click.Choice(("auto", "search", "cp-sat")), default="auto", help="Who plans.")
@click.option("--diff", is_flag=True, help="Print only a patch with the planned addresses.")
@click.option("--write", is_flag=True, help="Put the planned addresses into FILE; plans as --proved does.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="Form of the report.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--svg", "svg_file", type=click.Path(dir_okay=False), help="Also draw the memory map into this file.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the report to a file.")
@click.option("--strict", is_flag=True, help="Warnings fail, too.")
def command(target: str, kernel: str | None, shapes: tuple[str, ...], keys: tuple[str, ...],
            capacities: tuple[str, ...], views: tuple[str, ...], parallel: tuple[str, ...], planning: bool,
            no_reuse: bool, proved: bool, scatter: bool, separate: tuple[str, ...], pins: tuple[str, ...],
            solver: str, diff: bool, write: bool, form: str, as_json: bool, svg_file: str | None, output: str | None,
            strict: bool) -> None:  # fmt: skip
    """Report where every on-chip tile lies, whether it fits, and why bytes may be shared.

    FILE is a Python file with kernels, or a plan (YAML, JSON). Options that name one of several things, --shape to
    --parallel, --separate and --pin, may be repeated. Exit status: 0 no error, 1 errors, 2 wrong usage.
    """
    file, named = split_target(target)
    options = Options(file, kernel or named, Variant.of(keys, shapes), capacities, views, parallel, separate,
                      not no_reuse, proved or write, scatter, pins, solver)  # fmt: skip
    if not planning and (diff or write or no_reuse or proved or scatter or separate or pins):
        raise click.UsageError("--diff, --write, --no-reuse, --proved, --scatter, --separate, --pin need --plan")
    design = load_design(options)
    report, advice = examine(design, options, planning)
    if not diff:  # a patch stands alone, so that it can be piped
        show(report, advice, "json" if as_json else form, output)
    if svg_file:
        from pypto_pro.report.layout_svg import layout_svg

        Path(svg_file).write_text(layout_svg(report), encoding="utf-8")
    refused = False
    if advice is not None and (diff or write):
        refused = not apply_edit(file, advice, diff, write)
    if write and not proved and not no_reuse:
        tell_left_out(design, replace(options, proved=False))
    severities = {f.severity for f in (advice or report).findings}
    if refused or "error" in severities or (strict and "warning" in severities):
        click.get_current_context().exit(1)


def split_target(text: str) -> tuple[str, str | None]:
    """`FILE`, `FILE.py:KERNEL` or `PLAN.yaml:CASE`; names of cases may hold dashes."""
    file, colon, name = text.rpartition(":")
    if colon and file.endswith(PLAN_SUFFIXES) and not Path(text).is_file():
        return file, name
    return parse_target(text)


def load_design(options: Options) -> Design:
    """The design in a file, with the declarations of the command line added."""
    if not Path(options.file).is_file():
        raise click.UsageError(f"no file '{options.file}'")
    if options.file.endswith(PLAN_SUFFIXES):
        from pypto_pro.memory.plan_file import read_plan

        design = read_plan(options.file, options.kernel)
    else:
        design = load_kernel(options)
    views = tuple(parse_pair(text, "--view", design) for text in options.views)
    parallel = tuple(parse_parallel(text, design) for text in options.parallel)
    return replace(design, views=(*design.views, *views), parallel=(*design.parallel, *parallel))


def load_kernel(options: Options) -> Design:
    """The design of one specialisation of a kernel: the keys and shapes given, or the first legal key."""
    module = load(options.file)
    from pypto_pro.memory.extract import design_of_kernel
    from pypto_pro.runtime.inspect import find_kernel, kernel_ir

    variant = options.variant
    with usage_errors():
        kernel = find_kernel(module, options.kernel)
        variant.check(kernel)
        variant = variant.completed(kernel)
        ir = kernel_ir(kernel, None, variant.key, variant.shapes, variant.datatypes, to_run=False)
    return design_of_kernel(ir, variant.specialisation())


def examine(design: Design, options: Options, planning: bool) -> tuple[LayoutReport, Advice | None]:
    """The report, of the planned addresses when a plan is asked for."""
    from pypto_pro.memory.advice import advise
    from pypto_pro.memory.check import check_layout
    from pypto_pro.memory.cpsat import SolverMissingError
    from pypto_pro.memory.machine import Chip
    from pypto_pro.memory.problem import Wishes

    chip = Chip(dict(parse_capacity(text) for text in options.capacities))
    if not planning:
        return check_layout(design, chip), None
    for name in options.pins:
        if design.tile(name) is None:
            raise click.BadParameter(f"no tile is named '{name}'", param_hint="--pin")
    separate = tuple(parse_pair(text, "--separate", design) for text in options.separate)
    wishes = Wishes(options.reuse, options.proved, options.scatter, separate, options.pins or None)
    try:
        advice = advise(design, chip, wishes, options.solver)  # type: ignore[arg-type]  # one of the choices
    except SolverMissingError as error:
        raise click.UsageError(str(error)) from None
    return advice.report, advice


def show(report: LayoutReport, advice: Advice | None, form: str, output: str | None) -> None:
    """Write the report to a file or to standard output."""
    if form == "text":
        show_text(report, advice, output)
        return
    text = rendered(report, advice, form)
    if output:
        Path(output).write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False)


def rendered(report: LayoutReport, advice: Advice | None, form: str) -> str:
    """The report as Markdown, JSON or SVG."""
    match form:
        case "md":
            from pypto_pro.report.layout_markdown import layout_markdown

            return layout_markdown(report, advice)
        case "svg":
            from pypto_pro.report.layout_svg import layout_svg

            return layout_svg(report)
    from pypto_pro.report.layout_json import layout_document

    return json.dumps(layout_document(report, advice), indent=2) + "\n"


def show_text(report: LayoutReport, advice: Advice | None, output: str | None) -> None:
    """The terminal form, with the findings as excerpts of the source."""
    from rich.console import Console

    from pypto_pro.cli.tables import console
    from pypto_pro.diag.render_text import render, summary
    from pypto_pro.report.layout_text import print_layout

    findings = [f.diagnostic for f in (advice or report).findings]
    out = Console(width=FILE_WIDTH, highlight=False, color_system=None) if output else console()
    with out.capture() as capture:
        print_layout(out, report, advice)
    tables = "\n".join(line.rstrip() for line in capture.get().splitlines())
    parts = [tables, render(findings, color=False if output else None), summary(findings)]
    text = "\n\n".join(part for part in parts if part)
    if output:
        Path(output).write_text(text + "\n", encoding="utf-8")
    else:
        click.echo(text)


def apply_edit(file: str, advice: Advice, diff: bool, write: bool) -> bool:
    """Print the plan as a patch, write it into the file, or both; name what needs a hand.

    False when it should be written but the file would not be correct as it stands then.
    """
    from pypto_pro.report.layout_edit import edited, obstacles, unified_diff

    source = Path(file).read_text(encoding="utf-8")
    result = edited(source, file, advice)
    if diff:
        click.echo(unified_diff(source, result.text, file), nl=False)
        for needed in advice.assumed:
            click.echo(f"to be added: {needed.diagnostic.message}", err=True)
    found = obstacles(advice, result) if write else ()
    if write and not found:
        Path(file).write_text(result.text, encoding="utf-8")
    for change in result.by_hand:
        click.echo(f"by hand, line {change.tile.line}: `{change.tile.name}` {change.text}", err=True)
    for text in found:
        click.echo(f"nothing written: {text}", err=True)
    return not found


def tell_left_out(design: Design, options: Options) -> None:
    """Say on standard error how much more could be shared with orders that the kernel does not have yet."""
    _, free = examine(design, options, planning=True)
    if free is not None and free.assumed:
        count = len(free.assumed)
        pairs = "1 pair of slots" if count == 1 else f"{count} pairs of slots"
        what = f"not shared, since nothing orders it yet: {pairs}. `--plan` without --write lists what to add (L122)"
        click.echo(f"{what}; add that, then plan and write again", err=True)


# --- values of options -----------------------------------------------------------------------------------------------


def parse_capacity(text: str) -> tuple[MemorySpace, int]:
    """`Vec=253952`; the number may be hexadecimal."""
    from pypto_pro.memory.machine import SPACE_ORDER

    name, _, value = text.partition("=")
    spaces = {s.name: s for s in SPACE_ORDER}
    number = parse_int(value)
    if name not in spaces or number is None or number <= 0:
        raise click.BadParameter(f"'{text}' is not SPACE=BYTES, SPACE one of {', '.join(spaces)}",
                                 param_hint="--capacity")  # fmt: skip
    return spaces[name], number


def parse_int(text: str) -> int | None:
    """A decimal or hexadecimal number, None for anything else."""
    try:
        return int(text, 0)
    except ValueError:
        return None


def parse_pair(text: str, option: str, design: Design) -> tuple[str, str]:
    """`A=B`, both names of tiles, or of slots as `name#i` or `name[i]`."""
    a, equals, b = text.partition("=")
    if not equals:
        raise click.BadParameter(f"'{text}' is not A=B", param_hint=option)
    return parse_slot(a, option, design), parse_slot(b, option, design)


def parse_slot(text: str, option: str, design: Design) -> str:
    """The name of a tile or slot of the design."""
    name, bracket, index = text.strip().replace("]", "").replace("[", "#").partition("#")
    if design.tile(name) is None:
        from pypto_pro.diag.names import did_you_mean

        hint = did_you_mean(name, [t.name for t in design.tiles])
        raise click.BadParameter(f"no tile is named '{name}'" + (f"; {hint}" if hint else ""), param_hint=option)
    return f"{name}#{index}" if bracket else name


def parse_parallel(text: str, design: Design) -> Parallel:
    """`A:read,B:write`; ops may be named by what they do to L1: load and insert write, move reads."""
    from pypto_pro.memory.design import Parallel

    sides: list[Any] = [side.partition(":") for side in text.split(",")]
    if len(sides) != 2 or any(op not in READS for _, _, op in sides):
        raise click.BadParameter(f"'{text}' is not A:OP,B:OP with OP one of {', '.join(READS)}",
                                 param_hint="--parallel")  # fmt: skip
    (a, _, a_op), (b, _, b_op) = sides
    first, second = parse_slot(a, "--parallel", design), parse_slot(b, "--parallel", design)
    return Parallel(first, READS[a_op], second, READS[b_op], a_op, b_op)
