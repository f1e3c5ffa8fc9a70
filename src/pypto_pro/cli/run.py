"""`pypto-pro run SCRIPT`: run a device script on this machine, unedited."""

from __future__ import annotations

import os
import sys

import click

from pypto_pro.cli.scripts import describe, run_as_main
from pypto_pro.diag.errors import DiagnosticError
from pypto_pro.runtime.options import EXECUTORS, SCHEDULES


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--check", is_flag=True, help="Check every launch; print findings, stop at the first error.")
@click.option("--executor", type=click.Choice(EXECUTORS), help="What runs a launch.")
@click.option("--schedule", type=click.Choice(SCHEDULES), help="Which runnable instruction goes first (simulator).")
@click.option("--seed", type=click.IntRange(0), help="Seed of schedule `random`.")
@click.option("--keep", type=click.Path(file_okay=False), metavar="DIR", help="Write every compile's artifacts here.")
@click.pass_context
def command(
    ctx: click.Context, script: str, args: tuple[str, ...], check: bool, executor: str | None, schedule: str | None,
    seed: int | None, keep: str | None,
) -> None:  # fmt: skip
    """Run SCRIPT with ARGS as `python SCRIPT ARGS` would, with torch's device "npu" standing for this machine.

    `import torch_npu`, device="npu:0", x.npu() and torch.npu.* work as on the device (docs/device-scripts.md). Options
    come before SCRIPT. Exit status: the script's; 1 when it raised, 2 wrong usage.
    """
    settings = {
        "CHECK": "1" if check else None, "EXECUTOR": executor, "SCHEDULE": schedule, "SEED": seed, "KEEP": keep
    }  # fmt: skip
    os.environ.update({f"PYPTO_PRO_{name}": str(value) for name, value in settings.items() if value is not None})
    try:
        run_as_main(script, args)
    except DiagnosticError:
        raise  # the command group prints it, with the author's line
    except Exception as error:
        sys.stdout.flush()
        click.echo(describe(error, script), err=True, nl=False)
        ctx.exit(1)
