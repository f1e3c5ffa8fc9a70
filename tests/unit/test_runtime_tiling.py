"""TilingKey schemas, packing and launch keys; TilingData layouts and bytes (jit-and-tiling 5, 6)."""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import pypto_pro.language as pl
from pypto_pro import options
from pypto_pro.frontend.tiling import tiling_struct
from pypto_pro.language import Vf as vf  # noqa: N813
from pypto_pro.runtime.tilingdata import TilingLayout
from pypto_pro.runtime.tilingkey import TilingKeyField, TilingKeySchema


class Example:
    A = TilingKeyField(bits=1, values=[1, 0])
    B = TilingKeyField(bits=2, values=[16, 64, 128])

    def is_valid(self, key: tuple[int, ...]) -> bool:
        return key != (0, 128)


def test_packing_puts_the_first_field_lowest() -> None:
    schema = TilingKeySchema.of(Example)
    assert schema.pack({"A": 0, "B": 64}) == 3
    assert schema.unpack(3) == {"A": 0, "B": 64}
    with pytest.raises(ValueError, match="index 3"):
        schema.unpack(6)


def test_legal_keys_vary_the_last_field_fastest() -> None:
    keys = [tuple(key.values()) for key in TilingKeySchema.of(Example).legal_keys()]
    assert keys == [k for k in itertools.product([1, 0], [16, 64, 128]) if k != (0, 128)]


@pytest.mark.parametrize(
    "key",
    [{"A": 1}, {"A": 1, "B": 16, "C": 0}, {"A": 1, "B": 17}, {"A": True, "B": 16}, {"A": 1.0, "B": 16}, [1, 16], None,
     {"A": 0, "B": 128}],
    ids=str,
)  # fmt: skip
def test_bad_launch_keys(key: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        TilingKeySchema.of(Example).check(key)


def test_a_launch_key_comes_back_in_field_order() -> None:
    assert list(TilingKeySchema.of(Example).check({"B": 16, "A": 1})) == ["A", "B"]


def schema_class(**fields: Any) -> type:
    return type("Schema", (), fields)


@pytest.mark.parametrize(
    "owner",
    [
        schema_class(),
        Example(),
        schema_class(A=TilingKeyField(bits=0, values=[1])),
        schema_class(A=TilingKeyField(bits=True, values=[1])),
        schema_class(A=TilingKeyField(bits=1, values=[])),
        schema_class(A=TilingKeyField(bits=1, values=[1, True])),
        schema_class(A=TilingKeyField(bits=2, values=[1, 1])),
        schema_class(A=TilingKeyField(bits=1, values=[1, 2, 3])),
        schema_class(A=TilingKeyField(bits=1, values=["a"])),
        schema_class(A=TilingKeyField(bits=40, values=[1]), B=TilingKeyField(bits=25, values=[1])),
        schema_class(A=TilingKeyField(bits=1, values=[1]), is_valid=3),
        schema_class(x=TilingKeyField(bits=1, values=[1])),
        schema_class(SIZE=TilingKeyField(bits=1, values=[1])),
        type("Child", (Example,), {}),
    ],
)
def test_bad_schemas(owner: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        TilingKeySchema.of(owner, parameters=["x", "y"], outer_names={"SIZE": 3, "helper": len})


def test_good_corner_cases_of_schemas() -> None:
    wide = TilingKeyField(bits=2, values=[-5, 1 << 40, 7, 0])
    sparse = schema_class(A=wide, helper=TilingKeyField(bits=1, values=[0]))
    schema = TilingKeySchema.of(sparse, outer_names={"helper": len})
    assert schema.pack({"A": 1 << 40, "helper": 0}) == 1


def test_is_valid_may_be_a_classmethod_and_needs_no_init() -> None:
    class Key:
        A = TilingKeyField(bits=1, values=[0, 1])

        def __init__(self) -> None:
            raise AssertionError("never called")

        @classmethod
        def is_valid(cls, key: tuple[int, ...]) -> bool:
            return key == (1,)

    assert [key["A"] for key in TilingKeySchema.of(Key).legal_keys()] == [1]


@dataclass
class First:
    a: bool
    b: int
    c: float
    d: bool[3]
    e: int[2]


@dataclass
class Second:
    a: int[60]
    b: int
    c: int[2]
    d: float
    e: bool[8]
    f: bool
    g: int[32]


@dataclass
class Third:
    x: float = 1.5
    y: bool[3] = field(default_factory=lambda: [True, False, True])


@pytest.mark.parametrize(
    ("owner", "offsets", "size"),
    [
        (First, [0, 8, 16, 20, 24], 40),
        (Second, [0, 480, 488, 504, 508, 516, 520], 776),
        (Third, [0, 4], 8),
    ],
)
def test_layouts_of_the_specification(owner: type, offsets: list[int], size: int) -> None:
    layout = layout_of(owner)
    assert [member.offset for member in layout.members] == offsets
    assert layout.size == size


def layout_of(owner: type) -> TilingLayout:
    kind = tiling_struct(owner)
    assert kind is not None
    return TilingLayout.of(kind)


def test_bytes_of_an_instance() -> None:
    data = layout_of(First).serialise(First(True, -2, 0.1, [0, 2, ""], np.array([1, 2**40])))
    assert data == struct.pack("<?7xqf???xqq", True, -2, 0.1, False, True, False, 1, 2**40)
    assert layout_of(Third).serialise(Third()) == struct.pack("<f???x", 1.5, True, False, True)


def test_ints_wrap_and_floats_overflow() -> None:
    data = layout_of(First).serialise(First(False, 2**64 + 5, 1e60, [0, 0, 0], (2**63, -(2**63) - 1)))
    assert struct.unpack_from("<q", data, 8) == (5,)
    assert struct.unpack_from("<f", data, 16) == (float("inf"),)
    assert struct.unpack_from("<qq", data, 24) == (-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"b": 1.0}, TypeError),
        ({"b": "1"}, TypeError),
        ({"c": "1"}, TypeError),
        ({"c": None}, TypeError),
        ({"d": [0, 0]}, ValueError),
        ({"d": "abc"}, TypeError),
        ({"e": 5}, TypeError),
        ({"e": [1.5, 2]}, TypeError),
    ],
)
def test_values_of_the_wrong_kind(change: dict[str, Any], error: type[Exception]) -> None:
    values = {"a": True, "b": 1, "c": 1.0, "d": [0, 0, 0], "e": [0, 0], **change}
    with pytest.raises(error, match="First"):
        layout_of(First).serialise(First(**values))


