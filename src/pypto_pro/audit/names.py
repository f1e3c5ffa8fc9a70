"""Which rule a name falls under: members of a tensor, functions of torch, library modules.

The lists are `data/torch_names.toml`.
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

STDLIB = frozenset(sys.stdlib_module_names)
ARRAY_LIBRARIES = frozenset(
    ("numpy", "cupy", "jax", "scipy", "pandas", "ml_dtypes", "tensorflow", "paddle", "mlx", "xarray", "numba", "dask")
)
SYNC_NAMES = frozenset(("synchronize", "wait", "wait_stream", "wait_event"))
# Attributes that plain Python scalars and strings have too: on a value of unknown kind they prove nothing.
SCALAR_MEMBERS = (
    frozenset(dir(int)) | frozenset(dir(float)) | frozenset(dir(str)) | frozenset(dir(tuple)) | frozenset(dir(list))
)
EMPTY_KEYWORDS = frozenset(("size", "dtype", "device", "layout", "memory_format"))


@dataclass(frozen=True)
class TorchNames:
    """The parsed data file: `members` and `functions` map a name to its code."""

    metadata_attributes: frozenset[str]
    metadata_methods: frozenset[str]
    members: dict[str, str]
    functions: dict[str, str]
    exact: dict[str, str]
    prefixes: dict[str, str]
    dtypes: frozenset[str]
    constants: frozenset[str]
    sequences: frozenset[str]


@cache
def torch_names() -> TorchNames:
    """The data file, read once."""
    text = resources.files("pypto_pro.audit").joinpath("data/torch_names.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)

    def by_name(table: dict[str, list[str]]) -> dict[str, str]:
        return {name: code for code, names in table.items() for name in names}

    return TorchNames(
        metadata_attributes=frozenset(data["metadata"]["attributes"]),
        metadata_methods=frozenset(data["metadata"]["methods"]),
        members=by_name(data["members"]),
        functions=by_name(data["functions"]),
        exact=dict(data["exact"]),
        prefixes=dict(data["prefixes"]),
        dtypes=frozenset(data["constants"]["dtypes"]),
        constants=frozenset(data["constants"]["others"]),
        sequences=frozenset(data["sequences"]["names"]),
    )


def member_code(name: str) -> str | None:
    """The code of attribute or method `name` of a tensor; None for a name no tensor has."""
    names = torch_names()
    if name in names.members:
        return names.members[name]
    if name.endswith("_") and not name.startswith("_"):
        return "W112" if names.members.get(name[:-1]) == "W112" else "W113"
    if name.startswith("new_"):
        return "W108"
    if name.startswith(("is_", "has_")):
        return "W114"
    return None


def function_code(qualname: str) -> str:
    """The code of calling the torch function `qualname` (`torch.cat`, `torch_npu.npu_format_cast`); `torch.empty` is
    not asked.
    """
    names = torch_names()
    if qualname in names.exact:
        return names.exact[qualname]
    parts = qualname.split(".")
    last = parts[-1]
    if last in SYNC_NAMES and len(parts) > 2:
        return "W111"
    if parts[:2] == ["torch", "Tensor"] and len(parts) == 3:
        return member_code(last) or "W116"
    for end in range(len(parts), 0, -1):
        code = names.prefixes.get(".".join(parts[:end]))
        if code is not None and not (end == len(parts) == 2 and last in names.members):
            return code
    if parts[0] != "torch" or len(parts) != 2:
        return "W115"
    if last in names.functions:
        return names.functions[last]
    code = names.members.get(last) or _in_place_code(last)
    return "W115" if code is None or code == "W114" else code


def _in_place_code(name: str) -> str | None:
    """The code of a torch function with a trailing underscore (`torch.relu_`)."""
    names = torch_names()
    if not name.endswith("_") or name.startswith("_"):
        return None
    base = names.members.get(name[:-1]) or names.functions.get(name[:-1])
    return "W112" if base == "W112" else ("W113" if base else None)


def star_names() -> frozenset[str]:
    """The names `from torch import *` brings into a file, as far as the rules know them."""
    names = torch_names()
    return (
        names.dtypes
        | names.constants
        | frozenset(names.functions)
        | frozenset(names.members)
        | {"empty", "Tensor", "Size", "nn"}
    )


def root_of(qualname: str) -> str:
    """The top-level module of a dotted name."""
    return qualname.split(".", 1)[0]
