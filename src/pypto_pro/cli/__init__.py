"""The `pypto-pro` command. One file a sub-command, imported only when it is the one invoked.

A sub-command's module is named like it and holds a click command called `command`. Exit status: 0 clean, 1 findings
(or a mistake in the kernel), 2 wrong usage.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import click

from pypto_pro import __version__
from pypto_pro.diag.names import nearest

SUMMARIES = {
    "check": "Run a script with every launch checked, and report all findings.",
    "run": "Run a device script on this machine, unedited.",
    "layout": "Where every on-chip tile lies, whether it fits, and why bytes may be shared.",
    "audit": "Whether a host wrapper stays within the delivery boundary.",
    "ir": "Print a kernel's typed IR, at any stage of compilation.",
    "build": "Compile kernels ahead of time.",
    "cache": "Show or clear the cache of compiled kernels.",
    "ops": "List the operations of the language, or show one entry.",
    "explain": "Explain a diagnostic code with a broken and a mended kernel.",
    "doctor": "Show versions, CPU features and settings of this installation.",
}


class LazyGroup(click.Group):
    """A group that knows its sub-commands by name and imports one when it is invoked."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of `SUMMARIES`."""
        return [name for name in SUMMARIES if importlib.util.find_spec(f"{__name__}.{name}")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command behind a name, None for names that do not exist."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"{__name__}.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest name in the message about an unknown one."""
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            near = nearest(args[0], self.list_commands(ctx))
            ctx.fail(f"no such command '{args[0]}'" + (f"; did you mean '{near}'?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of sub-commands, from `SUMMARIES` alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUMMARIES[name]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the sub-command; a diagnosed mistake is printed and ends with status 1, without a traceback."""
        from pypto_pro.diag.errors import DiagnosticError

        try:
            return super().invoke(ctx)
        except DiagnosticError as error:
            from pypto_pro.diag.render_text import render

            click.echo(render(getattr(error, "findings", None) or [error.diagnostic]), err=True)
            ctx.exit(1)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pypto-pro")
def main() -> None:
    """Write, run and prove Ascend 950 tile kernels on any CPU."""
