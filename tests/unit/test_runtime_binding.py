"""Launch arguments: what counts as an array, which error each mistake gets, and that nothing is copied."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import pypto_pro.language as pl
from pypto_pro.diag.errors import ArgumentError, ArgumentKindError
from pypto_pro.ir.launch import BufferValue, TilingValue


@dataclass
class Sizes:
    rows: int
    scale: float


@pl.jit
def kernel(
    x: pl.Tensor[[pl.DYNAMIC, 8], pl.DT_FP32],
    p: pl.Ptr[pl.DT_UINT8],
    n: pl.DT_INT32,
    f: pl.DT_FP32,
    flag: pl.DT_BOOL,
    t: Sizes,
):
    pass


@pl.jit
def shapes(x: pl.Tensor[[pl.STATIC, 4, ...], pl.DT_FP16], y: pl.Tensor[[pl.DYNAMIC], pl.DT_BF16]):
    pass


@pl.jit
def raw(x: pl.Tensor[[4], pl.DT_UINT32], y: pl.Tensor[[4], pl.DT_HF8]):
    pass


GOOD = {
    "x": np.zeros((3, 8), np.float32), "p": np.zeros(5, np.int64), "n": 3, "f": 0.5, "flag": True, "t": Sizes(1, 2.0),
}  # fmt: skip


def bind(launched: Any, *args: Any, written: frozenset[int] = frozenset(), **kwargs: Any) -> tuple[Any, ...]:
    names = launched.bind_names(args, kwargs)
    bound = launched.binder.tensors(names)
    return launched.binder.launch_values(names, bound, written)


def bind_with(**changes: Any) -> tuple[Any, ...]:
    return bind(kernel, **{**GOOD, **changes})


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_usual_arguments() -> None:
    x, p = GOOD["x"], GOOD["p"]
    tiling = TilingValue(b"\x01" + bytes(7) + b"\x00\x00\x00\x40" + bytes(4))
    values = (BufferValue(address(x), 96, (3, 8)), BufferValue(address(p), 40), 3, 0.5, True, tiling)
    assert bind(kernel, *GOOD.values()) == values


class Interface:
    """An object with nothing but `__array_interface__`."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.shape = array.shape

    @property
    def __array_interface__(self) -> Any:
        return self.array.__array_interface__


