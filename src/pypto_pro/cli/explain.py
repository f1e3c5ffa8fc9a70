"""`pypto-pro explain [CODE]`: the page of a code, or the list of all codes."""

from __future__ import annotations

from itertools import groupby

import click
from rich.markdown import Markdown

from pypto_pro.cli.tables import console, print_table
from pypto_pro.diag.codes import CODES
from pypto_pro.diag.explain import explain

GROUPS = {
    "P": "the kernel or the launch is rejected",
    "S": "synchronisation",
    "D": "data",
    "M": "placement",
    "L": "the layout report",
    "W": "host wrappers",
    "K": "the knowledge record of a delivery",
}


@click.command()
@click.argument("code", required=False)
def command(code: str | None) -> None:
    """Explain CODE (for example S101): what it means, a broken kernel, the mended one, how the device shows it.

    Without CODE, list every code.
    """
    if code is None:
        for letter, entries in groupby(CODES.values(), key=lambda entry: entry.code[0]):
            rows = [(entry.code, str(entry.severity), entry.kind, entry.meaning) for entry in entries]
            print_table(("code", "severity", "kind", "meaning"), rows, title=f"\n{GROUPS.get(letter, letter)}")
        return
    try:
        text = explain(code)
    except KeyError as error:
        raise click.UsageError(str(error.args[0])) from None
    if console().is_terminal:
        console().print(Markdown(text, code_theme="ansi_dark"))
    else:
        click.echo(text)  # piped: the Markdown itself, so that it can be copied and run
