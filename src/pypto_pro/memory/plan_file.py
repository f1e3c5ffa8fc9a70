"""A plan file (YAML or JSON) as a `Design`, to check a placement before there is a kernel (docs/layout-plan.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from pypto_pro.diag import Span
from pypto_pro.diag.names import did_you_mean
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, MemorySpace, PipeType, TensorLayout
from pypto_pro.ir.types import TileType
from pypto_pro.layouts import LEGAL_FRACTALS
from pypto_pro.memory.design import BOTH_CORES, Declared, Design, OrderFact, Parallel, TileRecord, tile_name
from pypto_pro.memory.plan_text import Located, PlanFileError, parse

E = TypeVar("E", bound=Enum)

TILE_FIELDS = (
    "name", "kind", "space", "shape", "dtype", "addr", "addrs", "depth", "mutex_ids", "size", "layout", "fractal",
    "compact", "valid", "live", "pipes", "section", "scale_of", "purpose", "when",
)  # fmt: skip
PLAN_FIELDS = (
    "version", "kernel", "id", "title", "auto_mutex", "tiles", "views", "sync", "parallel", "separate", "plan", "code",
    "expect", "cases", "specialisation",
)  # fmt: skip
SECTIONS = {
    "vector": frozenset({CoreKind.VECTOR}),
    "cube": frozenset({CoreKind.CUBE}),
    "both": BOTH_CORES,
}
ORDER_KINDS = ("flag", "barrier", "cross_core", "trace")


def read_plan(path: str | Path, case: str | None = None) -> Design:
    """The design in a plan file, or in the case named `case` of a file with `cases`. PlanFileError, OSError."""
    file = str(path)
    return design_of(parse(Path(path).read_text(encoding="utf-8"), file), file, case)


def design_of(data: Any, file: str = "<plan>", case: str | None = None) -> Design:
    """The design in already parsed data. PlanFileError names the field that is wrong."""
    reader = _Reader(file)
    top = reader.mapping(data, "the plan")
    if "cases" in top:
        top = reader.case(top, case)
    elif case is not None and case not in (top.get("id"), top.get("kernel")):
        raise reader.error(f"the plan has no case `{case}`", top)
    return reader.design(top)


class _Reader:
    """Turns located mappings into records; every method raises PlanFileError with the place of the mistake."""

    def __init__(self, file: str) -> None:
        self.file = file

    def error(self, message: str, at: Any = None, key: str = "", hint: str | None = None) -> PlanFileError:
        span: Span | None = None
        if isinstance(at, Located):
            span = at.spans.get(key, at.span)
        return PlanFileError(message, span or Span(self.file, 1), hint=hint)

    # --- whole plans -------------------------------------------------------------------------------------------

    def case(self, top: Located, name: str | None) -> Located:
        cases = [self.mapping(c, "a case") for c in self.sequence(top, "cases")]
        names = [str(c.get("id")) for c in cases]
        if name is None:
            raise self.error(f"the file holds {len(cases)} cases", top, hint="name one: FILE:ID or --kernel ID")
        if name not in names:
            raise self.error(f"the file has no case `{name}`", top, hint=did_you_mean(name, names))
        return cases[names.index(name)]

    def design(self, top: Located) -> Design:
        self.known(top, PLAN_FIELDS, "plan")
        tiles = tuple(self.tile(self.mapping(t, "a tile")) for t in self.sequence(top, "tiles"))
        names = [t.name for t in tiles]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise self.error(f"two tiles are named `{name}`", top["tiles"][i])
        return Design(
            tiles=tiles,
            kernel=str(top.get("kernel", top.get("id", ""))),
            file=self.file,
            auto_mutex=self.boolean(top, "auto_mutex", True),
            specialisation=dict(self.mapping(top.get("specialisation", Located()), "specialisation")),
            views=tuple(self.pair(top, "views", v, names) for v in self.sequence(top, "views")),
            orders=tuple(self.order(self.mapping(s, "an entry of sync"), names) for s in self.sequence(top, "sync")),
            parallel=tuple(self.parallel(self.mapping(p, "an entry of parallel"), names)
                           for p in self.sequence(top, "parallel")),
            separate=tuple(self.pair(top, "separate", s, names) for s in self.sequence(top, "separate")),
            limits=("lifetimes and orders are those the plan declares; no code was read",),
        )  # fmt: skip

    # --- tiles ---------------------------------------------------------------------------------------------------

    def tile(self, m: Located) -> TileRecord:
        self.known(m, TILE_FIELDS, "tile")
        for key in ("name", "space", "shape", "dtype"):
            if key not in m:
                raise self.error(f"a tile needs the field `{key}`", m)
        name, kind = str(m["name"]), str(m.get("kind", "group" if "addrs" in m or "depth" in m else "tile"))
        if kind not in ("tile", "group"):
            raise self.error(f"`{name}` has kind `{kind}`; a tile is a `tile` or a `group`", m, "kind")
        wrong = {"tile": ("addrs", "depth", "mutex_ids"), "group": ("addr", "size")}[kind]
        for key in wrong:
            if key in m:
                raise self.error(f"`{name}` is a {kind}, which has no `{key}`", m, key)
        depth = self.integer(m, "depth") if "depth" in m else None
        ids = self.mutex_ids(m)
        if kind == "group" and (depth is None or depth < 1) and not ids:
            raise self.error(f"`{name}` needs a depth or mutex ids", m)
        key = "addr" if kind == "tile" else "addrs"
        return TileRecord(
            name=name,
            kind="tile" if kind == "tile" else "group",
            type=self.tile_type(m, name),
            addrs=self.addresses(m, key),
            size=m.get("size"),
            depth=depth,
            mutex_ids=ids,
            cores=self.section(m),
            declared=self.declared(m),
            scale_of=str(m["scale_of"]) if "scale_of" in m else None,
            valid=self.valid(m),
            purpose=str(m.get("purpose", "")),
            when=tuple(sorted(self.mapping(m.get("when", Located()), "when").items())),
            span=m.span,
            addrs_span=m.spans.get(key),
        )

    def tile_type(self, m: Located, name: str) -> TileType:
        shape = m["shape"] if isinstance(m["shape"], list) else [m["shape"]]
        fractal = self.integer(m, "fractal") if "fractal" in m else None
        if fractal is not None and fractal not in LEGAL_FRACTALS:
            raise self.error(f"`{name}` has fractal {fractal}; legal are {LEGAL_FRACTALS}", m, "fractal")
        layout = m.get("layout")
        try:
            return TileType(
                shape=shape,
                dtype=self.member(m, "dtype", DataType, prefix="DT_"),
                target_memory=self.member(m, "space", MemorySpace),
                layout=None if layout is None else self.member(m, "layout", TensorLayout),
                fractal=fractal,
                compact=self.integer(m, "compact") if "compact" in m else None,
            )
        except (ValueError, TypeError) as error:
            if isinstance(error, PlanFileError):
                raise
            raise self.error(f"`{name}`: {error}", m) from None

    def addresses(self, m: Located, key: str) -> int | tuple[int, ...] | None:
        value = m.get(key)
        if value is None:
            return None
        if isinstance(value, list) and key == "addrs":
            return tuple(self.number(m, key, v) for v in value)
        return self.number(m, key, value)

    def mutex_ids(self, m: Located) -> tuple[tuple[int, ...], ...]:
        found = []
        for item in self.sequence(m, "mutex_ids"):
            ids = item if isinstance(item, list) else [item]
            found.append(tuple(self.number(m, "mutex_ids", i) for i in ids))
        return tuple(found)

    def section(self, m: Located) -> frozenset[CoreKind]:
        name = str(m.get("section", "vector"))
        if name not in SECTIONS:
            raise self.error(f"section `{name}` is none of {', '.join(SECTIONS)}", m, "section")
        return SECTIONS[name]

    def declared(self, m: Located) -> Declared | None:
        if "live" not in m:
            return None
        live = [self.number(m, "live", v) for v in self.sequence(m, "live")]
        if len(live) != 2 or live[0] > live[1]:
            raise self.error("live is [step of the first write, step of the last read]", m, "live")
        pipes = [self.choose(m, "pipes", p, PipeType) for p in self.sequence(m, "pipes")] or [PipeType.V, PipeType.V]
        if len(pipes) != 2:
            raise self.error("pipes is [pipe of the first write, pipe of the last read]", m, "pipes")
        return Declared(live[0], live[1], pipes[0], pipes[1])

    def valid(self, m: Located) -> tuple[int, int] | None:
        if "valid" not in m:
            return None
        valid = [self.number(m, "valid", v) for v in self.sequence(m, "valid")]
        if len(valid) != 2:
            raise self.error("valid is [rows, columns]", m, "valid")
        return valid[0], valid[1]

    # --- declarations ----------------------------------------------------------------------------------------------

    def order(self, m: Located, names: list[str]) -> OrderFact:
        kind = str(m.get("kind"))
        if kind not in ORDER_KINDS:
            raise self.error(f"sync kind `{kind}` is none of {', '.join(ORDER_KINDS)}", m, "kind")
        return OrderFact(
            self.reference(m, "a", m.get("a"), names),
            self.reference(m, "b", m.get("b"), names),
            kind,  # type: ignore[arg-type]  # one of ORDER_KINDS
            self.choose(m, "from", m["from"], PipeType) if "from" in m else None,
            self.choose(m, "to", m["to"], PipeType) if "to" in m else None,
            self.integer(m, "event_id") if "event_id" in m else None,
            self.integer(m, "runs") if "runs" in m else 0,
        )

    def parallel(self, m: Located, names: list[str]) -> Parallel:
        ops = [str(m.get(key)) for key in ("a_op", "b_op")]
        for key, op in zip(("a_op", "b_op"), ops, strict=True):
            if op not in ("read", "write"):
                raise self.error(f"{key} is `read` or `write`, not `{op}`", m, key)
        a, b = (self.reference(m, key, m.get(key), names) for key in ("a", "b"))
        return Parallel(a, ops[0], b, ops[1])

    def pair(self, m: Located, key: str, value: Any, names: list[str]) -> tuple[str, str]:
        if not isinstance(value, list) or len(value) != 2:
            raise self.error(f"an entry of {key} is a pair of names", m, key)
        return self.reference(m, key, value[0], names), self.reference(m, key, value[1], names)

    def reference(self, m: Located, key: str, value: Any, names: list[str]) -> str:
        """The name of a tile, or of a slot as `name#i`."""
        text = str(value)
        if tile_name(text) not in names:
            raise self.error(f"{key} names `{text}`, which is no tile", m, key, did_you_mean(text, names))
        return text

    # --- values ----------------------------------------------------------------------------------------------------

    def known(self, m: Located, fields: Iterable[str], what: str) -> None:
        for key in m:
            if key not in fields:
                raise self.error(f"a {what} has no field `{key}`", m, key, did_you_mean(key, fields))

    def mapping(self, value: Any, what: str) -> Located:
        if isinstance(value, Located):
            return value
        if isinstance(value, dict):
            return Located(value)
        raise self.error(f"{what} is a mapping, found {type(value).__name__}")

    def sequence(self, m: Located, key: str) -> list[Any]:
        value = m.get(key) or []
        if not isinstance(value, list | tuple):
            raise self.error(f"{key} is a list, found {type(value).__name__}", m, key)
        return list(value)

    def integer(self, m: Located, key: str) -> int:
        return self.number(m, key, m[key])

    def number(self, m: Located, key: str, value: Any) -> int:
        if type(value) is not int:
            raise self.error(f"{key} holds integers, found {value!r}", m, key)
        return value

    def boolean(self, m: Located, key: str, default: bool) -> bool:
        value = m.get(key, default)
        if not isinstance(value, bool):
            raise self.error(f"{key} is true or false, found {value!r}", m, key)
        return value

    def member(self, m: Located, key: str, enum: type[E], prefix: str = "") -> E:
        return self.choose(m, key, m[key], enum, prefix)

    def choose(self, m: Located, key: str, value: Any, enum: type[E], prefix: str = "") -> E:
        short = str(value).removeprefix(prefix)
        named: Callable[[E], str] = lambda member: member.name.removeprefix(prefix)  # noqa: E731
        for member in enum:
            if named(member) == short:
                return member
        raise self.error(f"{key} `{value}` is unknown", m, key, did_you_mean(short, [named(x) for x in enum]))
