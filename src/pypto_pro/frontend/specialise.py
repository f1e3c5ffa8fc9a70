"""What one compiled variant of a kernel fixes: static dimensions, the tiling key, the dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.frontend.annotations import DimPolicy
from pypto_pro.frontend.signature import ParamSpec


@dataclass(frozen=True)
class Reading:
    """What a kernel is read for.

    `to_run` is False for one that is only looked at, which may use a TileType made outside of it; no launch takes that.
    `may_return`: its last statement may return a value (`pl.function`). `strict_ssa`: every name is bound once.
    """

    to_run: bool = True
    may_return: bool = False
    strict_ssa: bool = False


@dataclass(frozen=True)
class Specialisation:
    """`static`: (parameter index, axis, size) of every STATIC axis and of every axis behind `...`.

    `key` are the tiling key fields, `datatypes` the dtype variables; both become constants of the kernel and its
    helpers. `reading` says what for.
    """

    static: tuple[tuple[int, int, int], ...] = ()
    key: Mapping[str, int] = field(default_factory=dict)
    datatypes: Mapping[str, DataType] = field(default_factory=dict)
    reading: Reading = Reading()

    def dims(self, index: int, spec: ParamSpec) -> tuple[int | None, ...]:
        """The dims of the tensor parameter at `index`: sizes, None for DYNAMIC. ValueError when a size is missing."""
        sizes = {axis: size for param, axis, size in self.static if param == index}
        explicit = tuple(self._dim(spec, axis, sizes) for axis in range(len(spec.dims)))
        if not spec.open_ended:
            return explicit
        return explicit + tuple(sizes[axis] for axis in sorted(sizes) if axis >= len(explicit))

    @staticmethod
    def _dim(spec: ParamSpec, axis: int, sizes: Mapping[int, int]) -> int | None:
        written = spec.dims[axis]
        if written is DimPolicy.DYNAMIC:
            return None
        if isinstance(written, int):
            return written
        if axis not in sizes:
            raise ValueError(f"axis {axis} of `{spec.name}` is STATIC and needs a size")
        return sizes[axis]

    def constants(self) -> dict[str, Any]:
        """Names that the variant binds in the kernel and in its helpers."""
        return {**self.key, **self.datatypes}