def test_a_missing_field_is_an_attribute_error() -> None:
    instance = Third()
    del instance.y
    with pytest.raises(AttributeError):
        layout_of(Third).serialise(instance)


def test_header_text() -> None:
    assert layout_of(First).header().splitlines() == [
        "struct First {", "    bool a;", "    int64_t b;", "    float c;", "    bool d[3];", "    int64_t e[2];", "};",
    ]  # fmt: skip


@dataclass
class OneFloat:
    b: float


@dataclass
class ThreeFlags:
    on: bool[3]


@pytest.mark.parametrize("executor", ["native", "interp"])
@pytest.mark.parametrize(("owner", "values"), [(OneFloat, (1.5,)), (ThreeFlags, ([False, True, True],))])
def test_data_of_fewer_bytes_than_an_address(owner: type, values: tuple[Any, ...], executor: str) -> None:
    """In the scalar unit and captured by a vector function."""
    if owner is OneFloat:
        kernel, wanted = one_float, 1.5
    else:
        kernel, wanted = three_flags, 6.0
    y = np.zeros((1, 64), np.float32)
    with options(executor=executor):
        kernel[None, 1](y, owner(*values))
    assert (y == wanted).all()


@pl.vector_function
def filled(tile, data):
    mask = vf.create_mask(dtype=pl.DT_FP32)
    row = vf.full(data.b, mask, dtype=pl.DT_FP32)
    vf.store_align(tile, row, mask, 0)


@pl.jit
def one_float(y: pl.Tensor[[1, 64], pl.DT_FP32], data: OneFloat):
    kind = pl.TileType(shape=[1, 64], dtype=pl.DT_FP32)
    tiles = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0])
    with pl.section_vector():
        tile = tiles.current()
        filled(tile, data)
        pl.store(y, tile, [0, 0])
        y[0, 0] = data.b


@pl.jit
def three_flags(y: pl.Tensor[[1, 64], pl.DT_FP32], data: ThreeFlags):
    kind = pl.TileType(shape=[1, 64], dtype=pl.DT_FP32)
    tiles = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0])
    with pl.section_vector():
        tile = tiles.current()
        total = 0.0
        for k in pl.range(3):
            if data.on[k]:
                total = total + 2.0 * k
        pl.expands(tile, total)
        pl.store(y, tile, [0, 0])


@pl.jit
def many_structs(y: pl.Tensor[[1, 64], pl.DT_INT32], n: pl.DT_INT32):
    with pl.section_vector():
        many = pl.struct_array(3000, "Many", a=5, b=n)
        y[0, 0] = many[0].b
        y[0, 1] = many[2999].a
        y[0, 2] = many[2999].b


@pytest.mark.parametrize("executor", ["native", "interp"])
def test_every_struct_of_a_long_array_begins_alike(executor: str) -> None:
    y = np.zeros((1, 64), np.int32)
    with options(executor=executor):
        many_structs[None, 1](y, 7)
    assert y[0, :3].tolist() == [7, 5, 7]
