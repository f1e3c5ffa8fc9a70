"""`vf.*`: register ops of vector functions, their assignment form, and the types of what they give."""

from __future__ import annotations

import ast
import types
import typing
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pypto_pro.diag.errors import InvalidOperationError, LoweringError, ParserError, ParserSyntaxError, ParserTypeError
from pypto_pro.diag.names import did_you_mean
from pypto_pro.dtypes import DataType
from pypto_pro.frontend import opcalls, operands
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.values import Value, expr_type
from pypto_pro.ir.nodes import Var
from pypto_pro.ir.types import AddrRegType, MaskType, RegType, Type, UnalignRegType
from pypto_pro.ops.entry import OpEntry
from pypto_pro.ops.table import keys, lookup
from pypto_pro.ops.vf_operands import AddrArg, MaskArg, UnalignArg

NAMESPACE = "vf"
NESTABLE = "nestable"  # facet of an entry whose result may be an operand of another op


def is_register_call(ctx: Context, node: ast.Call) -> bool:
    """Whether a call is written `vf.name(...)`."""
    func = node.func
    is_vf = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == NAMESPACE
    return is_vf and NAMESPACE not in ctx.frame.names


def call(ctx: Context, key: str, node: ast.Call, hint: str | None) -> Value | None:
    """A register op: a statement, or the right side of `name = vf.op(...)` (`hint` is the name)."""
    entry = _entry(ctx, key, node)
    _check_arity(ctx, entry, node)
    if not entry.results:
        return opcalls.call(ctx, entry, node, None)
    if hint is None and NESTABLE not in entry.facets:
        raise ctx.error(
            ParserSyntaxError, f"`{key}` gives a register, which must be assigned to a name", node,
            hint=f"write `r = {key}(...)`",
        )  # fmt: skip
    return _give(ctx, entry, node, [hint])


def assign(ctx: Context, node: ast.Call, names: list[str]) -> Value | None:
    """`r0, r1 = vf.op(...)`; None when the op gives another number of values than there are names."""
    assert isinstance(node.func, ast.Attribute)
    entry = _entry(ctx, f"{NAMESPACE}.{node.func.attr}", node)
    if not entry.results:
        return None
    _check_arity(ctx, entry, node)
    if len(set(names)) != len(names):
        raise ctx.error(LoweringError, f"the results of `{entry.name}` need different registers", node)
    return _give(ctx, entry, node, list(names))


def _entry(ctx: Context, key: str, node: ast.Call) -> OpEntry:
    if not ctx.in_vector_function:
        raise ctx.error(ParserSyntaxError, f"`{key}` stands in functions marked @pl.vector_function only", node)
    entry = lookup(key)
    if entry is None:
        known = [name for name in keys() if name.startswith(f"{NAMESPACE}.")]
        raise ctx.error(
            InvalidOperationError, f"unknown register operation `{key}`", node.func, hint=did_you_mean(key, known)
        )
    if entry.kind != "op":
        raise ctx.error(ParserSyntaxError, f"`{key}` cannot be called; registers are made by assignment", node)
    return entry


def _check_arity(ctx: Context, entry: OpEntry, node: ast.Call) -> None:
    """LoweringError for too many or too few operands; what else does not fit the signature is told by binding."""
    positional = [p for p in entry.params if not p.keyword_only]
    if any(isinstance(arg, ast.Starred) for arg in node.args):
        return
    given = len(node.args)
    if given > len(positional):
        text = f"`{entry.name}` takes {len(positional)} operands at most, found {given}"
        raise ctx.error(LoweringError, text, node, hint=opcalls.written_as(entry))
    by_name = {keyword.arg for keyword in node.keywords}
    missing = [f"`{p.name}`" for p in positional[given:] if p.required and p.name not in by_name]
    if missing:
        raise ctx.error(LoweringError, f"`{entry.name}` misses {', '.join(missing)}", node,
                        hint=opcalls.written_as(entry))  # fmt: skip


def _give(ctx: Context, entry: OpEntry, node: ast.Call, names: Sequence[str | None]) -> Value | None:
    opcalls.check_scope(ctx, entry.name, node, is_register_op=True)
    if "result_type" not in entry.facets and result_kinds(entry, len(names)) is None:
        raise ctx.error(ParserSyntaxError, f"`{entry.name}` does not give {len(names)} registers", node)
    values, attrs, written = opcalls.read_arguments(ctx, entry, node)
    try:
        given = [p for p in entry.data_params if p.name in values]
        args = {p.name: operands.argument(ctx, entry, p, values[p.name], node) for p in given}
    except (TypeError, ValueError) as error:
        raise ctx.error(LoweringError, f"`{entry.name}`: {error}", node) from error
    infos = {name: operands.info(ctx, arg, written.get(name) or name) for name, arg in args.items()}
    targets = tuple(_held(ctx, name) for name in names)
    types_ = result_types(ctx, entry, infos, attrs, targets, node)
    if len(types_) != len(names):
        raise ctx.error(
            ParserSyntaxError, f"`{entry.name}` gives {len(types_)} registers, found {len(names)} names", node
        )
    results = tuple(_target(ctx, name, type_) for name, type_ in zip(names, types_, strict=True))
    return opcalls.emit(ctx, entry, values, attrs, node, None, written, results)


