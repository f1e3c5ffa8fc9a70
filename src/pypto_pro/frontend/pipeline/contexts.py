"""What a delayed stage receives: scalars and structs as they were when its task began, everything else as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pypto_pro.diag.names import counted
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind
from pypto_pro.frontend.pipeline.bindings import Bindings, bound_in, changed_in
from pypto_pro.frontend.pipeline.picks import Picks
from pypto_pro.frontend.pipeline.probe import Probe, StageCall
from pypto_pro.frontend.pipeline.site import PREFIX, Site
from pypto_pro.frontend.pipeline.structure import Stage, Structure
from pypto_pro.frontend.values import (
    StructArrayValue,
    StructValue,
    TupleValue,
    Value,
    describe,
    is_ptr,
    is_scalar,
    is_tensor,
    is_tile,
    tensor_var,
)
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Const, CopyStruct, Op, SetField, Stmt
from pypto_pro.ir.nodes import Field as FieldOf
from pypto_pro.ir.types import ArrayType, ScalarType
from pypto_pro.ir.walk import statements


@dataclass(frozen=True)
class Field:
    """A field of the context: its dtype, its length where it is an array, and the expression that fills it."""

    name: str
    dtype: DataType
    length: int | None
    value: str
    reads: frozenset[str]  # names whose bindings decide where it is filled

    def initial(self, language: str) -> str:
        """Zero of the field's type."""
        match self.dtype:
            case DataType.DT_INDEX:
                zero = "0"
            case DataType.DT_BOOL:
                zero = "False"
            case dtype:
                zero = f"{language}.const({'0.0' if dtype.is_float() else '0'}, {language}.{dtype.name})"
        return zero if self.length is None else f"[{', '.join([zero] * self.length)}]"


@dataclass(eq=False)
class Contexts:
    """The fields of a kernel's contexts and each stage's arguments: text with `{ctx}` for the stage's own context, or
    the author's syntax."""

    fields: dict[str, Field] = field(default_factory=dict)
    users: dict[str, set[CoreKind]] = field(default_factory=dict)
    arguments: dict[int, list[str | ast.expr]] = field(default_factory=dict)

    def used_by(self, core: CoreKind) -> Iterator[Field]:
        """The fields that stages of a core kind receive, by name."""
        return (self.fields[name] for name in sorted(self.fields) if core in self.users[name])


def build_contexts(
    site: Site, probe: Probe, structure: Structure, bindings: Bindings, picks: Picks, delays: Sequence[int]
) -> Contexts:
    """The contexts of a pipeline. PipelineError for what cannot be kept for a delayed stage."""
    made = Contexts()
    structs = _struct_fields(site, probe, structure)
    builder = _Builder(site, bindings, picks, structs, made, delays)
    for stage in structure.stages:
        call = probe.calls[id(stage.call)]
        pairs = zip(stage.call.args, call.arguments, strict=True)
        made.arguments[stage.index] = [builder.argument(stage, call, i, a, v) for i, (a, v) in enumerate(pairs)]
    for stage in structure.stages[1:]:
        _check_between(site, structure, stage, made)
    return made


def _struct_fields(site: Site, probe: Probe, structure: Structure) -> dict[str, str]:
    """The name of the struct variable that brings each field. PipelineError where two bring one."""
    owners: dict[str, tuple[str, Value]] = {}
    for stage in structure.stages:
        call = probe.calls[id(stage.call)]
        for arg, value in zip(stage.call.args, call.arguments, strict=True):
            if isinstance(value, StructArrayValue):
                raise site.error(
                    f"`{ast.unparse(arg)}` is a pl.struct_array passed to stage `{stage.name}`, expected a scalar or "
                    "pl.struct, found an array of structs", arg, hint="pass the fields of the slot that the task uses",
                )  # fmt: skip
            if not isinstance(arg, ast.Name) or not isinstance(value, StructValue) or value.type.is_tiling:
                continue
            _check_struct(site, structure, call, stage, arg, value)
            for name, _ in value.type.fields:
                owner = owners.setdefault(name, (arg.id, value))
                if owner[0] != arg.id:
                    raise site.error(
                        f"structs `{owner[0]}` and `{arg.id}` are passed to stages and both have a field `{name}`, "
                        "expected different field names, found the same", arg,
                    )  # fmt: skip
    return {name: owner for name, (owner, _) in owners.items()}


