"""`pypto-pro cache [show|clear|path]`: what compiled code is kept on disk between processes."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from typing import Any

import click

from pypto_pro import diskcache
from pypto_pro.cli.tables import print_table
from pypto_pro.diskcache import MEGABYTE

KINDS = {"kernels": "whole kernels, ready to launch", "names": "which names kernels look up",
         "objects": "object code of single functions"}  # fmt: skip


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Show or clear the cache of compiled kernels.

    PYPTO_PRO_CACHE_DIR says where it is, PYPTO_PRO_CACHE_MB how large it may grow. Without a sub-command: show.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(show)


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(as_json: bool = False) -> None:
    """What is in the cache, by kind."""
    facts = collect()
    if as_json:
        click.echo(json.dumps(facts, indent=1))
        return
    click.echo(f"{facts['path']}: {facts['bytes'] / MEGABYTE:.1f} of {facts['limit_bytes'] / MEGABYTE:.0f} MB")
    rows = [
        (kind, str(row["entries"]), f"{row['bytes'] / MEGABYTE:.1f}", f"{row['idle_hours']:.1f}", KINDS.get(kind, ""))
        for kind, row in facts["kinds"].items()
    ]
    print_table(("kind", "entries", "MB", "hours since last use", "what"), rows)


def collect() -> dict[str, Any]:
    """The facts as plain data: path, bytes, limit, and entries, bytes and hours since the last use of each kind."""
    by_kind: dict[str, list[diskcache.Entry]] = defaultdict(list)
    for entry in diskcache.entries():
        by_kind[entry.kind].append(entry)
    now = time.time()
    kinds = {
        kind: {
            "entries": len(found),
            "bytes": sum(entry.size_bytes for entry in found),
            "idle_hours": max(0.0, now - max(entry.used for entry in found)) / 3600,
        }
        for kind, found in sorted(by_kind.items())
    }
    return {
        "path": str(diskcache.directory()),
        "bytes": sum(row["bytes"] for row in kinds.values()),
        "limit_bytes": diskcache.limit_bytes(),
        "kinds": kinds,
    }


@command.command()
def clear() -> None:
    """Remove every entry; the next launch of each kernel compiles it anew."""
    count, size = diskcache.clear()
    click.echo(f"removed {count} entries, {size / MEGABYTE:.1f} MB, from {diskcache.directory()}")


@command.command()
def path() -> None:
    """Print the directory."""
    click.echo(str(diskcache.directory()))