def _held(ctx: Context, name: str | None) -> Type | None:
    """The register type a target name has now."""
    type_ = expr_type(ctx.frame.names[name]) if name is not None and name in ctx.frame.names else None
    return type_ if isinstance(type_, RegType | MaskType | AddrRegType | UnalignRegType) else None


def _target(ctx: Context, name: str | None, type_: Type) -> Var:
    """The register behind a name; a mask keeps the tag of its first assignment."""
    if name is None:
        return ctx.fresh("_r", type_)
    held = _held(ctx, name)
    if isinstance(held, MaskType) and isinstance(type_, MaskType):
        type_ = held
    return ctx.variable(name, type_)


# --- result types (vector-function 3.3) ------------------------------------------------------------------------------


def result_types(
    ctx: Context, entry: OpEntry, infos: Mapping[str, Any], attrs: Mapping[str, Any],
    targets: tuple[Type | None, ...], node: ast.Call,
) -> tuple[Type, ...]:  # fmt: skip
    """The types of an op's results: by its own `result_type(targets, operands, keywords)`, else the general rules."""
    if "result_type" in entry.facets:
        full = {p.name: infos.get(p.name) for p in entry.data_params}
        keywords = {p.name: attrs.get(p.name, p.default) for p in entry.keywords}
        try:
            return tuple(entry.facets["result_type"](targets=targets, **full, **keywords))
        except ParserError:
            raise
        except (TypeError, ValueError) as error:
            raise ctx.error(LoweringError, f"`{entry.name}`: {error}", node) from error
    kinds = result_kinds(entry, len(targets))
    assert kinds is not None
    dtype = attrs.get("dtype") or first_dtype(infos)
    if dtype is None:
        raise ctx.error(ParserTypeError, f"`{entry.name}` needs `dtype=`: no operand has one", node)
    return tuple(
        _one_type(ctx, entry, kind, dtype, infos, target, node) for kind, target in zip(kinds, targets, strict=True)
    )


def first_dtype(infos: Mapping[str, Any]) -> DataType | None:
    """The dtype of the first operand that has one (a scalar's own for scalars)."""
    for found in infos.values():
        dtype = getattr(getattr(found, "type", None), "dtype", None)
        if isinstance(dtype, DataType):
            return dtype
    return None


def _one_type(
    ctx: Context, entry: OpEntry, kinds: frozenset[type], dtype: DataType, infos: Mapping[str, Any],
    target: Type | None, node: ast.Call,
) -> Type:  # fmt: skip
    kind = _kind(kinds, infos, target)
    if kind is UnalignRegType:
        return UnalignRegType(is_store=False)
    if kind is not RegType:
        return MaskType(dtype) if kind is MaskType else AddrRegType(dtype)
    if isinstance(target, RegType) and target.dtype is not dtype:
        raise ctx.error(
            LoweringError,
            f"the register is {target.dtype.to_string()} and `{entry.name}` gives {dtype.to_string()}", node,
            hint="use a new name",
        )  # fmt: skip
    return RegType(dtype)


def _kind(kinds: frozenset[type], infos: Mapping[str, Any], target: Type | None) -> type:
    """Register or mask: by the first operand where an op takes both, by the target where it reads neither."""
    if len(kinds) == 1:
        return next(iter(kinds))
    first = next(iter(infos.values()), None)
    lead = getattr(first, "type", None)
    if isinstance(lead, RegType | MaskType):
        return type(lead)
    return MaskType if isinstance(target, MaskType) else RegType


@lru_cache(maxsize=512)
def _annotation(meaning: Any) -> Any:
    return typing.get_type_hints(meaning).get("return")


def result_kinds(entry: OpEntry, count: int) -> tuple[frozenset[type], ...] | None:
    """What each of `count` results may be, read from the annotation of the op's meaning; None when it gives others.

    `-> Array | MaskArg | tuple[Array, Array]`: one register or mask, or two registers.
    """
    options = _options(_annotation(entry.meaning))
    tuples = [typing.get_args(option) for option in options if typing.get_origin(option) is tuple]
    if count == 1:
        single = [option for option in options if typing.get_origin(option) is not tuple]
        return (frozenset(map(_kind_of_annotation, single)),) if single else None
    found = next((parts for parts in tuples if len(parts) == count), None)
    return None if found is None else tuple(frozenset(map(_kind_of_annotation, _options(part))) for part in found)


def _options(written: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(written) in (typing.Union, types.UnionType)
    return typing.get_args(written) if is_union else (written,)


def _kind_of_annotation(written: Any) -> type:
    return {MaskArg: MaskType, AddrArg: AddrRegType, UnalignArg: UnalignRegType}.get(written, RegType)
