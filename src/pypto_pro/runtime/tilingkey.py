"""TilingKey: a finite compile-time configuration, one compiled variant per value; schema, checks and packing.

Packed form: `sum(index of the value << bits of all earlier fields)`, the first field in the lowest bits.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pypto_pro.diag.names import did_you_mean

MAX_BITS = 64


class TilingKeyField:
    """A field of a tiling key class: `Width = TilingKeyField(bits=2, values=[16, 64, 128])`.

    `bits` is the room of the value's index in the packed key, `values` the legal values (any ints). They are checked
    when the class is given to `@pl.jit(tiling_key=...)`.
    """

    def __init__(self, *, bits: int, values: Iterable[int]) -> None:
        self.bits = bits
        self.values = tuple(values)

    def __repr__(self) -> str:
        return f"TilingKeyField(bits={self.bits}, values={list(self.values)})"


@dataclass(frozen=True)
class TilingKeySchema:
    """The checked fields of a tiling key class, in definition order."""

    owner: Any
    fields: tuple[tuple[str, TilingKeyField], ...]

    @classmethod
    def of(
        cls, owner: Any, parameters: Iterable[str] = (), outer_names: Mapping[str, Any] | None = None
    ) -> TilingKeySchema:
        """The schema of a class; `parameters` and `outer_names` are the names its fields must not hide.

        Raises ValueError for anything the rules of the language reject.
        """
        if not inspect.isclass(owner):
            raise ValueError(f"tiling_key must be a class with TilingKeyField members, found {type(owner).__name__}")
        fields = tuple((name, value) for name, value in vars(owner).items() if isinstance(value, TilingKeyField))
        if not fields:
            raise ValueError(f"tiling key class `{owner.__name__}` has no TilingKeyField of its own")
        for name, field in fields:
            _check_field(name, field)
        total = sum(field.bits for _, field in fields)
        if total > MAX_BITS:
            raise ValueError(f"the fields of `{owner.__name__}` take {total} bits, a tiling key has {MAX_BITS}")
        if not callable(getattr(owner, "is_valid", _accept)):
            raise ValueError(f"`{owner.__name__}.is_valid` must be a method")
        _check_conflicts(fields, set(parameters), outer_names or {})
        return cls(owner, fields)

    @property
    def names(self) -> tuple[str, ...]:
        """Field names in definition order."""
        return tuple(name for name, _ in self.fields)

    def check(self, key: Any) -> dict[str, int]:
        """The launch key in field order. ValueError when it is no dict, misnamed, or holds an illegal combination."""
        if not isinstance(key, dict):
            raise ValueError(f"the tiling key must be a dict of {', '.join(self.names)}, found {type(key).__name__}")
        for name in key:
            if name not in self.names:
                hint = did_you_mean(str(name), self.names)
                raise ValueError(f"`{self.owner.__name__}` has no field `{name}`" + (f"; {hint}" if hint else ""))
        missing = [name for name in self.names if name not in key]
        if missing:
            raise ValueError(f"the tiling key lacks {', '.join(f'`{name}`' for name in missing)}")
        for name, field in self.fields:
            value = key[name]
            if isinstance(value, bool) or not isinstance(value, int) or value not in field.values:
                raise ValueError(f"tiling key field `{name}` is {value!r}, legal are {list(field.values)}")
        ordered = {name: key[name] for name in self.names}
        if not self.is_legal(tuple(ordered.values())):
            raise ValueError(f"`{self.owner.__name__}.is_valid` rejects {ordered}")
        return ordered

    def is_legal(self, values: tuple[int, ...]) -> bool:
        """What `is_valid` says of actual values in field order; true without one."""
        if not hasattr(self.owner, "is_valid"):
            return True
        return bool(object.__new__(self.owner).is_valid(values))

    def pack(self, key: Mapping[str, int]) -> int:
        """The 64-bit number of a checked key."""
        packed = offset = 0
        for name, field in self.fields:
            packed |= field.values.index(key[name]) << offset
            offset += field.bits
        return packed

    def unpack(self, packed: int) -> dict[str, int]:
        """The key of a packed number. ValueError when a field's index has no value."""
        key, offset = {}, 0
        for name, field in self.fields:
            index = packed >> offset & (1 << field.bits) - 1
            if index >= len(field.values):
                raise ValueError(f"index {index} of tiling key field `{name}` is past its {len(field.values)} values")
            key[name] = field.values[index]
            offset += field.bits
        return key

    def legal_keys(self) -> Iterator[dict[str, int]]:
        """Every legal key: all combinations that `is_valid` accepts, the last field varying fastest."""
        for values in itertools.product(*(field.values for _, field in self.fields)):
            if self.is_legal(values):
                yield dict(zip(self.names, values, strict=True))


def _accept(*_: Any) -> bool:
    return True


def _check_field(name: str, field: TilingKeyField) -> None:
    bits, values = field.bits, field.values
    if isinstance(bits, bool) or not isinstance(bits, int) or bits <= 0:
        raise ValueError(f"tiling key field `{name}`: bits must be a positive int, found {bits!r}")
    if not values:
        raise ValueError(f"tiling key field `{name}` has no values")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"tiling key field `{name}`: values must be ints, found {value!r}")
    if len(set(values)) != len(values):
        raise ValueError(f"tiling key field `{name}` lists a value twice: {list(values)}")
    if len(values) > 1 << min(bits, MAX_BITS):
        raise ValueError(f"tiling key field `{name}`: {len(values)} values do not fit {bits} bit{'s'[: bits != 1]}")


def _check_conflicts(
    fields: tuple[tuple[str, TilingKeyField], ...], parameters: set[str], outer_names: Mapping[str, Any]
) -> None:
    for name, _ in fields:
        if name in parameters:
            raise ValueError(f"tiling key field `{name}` has the name of a kernel parameter")
        if name in outer_names and not callable(outer_names[name]) and not name.startswith("__"):
            raise ValueError(f"tiling key field `{name}` has the name of a variable around the kernel")