def _check_struct(
    site: Site, structure: Structure, call: StageCall, stage: Stage, arg: ast.Name, value: StructValue
) -> None:
    around = [s for s in structure.stages if arg.id in bound_in([*s.pre, *s.post])]
    if around:
        raise site.error(
            f"struct `{arg.id}` passed to stage `{stage.name}` is bound in the section of the pipeline loop that calls "
            f"`{around[0].name}`, expected it outside the loop, found it inside", arg,
            hint="make the struct before the loop and write its fields inside",
        )  # fmt: skip
    for stmt in statements(tuple(call.statements)):
        use, found = _more_than_reads(stmt, value)
        if use:
            raise site.error(
                f"stage `{stage.name}` {use} struct `{arg.id}`, expected a stage that only reads its fields, found "
                f"{found}", stmt.span, labels=(site.span(stage.statement).labelled("called here"),),
                note="the pipeline passes a copy, with other fields beside",
                hint="keep the value in a tile or in memory",
            )  # fmt: skip


def _more_than_reads(stmt: Stmt, value: StructValue) -> tuple[str, str]:
    """What a statement does to a struct besides reading its fields, and the statement, in words."""
    match stmt:
        case SetField(place=place) | CopyStruct(target=place) if place.var == value.place.var:
            return "writes a field of", f"a write of `{'.'.join(place.path)}`"
        case Op(args=args) if any(isinstance(a, FieldOf) and a.place == value.place for a in args):
            return "hands an operation the whole", f"`{stmt.name}`"
    return "", ""


