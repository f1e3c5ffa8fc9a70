"""IR text: what is printed reads back equal, over generated IR of every node class."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pypto_pro import enums
from pypto_pro.diag import Span
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, MemorySpace, PipeType, TensorLayout
from pypto_pro.ir import nodes, text
from pypto_pro.ir.nodes import (
    Assign,
    Binary,
    Const,
    Kernel,
    Local,
    Op,
    Pick,
    Place,
    Program,
    Slot,
    TileDecl,
    Unary,
    Var,
)  # fmt: skip
from pypto_pro.ir.parser import IRSyntaxError, parse_kernel
from pypto_pro.ir.printer import print_block, print_expr, print_kernel
from pypto_pro.ir.text import Kind
from pypto_pro.ir.types import (
    BOOL,
    FP32,
    INDEX,
    ArrayType,
    GroupType,
    MaskType,
    PtrType,
    RegType,
    ScalarType,
    StructArrayType,
    StructType,
    TensorType,
    TileType,
)  # fmt: skip

INT32 = ScalarType(DataType.DT_INT32)
TILE = TileType([16, 64], DataType.DT_FP32)
TILE_MAT = TileType([32, 32], DataType.DT_FP16, MemorySpace.Mat, valid_shape=[-1, 7], layout=TensorLayout.ZN, pad=1)
INNER = StructType("Inner", (("k", INDEX), ("w", ArrayType(FP32, 3))))
OUTER = StructType("Outer", (("n", INT32), ("flag", BOOL), ("inner", INNER), ("arr", ArrayType(INDEX, 4))))
TENSOR = TensorType(DataType.DT_FP16, (4, None, 8), TensorLayout.NZ)
PTR = PtrType(DataType.DT_FP16)

VARS = [
    Var("i", INDEX), Var("n", INT32), Var("f", FP32), Var("b", BOOL), Var("x$2", INT32), Var("class", FP32),
    Var("odd name", INDEX), Var("t", TILE), Var("u$3", TILE), Var("m", TILE_MAT), Var("g", GroupType(TILE, 2, 1)),
    Var("x", TENSOR), Var("p", PTR), Var("s", OUTER), Var("sa", StructArrayType(OUTER, 3)),
    Var("r", RegType(DataType.DT_FP32)), Var("k", MaskType(DataType.DT_FP16)), Var("local", INDEX), Var("min", INT32),
]  # fmt: skip


def of_type(kind: type) -> list[Var]:
    return [var for var in VARS if isinstance(var.type, kind)]


SCALARS = [ScalarType(d) for d in (DataType.DT_INDEX, DataType.DT_INT32, DataType.DT_FP32, DataType.DT_BOOL)]
numbers = st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False)
consts = st.builds(Const, numbers, st.sampled_from(SCALARS)) | st.integers(0, 99).map(Const)
locals_ = st.sampled_from(of_type(ScalarType)).map(Local)
ptr_locals = st.sampled_from(of_type(PtrType)).map(Local)


def places(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Place]:
    paths = {
        ("n",): None, ("flag",): None, ("inner", "k"): None, ("arr",): INDEX, ("inner", "w"): FP32, ("inner",): INNER,
    }  # fmt: skip

    @st.composite
    def make(draw: Any) -> Place:
        var = draw(st.sampled_from([*of_type(StructType), *of_type(StructArrayType)]))
        path = draw(st.sampled_from(list(paths)))
        index = draw(scalars) if isinstance(var.type, StructArrayType) else None
        element = draw(scalars) if path[-1] in ("arr", "w") else None
        kind = text.place_type(var, index is not None, path, element is not None)
        assert kind is not None
        return Place(var, index, path, element, draw(st.sampled_from([kind, FP32])))

    return make()


def tiles(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.sampled_from(of_type(TileType)).map(Local)
        | st.builds(Slot, st.sampled_from(of_type(GroupType)), scalars)
        | st.builds(lambda i: Pick(i, (Local(VARS[7]), Local(VARS[8])), TILE), scalars)
    )


def bigger(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    kind = st.sampled_from(SCALARS)
    binary = st.sampled_from([*"+-*/%&|^", "//", "<<", ">>", "min", "max", "and", "or", *text.COMPARISONS])
    unary = st.sampled_from(["-", "~", "not"])
    return st.one_of(
        st.builds(lambda op, a, b: Binary(op, a, b, text.binary_type(op, a.type)), binary, scalars, scalars),
        st.builds(Binary, binary, scalars, scalars, kind),
        st.builds(lambda op, a: Unary(op, a, BOOL if op == "not" else a.type), unary, scalars),
        st.builds(Unary, unary, scalars, kind),
        st.builds(nodes.Convert, scalars, kind),
        st.builds(lambda c, a, b: nodes.Choose(c, a, b, a.type), scalars, scalars, scalars),
        st.builds(nodes.Choose, scalars, scalars, scalars, kind),
        st.builds(nodes.Query, st.sampled_from(["block_idx", "thread_idx.x"]), st.sampled_from([INT32, INDEX])),
        st.builds(nodes.Dim, st.sampled_from(of_type(TensorType)), st.integers(-1, 2)),
        st.builds(nodes.TileAttr, tiles(scalars), st.sampled_from(["vr", "vc", "addr", "mutex"]), st.integers(0, 1)),
        st.builds(lambda i, a: Pick(i, a, a[0].type), scalars, st.lists(scalars, min_size=1, max_size=3).map(tuple)),
        st.builds(nodes.Field, places(scalars)),
        st.builds(nodes.IsNull, ptr_locals | st.builds(nodes.PtrPlus, ptr_locals, scalars, st.just(PTR))),
    )


scalars = st.recursive(consts | locals_, bigger, max_leaves=8)
pointers = (
    ptr_locals
    | st.builds(nodes.PtrPlus, ptr_locals, scalars, st.sampled_from([PTR, PtrType(DataType.DT_FP32)]))
    | st.builds(nodes.PtrCast, ptr_locals, st.just(PtrType(DataType.DT_UINT8)))
    | st.builds(nodes.PtrOf, st.sampled_from(of_type(TensorType)), st.sampled_from([PTR, PtrType(DataType.DT_FP32)]))
)
moved_tiles = st.builds(lambda t, o: nodes.TilePlus(t, o, t.type), tiles(scalars), scalars)
exprs = scalars | tiles(scalars) | pointers | moved_tiles | st.sampled_from(VARS).map(Local)
literals = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False)
    | st.sampled_from([*DataType, *PipeType, *enums.CompactMode, *CoreKind, *enums.AtomicType]),
    lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4,
)  # fmt: skip
attrs = st.dictionaries(st.sampled_from(["dim", "mode", "name"]), literals, max_size=2).map(lambda d: tuple(d.items()))
OP_NAMES = ["pl.add", "add", "vf.exp", "cast", "struct", "min", "fp32", "get_x", "a b"]
LITERALS = {
    "addr": st.integers(0), "size": st.none() | st.integers(0), "addrs": st.lists(st.integers(), max_size=3).map(tuple),
    "identity": st.text(max_size=8), "mutex_ids": st.just(((0,), (1,))), "candidates": st.just((0, 1)),
    "max_threads": st.integers(1, 2048), "name": st.sampled_from(OP_NAMES),
    "what": st.sampled_from(["printf", "trap"]), "automatic": st.booleans(),
    "fwd_ids": st.just((1, 2)), "bwd_ids": st.just(()),
}  # fmt: skip
VAR_CLASSES = {
    nodes.GroupDecl: GroupType, nodes.TensorDecl: TensorType, nodes.StructDecl: StructType, TileDecl: TileType,
    nodes.CopyTensor: TensorType, nodes.SubView: TileType, nodes.CopyTile: TileType,
}  # fmt: skip


def values_of(kind: type, field: text.FieldInfo, blocks: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    match field.kind:
        case Kind.EXPR:
            return exprs
        case Kind.EXPRS:
            return st.lists(exprs, max_size=3).map(tuple)
        case Kind.ARGS:
            inner = st.none() | exprs | st.lists(exprs, max_size=2).map(tuple)
            return st.lists(inner, max_size=3).map(tuple)
        case Kind.VAR:
            return st.sampled_from(of_type(VAR_CLASSES.get(kind, object)))
        case Kind.VARS:
            return st.lists(st.sampled_from(VARS), max_size=2, unique=True).map(tuple)
        case Kind.PLACE:
            return places(scalars)
        case Kind.BLOCK:
            return blocks
        case Kind.ATTRS:
            return attrs
    return st.sampled_from(list(field.enum)) if field.enum else LITERALS[field.name]


def statements_of(kind: type, blocks: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = {field.name: values_of(kind, field, blocks) for field in text.fields_of(kind)}
    return st.builds(kind, **fields)


STMTS = typing.get_args(nodes.Stmt)
LEAVES = [kind for kind in STMTS if not any(f.kind is Kind.BLOCK for f in text.fields_of(kind))]
simple = st.one_of([statements_of(kind, st.nothing()) for kind in LEAVES])
nested = st.recursive(
    st.lists(simple, max_size=2).map(tuple),
    lambda blocks: st.lists(
        simple | st.one_of([statements_of(kind, blocks) for kind in STMTS if kind not in LEAVES]), max_size=2
    ).map(tuple),
    max_leaves=4,
)


def kernel_of(block: Any) -> Kernel:
    params = tuple(var for var in VARS if var.name in ("x", "p", "n"))
    return Kernel("k", params, (Program(CoreKind.CUBE, block), Program(CoreKind.VECTOR, block[::-1])), False)


@pytest.mark.parametrize("kind", STMTS, ids=lambda kind: kind.__name__)
def test_every_statement_reads_back(kind: type) -> None:
    blocks = st.lists(simple, max_size=1).map(tuple)

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(statements_of(kind, blocks))
    def check(stmt: Any) -> None:
        kernel = kernel_of((stmt,))
        assert parse_kernel(print_kernel(kernel)) == kernel

    check()


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(scalars)
def test_scalar_expressions_read_back(expr: Any) -> None:
    kernel = kernel_of((Assign(Var("y", expr.type), expr),))
    assert parse_kernel(print_kernel(kernel)) == kernel


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(nested)
def test_blocks_read_back(block: Any) -> None:
    kernel = kernel_of(block)
    assert parse_kernel(print_kernel(kernel, lines=True)) == kernel


def test_text_reads_like_the_kernel() -> None:
    i, t, g, n = Var("i", INDEX), Var("t", TILE), Var("g", GroupType(TILE, 2, 1)), Var("n", INT32)
    cursor = Var("g$cursor", INDEX)
    step = Binary("%", Binary("+", Local(cursor), Const(1), INDEX), Const(2), INDEX)
    row = Binary("*", Local(i), Const(16), INDEX)
    block = (
        nodes.GroupDecl(g, (0, 4096), ((0,), (1,)), cursor, "k.py:3"),
        Assign(n, nodes.Query("block_idx", INT32)),
        nodes.For(i, nodes.Convert(Local(n), INDEX), Const(8), Const(1), (
            Assign(cursor, step),
            Assign(t, Slot(g, Local(cursor))),
            Op("pl.load", (Local(t), Local(VARS[11]), (row, Const(0))), (("order", None),)),
            nodes.If(Binary("<", Local(i), Const(3), BOOL), (nodes.Continue(),), (nodes.If(Const(True, BOOL), ()),)),
        )),
    )  # fmt: skip
    assert print_block(block).splitlines() == [
        "g: Group(TileType([16, 64], fp32, Vec), 2, 1) = make_tile_group((0, 4096), ((0,), (1,)), g·cursor, 'k.py:3')",
        "n: int32 = get_block_idx()",
        "for i in range(index(n), 8):",
        "    g·cursor = (g·cursor + 1) % 2",
        "    t: TileType([16, 64], fp32, Vec) = g[g·cursor]",
        "    x: Tensor([4, None, 8], fp16, NZ)",
        "    pl.load(t, x, (i * 16, 0), order=None)",
        "    if i < 3:",
        "        continue",
        "    elif True:",
        "        pass",
    ]


def test_lines_are_shown_on_request() -> None:
    stmt = nodes.Barrier(PipeType.ALL, Span("k.py", 31))
    assert "bar(ALL)  # line 31" in print_kernel(kernel_of((stmt,)), CoreKind.CUBE, lines=True)


def test_one_core_only() -> None:
    printed = print_kernel(kernel_of(()), CoreKind.VECTOR)
    assert "with vector:" in printed
    assert "with cube:" not in printed


@pytest.mark.parametrize("bad", ["x = 1\n", "def k():\n    with cube:\n        del x\n", "def k(x: Nope):\n    pass\n"])
def test_other_text_is_rejected_with_its_line(bad: str) -> None:
    with pytest.raises(IRSyntaxError) as error:
        parse_kernel(bad)
    assert error.value.lineno is not None


def test_negative_numbers_and_negation_differ() -> None:
    assert print_expr(Const(-5)) == "-5"
    assert print_expr(Unary("-", Const(5), INDEX)) == "neg(5)"


def test_every_field_kind_is_known() -> None:
    for kind in (*STMTS, *typing.get_args(nodes.Expr), Place):
        assert len(text.fields_of(kind)) == sum(f.compare for f in dataclasses.fields(kind))
