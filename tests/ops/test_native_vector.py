"""Native code of the tile vector ops leaves the bytes the meaning leaves: every case, every dtype row, edge values.

Rows are found by asking the entries' own rules which dtypes they accept.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ops import cases_foundation, cases_vector
from ops.harness import Bench, Case, G, T
from ops.native_bench import check_native, run_native
from ops.vector_model import edges
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import MemorySpace, RoundMode
from pypto_pro.ir.types import ScalarType
from pypto_pro.numerics import TILE_CASTS
from pypto_pro.ops import rules
from pypto_pro.ops.operands import ScalarInfo, TileInfo
from pypto_pro.ops.table import lookup

A, B, C, E = 0, 0x8000, 0x10000, 0x18000
SHAPES = [(1, 1), (3, 37), (4, 64)]
FIXED = {D.DT_FP8E4M3FN, D.DT_FP8E5M2, D.DT_HF8}  # whatever the mode
OTHERS = {"getval", "setval", "move", "insert"}  # tested with their own families


def is_vector(case: Case) -> bool:
    """Cases of the tile vector families."""
    entry = lookup(case.op)
    assert entry is not None
    return entry.family.startswith("tile.") and not any(isinstance(v, G) for v in case.operands.values())


CASES = [c for c in (*cases_vector.CASES, *cases_foundation.CASES) if is_vector(c) and c.op not in OTHERS]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.op)
def test_case(case: Case) -> None:
    check_native(case)


def accepted(case: Case) -> bool:
    """Whether the entry's rules take the operands of a case."""
    entry = lookup(case.op)
    assert entry is not None
    infos: dict[str, Any] = {p.name: p.default for p in entry.params if not p.required}
    for name, value in case.operands.items():
        if isinstance(value, T):
            infos[name] = TileInfo(value.type(), name, value.addr)
        else:
            kind = D.DT_FP32 if isinstance(value, float) else D.DT_INDEX
            infos[name] = ScalarInfo(ScalarType(kind), value)
    try:
        entry.facets["rules"](**{**infos, **case.attrs})
    except (TypeError, ValueError):
        return False
    return True


def edged(dtype: D, addr: int, valid: tuple[int, int], seed: int, cols: int = 64) -> T:
    return T((4, cols), dtype, addr, valid, data=edges(dtype, (4, cols), seed))


def forms(op: str, names: tuple[str, ...], dtype: D, valid: tuple[int, int]) -> Iterator[Case]:
    """All tiles apart, and the result in place of the first source."""
    addrs = (A, B, C, E)
    tiles = {n: edged(dtype, addrs[k], valid, k, 96 if k == 1 else 64) for k, n in enumerate(names)}
    yield Case(op, tiles)
    yield Case(op, {**tiles, names[0]: tiles[names[1]]})


def numbers(dtype: D) -> tuple[float, ...]:
    return (3, 2.75) if dtype.is_float() else (3, -2)


def elementwise(dtype: D, valid: tuple[int, int]) -> Iterator[Case]:
    out = edged(dtype, A, valid, 0)
    src = edged(dtype, B, valid, 1)
    for op in ("add", "sub", "mul", "div", "rem", "maximum", "minimum", "and_"):
        yield from forms(op, ("out", "lhs", "rhs"), dtype, valid)
        for number in numbers(dtype):
            yield Case(op, {"out": out, "lhs": src, "rhs": number})
    for op in ("shl", "shr"):
        yield from forms(op, ("out", "lhs", "rhs"), dtype, valid)
    for op in ("shls", "shrs", "ors"):
        yield Case(op, {"out": out, "lhs": src, "scalar": 3})
    yield from (Case(c.op, {**c.operands, "tmp": out}) for c in forms("xor", ("out", "lhs", "rhs"), dtype, valid))
    for op in ("neg", "abs", "exp", "log", "sqrt", "rsqrt", "recip", "relu"):
        yield from forms(op, ("out", "src"), dtype, valid)
    for op in ("addc", "subc"):
        yield from forms(op, ("out", "a", "b", "c"), dtype, valid)
    for op in ("add_relu", "sub_relu", "mul_add_dst", "fused_mul_add"):
        yield from forms(op, ("out", "lhs", "rhs"), dtype, valid)
    yield from forms("fused_mul_add_relu", ("out", "a", "b"), dtype, valid)


def whole_tile(dtype: D, valid: tuple[int, int]) -> Iterator[Case]:
    out, src = edged(dtype, A, valid, 0), edged(dtype, B, valid, 1)
    mask = T((4, 64), D.DT_UINT8, E)
    for op in ("eq", "ne", "lt", "le", "gt", "ge"):
        for rhs in (edged(dtype, C, valid, 2), numbers(dtype)[0]):
            yield Case(op, {"out": mask, "lhs": src, "rhs": rhs})
    for rhs in (edged(dtype, C, valid, 2), numbers(dtype)[0]):
        yield Case("select", {"out": out, "mask": mask, "lhs": src, "rhs": rhs, "tmp": mask})
        yield Case("select", {"out": src, "mask": mask, "lhs": src, "rhs": rhs, "tmp": mask})
    for op in ("partadd", "partmax", "partmin", "partmul"):
        for smaller in ((0, 0), (1, 1), valid):
            yield Case(op, {"out": out, "src0": src, "src1": edged(dtype, C, smaller, 2)})
            yield Case(op, {"out": src, "src0": edged(dtype, C, smaller, 2), "src1": src})
    for dim, vector in ((0, T((32, 1), dtype, C, data=edges(dtype, (32, 1), 3))),
                        (1, T((1, 64), dtype, C, data=edges(dtype, (1, 64), 3)))):
        for op in ("sub", "mul", "max", "min", "div"):
            yield Case(f"expand_{op}", {"out": out, "src": src, "scalar": vector}, {"dim": dim})
        axis = ("row", "col")[dim]
        for op in ("add", "expdif"):
            yield Case(f"{axis}_expand_{op}", {"out": out, "src": src, "scalar": vector})
        yield Case(f"{axis}_expand", {"out": out, "src": vector})
    yield Case("expands", {"out": out, "scalar": numbers(dtype)[1]})