class Capsule:
    """An object with nothing but DLPack."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("wrap", [Interface, Capsule, torch.from_numpy, lambda a: a.view(np.ndarray), np.asarray])
def test_every_array_library_is_used_in_place(wrap: Any) -> None:
    x = np.zeros((2, 8), np.float32)
    for name, expected in (("x", BufferValue(address(x), 64, (2, 8))), ("p", BufferValue(address(x), 64))):
        assert expected in bind_with(**{name: wrap(x)})


def test_bf16_and_fp8_of_both_libraries() -> None:
    x16 = np.zeros((2, 4), np.float16)
    for y in (np.zeros(3, ml_dtypes.bfloat16), torch.zeros(3, dtype=torch.bfloat16)):
        values = bind(shapes, x16, y)
        assert values[1].size_bytes == 6
    assert bind(raw, np.zeros(4, np.uint32), np.zeros(4, np.uint8))[1].size_bytes == 4
    assert bind(raw, np.zeros(4, np.int32), torch.zeros(4, dtype=torch.uint8))[0].size_bytes == 16  # not checked


def test_null_pointers() -> None:
    values = bind_with(x=None, p=None)
    assert values[:2] == (BufferValue(0, 0, (0, 0)), BufferValue(0, 0))


def test_static_sizes_enter_the_signature() -> None:
    def static(shape: tuple[int, ...]) -> Any:
        return shapes.binder.tensors((np.zeros(shape, np.float16), np.zeros(1, ml_dtypes.bfloat16))).static

    assert static((7, 4)) == ((0, 0, 7),)
    assert static((2, 4, 9, 1)) == ((0, 0, 2), (0, 2, 9), (0, 3, 1))


def test_static_sizes_from_shapes() -> None:
    static = shapes.binder.static_from_shapes
    assert static({"x": [2, 4, 9]}) == ((0, 0, 2), (0, 2, 9))
    assert kernel.binder.static_from_shapes({}) == ()
    for wrong, error in (({}, ValueError), ({"z": [1]}, ValueError), ({"x": [1]}, ValueError), ([1], TypeError)):
        with pytest.raises(error):
            static(wrong)


STRIDED = np.zeros((8, 3), np.float32).T
READ_ONLY = np.zeros((3, 8), np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"x": 3}, ArgumentKindError, "`x` takes an array"),
        ({"x": [[0.0] * 8]}, ArgumentKindError, "found a list"),
        ({"x": np.float32(3)}, ArgumentKindError, "found a float32"),
        ({"x": np.zeros(8, np.float32)}, ArgumentError, r"`x` is declared with rank 2, found shape \(8,\)"),
        ({"x": np.zeros((3, 9), np.float32)}, ArgumentError, "`x` is declared with size 8 on axis 1"),
        ({"x": np.zeros((0, 8), np.float32)}, ArgumentError, "size 0 on axis 0"),
        ({"x": np.zeros((3, 8))}, ArgumentKindError, "DT_FP32, found an array of float64"),
        ({"x": np.zeros((3, 8), ">f4")}, ArgumentKindError, "found an array of >f4"),
        ({"x": torch.zeros(3, 8, dtype=torch.float16)}, ArgumentKindError, "torch.float16"),
        ({"x": STRIDED}, ArgumentError, r"has strides \(1, 3\), the kernel needs \(8, 1\) for shape \(3, 8\)"),
        ({"x": torch.zeros(8, 3).t()}, ArgumentError, r"has strides \(1, 3\)"),
        ({"x": torch.zeros(3, 8, device="meta")}, ArgumentKindError, "device meta"),
        ({"x": torch.zeros(3, 8).to_sparse()}, ArgumentKindError, "dense CPU"),
        ({"p": 5}, ArgumentKindError, "`p` takes an array"),
        ({"p": np.zeros(4)[::-1]}, ArgumentError, "negative strides"),
        ({"n": 1.0}, ArgumentKindError, "`n` is declared DT_INT32, found 1.0"),
        ({"n": np.int32(1)}, ArgumentKindError, "int32"),
        ({"n": torch.tensor(1)}, ArgumentKindError, "Tensor"),
        ({"n": None}, ArgumentKindError, "NoneType"),
        ({"f": 1}, ArgumentKindError, r"(?s)`f` is declared DT_FP32, found 1.*pass 1.0"),
        ({"f": True}, ArgumentKindError, "bool"),
        ({"flag": 1}, ArgumentKindError, "`flag` is declared DT_BOOL"),
        ({"t": {"rows": 1}}, ArgumentKindError, "an instance of `Sizes`, found a dict"),
        ({"t": Sizes(1.5, 2.0)}, ArgumentKindError, "Sizes.rows"),
    ],
)
def test_mistakes(change: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        bind_with(**change)


def test_an_argument_error_is_a_type_error_and_a_value_error() -> None:
    for base in (TypeError, ValueError):
        with pytest.raises(base):
            bind_with(x=STRIDED)


def test_errors_show_the_launch_and_the_declaration() -> None:
    with pytest.raises(ArgumentKindError) as caught:
        bind_with(x=np.zeros((3, 8)))
    launch, declared = caught.value.diagnostic.spans
    assert launch.file == declared.file == __file__
    assert "x: pl.Tensor" in declared.source_line()
    assert declared.label == "declared here"


def test_pointers_take_strided_memory_up_to_its_last_element() -> None:
    base = np.zeros((4, 6), np.float32)
    values = bind_with(p=base[1:3, 1:4])
    assert values[1] == BufferValue(address(base[1:, 1:]), (6 + 3) * 4)


def test_scalars_become_their_c_type() -> None:
    with pytest.warns(RuntimeWarning) as caught:
        values = bind_with(n=2**31, f=1e300, flag=False)
    told = [str(warning.message) for warning in caught]
    assert told == [
        "`n` is declared DT_INT32: 2147483648 arrives as -2147483648", "`f` is declared DT_FP32: 1e+300 arrives as inf",
    ]  # fmt: skip
    assert values[2:5] == (-(2**31), float("inf"), False)
    assert bind_with(n=True)[2] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is only rounded, or was infinite before, is nothing to tell
        assert bind_with(f=0.1)[3] == float(np.float32(0.1))
        assert bind_with(f=float("-inf"))[3] == float("-inf")
        assert np.isnan(bind_with(f=float("nan"))[3])


def test_half_scalars_cannot_be_passed() -> None:
    @pl.jit
    def half(h: pl.DT_FP16):
        pass

    with pytest.raises(ArgumentKindError, match="cannot be passed from the host"):
        bind(half, 1.0)


def test_static_axes_need_an_array() -> None:
    with pytest.raises(ArgumentError, match="STATIC"):
        bind(shapes, None, None)


def test_read_only_memory_is_rejected_where_it_is_written() -> None:
    assert bind_with(x=READ_ONLY)[0].dims == (3, 8)
    with pytest.raises(ArgumentError, match="read-only"):
        bind(kernel, **{**GOOD, "x": READ_ONLY}, written=frozenset({0}))
    frozen = np.frombuffer(bytes(64), np.uint8)
    with pytest.raises(ArgumentError, match="`p` is written"):
        bind(kernel, **{**GOOD, "p": frozen}, written=frozenset({1}))


def test_tiling_arrays_of_a_wrong_length_are_value_errors() -> None:
    @dataclass
    class Lists:
        steps: int[4]

    @pl.jit
    def tiled(p: pl.Ptr[pl.DT_UINT8], t: Lists):
        pass

    with pytest.raises(ValueError, match="takes 4 values, found 3"):
        bind(tiled, None, Lists([1, 2, 3]))
    broken = Lists([1])
    del broken.steps
    with pytest.raises(AttributeError, match="steps"):
        bind(tiled, None, broken)
