"""Calls of ops of the table: everything is read from the entry, no op is known by name."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from enum import Enum
from typing import Any

from pypto_pro.diag.errors import (
    FinalRejectionError,
    LoweringError,
    ParserError,
    ParserSyntaxError,
    ParserTypeError,
    UnsupportedFeatureError,
)
from pypto_pro.frontend import arguments, operands, order
from pypto_pro.frontend.arguments import Formal
from pypto_pro.frontend.closure import from_python
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.declared import with_declarations
from pypto_pro.frontend.values import NONE, TupleValue, Value, describe
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Arg, Local, Op, SetValid, Var
from pypto_pro.ir.types import ScalarType
from pypto_pro.ops.entry import Caution, Keyword, OpEntry, Param, Requirement, Section
from pypto_pro.ops.table import entry_of

RAISED_BY_RULES = (TypeError, ValueError, ArithmeticError, LookupError, NotImplementedError)


def call(ctx: Context, entry: OpEntry, node: ast.Call, hint: str | None) -> Value | None:
    """An op called by the author: bind, check, emit. The value of an op that gives one, else None."""
    check_scope(ctx, entry.name, node, is_register_op=entry.key.startswith("vf."))
    values, attrs, names = read_arguments(ctx, entry, node)
    return emit(ctx, entry, values, attrs, node, hint, names)


def read_arguments(
    ctx: Context, entry: OpEntry, node: ast.Call
) -> tuple[dict[str, Value], dict[str, Any], dict[str, str]]:
    """(operands, keyword values, how each operand is written) of a call; absent ones are left out."""
    params = {p.name: p for p in entry.params}
    wrong_count = ParserTypeError if entry.type_errors else ParserSyntaxError
    bound = arguments.bind(ctx, node, entry.name, _formals(entry), wrong_count)
    data = {name: arg for name, arg in bound.items() if params[name].is_data}
    values = _evaluate(ctx, data)
    attrs = {n: keyword_value(ctx, entry, params[n], arg) for n, arg in bound.items() if not params[n].is_data}
    names = {name: _written(arg) for name, arg in data.items()}
    return values, attrs, names


def _formals(entry: OpEntry) -> list[Formal]:
    return [Formal(p.name, p.required, p.keyword_only, p.positional_only) for p in entry.params]


def written_as(entry: OpEntry) -> str:
    """How a call of an op is written, as a help text."""
    return arguments.signature(entry.name, _formals(entry))


def _written(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else ""


def _evaluate(ctx: Context, data: Mapping[str, ast.expr]) -> dict[str, Value]:
    """Operand values, left to right."""
    return dict(zip(data, order.evaluate_spread(ctx, list(data.values())), strict=True))


def keyword_value(ctx: Context, entry: OpEntry, param: Param, node: ast.expr) -> Any:
    """The compile-time value of a keyword: an enum member where one is asked for, else a constant of listed types."""
    spec = param.spec
    assert isinstance(spec, Keyword)
    value = ctx.evaluate(node)
    what = f"`{param.name}` of {entry.key}"
    if value == NONE and param.default is None:
        return None
    if spec.enum is not None:
        return arguments.as_enum_member(ctx, value, node, spec.enum, what)
    constant = arguments.python_value(value)
    if constant is NotImplemented:
        raise ctx.error(FinalRejectionError, f"{what} is a compile-time constant, found {describe(value)}", node)
    if float in spec.types and isinstance(constant, int) and not isinstance(constant, bool):
        constant = float(constant)
    accepted = isinstance(constant, spec.types) and (not isinstance(constant, bool) or bool in spec.types)
    if not accepted or isinstance(constant, Enum):
        if tuple in spec.types:
            text = f"{what} is a list of compile-time ints, found {describe(value)}"
            raise ctx.error(FinalRejectionError, text, node)
        wanted = " or ".join(t.__name__ for t in spec.types)
        raise arguments.mismatch(ctx, f"{what} is {wanted}, found {describe(value)}", node)
    if isinstance(constant, tuple) and not all(type(item) is int for item in constant):
        raise ctx.error(FinalRejectionError, f"{what} is a list of compile-time ints", node)
    return constant


def emit(
    ctx: Context, entry: OpEntry, values: Mapping[str, Value], attrs: Mapping[str, Any], node: ast.expr,
    hint: str | None = None, names: Mapping[str, str] | None = None, results: tuple[Var, ...] | None = None,
) -> Value | None:  # fmt: skip
    """Check the operands of an op and append it, with what the scalar unit does first. Its value, None without one."""
    args: dict[str, Arg] = {}
    infos: dict[str, Any] = {}
    try:
        args = {
            p.name: operands.argument(ctx, entry, p, values.get(p.name, _default(p)), node) for p in entry.data_params
        }
        keywords = {p.name: attrs.get(p.name, p.default) for p in entry.keywords}
        infos = {name: operands.info(ctx, arg, (names or {}).get(name) or name) for name, arg in args.items()}
        if "rules" in entry.facets:
            entry.facets["rules"](**infos, **keywords)
        check_section(ctx, entry, infos, keywords, node)
        if "rewrite" in entry.facets:
            return _rewritten(ctx, entry, args, keywords, node, hint, names)
        _issue(ctx, entry, args, keywords, node)
        if results is None:
            results = _results(ctx, entry, infos, keywords, hint)
    except ParserError:
        raise
    except RAISED_BY_RULES as error:
        if entry.key.startswith("vf."):
            raise ctx.error(LoweringError, f"`{entry.name}`: {error}", node) from error
        raise with_declarations(ctx, ctx.wrap(error, node, entry.name), error, args, infos) from error
    ctx.emit(Op(entry.name, tuple(args.values()), tuple(keywords.items()), results, span=ctx.span(node)))
    if not results:
        return None
    found = tuple(Local(var) for var in results)
    return found[0] if len(found) == 1 else TupleValue(found)


def _default(param: Param) -> Value:
    return NONE if param.required or param.default is None else from_python(param.default)


def _rewritten(
    ctx: Context, entry: OpEntry, args: Mapping[str, Arg], keywords: Mapping[str, Any], node: ast.expr,
    hint: str | None, names: Mapping[str, str] | None,
) -> Value | None:  # fmt: skip
    symbolic = {n: operands.symbolic(a) for n, a in args.items()}
    for fact in entry.facets["issue"](**symbolic, **keywords) if "issue" in entry.facets else ():
        # the executors never meet this op: its doubts are told here
        if isinstance(fact, Caution) and not (operands.is_known(fact.holds) and fact.holds):
            span = ctx.span(node)
            warnings.warn_explicit(fact.message, RuntimeWarning, span.file, max(span.line, 1))
    name, given = entry.facets["rewrite"](**symbolic, **keywords)
    target = entry_of(name)
    kinds = {p.name: p for p in target.params}
    values: dict[str, Value] = {}
    attrs: dict[str, Any] = {}
    for param, value in given.items():
        found = operands.concrete(value)
        if not kinds[param].is_data:
            attrs[param] = found
        elif found is not None:
            values[param] = TupleValue(found) if isinstance(found, tuple) else found
    return emit(ctx, target, values, attrs, node, hint, names)


def _issue(
    ctx: Context, entry: OpEntry, args: Mapping[str, Arg], keywords: Mapping[str, Any], node: ast.expr
) -> None:
    if "issue" not in entry.facets:
        return
    for update in entry.facets["issue"](**{n: operands.symbolic(a) for n, a in args.items()}, **keywords):
        if isinstance(update, Requirement):  # one that depends on run-time extents is the executors' to check
            if operands.is_known(update.holds) and not update.holds:
                raise ValueError(update.message)
            continue
        if isinstance(update, Caution):
            continue
        tile = args[update.operand]
        assert tile is not None
        assert not isinstance(tile, tuple)
        rows, cols = build.expr_of(update.rows), build.expr_of(update.cols)
        ctx.emit(SetValid(tile, rows, cols, span=ctx.span(node)))


def _results(
    ctx: Context, entry: OpEntry, infos: Mapping[str, Any], keywords: Mapping[str, Any], hint: str | None
) -> tuple[Var, ...]:
    if not entry.results:
        return ()
    if "result_type" in entry.facets:
        types = entry.facets["result_type"](**infos, **keywords)
    else:
        types = (ScalarType(keywords.get("dtype") or next(i.dtype for i in infos.values() if hasattr(i, "dtype"))),)
    if hint is not None and len(types) == 1:
        return (ctx.variable(hint, types[0]),)
    return tuple(ctx.fresh("_t", type_) for type_ in types)


# --- where an op may stand -------------------------------------------------------------------------------------------


def check_section(
    ctx: Context, entry: OpEntry, infos: Mapping[str, Any], keywords: Mapping[str, Any], node: ast.expr
) -> None:
    """An op of the other core kind is an error that names its section; scopes of registers and threads take few ops."""
    section = entry.section(**infos, **keywords) if callable(entry.section) else entry.section
    check_core(ctx, entry.name, section, node)
    if not ctx.in_simt or isinstance(node, ast.Call):  # `t[i, j]` is the memory access of threads
        check_scope(ctx, entry.name, node, is_register_op=entry.key.startswith("vf."))


def check_core(ctx: Context, name: str, section: Section, node: ast.AST) -> None:
    """ParserSyntaxError unless the program being read is one of the op's core kind."""
    if section is Section.BOTH or section.value == ctx.core.value:
        return
    place = "outside any section, which both core kinds run" if ctx.section is None else f"in {ctx.section.value} code"
    owner = "vector" if section is Section.VECTOR else "cube"
    raise ctx.error(
        ParserSyntaxError, f"`{name}` runs on the {owner} core and stands {place}", node,
        hint=f"move it into `with pl.section_{owner}():`",
    )  # fmt: skip


def check_scope(ctx: Context, name: str, node: ast.AST, *, is_register_op: bool = False) -> None:
    """Only register ops stand in vector functions, which alone have them; SIMT functions have element access only."""
    if ctx.in_simt:
        raise ctx.error(UnsupportedFeatureError, f"`{name}` is not available in a SIMT function", node)
    if is_register_op and not ctx.in_vector_function:
        raise ctx.error(ParserSyntaxError, f"`{name}` stands in functions marked @pl.vector_function only", node)
    if ctx.in_vector_function and not is_register_op:
        text = f"`{name}` cannot stand in a vector function, which holds `vf.*` ops and scalar code"
        raise ctx.error(ParserSyntaxError, text, node)
