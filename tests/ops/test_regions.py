"""Every op's declared reads and writes are exactly what its meaning needs and does (cases: `cases_*.py`)."""

import importlib
import pathlib

import pytest

from ops.harness import Case, T, check_honest
from pypto_pro.ops.entry import Access, Box, Effect
from pypto_pro.ops.table import all_ops

CASES: list[Case] = [
    case
    for file in sorted(pathlib.Path(__file__).parent.glob("cases_*.py"))
    for case in importlib.import_module(f"ops.{file.stem}").CASES
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.op)
def test_regions_are_honest(case: Case) -> None:
    check_honest(case)


def test_every_op_has_a_case() -> None:
    covered = {case.op for case in CASES}
    others = ("vf.", "simt.", "ssbuf_", "system.")  # checked by tests of their own; the last two touch no operands
    missing = [
        e.key
        for e in all_ops()
        if e.kind == "op" and e.meaning is not None and "rewrite" not in e.facets
        and not e.key.startswith(others) and e.key not in covered
    ]
    assert not missing, f"no case in tests/ops/cases_*.py for {missing}"


@pytest.mark.parametrize("lie", ["write", "read"])
def test_a_dishonest_entry_is_caught(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add = next(e for e in all_ops() if e.key == "add")
    honest = [Access("lhs", Effect.READ, Box(0, 0, 8, 64)), Access("rhs", Effect.READ, Box(0, 0, 8, 64)),
              Access("out", Effect.WRITE, Box(0, 0, 8, 64))]
    operand, effect = ("out", Effect.WRITE) if lie == "write" else ("rhs", Effect.READ)
    short = Access(operand, effect, Box(0, 0, 7, 64))
    told = [short if a.operand == short.operand else a for a in honest]
    monkeypatch.setitem(add.facets, "regions", lambda **_: told)
    tiles = {"out": T((8, 64)), "lhs": T((8, 64), addr=0x8000), "rhs": T((8, 64), addr=0x10000)}
    with pytest.raises(AssertionError, match="undeclared"):
        check_honest(Case("add", tiles))
