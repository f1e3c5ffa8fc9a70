"""The verifier: IR of the golden files passes, and each rule has text that breaks it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_pro.ir.parser import parse_kernel
from pypto_pro.ir.verify import RULES, check
from pypto_pro.ops.table import lookup
from pypto_pro.passes.auto_mutex import insert_mutexes

CASES = sorted((Path(__file__).resolve().parents[1] / "golden" / "passes").glob("*.before.ir"))

HEAD = """
T0 = TileType([16, 64], fp32, Vec)
T1 = Struct('S', {'a': index, 'w': Array(fp32, 3)})

@kernel(auto_mutex=True)
def k(x: Tensor([None, 64], fp32), n: int32, p: Ptr(fp32)):
    with vector:
        g: Group(T0, 2, 1) = make_tile_group((0, 4096), ((3,), (4,)), g·cursor, 'a')
        t: T0 = make_tile(65536, None, 'c')
        i = 3
"""


def messages(body: str) -> list[str]:
    text = HEAD + "".join(f"        {line}\n" for line in body.splitlines())
    return [d.message for d in check(parse_kernel(text), lookup)]


GOOD = """
s: T1 = struct((0, 0.0, 0.0, 1.0))
s.w[i] = 2.0
u: T0 = g[g·cursor]
v: T0 = sub_view(u, 0, i, 8, 8)
y: Tensor([None, 64], fp32) = make_tensor(p + i, (i, 64), None)
while True:
    if n > int32(3):
        break
    pl.load(v, y, (i, 0), order=None)
    pl.add(t, v, 1.0)
sync_src(MTE2, V, i)
set_validshape(g, i, 8)
r = pl.getval(t, i)
"""


def test_good_ir_has_no_complaint() -> None:
    assert messages(GOOD.strip().replace("r = ", "r: fp32 = ")) == []


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name.split(".")[0])
def test_golden_ir_passes_before_and_after(path: Path) -> None:
    kernel = parse_kernel(path.read_text(encoding="utf-8"))
    for stage in (kernel, insert_mutexes(kernel)):
        assert [d.message for d in check(stage, lookup)] == []


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("i: fp32 = 1.0", "`i` is fp32 here, index before"),
        ("j = late + 1", "`late` is read before"),
        ("break", "break outside a loop"),
        ("for j in range(3):\n    with vf_call('f', (t,)):\n        continue", "continue outside a loop"),
        ("j = i + index(n) * i\nj = i + n", "operands are index and int32"),
        ("j = Binary('+', i, i, fp32)", "the result is called fp32"),
        ("j = i if n > int32(0) else Choose(True, i, n, index)", "the sides differ"),
        ("j = x.shape[2]", "no such axis"),
        ("j = TileAttr(p, 'vr', 0)", "not a tile"),
        ("u: T0 = g[1.5]", "a slot needs"),
        ("u: T0 = Pick(i, (t, i), T0)", "options differ"),
        ("u: T0 = TilePlus(t, 3, TileType([8, 8], fp32, Vec))", "keeps its type"),
        ("s: T1 = struct((0, 0.0, 0.0, 0.0))\nj = Field(Place(s, None, ('a',), None, fp32))", "no place"),
        ("sync_src(MTE2, V, 1.5)", "sync_src takes ints"),
        ("for j in range(1.5):\n    pass", "for takes ints"),
        ("set_validshape(p, 1, 1)", "a tile or a group"),
        ("y: Tensor([2], fp32) = make_tensor(t, (2,), None)", "make_tensor takes a pointer"),
        ("v: T0 = sub_view(p, 0, 0, 1, 1)", "sub_view takes a tile"),
        ("if t:\n    pass", "a scalar condition"),
        ("t = g[0]", "`t` owns a descriptor"),
        ("s: T1 = struct((0, 0.0))", "`s` has 4 scalars, found 2"),
        ("j = 1.5", "`j` is index and receives fp32"),
        ("h: Group(T0, 2, 1) = make_tile_group((0,), ((1,), (2,)), h·cursor, 'h')", "2 slots, found 1 addresses"),
        ("h: Group(T0, 1, 2) = make_tile_group((0,), ((1,),), None, 'h')", "2 mutex ids a slot"),
        ("h: Group(T0, 1, 1) = make_tile_group((0,), (), h·cursor, 'h')", "and the cursor"),
        ("pl.nope(t)", "there is no op `pl.nope`"),
        ("pl.add(t, t)", "`pl.add` has 3 operands, found 2"),
        ("pl.add(t, t, t, dim=1)", "`pl.add` has the keywords [], found ['dim']"),
        ("j, l = pl.getval(t, i)", "gives 1 values, found 2"),
    ],
)
def test_every_rule_complains(body: str, part: str) -> None:
    found = messages(body)
    assert any(part in message for message in found), found


def test_complaints_name_kernel_core_and_line() -> None:
    (found,) = check(parse_kernel(HEAD + "        break\n", "bad.ir"), lookup)
    assert (found.kernel, found.core, found.spans[0].file, found.spans[0].line) == ("k", "vector", "bad.ir", 11)


def test_rules_say_what_they_ask_for() -> None:
    assert all(rule.__doc__ for rule in RULES)
