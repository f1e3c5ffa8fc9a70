"""Legacy names that stand for another op with some operands or keywords already chosen. Real kernels use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto_pro.enums import PipeType
from pypto_pro.ops.entry import OpEntry, Section, read_params, register, registered
from pypto_pro.ops.operands import IntAttr, ScalarIn, VecIn, VecOrScalar, VecOut, VecScratch
from pypto_pro.ops.vec_compare import COMPARISONS

Chosen = tuple[str, dict[str, Any]]


def preset(name: str, arrange: Callable[..., Chosen]) -> OpEntry:
    """Register an op that is another one: `arrange` takes its operands and says which op, with which operands."""

    def meaning(*args: Any, **named: Any) -> Any:
        target, operands = arrange(*args, **named)
        body = registered()[f"pl.{target}"].meaning
        assert body is not None
        return body(**operands)

    doc = arrange.__doc__ or ""
    entry = OpEntry(
        f"pl.{name}", read_params(arrange), meaning, PipeType.V, Section.VECTOR, "tile.legacy", doc=doc
    )
    return register(entry).rewrite(arrange)


def _scalar_form(name: str, target: str) -> None:
    """`adds(out, lhs, scalar)` and the like: the tile-scalar form under a name of its own."""

    def arrange(out: VecOut, lhs: VecIn, scalar: ScalarIn) -> Chosen:
        return target, {"out": out, "lhs": lhs, "rhs": scalar}

    arrange.__doc__ = f"`{target}` of a tile and a scalar."
    preset(name, arrange)


for _name, _target in {"adds": "add", "subs": "sub", "muls": "mul", "divs": "div", "maxs": "maximum", "mins": "minimum",
                       "ands": "and_", "rems": "rem"}.items():
    _scalar_form(_name, _target)


def _reduction(name: str, target: str, dim: int) -> None:
    """`row_max(out, src, tmp)` and the like: a reduction with its axis in the name."""

    def arrange(out: VecOut, src: VecIn, tmp: VecScratch) -> Chosen:
        if target in ("maximum", "minimum"):
            return target, {"out": out, "lhs": src, "rhs": tmp, "dim": dim}
        return target, {"out": out, "src": src, "tmp": tmp, "dim": dim}

    arrange.__doc__ = f"`{target}` with dim={dim}."
    preset(name, arrange)


for _dim, _axis in enumerate(("row", "col")):
    for _name, _target in {"max": "maximum", "min": "minimum", "sum": "sum", "argmax": "argmax",
                           "argmin": "argmin"}.items():
        _reduction(f"{_axis}_{_name}", _target, _dim)


def _broadcast(name: str, target: str, dim: int) -> None:
    """`row_expand_sub(out, src, scalar)` and the like: a broadcast with its axis in the name."""

    def arrange(out: VecOut, src: VecIn, scalar: VecIn) -> Chosen:
        return target, {"out": out, "src": src, "scalar": scalar, "dim": dim}

    arrange.__doc__ = f"`{target}` with dim={dim}."
    preset(name, arrange)


for _dim, _axis in enumerate(("row", "col")):
    for _name in ("sub", "mul", "div", "max", "min"):
        _broadcast(f"{_axis}_expand_{_name}", f"expand_{_name}", _dim)


def _comparison(name: str, with_scalar: bool) -> None:
    """`cmp`, `cmps`: the comparison chosen by its code."""

    def tile_form(out: VecOut, lhs: VecIn, rhs: VecOrScalar, *, cmp_mode: IntAttr) -> Chosen:
        if not 0 <= cmp_mode < len(COMPARISONS):
            raise ValueError(f"cmp_mode is from 0 (EQ) to 5 (GE), found {cmp_mode}")
        return COMPARISONS[cmp_mode].key, {"out": out, "lhs": lhs, "rhs": rhs}

    def scalar_form(out: VecOut, lhs: VecIn, scalar: ScalarIn, *, cmp_mode: IntAttr) -> Chosen:
        return tile_form(out, lhs, scalar, cmp_mode=cmp_mode)

    arrange = scalar_form if with_scalar else tile_form
    arrange.__doc__ = "A comparison into a packed mask; cmp_mode 0 EQ, 1 NE, 2 LT, 3 LE, 4 GT, 5 GE."
    preset(name, arrange)


_comparison("cmp", with_scalar=False)
_comparison("cmps", with_scalar=True)


def _sel(out: VecOut, mask: VecIn, lhs: VecIn, rhs: VecOrScalar, tmp: VecScratch) -> Chosen:
    """`select` under its old name."""
    return "select", {"out": out, "mask": mask, "lhs": lhs, "rhs": rhs, "tmp": tmp}


def _sels(out: VecOut, mask: VecIn, src: VecIn, tmp: VecScratch, scalar: ScalarIn) -> Chosen:
    """`select` between a tile and a scalar, which comes last."""
    return "select", {"out": out, "mask": mask, "lhs": src, "rhs": scalar, "tmp": tmp}


def _ub_copy(out: VecOut, src: VecIn) -> Chosen:
    """`move` from Vec to Vec."""
    return "move", {"dst_tile": out, "src_tile": src}


sel = preset("sel", _sel)
sels = preset("sels", _sels)
ub_copy = preset("ub_copy", _ub_copy)