def reductions(dtype: D, valid: tuple[int, int]) -> Iterator[Case]:
    src = T((4, 160), dtype, B, valid, data=edges(dtype, (4, 160), 1))
    plain = T((4, 160), dtype, B, valid)  # random values of moderate size: sums of extremes say little
    for dim in (0, 1):
        out = T((32, 1), dtype, A, (valid[0], 1)) if dim == 0 else T((1, 160), dtype, A, (1, valid[1]))
        for op in ("maximum", "minimum"):
            yield Case(op, {"out": out, "lhs": src, "rhs": src}, {"dim": dim})
        yield Case("sum", {"out": out, "src": plain, "tmp": src}, {"dim": dim})
        yield Case(("row_prod", "col_prod")[dim], {"out": out, "src": plain, "tmp": src})
        for op in ("argmax", "argmin"):
            index = T(out.shape, D.DT_INT32, A, out.valid)
            yield Case(op, {"out": index, "src": src, "tmp": src}, {"dim": dim})


@pytest.mark.parametrize("make", [elementwise, whole_tile, reductions])
@pytest.mark.parametrize("dtype", rules.NUMBERS, ids=lambda d: d.name)
def test_dtype_rows(make: Any, dtype: D) -> None:
    looked_at = set()
    for valid in SHAPES:
        for case in make(dtype, valid):
            if accepted(case):
                looked_at.add(case.op)
                check_native(case)
    assert len(looked_at) > 3


INEXACT = [
    (a, b) for a, b in TILE_CASTS
    if b not in FIXED and (a is b or (a.is_float() and (b.is_int() or b.bits() < a.bits() or b is D.DT_FP16))
                           or (a.bits() > 16 and b.is_float()))
]


@pytest.mark.parametrize(
    ("source", "target", "mode"),
    [(a, b, RoundMode.CAST_ROUND) for a, b in TILE_CASTS]
    + [(a, b, m) for a, b in INEXACT for m in RoundMode if m is not RoundMode.CAST_ROUND],
    ids=lambda v: v.name,
)
def test_casts(source: D, target: D, mode: RoundMode) -> None:
    """Every pair and mode, on random bits, on halves near the integers, and in place where that is legal."""
    halves = np.random.default_rng(2).integers(-600, 600, (4, 64)) / 2
    data = halves if source.is_float() and source.bits() >= 16 else None
    for src in (T((4, 64), source, B, (3, 37)), T((4, 64), source, B, (4, 64), data=data)):
        check_native(Case("cast", {"out": T((4, 64), target, A, src.valid), "src": src}, {"mode": mode}, values=None))
    if target.bits() <= source.bits() and not target.is_sub_byte and not source.is_sub_byte:
        same = T((4, 64), source, A, (3, 37))
        check_native(Case("cast", {"out": T((4, 64), target, A, (3, 37)), "src": same}, {"mode": mode}, values=None))


@pytest.mark.parametrize(("op", "low", "high", "bound"), [("exp", -104.0, 89.0, 1.05), ("log", 0.0, 1e4, 0.9)])
def test_native_functions_keep_their_bound(op: str, low: float, high: float, bound: float) -> None:
    """Distance from the exact value in units of the last place, FP32; subnormal results included."""
    rows, cols = 64, 256
    bench = Bench(Case(op, {"out": T((rows, cols)), "src": T((rows, cols), addr=0x10000)}))
    exact = {"exp": np.exp, "log": np.log}[op]
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(12):
        x = rng.uniform(low, high, (rows, cols)).astype(np.float32)
        bench.named["src"].put(x)
        found = run_native(bench).memories[MemorySpace.Vec][: x.nbytes].view(np.float32).reshape(rows, cols)
        with np.errstate(all="ignore"):
            wanted = exact(x.astype(np.float64))
            spacing = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
            inside = np.isfinite(wanted.astype(np.float32)) & (wanted != 0)
        worst = max(worst, float((np.abs(found - wanted) / spacing)[inside].max()))
    assert 0.5 < worst < bound


def test_overlap_and_overrun_take_the_meaning() -> None:
    """Where streaming would differ from reading everything first, or bytes lie outside the space, Python decides."""
    shifted = Case("add", {"out": T((4, 64), addr=64), "lhs": T((4, 64), addr=0), "rhs": 1.0})
    assert run_native(Bench(shifted)).fell_back
    last = 253952 - 4 * 64 * 4
    outside = Case("add", {"out": T((4, 64), addr=last, valid=(5, 64)), "lhs": T((4, 64), addr=B), "rhs": 1.0})
    assert run_native(Bench(outside)).fell_back
