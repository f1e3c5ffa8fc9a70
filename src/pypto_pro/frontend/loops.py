"""Loops: names that live from trip to trip, the edges out of a body, `for` over pl.range and `while`.

A scalar or pointer that exists before the loop and is assigned in it lives in one variable ("pinned"). Other values
assigned in the body are references there; where the next trip or the code behind needs them, an object of their own
("carried") takes a copy at every edge. A body whose first reading shows that a pinned number must be wider, or that a
name cannot be kept, is read again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeAlias

from pypto_pro.diag.errors import ParserError, ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from pypto_pro.frontend import branches, conditions, edges, merge, operators, order, scan
from pypto_pro.frontend.context import Context, Edge, FrameKind, Loop, deferred
from pypto_pro.frontend.edges import Change, Repin
from pypto_pro.frontend.values import (
    NONE,
    Poison,
    StructValue,
    TupleValue,
    Value,
    describe,
    is_expr,
    is_ptr,
    is_scalar,
    is_tensor,
    is_tile,
    tensor_var,
)
from pypto_pro.ir import build
from pypto_pro.ir.nodes import (
    Block,
    Break,
    Const,
    Continue,
    CopyTensor,
    CopyTile,
    Expr,
    For,
    If,
    Local,
    Slot,
    Stmt,
    Var,
    While,
)
from pypto_pro.ir.types import INDEX, GroupType, ScalarType, TensorType

Overrides: TypeAlias = dict[str, Change]
Make: TypeAlias = Callable[[Block, Var], Stmt]
MAX_READINGS = 12
MAX_COUNTER = 65535


def run_loop(ctx: Context, stmt: ast.For | ast.While, rest: list[ast.stmt]) -> bool | None:
    """Read a loop. None: the caller goes on with `rest`; else `rest` was read, and whether control goes on."""
    from pypto_pro.frontend.statements import done_flag

    if stmt.orelse:
        raise ctx.error(UnsupportedFeatureError, "a loop has no `else`", stmt.orelse[0])
    frame = ctx.frame
    returns = frame.kind is not FrameKind.KERNEL and scan.has_return(stmt.body, ctx.core)
    if returns:
        done_flag(ctx, stmt)
    goes_on = _for(ctx, stmt) if isinstance(stmt, ast.For) else _while(ctx, stmt)
    if not returns:
        return None if goes_on else False
    if frame.loops:
        assert frame.done is not None
        frame.loops[-1].is_left = True
        span = ctx.span(stmt)
        ctx.emit(If(Local(frame.done), (Break(span=span),), (), span=span))
        return None
    return branches.run_rest(ctx, stmt, rest)


def _for(ctx: Context, stmt: ast.For) -> bool:
    target, call = stmt.target, stmt.iter
    if not isinstance(call, ast.Call) or not conditions.is_range(call):
        raise ctx.error(
            ParserSyntaxError, "`for` goes over pl.range(...) only", call, hint="write `for i in pl.range(n):`"
        )
    if not isinstance(target, ast.Name):
        raise ctx.error(ParserSyntaxError, "the loop variable is one simple name", target)
    nodes = conditions.range_arguments(ctx, call)
    values = order.evaluate_all(ctx, nodes)
    start, stop, step = (_bound(ctx, value, node) for value, node in zip(values, nodes, strict=True))
    if ctx.in_vector_function:
        _check_counter((start, stop), step, ctx, call)
    if isinstance(step, Const) and step.value == 0:
        raise ctx.error(ParserSyntaxError, "the step of pl.range is not zero", nodes[2])
    name = target.id
    return _read(ctx, stmt, name, lambda body, var: For(var, start, stop, step, body, span=ctx.span(stmt)))


def _check_counter(bounds: tuple[Expr, ...], step: Expr, ctx: Context, node: ast.AST) -> None:
    """The loop counter of a register scope is an unsigned 16-bit number that counts up."""
    for bound in bounds:
        if isinstance(bound, Const) and not 0 <= bound.value <= MAX_COUNTER:
            text = f"a loop bound in a vector function is from 0 to {MAX_COUNTER}, found {bound.value}"
            raise ctx.error(ParserSyntaxError, text, node)
    if isinstance(step, Const) and step.value < 0:
        raise ctx.error(ParserSyntaxError, "a loop in a vector function counts up", node)


def _bound(ctx: Context, value: Value, node: ast.AST) -> Expr:
    """A bound of pl.range as INDEX; an integral constant float counts."""
    if isinstance(value, Const) and isinstance(value.value, float):
        if not value.value.is_integer():
            raise ctx.error(ParserSyntaxError, f"a bound of pl.range is an integer, found {value.value}", node)
        return build.number(int(value.value))
    if not is_scalar(value) or build.kind_of(value).is_float():
        hint = "`a // b` divides integers" if is_scalar(value) else None
        text = f"a bound of pl.range is an integer, found {describe(value)}"
        raise ctx.error(ParserSyntaxError, text, node, hint=hint)
    return build.convert(operators.integer(ctx, value, node, "a bound of pl.range"), INDEX)


def _while(ctx: Context, stmt: ast.While) -> bool:
    if conditions.constexpr_test(ctx, stmt.test) is not None:
        raise ctx.error(ParserSyntaxError, "pl.constexpr stands in `if` and ternaries only", stmt.test)
    return _read(ctx, stmt, None, lambda body, _: While(body, span=ctx.span(stmt)))


def _read(ctx: Context, stmt: ast.For | ast.While, target: str | None, make: Make) -> bool:
    """Read the body until the names that live across trips have settled; emit the loop."""
    overrides: Overrides = {}
    mark = ctx.mark()
    outer_looped, outer_section = ctx.frame.looped, ctx.section
    for _ in range(MAX_READINGS):
        loop = Loop()
        try:
            return _Reader(ctx, stmt, target, loop, overrides).read(make)
        except Repin as change:
            if change.loop is not loop:
                raise
            ctx.go_back(mark)
            overrides[change.name] = change.change
        finally:
            ctx.frame.looped, ctx.section = outer_looped, outer_section
            if ctx.frame.loops and ctx.frame.loops[-1] is loop:
                ctx.frame.loops.pop()
    raise ctx.error(ParserSyntaxError, "the names of this loop do not settle on one type each", stmt)


class _Reader:
    """One reading of one loop."""

    def __init__(
        self, ctx: Context, stmt: ast.For | ast.While, target: str | None, loop: Loop, overrides: Overrides
    ) -> None:
        self.ctx = ctx
        self.stmt = stmt
        self.target = target
        self.loop = loop
        self.overrides = overrides
        live = ctx.frame.live
        self.changed = scan.assigned([stmt], ctx.core)
        self.head, self.after = live.head(stmt), live.after(stmt)
        self.before = dict(ctx.frame.names)

    def read(self, make: Make) -> bool:
        """Read head and body, close the edges, emit. Whether control goes on behind."""
        ctx, frame = self.ctx, self.ctx.frame
        var = ctx.variable(self.target, INDEX) if self.target is not None else Var("", INDEX)
        if self.target is not None:
            self._keep_target(self.target, var)
        for name in sorted(self.changed):
            if name in frame.names and name != self.target:
                self._keep(name, frame.names[name])
        body: list[Stmt] = []
        frame.looped = frame.looped | self.changed
        frame.loops.append(self.loop)
        with ctx.into(body):
            goes_on = self._body()
        frame.loops.pop()
        if goes_on:
            self.loop.repeats.append(Edge(body, frame.names))
        ends = isinstance(self.stmt, ast.For) or bool(self.loop.exits) or self.loop.is_left
        self._names_behind()
        ctx.emit(make(deferred(body), var))
        return ends

    def _body(self) -> bool:
        ctx, stmt = self.ctx, self.stmt
        if isinstance(stmt, ast.While):
            test = conditions.condition(ctx, stmt.test)
            if test is False:
                edges.leave(ctx, stmt, is_break=True)
                ctx.emit(Break(span=ctx.span(stmt)))
                return False
            if test is not True:
                block: list[Stmt] = []
                with ctx.into(block):
                    edges.leave(ctx, stmt, is_break=True)
                    ctx.emit(Break(span=ctx.span(stmt.test)))
                ctx.emit(If(build.logical_not(test), deferred(block), (), span=ctx.span(stmt.test)))
        goes_on = ctx.execute(stmt.body)
        if goes_on:
            edges.close_trip(ctx, self.loop, stmt)
        return goes_on

    # --- names at the head -------------------------------------------------------------------------------------------

    def _keep(self, name: str, value: Value) -> None:
        """Decide how a name that exists before the loop lives through it."""
        ctx, frame = self.ctx, self.ctx.frame
        change = self.overrides.get(name)
        if name not in self.head and name not in self.after:
            frame.names[name] = Poison(ParserTypeError, f"`{name}` has no value at the head of the loop")
        elif isinstance(change, Poison):
            frame.names[name] = change
        elif isinstance(value, Poison):
            return
        elif value == NONE and (sample := self._sample(name, frozenset())) is not None:
            self._keep_later(name, sample)
        elif is_scalar(value) or is_ptr(value):
            type_ = change if isinstance(change, ScalarType) else value.type
            var = ctx.variable(name, type_)
            given = build.convert(value, type_) if isinstance(type_, ScalarType) else value
            order.assign(ctx, var, given, self.stmt)
            self.loop.pinned[name] = var
            frame.names[name] = Local(var)
        else:
            carrier = self._carrier(name, value, moved=name in self.overrides)
            self.loop.carried[name] = carrier
            frame.names[name] = carrier

    def _sample(self, name: str, seen: frozenset[str]) -> Expr | None:
        """What the loop will assign to a name that is None before it: a number, or some slot of the tile's group.

        Read ahead of time and for its type only; None when it depends on more than the names known here.
        """
        ctx = self.ctx
        for stmt in scan.statements(self.stmt.body, ctx.core):
            if not isinstance(stmt, ast.Assign) or name not in scan.targets(stmt) or name in seen:
                continue
            if isinstance(stmt.value, ast.Name) and stmt.value.id not in ctx.frame.names:
                return self._sample(stmt.value.id, seen | {name})
            mark = ctx.mark()
            try:
                value = ctx.evaluate(stmt.value)
            except ParserError:
                continue
            finally:
                ctx.go_back(mark)
            if is_scalar(value):
                return value
            if is_tile(value):
                groups = [v for v in order.roots(ctx, value) if isinstance(v.type, GroupType) and v in ctx.groups]
                return Slot(groups[0], Const(0)) if groups else None
        return None

    def _keep_later(self, name: str, sample: Expr) -> None:
        """A name that holds None so far: a tile starts as some slot of its group, a number as 0. Neither is a value."""
        ctx = self.ctx
        if isinstance(sample.type, ScalarType):
            var = ctx.variable(name, sample.type)
            order.assign(ctx, var, build.number(0, sample.type.dtype), self.stmt)
            self.loop.pinned[name] = var
            ctx.frame.names[name] = Local(var)
            return
        carrier = Local(merge.own_tile(ctx, name, sample, merge.id_count(ctx, sample)))
        ctx.emit(CopyTile(carrier.var, sample, span=ctx.span(self.stmt)))
        self.loop.carried[name] = carrier
        ctx.frame.names[name] = carrier

    def _carrier(self, name: str, value: Value, moved: bool) -> Value:
        """An object of its own for a tile, tensor or struct, initialised from the value; tuples item by item.

        Compile-time values and registers stay what they are: an edge that gives another one asks for a new reading.
        """
        ctx = self.ctx
        if is_tile(value):
            carrier: Value = Local(merge.own_tile(ctx, name, value, merge.id_count(ctx, value)))
        elif is_tensor(value):
            if not moved:
                return value
            type_ = value.type
            assert isinstance(type_, TensorType)
            open_ = TensorType(type_.dtype, (None,) * type_.rank, type_.layout)
            carrier = Local(ctx.fresh(name, open_))
            ctx.emit(CopyTensor(carrier.var, tensor_var(value), span=ctx.span(self.stmt)))
            return carrier
        elif isinstance(value, StructValue):
            if not moved:
                return value
            carrier = merge.own_struct(ctx, name, value.type, self.stmt)
        elif isinstance(value, TupleValue):
            if not moved and not any(is_expr(item) and not isinstance(item, Const) for item in value.items):
                return value
            return TupleValue(tuple(self._item(name, item, moved) for item in value.items), value.names)
        else:
            return value
        for copy in merge.copies(ctx, [(carrier, value)], self.stmt):
            ctx.emit(copy)
        return carrier

    def _item(self, name: str, item: Value, moved: bool) -> Value:
        if is_scalar(item) or is_ptr(item):
            return self.ctx.bound(name, item, self.stmt)
        return self._carrier(name, item, moved)

    def _keep_target(self, name: str, var: Var) -> None:
        """The loop variable: INDEX in the body; behind a loop of zero trips it keeps what it was before."""
        ctx, frame = self.ctx, self.ctx.frame
        value = frame.names.get(name)
        if name in self.after and value is not None and is_scalar(value) and not build.kind_of(value).is_float():
            order.assign(ctx, var, build.convert(value, INDEX), self.stmt)
        frame.names[name] = Local(var)

    # --- names behind the loop ---------------------------------------------------------------------------------------

    def _names_behind(self) -> None:
        ctx, frame, loop = self.ctx, self.ctx.frame, self.loop
        names = dict(self.before)
        ways = [*loop.exits, *loop.repeats] if isinstance(self.stmt, ast.For) else loop.exits
        for name in sorted(self.changed):
            if name in loop.pinned:
                names[name] = Local(loop.pinned[name])
            elif name in loop.carried:
                names[name] = loop.carried[name]
            elif isinstance(self.overrides.get(name), Poison):
                names[name] = self.overrides[name]  # type: ignore[assignment]
            else:
                found = self._found(name, ways)
                if found is None:
                    names.pop(name, None)
                else:
                    names[name] = found
        if self.target is not None and self.target not in loop.pinned:
            names.setdefault(self.target, Local(ctx.variable(self.target, INDEX)))
        frame.names = names

    def _found(self, name: str, ways: list[Edge]) -> Value | None:
        """The value of a name that the loop itself introduced."""
        if name not in self.after:
            return Poison(ParserTypeError, f"`{name}` has no value behind the loop") if name in self.before else None
        paths = [merge.Path(edge.block, edge.names[name], _ends_in_jump(edge)) for edge in ways if name in edge.names]
        if not paths:
            return None
        return merge.merge(self.ctx, name, paths, self.stmt)


def _ends_in_jump(edge: Edge) -> bool:
    return bool(edge.block) and isinstance(edge.block[-1], Break | Continue)
