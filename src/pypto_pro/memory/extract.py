"""From the IR of one specialisation to a `Design`: every tile once, and the steps of each core with what they touch.

Works on the IR behind `auto_mutex`, so that the locks are those that will run. A vector function is one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pypto_pro.ir import walk
from pypto_pro.ir.nodes import GroupDecl, Kernel, TileDecl
from pypto_pro.ir.types import GroupType, TileType
from pypto_pro.layouts import slot_size
from pypto_pro.memory.definitions import Definition, definition_at
from pypto_pro.memory.design import Design, Program, TileRecord
from pypto_pro.memory.extract_steps import Reader, TileFacts
from pypto_pro.memory.pitches import find_mismatches

LIMITS = (
    "writes of a vector function cover a tile only where its loops, offsets and masks are known while compiling, or"
    " follow from the valid shape that the tile was given before the call",
    "a SIMT function is one step whose writes are not taken to cover a tile",
    "flags with run-time event ids order only within one turn of a loop",
)


def design_of_kernel(kernel: Kernel, specialisation: Mapping[str, object] | None = None) -> Design:
    """The design of a kernel that went through all passes. `specialisation` names the choices it was compiled for."""
    decls = declarations(kernel)
    names = _names(decls)
    facts: dict[str, TileFacts] = {name: TileFacts() for name in names.values()}
    ids = {names[i]: d.mutex_ids if isinstance(d, GroupDecl) else () for i, d in decls.items()}
    programs = []
    point = 0
    for program in kernel.programs:
        reader = Reader(program, names, ids, facts, point, auto_mutex=kernel.auto_mutex)
        programs.append(Program(program.core, reader.read()))
        point = reader.point
    records = tuple(_record(decls[i], name, facts[name], kernel) for i, name in names.items())
    return Design(
        tiles=_with_scales(records, facts),
        kernel=kernel.name,
        file=kernel.span.file,
        auto_mutex=kernel.auto_mutex,
        specialisation=dict(specialisation or {}),
        programs=tuple(programs),
        views=_marked_views(records),
        mismatches=tuple(m for p in kernel.programs for m in find_mismatches(p, names)),
        limits=LIMITS,
    )


def declarations(kernel: Kernel) -> dict[str, TileDecl | GroupDecl]:
    """Every declaration by identity, in source order; both programs of a kernel share those outside the sections."""
    found: dict[str, TileDecl | GroupDecl] = {}
    for program in kernel.programs:
        for stmt in walk.statements(program.body):
            if isinstance(stmt, TileDecl | GroupDecl):
                found.setdefault(stmt.identity, stmt)
    return dict(
        sorted(found.items(), key=lambda item: (item[1].span.outermost.line, item[1].span.line, item[1].span.column))
    )


def _names(decls: Mapping[str, TileDecl | GroupDecl]) -> dict[str, str]:
    """A name for every declaration: the author's, with its line where two share it, then numbered."""
    plain = {i: d.var.name.partition("$")[0] for i, d in decls.items()}
    taken: dict[str, int] = {}
    names: dict[str, str] = {}
    for identity, name in plain.items():
        full = name if list(plain.values()).count(name) == 1 else f"{name}@{decls[identity].span.outermost.line}"
        taken[full] = taken.get(full, 0) + 1
        names[identity] = full if taken[full] == 1 else f"{full}.{taken[full]}"
    return names


def _record(decl: TileDecl | GroupDecl, name: str, facts: TileFacts, kernel: Kernel) -> TileRecord:
    group = isinstance(decl, GroupDecl)
    type_ = decl.var.type.tile if isinstance(decl.var.type, GroupType) else decl.var.type
    assert isinstance(type_, TileType)
    source = definition_at(decl.span)
    cores = frozenset(facts.cores) or frozenset({kernel.programs[0].core})
    return TileRecord(
        name=name,
        kind="group" if group else "tile",
        type=type_,
        addrs=_addresses(decl, type_, source),
        size=None if isinstance(decl, GroupDecl) else decl.size,
        depth=len(decl.addrs) if isinstance(decl, GroupDecl) else None,
        mutex_ids=decl.mutex_ids if isinstance(decl, GroupDecl) else (),
        cores=cores,
        valid=facts.valid(type_),
        nz_filled=facts.nz_filled,
        scratch=facts.scratch_bytes if facts.only_scratch and facts.scratch_bytes else None,
        only_scratch=facts.only_scratch,
        purpose=source.comment or facts.purpose(),
        span=decl.span,
        addrs_span=source.address,
    )


def _addresses(decl: TileDecl | GroupDecl, type_: TileType, source: Definition) -> int | tuple[int, ...]:
    """A base where the author wrote one, so that a computed step is reported as such."""
    if isinstance(decl, TileDecl):
        return decl.addr
    step = slot_size(type_.shape, type_.dtype)
    computed = decl.addrs == tuple(decl.addrs[0] + i * step for i in range(len(decl.addrs)))
    return decl.addrs[0] if computed and source.is_base else decl.addrs


def _with_scales(records: tuple[TileRecord, ...], facts: Mapping[str, TileFacts]) -> tuple[TileRecord, ...]:
    paired = {name: sorted(f.data_tiles) for name, f in facts.items() if f.data_tiles}
    return tuple(
        replace(r, scale_of=paired[r.name][0], scales_too=tuple(paired[r.name][1:])) if r.name in paired else r
        for r in records
    )


def _marked_views(records: tuple[TileRecord, ...]) -> tuple[tuple[str, str], ...]:
    """Views the author marks with `# pypto: view of NAME` on the definition."""
    names = {r.name for r in records}
    found = []
    for record in records:
        if record.span is not None and (writer := definition_at(record.span).view_of) in names:
            found.append((str(writer), record.name))
    return tuple(found)
