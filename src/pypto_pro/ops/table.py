"""The op table: importing this module defines every entry. Families register themselves; this file only lists them.

Vector ops all refuse tiles that start inside a 32-byte block, which no family has to say.
"""

from __future__ import annotations

import importlib
import pkgutil

import pypto_pro.ops as _package
from pypto_pro.enums import PipeType
from pypto_pro.ops import rules
from pypto_pro.ops.entry import OpEntry, registered

_INFRASTRUCTURE = {
    "entry", "operands", "tensors", "table", "builder", "extents", "vec_lowering",
    "vf_operands", "vf_builder", "vf_rules", "vf_dist",
}  # fmt: skip

for _module in pkgutil.iter_modules(_package.__path__):
    if _module.name not in _INFRASTRUCTURE:
        importlib.import_module(f"{_package.__name__}.{_module.name}")

for _entry in {id(e): e for e in registered().values()}.values():
    if _entry.pipe is PipeType.V and _entry.family.startswith("tile.") and "rewrite" not in _entry.facets:
        rules.refuse_split_blocks(_entry)

_BY_KEY: dict[str, OpEntry] = {name.removeprefix("pl."): entry for name, entry in registered().items()}


def lookup(key: str) -> OpEntry | None:
    """The entry behind a dotted name without the module alias (`add`, `system.bar_all`, `vf.add`), or an IR op name."""
    return _BY_KEY.get(key.removeprefix("pl."))


def entry_of(name: str) -> OpEntry:
    """The entry of a name that must have one, as every op of a verified kernel does."""
    entry = lookup(name)
    assert entry is not None, name
    return entry


def keys() -> tuple[str, ...]:
    """Every name `lookup` knows, aliases included; for nearest-name help."""
    return tuple(_BY_KEY)


def all_ops() -> list[OpEntry]:
    """Every entry once, by family and name."""
    return sorted({id(e): e for e in _BY_KEY.values()}.values(), key=lambda e: (e.family, e.name))
