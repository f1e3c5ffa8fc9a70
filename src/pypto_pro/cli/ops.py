"""`pypto-pro ops [NAME] [--json]`: the op table as a list, or one entry of it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from typing import Any

import click

from pypto_pro.cli.tables import paragraphs, print_table
from pypto_pro.diag.names import nearest
from pypto_pro.ops.entry import OpEntry
from pypto_pro.ops.table import all_ops

DEPENDS = "by operands"  # the pipe or section follows from the operand spaces


def to_json(entry: OpEntry) -> dict[str, Any]:
    """The public facts of one entry: what `--json` prints."""
    return {
        "name": entry.name,
        "aliases": list(entry.aliases),
        "family": entry.family,
        "kind": entry.kind,
        "pipe": _fixed(entry.pipe),
        "section": _fixed(entry.section),
        "native": entry.native,
        "doc": entry.doc,
    }


def _fixed(value: Any) -> str | None:
    """The name of a pipe or section; DEPENDS when a rule chooses it."""
    if value is None:
        return None
    if inspect.isroutine(value):
        return DEPENDS
    return str(value) if isinstance(value, str) else str(value.name)


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of entries.")
def command(name: str | None, as_json: bool) -> None:
    """List the operations of the language, or show the entry of NAME (`pl.add`, `add`, `vf.exp`)."""
    entries = all_ops()
    found = entries if name is None else _find(name, entries)
    if as_json:
        click.echo(json.dumps([to_json(entry) for entry in found], indent=1))
    elif name is None:
        _print_list(found)
    else:
        for entry in found:
            _print_entry(entry)


def _find(name: str, entries: Iterable[OpEntry]) -> list[OpEntry]:
    """The entry named `name` in full, else those whose last part it is. Raises UsageError when there are none."""
    by_name = {spelled: entry for entry in entries for spelled in (entry.name, *entry.aliases)}
    exact = by_name.get(name) or by_name.get(f"pl.{name}")
    if exact is not None:
        return [exact]
    by_leaf: dict[str, dict[str, OpEntry]] = {}
    for spelled, entry in by_name.items():
        by_leaf.setdefault(spelled.rsplit(".", 1)[-1], {})[entry.name] = entry
    if name in by_leaf:
        return list(by_leaf[name].values())
    near = nearest(name, by_name)
    if "." not in name or near is None:  # a bare `addd` is nearer to `add` of the language than to `vf.add`
        leaf = nearest(name.rsplit(".", 1)[-1], by_leaf)
        near = near if leaf is None else min(by_leaf[leaf], key=lambda found: not found.startswith("pl."))
    raise click.UsageError(f"no operation '{name}'" + (f"; did you mean '{near}'?" if near else ""))


def _print_list(entries: list[OpEntry]) -> None:
    rows = []
    for entry in entries:
        facts = to_json(entry)
        words = (entry.doc.splitlines() or [""])[0]
        rows.append((entry.name, entry.family, entry.kind, facts["pipe"] or "", facts["section"], entry.native, words))
    columns = ("name", "family", "kind", "pipe", "section", "native", "what it does")
    print_table(columns, rows, spare=("native", "family", "kind", "section", "pipe"))


def _print_entry(entry: OpEntry) -> None:
    facts = to_json(entry)
    click.echo(f"{entry.name}({_signature(entry)})")
    for key in ("aliases", "family", "kind", "pipe", "section", "native"):
        value = ", ".join(facts[key]) if isinstance(facts[key], list) else facts[key]
        if value:
            click.echo(f"  {key:8} {value}")
    if entry.tolerance is not None:
        rule, reason = entry.tolerance.rule, entry.tolerance.reason
        click.echo(paragraphs(f"native differs from the definition by at most {rule}: {reason}", "  "))
    if entry.doc:
        click.echo("\n" + paragraphs(entry.doc, "  "))


def _signature(entry: OpEntry) -> str:
    """Parameters as the author writes them, `*` before those that only keywords reach."""
    parts = []
    star = False
    for param in entry.params:
        if param.keyword_only and not star:
            parts.append("*")
            star = True
        parts.append(param.name if param.required else f"{param.name}={param.default}")
    return ", ".join(parts)
