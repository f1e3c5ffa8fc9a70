"""Loops of scalars that nothing ends: a `while` whose next trip depends on its variables alone, and these came back.

Such a loop reads no memory, so nobody can help it. When the core's budget is spent its variables are compared for a few
trips in a row, see `polling.emit_endless`; the loop costs nothing besides.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pypto_pro.ir import nodes as n
from pypto_pro.ir.walk import bound_vars, statements, walk
from pypto_pro.native.emit import I32, I64, Value
from pypto_pro.native.frames import CORE, STEP_ENDLESS, WORD
from pypto_pro.native.plan import reads

if TYPE_CHECKING:
    from pypto_pro.native.program import CoreProgram


@cache
def may_never_end(loop: n.While) -> bool:
    """Whether the variables given a value in the loop decide alone how it goes on."""
    inside = list(walk(loop.body))
    declares = any(isinstance(s, n.TensorDecl | n.CopyTensor) for s in inside)
    extents = [e for e in inside if (isinstance(e, n.TileAttr) and e.what in ("vr", "vc")) or isinstance(e, n.Dim)]
    steered = any(declares or isinstance(e, n.TileAttr) for e in extents)
    return not steered and not reads(loop)


def _variables(loop: n.While) -> list[n.Var]:
    """What the loop gives values to."""
    found: dict[str, n.Var] = {}
    for stmt in statements(loop.body):
        for var in bound_vars(stmt):
            found.setdefault(var.name, var)
        match stmt:
            case n.SetField(place=place) | n.CopyStruct(target=place):
                found.setdefault(place.var.name, place.var)
    return list(found.values())


def _memory(program: CoreProgram, loop: n.While) -> tuple[Value, Value, int]:
    """(number of looks, the values looked at first, their bytes): kept for the time the loop runs."""
    size = sum(-(-program.storage.size(v) // WORD) * WORD for v in _variables(loop))
    kept = program.kept(loop, WORD + size)
    return kept, program.code.at(kept, WORD), size


def emit_reset(program: CoreProgram, loop: n.While) -> None:
    """Before the first trip: no values are known."""
    program.code.store(I64(0), _memory(program, loop)[0])


def emit_look(program: CoreProgram, loop: n.While) -> None:
    """Compare the variables; the core has ended for good when they came back."""
    code, (looks, reference, size) = program.code, _memory(program, loop)
    now, at = program.record_memory(size), 0
    code.fill_bytes(now, 0, size)
    for var in _variables(loop):
        width = program.storage.width(var)
        code.copy_bytes(code.at(now, at), program.storage.address(var), width)
        at += -(-width // WORD) * WORD
    again = program.call("sync_endless", I32, [program.core, now, reference, I64(size), looks])
    with code.b.if_then(code.b.icmp_unsigned("!=", again, I32(0)), likely=False):
        code.store(I64(program.site(loop)), program.core, CORE["site"])
        code.b.ret(I32(STEP_ENDLESS))
