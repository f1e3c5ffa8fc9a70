"""Generated expressions give the same number three times: folded while reading, on the simulator, in native code.

Each program computes an expression over scalars of all dtypes twice, once from constants and once from parameters, and
stores both. The language lets the two differ where constants are exact Python numbers and run-time ones C numbers:
signed beside unsigned operands, results past 64 bits, `//` and `%` of negative numbers, floats that need rounding.
Programs keep out of there (integers of one signedness, bounded factors, multiples of a half); the last test shows it.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from kernel_text import kernel_of, statements

from pypto_pro import options
from pypto_pro.dtypes import DataType
from pypto_pro.ir.nodes import Const, Op

PROGRAMS, AT_A_TIME = 1000, 50
INTEGERS = {
    "a": DataType.DT_INT8, "b": DataType.DT_UINT8, "c": DataType.DT_INT16, "d": DataType.DT_INT32,
    "e": DataType.DT_INT64, "f": DataType.DT_UINT32, "g": DataType.DT_UINT16, "h": DataType.DT_BOOL,
}  # fmt: skip
FAMILIES = {"signed": ("a", "c", "d", "e", "h"), "unsigned": ("b", "f", "g", "h")}
FLOATS = ("u", "v")
EDGES = (0, 1, 2, 7, 63, 127, 128, 255, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1)
WIDEST = 40  # bits of the INT64 scalar: sums and products of a few stay within 64


class Writer:
    """Random expressions. Integer ones use every operator, float ones only what is exact on small halves."""

    def __init__(self, chance: random.Random, names: tuple[str, ...]) -> None:
        self.chance = chance
        self.names = names

    def integer(self, depth: int = 0) -> str:
        """An expression of an integer dtype."""
        pick = self.chance.random()
        if depth > 3 or pick < 0.25:
            return self.chance.choice([*self.names, str(self.chance.choice(EDGES[:9]))])
        left, right = self.integer(depth + 1), self.integer(depth + 1)
        if pick < 0.50:
            return f"({left} {self.chance.choice('+-&|^')} {right})"
        if pick < 0.55:
            return f"(({left} & 65535) * ({right} & 4095))"
        if pick < 0.65:
            return f"(({left} & 4095) {self.chance.choice(['//', '%'])} (({right} & 15) + 1))"
        if pick < 0.72:
            return f"(({left} & 65535) {self.chance.choice(['<<', '>>'])} ({right} & 7))"
        if pick < 0.80:
            return f"{self.chance.choice(['min', 'max'])}({left}, {right})"
        if pick < 0.86:
            return f"({self.chance.choice('-~')}({left} + 0))"
        if pick < 0.94:
            return f"({left} if {self.test(depth + 1)} else {right})"
        return f"({left} + (1 if {self.test(depth + 1)} else 0))"

    def test(self, depth: int) -> str:
        """A condition."""
        op = self.chance.choice(["<", "<=", "==", "!=", ">", ">="])
        if self.chance.random() < 0.3:
            return f"{self.floating(depth + 1)} {op} {self.floating(depth + 1)}"
        found = f"{self.integer(depth + 1)} {op} {self.integer(depth + 1)}"
        if depth < 3 and self.chance.random() < 0.3:
            return f"({found} {self.chance.choice(['and', 'or'])} not {self.test(depth + 1)})"
        return found

    def floating(self, depth: int = 0) -> str:
        """An expression of FP32."""
        if depth > 2 or self.chance.random() < 0.35:
            return self.chance.choice([*FLOATS, "0.5", "2.0", f"({self.names[0]} & 7) * 1.0"])
        op = self.chance.choice("+-*")
        return f"({self.floating(depth + 1)} {op} {self.floating(depth + 1)})"


def values(chance: random.Random) -> dict[str, Any]:
    """A value of every scalar, often one at the edge of its dtype."""
    found: dict[str, Any] = {}
    for name, dtype in INTEGERS.items():
        if dtype is DataType.DT_BOOL:
            found[name] = chance.random() < 0.5
            continue
        span = 1 << min(dtype.bits(), WIDEST)
        low = -span // 2 if dtype.is_signed() else 0
        number = chance.choice((chance.choice(EDGES), -chance.choice(EDGES), chance.randrange(span)))
        found[name] = (number - low) % span + low
    return found | {name: chance.randrange(-16, 17) / 2 for name in FLOATS}


def kernel_text(expressions: list[str], given: dict[str, Any]) -> str:
    """Row 0: from constants; row 1: from parameters."""
    dtypes = {**INTEGERS, **dict.fromkeys(FLOATS, DataType.DT_FP32)}
    lines = [f"{name} = pl.const({given[name]!r}, pl.{dtypes[name].name})" for name in given]
    lines += [f"out[0, {k}] = {text}" for k, text in enumerate(expressions)]
    lines += [f"{name} = {name}_p" for name in given]
    lines += [f"out[1, {k}] = {text}" for k, text in enumerate(expressions)]
    return "\n".join(lines)


def differences(seed: int, of: str, family: str) -> list[str]:
    """Expressions that do not give one number."""
    chance = random.Random(seed)
    writer, given = Writer(chance, FAMILIES[family]), values(chance)
    expressions = [getattr(writer, of)() for _ in range(AT_A_TIME)]
    rows = computed(expressions, given, of)
    return [
        f"{text} with {given}: folded {column[0]}, interp {column[1]}, native {column[3]}"
        for text, column in zip(expressions, rows.T, strict=True) if len(set(column.tolist())) > 1
    ]  # fmt: skip


def computed(expressions: list[str], given: dict[str, Any], of: str = "integer") -> Any:
    """Four rows of numbers: folded and computed on the simulator, folded and computed in native code."""
    out_dtype, numpy_dtype = ("DT_INT64", np.int64) if of == "integer" else ("DT_FP32", np.float32)
    params = [f"out: pl.Tensor[[2, {len(expressions)}], pl.{out_dtype}]"]
    params += [f"{name}_p: pl.{dtype.name}" for name, dtype in INTEGERS.items()]
    params += [f"{name}_p: pl.DT_FP32" for name in FLOATS]
    kernel = kernel_of(kernel_text(expressions, given), ", ".join(params))
    assert_folded(kernel, len(expressions))
    rows = []
    for executor in ("interp", "native"):
        out = np.zeros((2, len(expressions)), numpy_dtype)
        with options(executor=executor, check=False):
            kernel[None, 1](out, *given.values())
        rows += [*out]
    return np.stack(rows)


def assert_folded(kernel: Any, count: int) -> None:
    """The first row is stored from constants, the second one is not."""
    stores = [s for s in statements(kernel.compile((), None, ()), Op) if len(s.args) == 3]
    is_const = [isinstance(store.args[2], Const) for store in stores]
    assert all(is_const[:count])
    assert sum(is_const[count:]) <= count // 2


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(PROGRAMS * 2 // 5 // AT_A_TIME))
def test_integers(seed: int, family: str) -> None:
    assert differences(seed, "integer", family) == []


@pytest.mark.parametrize("seed", range(PROGRAMS // 5 // AT_A_TIME))
def test_floats(seed: int) -> None:
    assert differences(1000 + seed, "floating", "unsigned") == []


@pytest.mark.parametrize(
    ("text", "folded", "run"),
    [
        ("a < f", 1, 0),  # the values, and both as UINT32: a is -1
        ("max(b, a)", 200, 255),
        ("(a - 6) // 2", -4, -3),  # floor, and towards zero
        ("(a - 6) % 4", 1, -3),
    ],
)
def test_where_constants_and_run_time_numbers_may_differ(text: str, folded: int, run: int) -> None:
    given = {"a": -1, "b": 200, "c": 1, "d": 1, "e": 1, "f": 5, "g": 1, "h": True, "u": 0.5, "v": 0.5}
    assert computed([text], given).ravel().tolist() == [folded, run, folded, run]
