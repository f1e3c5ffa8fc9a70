"""`pypto-pro audit FILE...`: whether host wrappers stay within the delivery boundary."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pypto_pro import __version__
from pypto_pro.audit import AuditUsageError, Options, Report
from pypto_pro.audit.delivered import Knowledge, audit_file
from pypto_pro.audit.markdown import render_markdown
from pypto_pro.audit.runner import run_report
from pypto_pro.audit.text import diagnostics, render_report

_EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("audit")
@click.argument("files", nargs=-1, required=True, type=_EXISTING)
@click.option("--wrapper", "wrappers", multiple=True, metavar="NAME", help="Audit this function as a wrapper.")
@click.option("--driver", "drivers", multiple=True, metavar="NAME", help="This function is a driver: leave it out.")
@click.option("--outputs", default="", metavar="P[,P]", help="Kernel parameters the contract declares as outputs.")
@click.option("--delivery", "mode", flag_value="delivery", help="Apply the rules of a delivered file.")
@click.option("--staged", "mode", flag_value="staged", help="Apply the rules of a staged module file.")
@click.option("--samples", "mode", flag_value="samples", help="Study samples: every function is a driver.")
@click.option("--all-launchers", is_flag=True, help="Also audit functions that launch and have no other role.")
@click.option("--run", is_flag=True, help="Import the file and record real calls of the wrappers (needs torch).")
@click.option("--cases", type=_EXISTING, metavar="FILE", help="Inputs for --run, as JSON.")
@click.option("--kb-usage", type=click.Path(path_type=Path), metavar="FILE", help="Check this knowledge record.")
@click.option("--kb-selection", type=_EXISTING, metavar="FILE", help="The selection the record answers to.")
@click.option("--kb-root", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
              help="The knowledge base: existence, titles and hashes of references are checked.")  # fmt: skip
@click.option("--strict-binding", is_flag=True, help="One bound invariant an obligation in the knowledge record.")
@click.option("--design", type=_EXISTING, metavar="FILE", help="Design document that must plan nothing outside.")
@click.option("--allow-unproven", is_flag=True, help="Exit 0 when nothing was found but something stayed undecided.")
@click.option("--json", "form", flag_value="json", help="Print the report as JSON.")
@click.option("--markdown", "form", flag_value="markdown", help="Print Markdown for a pull request.")
@click.option("--sarif", "form", flag_value="sarif", help="Print a SARIF log.")
@click.pass_context
def command(
    ctx: click.Context, /, files: tuple[Path, ...], wrappers: tuple[str, ...], drivers: tuple[str, ...], outputs: str,
    mode: str | None, form: str | None, kb_usage: Path | None, kb_selection: Path | None, kb_root: Path | None,
    **flags: Any,
) -> None:  # fmt: skip
    """Audit the host wrappers in FILE...: one launch of one kernel, torch.empty for outputs, metadata, nothing else.

    Files are parsed, never imported, unless --run is given; --wrapper and --driver may be repeated. Exit status: 0
    within the boundary, 1 findings or something undecided, 2 wrong usage or a file that is no Python.
    """
    if (kb_usage is None) != (kb_selection is None):
        raise click.UsageError("--kb-usage and --kb-selection belong together")
    named = tuple(part.strip() for part in outputs.split(",") if part.strip())
    options = Options(wrappers, drivers, named, mode, flags["all_launchers"], flags["allow_unproven"])
    if flags["design"] is not None:
        options = replace(options, design=(str(flags["design"]), _text(flags["design"])))
    knowledge = (
        Knowledge(kb_usage, kb_selection, kb_root, flags["strict_binding"]) if kb_usage and kb_selection else None
    )
    if flags["run"]:
        import pypto_pro.torch_shim  # noqa: F401  (device scripts import torch_npu)
    reports = [_audit_one(path, options, knowledge, flags) for path in files]
    _print(reports, form)
    ctx.exit(max(report.exit_code for report in reports))


audit = command


def _audit_one(path: Path, options: Options, knowledge: Knowledge | None, flags: dict[str, Any]) -> Report:
    """The report of one file; what cannot be audited at all is wrong usage."""
    try:
        run = (lambda report: run_report(report, path, flags["cases"], "npu")) if flags["run"] else None
        return audit_file(path, options, knowledge, before_record=run)
    except AuditUsageError as error:
        raise click.UsageError(str(error)) from None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _print(reports: list[Report], form: str | None) -> None:
    """All reports in one form: JSON is one object for one file and a list for several."""
    match form:
        case "json":
            data = [report.to_json() for report in reports]
            click.echo(json.dumps(data[0] if len(data) == 1 else data, indent=2, ensure_ascii=False))
        case "sarif":
            from pypto_pro.diag.render_sarif import to_sarif

            found = [diagnostic for report in reports for diagnostic in diagnostics(report)]
            click.echo(json.dumps(to_sarif(found, __version__), indent=2, ensure_ascii=False))
        case "markdown":
            click.echo(render_markdown(reports), nl=False)
        case _:
            click.echo("\n\n".join(render_report(report) for report in reports))
