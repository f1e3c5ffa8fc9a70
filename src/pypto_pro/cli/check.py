"""`pypto-pro check SCRIPT`: run a script with every launch under the checks, and report all of them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from pypto_pro.runtime.options import SCHEDULES

if TYPE_CHECKING:
    from pypto_pro.diag import Diagnostic
    from pypto_pro.runtime.checking import Report


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True})
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--schedule", type=click.Choice(SCHEDULES), default=None, help="Which runnable instruction goes first.")
@click.option("--seed", type=click.IntRange(0), default=None, help="Seed of schedule `random`.")
@click.option("--schedules", type=click.IntRange(1), default=None, help="Runs a launch; the others are random.")
@click.option("--replay", metavar="SCHEDULE:SEED", help="Run as a finding says it was found, e.g. random:7.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print the report as SARIF 2.1.0.")
@click.pass_context
def command(
    ctx: click.Context, script: str, args: tuple[str, ...], schedule: str | None, seed: int | None,
    schedules: int | None, replay: str | None, as_json: bool, as_sarif: bool,
) -> None:  # fmt: skip
    """Run SCRIPT with ARGS, every kernel launch under all checks, and report what was found.

    Exit status: 0 nothing but notes, 1 errors or warnings, or the script failed, 2 wrong usage.
    """
    if replay is not None:
        schedule, seed = parse_replay(replay)
    settings = {"CHECK": "1", "SCHEDULE": schedule, "SEED": seed, "SCHEDULES": schedules}
    machine_readable = as_json or as_sarif
    reports: list[Report] = []
    with environment(settings):
        failure = run_script(script, args, reports, quiet=machine_readable)
    findings = merged(reports)
    if as_json:
        from pypto_pro.diag.render_json import to_json

        document = {
            "launches": len(reports),
            "findings": to_json(findings),
            "looked_at": [r.looked_at for r in reports],
            "script_failed": failure is not None,
        }
        click.echo(json.dumps(document, indent=2))
    elif as_sarif:
        from pypto_pro import __version__
        from pypto_pro.diag.render_sarif import to_sarif

        click.echo(json.dumps(to_sarif(findings, __version__), indent=2))
    else:
        show(reports, findings)
    if failure is not None:
        click.echo(failure, err=True)
    ctx.exit(1 if failure is not None or any(str(f.severity) != "note" for f in findings) else 0)


def parse_replay(text: str) -> tuple[str, int]:
    """`random:7` as (schedule, seed)."""
    name, _, number = text.partition(":")
    if name not in SCHEDULES or not (number or "0").isdigit():
        raise click.BadParameter(f"'{text}' is not SCHEDULE:SEED", param_hint="--replay")
    return name, int(number or 0)


@contextlib.contextmanager
def environment(settings: dict[str, Any]) -> Iterator[None]:
    """Settings as environment variables, so that they hold in every thread of the script."""
    changed = {f"PYPTO_PRO_{name}": str(value) for name, value in settings.items() if value is not None}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def run_script(script: str, args: tuple[str, ...], reports: list[Report], *, quiet: bool) -> str | None:
    """Run the script as `python SCRIPT ARGS` would. What went wrong with it, None when nothing did."""
    from pypto_pro.cli.scripts import describe, run_as_main
    from pypto_pro.diag.errors import DiagnosticError
    from pypto_pro.runtime.checking import collecting, rejected

    argv, path, main = sys.argv, sys.path[:], sys.modules["__main__"]
    out = contextlib.redirect_stdout(sys.stderr) if quiet else contextlib.nullcontext()
    try:
        with out, collecting(lambda report: took(report, reports)):
            run_as_main(script, args)
    except DiagnosticError as error:
        reports.append(rejected(error))
    except SystemExit as ended:
        if ended.code not in (None, 0):
            return f"{script} ended with status {ended.code}"
    except Exception as error:
        return f"{script} failed:\n{describe(error, script)}"
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = argv, path, main
    return None


def took(report: Report, reports: list[Report]) -> None:
    """One more launch; a terminal shows how far the script has come."""
    if reports:
        reports[-1] = followed(reports[-1], len(reports) + 1, report.looked_at["kernel"])
    reports.append(report)
    if sys.stderr.isatty():
        looked = report.looked_at
        runs = sum(run["instructions"] for run in looked["runs"])
        click.echo(f"launch {len(reports)}: `{looked['kernel']}`, {runs} instructions", err=True)


def followed(report: Report, number: int, kernel: str) -> Report:
    """A report whose left-over flags and credits say which launch would start with them."""
    text = f"launch {number}, `{kernel}`, would start with it"
    findings = [
        replace(f, consequences=(*f.consequences, text)) if f.kind == "leftover_flag" else f for f in report.findings
    ]
    return replace(report, findings=findings)


def merged(reports: list[Report]) -> list[Diagnostic]:
    """The findings of all launches; equal ones of several launches once, with their counts added."""
    found: dict[Any, Diagnostic] = {}
    for report in reports:
        for finding in report.findings:
            key = (finding.code, finding.kernel, finding.message, finding.spans)
            before = found.get(key)
            if before is not None:
                effects = tuple(dict.fromkeys((*before.consequences, *finding.consequences)))
                finding = replace(before, count=before.count + finding.count, consequences=effects)
            found[key] = finding
    return sorted(found.values(), key=lambda f: f.severity.rank)


def show(reports: list[Report], findings: list[Diagnostic]) -> None:
    """The report for people."""
    from pypto_pro.diag.names import counted
    from pypto_pro.diag.render_text import render, summary
    from pypto_pro.runtime.looked_at import looked_at_lines

    if findings:
        click.echo(render(findings) + "\n")
    click.echo(f"{counted(len(reports), 'launch', 'launches')} checked: {summary(findings)}")
    for lines in dict.fromkeys("\n".join(looked_at_lines(r.looked_at)) for r in reports):
        click.echo(lines)