class _Builder:
    """Turns the arguments of stage calls into fields."""

    def __init__(
        self, site: Site, bindings: Bindings, picks: Picks, structs: dict[str, str], made: Contexts,
        delays: Sequence[int],
    ) -> None:  # fmt: skip
        self.site = site
        self.bindings = bindings
        self.picks = picks
        self.structs = structs
        self.made = made
        self.delays = delays

    def argument(self, stage: Stage, call: StageCall, position: int, arg: ast.expr, value: Value) -> str | ast.expr:
        """What the transformed call passes in this position."""
        if isinstance(arg, ast.Name):
            return self._named(stage, call, arg, value)
        local = {n.id for n in ast.walk(arg) if isinstance(n, ast.Name) and n.id in call.names}
        if is_scalar(value) and not isinstance(value, Const) and local:
            name = f"{PREFIX}arg_{stage.name}_{position}"
            return self._field(stage, Field(name, build.kind_of(value), None, ast.unparse(arg), frozenset(local)))
        return self._as_it_is(stage, arg, value)

    def _named(self, stage: Stage, call: StageCall, arg: ast.Name, value: Value) -> str | ast.expr:
        picked = self.picks.variables.get(arg.id)
        if arg.id not in call.names:
            return arg
        if picked is not None:
            slot = self._field(
                stage, Field(picked.index, DataType.DT_INDEX, None, picked.index, frozenset({arg.id}))
            )
            return f"{picked.group}[{slot}]"
        if is_scalar(value):
            name = f"{PREFIX}{arg.id}" if arg.id in self.structs else arg.id
            return self._field(stage, Field(name, build.kind_of(value), None, arg.id, frozenset({arg.id})))
        if isinstance(value, StructValue) and not value.type.is_tiling:
            for name, kind in value.type.fields:
                self._struct_field(stage, arg, name, kind)
            return "{ctx}"
        return self._as_it_is(stage, arg, value)

    def _as_it_is(self, stage: Stage, arg: ast.expr, value: Value) -> ast.expr:
        """An argument passed unchanged; for a delayed stage it must not hold what each trip of the loop makes anew."""
        own = self.bindings.before[stage.index]
        made = {n.id for n in ast.walk(arg) if isinstance(n, ast.Name)} & self.bindings.inner - own
        if self.delays[stage.index] and made and self._varies(value):
            raise self.site.error(
                f"`{ast.unparse(arg)}` is made in the loop and passed to `{stage.name}`, which runs "
                f"{counted(self.delays[stage.index], 'task')} late, expected a scalar, a struct or what is made before "
                f"the loop, found {describe(value)}", arg,
                hint="pass the scalars it is made of and make it inside the stage",
            )  # fmt: skip
        return arg

    def _varies(self, value: Value) -> bool:
        """Whether a value holds run-time scalars, pointers, picked slots or views of its own (groups do not)."""
        if isinstance(value, TupleValue):
            return any(map(self._varies, value.items))
        if is_tensor(value):
            return tensor_var(value).name not in self.bindings.parameters
        return (is_scalar(value) and not isinstance(value, Const)) or is_ptr(value) or is_tile(value)

    def _struct_field(self, stage: Stage, arg: ast.Name, name: str, kind: object) -> None:
        reads = frozenset({arg.id})
        match kind:
            case ScalarType(dtype):
                self._field(stage, Field(name, dtype, None, f"{arg.id}.{name}", reads))
            case ArrayType(element, length):
                self._field(stage, Field(name, element.dtype, length, f"{arg.id}.{name}", reads))
            case _:
                raise self.site.error(
                    f"struct `{arg.id}` passed to stage `{stage.name}` holds the struct `{name}`, expected scalars and "
                    "arrays, found a struct inside", arg, hint="pass the inner struct by itself",
                )  # fmt: skip

    def _field(self, stage: Stage, wanted: Field) -> str:
        """Note a field and who receives it; a scalar of several widths takes the widest."""
        known = self.made.fields.get(wanted.name)
        if known is not None and known.dtype is not wanted.dtype:
            dtype = build.merged(known.dtype, wanted.dtype) or wanted.dtype
            wanted = Field(wanted.name, dtype, wanted.length, wanted.value, wanted.reads)
        self.made.fields[wanted.name] = wanted
        self.made.users.setdefault(wanted.name, set()).add(stage.kind)
        return f"{{ctx}}.{wanted.name}"


def _check_between(site: Site, structure: Structure, stage: Stage, made: Contexts) -> None:
    """Arguments are captured ahead of the first stage: nothing behind it may still change those of a later one."""
    body = structure.loop.body
    sections = [body.index(s.section) for s in structure.stages]
    between: Sequence[ast.stmt] = body[sections[0] : sections[stage.index]]
    changed = {n: s for s in between if not isinstance(s, ast.With) for n in changed_in([s])}
    for argument in made.arguments[stage.index]:
        for f in made.fields.values():
            if isinstance(argument, str) and _fills(argument, f) and f.reads & changed.keys():
                name = min(f.reads & changed.keys())
                raise site.error(
                    f"`{name}` is assigned between the stages and passed to `{stage.name}`, expected it settled before "
                    f"the first stage, where the arguments of a task are captured, found it behind "
                    f"`{structure.stages[0].name}`", changed[name],
                    labels=(site.span(stage.statement).labelled("passed here"),),
                    hint=f"assign it before the section of `{structure.stages[0].name}`",
                )  # fmt: skip


def _fills(argument: str, wanted: Field) -> bool:
    """Whether an argument is the field, or the struct that brings it."""
    return f"{{ctx}}.{wanted.name}" in argument or (argument == "{ctx}" and wanted.value.endswith(f".{wanted.name}"))
