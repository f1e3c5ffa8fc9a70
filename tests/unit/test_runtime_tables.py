"""The tables of the launch specification: checks in their order, tiling data as a kernel reads it, variants."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pypto_pro.language as pl
from pypto_pro import options
from pypto_pro.diag.errors import ParserSyntaxError
from pypto_pro.runtime.jit import JitKernel
from pypto_pro.runtime.tilingkey import TilingKeyField


@pytest.fixture(params=["native", "interp"], autouse=True)
def executor(request: pytest.FixtureRequest) -> Iterator[str]:
    with options(executor=request.param, check=False):
        yield request.param


# --- 2.2: argument checks, in order ----------------------------------------------------------------------------------


@dataclass
class Sizes:
    rows: int
    parts: int[2]  # type: ignore[valid-type]


@pl.jit(datatype={"p": "dt"})
def checked(
    x: pl.Tensor[[pl.DYNAMIC, 4], pl.DT_FP32], z: pl.Tensor[[4], pl.DT_FP32], p: pl.Ptr[pl.DT_UINT8], n: pl.DT_INT32,
    t: Sizes,
):
    missing_name


GOOD: dict[str, Any] = {
    "x": np.zeros((2, 4), np.float32), "z": np.zeros(4, np.float32), "p": None, "n": 1, "t": Sizes(1, [1, 2]),
}  # fmt: skip
MISTAKES: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    # step, what is wrong, error, words of its message
    ("names", {"extra": 1}, TypeError, "unexpected keyword argument"),
    ("block_dim", {"blocks": 0}, ValueError, "block_dim must be an int above 0"),
    ("shape", {"x": np.zeros((2, 5), np.float32)}, ValueError, "is declared with size 4 on axis 1"),
    ("dtype", {"z": np.zeros(4, np.int32)}, TypeError, "is declared DT_FP32"),
    ("datatype", {"datatype": {"q": pl.DT_FP16}}, ValueError, "the datatype of a launch names p"),
    ("compile", {}, Exception, "missing_name"),
    ("tiling", {"t": Sizes(1, [1])}, ValueError, "takes 2 values"),
    ("scalar", {"n": 1.5}, TypeError, "is declared DT_INT32"),
]  # fmt: skip


def launch_with(kernel: JitKernel, changes: dict[str, Any]) -> None:
    given = {**GOOD, **changes}
    blocks, datatype = given.pop("blocks", 1), given.pop("datatype", {"p": pl.DT_FP16})
    kernel[None, blocks, datatype](**given)


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(MISTAKES, 2)), ids=lambda m: m[0])
def test_of_two_mistakes_the_one_of_the_earlier_step_is_told(first: Any, second: Any) -> None:
    """The body has a mistake as well, which comes behind the checks of tensors and before those of the rest."""
    step, changes, error, words = first
    steps = [row[0] for row in MISTAKES]
    if steps.index(step) > steps.index("compile"):
        error, words = MISTAKES[steps.index("compile")][2:]
    with pytest.raises(error, match=words):
        launch_with(checked, {**changes, **second[1]})


@pl.jit(datatype={"p": "dt"})
def correct(
    x: pl.Tensor[[pl.DYNAMIC, 4], pl.DT_FP32], z: pl.Tensor[[4], pl.DT_FP32], p: pl.Ptr[pl.DT_UINT8], n: pl.DT_INT32,
    t: Sizes,
):
    with pl.section_vector():
        z[0] = 1.0


def test_behind_the_compile_tiling_data_comes_before_scalars() -> None:
    with pytest.raises(ValueError, match="takes 2 values"):
        launch_with(correct, {"t": Sizes(1, [1]), "n": 1.5})
    with pytest.raises(TypeError, match="is declared DT_INT32"):
        launch_with(correct, {"n": 1.5})
    launch_with(correct, {})


# --- 5.2: tiling data as the kernel reads it --------------------------------------------------------------------------


@dataclass
class First:
    a: bool
    b: int
    c: float
    d: bool[3]  # type: ignore[valid-type]
    e: int[2]  # type: ignore[valid-type]


@dataclass
class Second:
    a: int[60]  # type: ignore[valid-type]
    b: int
    c: int[2]  # type: ignore[valid-type]
    d: float
    e: bool[8]  # type: ignore[valid-type]
    f: bool
    g: int[32]  # type: ignore[valid-type]


@dataclass
class Third:
    x: float
    y: bool[3]  # type: ignore[valid-type]


@pl.jit
def read_first(ints: pl.Tensor[[8], pl.DT_INT64], floats: pl.Tensor[[1], pl.DT_FP32], t: First):
    with pl.section_vector():
        ints[0] = 1 if t.a else 0
        ints[1] = t.b
        floats[0] = t.c
        for i in pl.range(3):
            ints[2 + i] = 1 if t.d[i] else 0
        ints[5] = t.e[0]
        ints[6] = t.e[1]


@pl.jit
def read_second(ints: pl.Tensor[[104], pl.DT_INT64], floats: pl.Tensor[[1], pl.DT_FP32], t: Second):
    with pl.section_vector():
        for i in pl.range(60):
            ints[i] = t.a[i]
        ints[60] = t.b
        ints[61] = t.c[0]
        ints[62] = t.c[1]
        floats[0] = t.d
        for i in pl.range(8):
            ints[63 + i] = 1 if t.e[i] else 0
        ints[71] = 1 if t.f else 0
        for i in pl.range(32):
            ints[72 + i] = t.g[i]


@pl.jit
def read_third(ints: pl.Tensor[[3], pl.DT_INT64], floats: pl.Tensor[[1], pl.DT_FP32], t: Third):
    with pl.section_vector():
        floats[0] = t.x
        for i in pl.range(3):
            ints[i] = 1 if t.y[i] else 0


def numbers(count: int, seed: int) -> list[int]:
    return [int(n) for n in np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, count)]


def test_every_member_arrives_at_its_offset() -> None:
    ints, floats = np.zeros(8, np.int64), np.zeros(1, np.float32)
    read_first(ints, floats, First(True, -(2**63), 0.1, [False, True, False], [2**63 - 1, -7]))
    assert ints[:7].tolist() == [1, -(2**63), 0, 1, 0, 2**63 - 1, -7]
    assert floats[0] == np.float32(0.1)
    a, c, g = numbers(60, 1), numbers(2, 2), numbers(32, 3)
    bits = [bool(k % 3 == 0) for k in range(8)]
    ints = np.zeros(104, np.int64)
    read_second(ints, floats, Second(a, 5, c, -2.5, bits, True, g))
    assert ints.tolist() == [*a, 5, *c, *map(int, bits), 1, *g]
    assert floats[0] == np.float32(-2.5)
    read_third(ints[:3], floats, Third(1e30, [True, False, True]))
    assert (ints[:3].tolist(), floats[0]) == ([1, 0, 1], np.float32(1e30))


def test_changing_the_instance_afterwards_changes_nothing() -> None:
    ints, floats = np.zeros(3, np.int64), np.zeros(1, np.float32)
    data = Third(1.0, [True, True, False])
    read_third(ints, floats, data)
    data.y[2] = True
    assert ints.tolist() == [1, 1, 0]
    assert len(read_third.variants) == 1


# --- 14: minimal end-to-end expectations ------------------------------------------------------------------------------


def fresh(kernel: JitKernel, **change: Any) -> JitKernel:
    return pl.jit(**change)(kernel.source.fn)


@pl.jit
def dynamic(x: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP32]):
    with pl.section_vector():
        x[0, 0] = 1.0


@pl.jit
def static(x: pl.Tensor[[pl.STATIC, pl.DYNAMIC], pl.DT_FP32]):
    with pl.section_vector():
        x[0, 0] = 1.0


@pl.jit
def trailing(x: pl.Tensor[[pl.DYNAMIC, ...], pl.DT_FP32], out: pl.Tensor[[3], pl.DT_INT64]):
    with pl.section_vector():
        for axis in pl.range(1):
            out[0] = x.shape[0]
        out[1] = x.shape[1]
        out[2] = x.shape[2]


@pl.jit
def scalars(f: pl.DT_FP32, i: pl.DT_INT32, out: pl.Tensor[[2], pl.DT_FP32]):
    with pl.section_vector():
        out[0] = f
        out[1] = i * 1.0


@pl.jit
def nullable(p: pl.Ptr[pl.DT_FP32], out: pl.Tensor[[1], pl.DT_INT32]):
    with pl.section_vector():
        out[0] = 1 if p is None else 2


@pl.jit
def unchecked(x: pl.Tensor[[4], pl.DT_UINT32], out: pl.Tensor[[1], pl.DT_INT64]):
    with pl.section_vector():
        out[0] = x[0]


def test_dynamic_shapes_share_a_variant() -> None:
    kernel = fresh(dynamic)
    for shape in ((1, 1), (2, 7), (5, 3)):
        kernel(np.zeros(shape, np.float32))
    assert len(kernel.variants) == 1


def test_static_sizes_make_variants() -> None:
    kernel = fresh(static)
    for shape in ((8, 1), (8, 9), (16, 1), (8, 1)):
        kernel(np.zeros(shape, np.float32))
    assert len(kernel.variants) == 2


def test_axes_behind_an_ellipsis_are_static() -> None:
    out = np.zeros(3, np.int64)
    trailing(np.zeros((2, 7, 9), np.float32), out)
    assert out.tolist() == [2, 7, 9]
    bound = trailing.binder.tensors((np.zeros((2, 7, 9), np.float32), out))
    assert bound.static == ((0, 1, 7), (0, 2, 9))


class Swapped:
    F = TilingKeyField(bits=1, values=[1, 0])


@pl.jit(tiling_key=Swapped)
def keyed(out: pl.Tensor[[1], pl.DT_INT32]):
    with pl.section_vector():
        out[0] = F + 10


def test_key_values_are_packed_by_their_index(tmp_path: Any) -> None:
    out = np.zeros(1, np.int32)
    with options(keep=str(tmp_path)):
        fresh(keyed, tiling_key=Swapped)[None, 1, {"F": 0}](out)
    assert out[0] == 10
    assert [path.name for path in tmp_path.glob("*/tk_*")] == ["tk_1"]
    with pytest.raises(ValueError, match="launched as"):
        keyed(out)


def test_scalars_of_the_wrong_and_the_right_kind() -> None:
    out = np.zeros(2, np.float32)
    with pytest.raises(TypeError, match=r"pass 1\.0"):
        scalars(1, 2, out)
    scalars(1.0, True, out)
    assert out.tolist() == [1.0, 1.0]
    with pytest.warns(RuntimeWarning, match=r"`i` is declared DT_INT32: 4294967299 arrives as 3") as caught:
        scalars(0.5, 2**32 + 3, out)  # wraps to its C type
    assert caught[0].filename == __file__
    assert out.tolist() == [0.5, 3.0]
    with pytest.raises(TypeError, match="INT32"):
        scalars(1.0, np.int32(3), out)


def test_a_null_pointer_is_told_apart_at_run_time() -> None:
    kernel, out = fresh(nullable), np.zeros(1, np.int32)
    kernel(None, out)
    assert out[0] == 1
    kernel(np.zeros(4, np.float32), out)
    assert out[0] == 2
    assert len(kernel.variants) == 1


def test_dtypes_torch_does_not_have_are_not_checked() -> None:
    out = np.zeros(1, np.int64)
    unchecked(np.full(4, -1, np.int32), out)
    assert out[0] == 2**32 - 1


def test_an_axis_of_size_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"takes sizes from 1 to \d+, found size 0 on axis 0"):
        dynamic(np.zeros((0, 3), np.float32))


@pl.jit
def tiling_first(t: Sizes, out: pl.Tensor[[1], pl.DT_INT32]):
    pass


def test_tiling_data_that_is_not_last_is_refused_at_the_first_launch() -> None:
    with pytest.raises(ParserSyntaxError, match="the tiling parameter is the last one"):
        tiling_first(Sizes(1, [1, 2]), np.zeros(1, np.int32))
