"""The reference on launches, tiling data, keys and variants, rule by rule where no other test has it (jit 1 to 8)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch
from kernel_text import kernel_of, module, read

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.diag import errors
from pypto_pro.runtime.jit import JitKernel
from pypto_pro.runtime.platform import PlatformInfo, get_platform_info

DATA = "from dataclasses import dataclass, field\n"


def launched(params: str, body: str, *args: Any, before: str = "", options: str = "", form: Any = None) -> None:
    kernel = kernel_of(body, params, before, options)
    with pypto_pro.options(executor="interp"):
        (kernel if form is None else kernel[form])(*args)


# --- 1: the decorator ---


def test_every_option_has_its_default() -> None:
    kernel = kernel_of("pass", "x: pl.Ptr[pl.DT_INT8]")
    chosen = kernel.options
    assert (chosen.arch, chosen.auto_mutex, chosen.name) == (None, True, None)
    assert (chosen.pipeline, chosen.compile_timeout) == (None, None)
    assert (kernel.tilingkey_schema, kernel.datatype_schema) == (None, None)


@pytest.mark.parametrize("arch", ["a5", " A5 ", "auto", "AUTO", None])
def test_arch_is_read_without_case_and_blanks(arch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYPTOPRO_JIT_ARCH", "PYPTOPRO_NPU_ARCH"):
        monkeypatch.setenv(name, "")
    out = np.zeros(1, np.int32)
    launched("x: pl.Tensor[[1], pl.DT_INT32]", "x[0] = 3", out, options=f"arch={arch!r}")
    assert out[0] == 3
    assert (os.environ["PYPTOPRO_JIT_ARCH"], os.environ["PYPTOPRO_NPU_ARCH"]) == ("a5", "dav-c310")


@pytest.mark.parametrize("arch", ["a2", "a3", "a7", ""])
def test_other_products_are_refused_at_the_first_compile(arch: str) -> None:
    kernel = kernel_of("pass", "x: pl.Ptr[pl.DT_INT8]", options=f"arch={arch!r}")
    with pytest.raises(ValueError, match="arch"):
        kernel(None)


def test_body_errors_appear_at_the_first_launch_and_are_not_kept() -> None:
    text = "@pl.jit\ndef k(x: pl.Tensor[[1], pl.DT_INT32]):\n    with pl.section_vector():\n        x[0] = LATER"
    names = module(text)
    out = np.zeros(1, np.int32)
    for _ in range(2):
        with pytest.raises(errors.UndefinedVariableError):
            names["k"](out)
    assert len(names["k"].variants) == 0
    names["LATER"] = 9  # globals are live until the compile
    names["k"](out)
    assert out[0] == 9


def test_two_decorations_are_two_caches() -> None:
    kernel = kernel_of("x[0] = 1", "x: pl.Tensor[[1], pl.DT_INT32]")
    other = pl.jit(kernel.source.fn)
    kernel(np.zeros(1, np.int32))
    assert (len(kernel.variants), len(other.variants)) == (1, 0)


# --- 2: launches ---


def test_blocks_are_never_clamped() -> None:
    out = np.zeros(300, np.int32)
    launched("x: pl.Tensor[[300], pl.DT_INT32]", "x[pl.get_block_idx()] = pl.get_block_num()", out, form=(None, 300))
    assert (out == 300).all()


def test_indices_of_mixed_kernels() -> None:
    body = """
    sub = pl.get_subblock_num()
    block = pl.get_block_idx() // sub
    with pl.section_cube():
        x[0, block] = pl.get_block_idx() * 10 + sub
    with pl.section_vector():
        x[1 + pl.get_subblock_idx(), block] = pl.get_block_idx() * 10 + sub
    """
    out = np.zeros((3, 4), np.int32)
    launched("x: pl.Tensor[[3, 4], pl.DT_INT32]", body, out, form=3)
    assert out[:, :3].tolist() == [[1, 11, 21], [2, 22, 42], [12, 32, 52]]


DTYPES = {
    "DT_FP16": torch.float16, "DT_BF16": torch.bfloat16, "DT_FP32": torch.float32, "DT_INT8": torch.int8,
    "DT_INT16": torch.int16, "DT_INT32": torch.int32, "DT_INT64": torch.int64, "DT_UINT8": torch.uint8,
    "DT_UINT64": torch.uint64, "DT_BOOL": torch.bool, "DT_HF8": torch.uint8,
}  # fmt: skip
UNCHECKED = "DT_UINT16 DT_UINT32 DT_FP8E4M3FN DT_FP8E5M2 DT_FP4 DT_INT4 DT_UINT4 DT_HF4 DT_FP8E8M0".split()
STORAGE_ONLY = "DT_FP4 DT_FP4E2M1 DT_FP4E1M2 DT_FP8E4M3FN DT_FP8E5M2 DT_FP8E8M0 DT_INT4 DT_UINT4 DT_HF4 DT_HF8".split()


@pytest.mark.parametrize("declared", DTYPES)
def test_dtypes_of_tensors(declared: str) -> None:
    kernel = kernel_of("pass", f"x: pl.Tensor[[4], pl.{declared}]")
    for dtype in set(DTYPES.values()):
        given = torch.zeros(4, dtype=dtype)
        if dtype is DTYPES[declared]:
            kernel.binder.tensors((given,))
            continue
        with pytest.raises(TypeError, match=f"is declared {declared}, found"):
            kernel.binder.tensors((given,))


@pytest.mark.parametrize("declared", UNCHECKED)
def test_dtypes_the_host_does_not_know_are_not_checked(declared: str) -> None:
    kernel = kernel_of("pass", f"x: pl.Tensor[[4], pl.{declared}]")
    for dtype in (torch.uint8, torch.int32, torch.float32):
        kernel.binder.tensors((torch.zeros(4, dtype=dtype),))


def test_pointers_take_anything_with_memory() -> None:
    kernel = kernel_of("pass", "x: pl.Ptr[pl.DT_INT32]")
    for given in (None, np.zeros((2, 3)), torch.zeros(2, 2).t(), torch.zeros(4, dtype=torch.bfloat16)):
        kernel(given)
    for wrong in (3, "x", [1, 2]):
        with pytest.raises(TypeError):
            kernel(wrong)


SCALARS: list[tuple[str, list[Any], list[Any]]] = [
    # dtype, accepted, refused
    ("DT_INT32", [3, -3, True], [1.0, None, "1", np.int32(1), torch.tensor(1)]),
    ("DT_UINT8", [3, False], [1.0, np.uint8(3)]),
    ("DT_FP32", [1.0, float("inf")], [1, True, np.float32(1), None]),
    ("DT_BOOL", [True, False], [1, 0, 1.0, np.bool_(True)]),
    ("DT_INT64", [2**62, True], [2.0**40]),
]


@pytest.mark.parametrize(("dtype", "good", "bad"), SCALARS)
def test_kinds_of_scalars(dtype: str, good: list[Any], bad: list[Any]) -> None:
    kernel = kernel_of("pass", f"x: pl.Ptr[pl.DT_INT8], n: pl.{dtype}")
    for value in good:
        kernel(None, value)
    for value in bad:
        with pytest.raises(TypeError, match=f"is declared {dtype}, found"):
            kernel(None, value)


@pytest.mark.parametrize("dtype", STORAGE_ONLY)
def test_storage_dtypes_are_no_scalars(dtype: str) -> None:
    with pytest.raises(errors.ParserTypeError, match="a scalar cannot be"):
        read("pass", f"x: pl.Ptr[pl.DT_INT8], n: pl.{dtype}")


# --- 5: tiling data ---

REFUSED_TILING = [
    # the class's text, words
    ("class T:\n    n: int", "no @dataclass"),
    ("@dataclass\nclass T:\n    pass", "no fields"),
    ("@dataclass\nclass T:\n    n: complex", "`complex`"),
    ("@dataclass\nclass T:\n    n: 'int[0]'", "int[0]"),
    ("@dataclass\nclass T:\n    n: 'int[2049]'", "int[2049]"),
    ("@dataclass\nclass T:\n    n: 'int[True]'", "int[True]"),
    ("@dataclass\nclass T:\n    n: 'int[2][2]'", "int[2][2]"),
    ("@dataclass\nclass T:\n    n: 'float[2 + 1]'", "float[2 + 1]"),
    ("@dataclass\nclass S:\n    a: int\n@dataclass\nclass T(S):\n    n: int", "inherits"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED_TILING, ids=[row[1] for row in REFUSED_TILING])
def test_classes_that_are_no_tiling_data(text: str, words: str) -> None:
    with pytest.raises(errors.ParserTypeError) as caught:
        read("pass", "x: pl.Ptr[pl.DT_INT8], t: T", DATA + text)
    assert words in caught.value.message


@pytest.mark.parametrize("annotation", ["int", "float", "bool", "'int'", "'int[1]'", "'bool[2048]'", "' float [ 3 ] '"])
def test_fields_of_tiling_data(annotation: str) -> None:
    read("pass", "x: pl.Ptr[pl.DT_INT8], t: T", f"{DATA}@dataclass\nclass T:\n    n: {annotation}\n")


def test_a_field_that_is_declared_twice() -> None:
    text = f"{DATA}@dataclass\nclass T:\n    n: int\n    m: float\n    n: float\n"
    with pytest.raises(ValueError, match="`n`"):
        read("pass", "x: pl.Ptr[pl.DT_INT8], t: T", text)


FIELDS = f"{DATA}@dataclass\nclass T:\n    n: int\n    shape: 'int[3]'\n    f: float\n    b: bool\n"
IN_KERNEL = [
    ("c = t.q", errors.UnsupportedFeatureError), ("c = t.n[0]", errors.ParserTypeError),
    ("c = t.shape[3]", errors.ParserSyntaxError), ("c = t.shape[-1]", errors.ParserSyntaxError),
    ("c = t.shape[0:1]", errors.ParserSyntaxError), ("c = t.shape[0, 1]", errors.ParserSyntaxError),
    ("c = t.shape['a']", errors.ParserSyntaxError), ("c = t.shape[1.0]", errors.ParserSyntaxError),
    ("t.n = 3", errors.ParserTypeError), ("t.shape[0] = 3", errors.ParserTypeError),
    ("t.n += 1", errors.ParserTypeError),
    ("k = pl.TileType(shape=[t.n, 8], dtype=pl.DT_FP32)", errors.FinalRejectionError),
    ("k = pl.make_tile(pl.TileType(shape=[8, 8], dtype=pl.DT_FP32), addr=t.n)", errors.FinalRejectionError),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kind"), IN_KERNEL, ids=[row[0] for row in IN_KERNEL])
def test_what_a_kernel_cannot_do_with_tiling_data(body: str, kind: type[Exception]) -> None:
    with pytest.raises(errors.ParserError) as caught:
        read(body, "x: pl.Ptr[pl.DT_INT8], t: T", FIELDS)
    assert type(caught.value) is kind


def test_what_a_kernel_does_with_tiling_data() -> None:
    body = """
    a = t.shape
    for i in pl.range(t.n, t.n + 3):
        out[i - t.n] = a[i - t.n] + t.shape[1] * (100 if t.b else 1)
    v = pl.make_tensor(out, [t.n], [1])
    out[3] = v.shape[0]
    out[4] = t.f * 2
    """
    kernel = kernel_of(body, "out: pl.Tensor[[8], pl.DT_INT64], t: T", FIELDS)
    owner = kernel.specs[1].tiling_class
    out = np.zeros(8, np.int64)
    kernel(out, owner(2, [1, 2, 3], 1.5, 7))  # any truth value
    assert out[:5].tolist() == [201, 202, 203, 2, 3]
    kernel(out, t=owner(2, np.array([1, 2, 3]), 2, ""))
    assert out[:5].tolist() == [3, 4, 5, 2, 4]
    assert len(kernel.variants) == 1
    with pytest.raises(TypeError, match="takes an instance of `T`"):
        kernel(out, np.zeros(5))


# --- 6, 7: keys and dtypes ---

KEY = "from pypto_pro.runtime.tilingkey import TilingKeyField\nclass Key:\n    {}\n"


def keyed(fields: str, body: str = "x[0] = A", before: str = "") -> JitKernel:
    return kernel_of(body, "x: pl.Tensor[[1], pl.DT_INT32]", KEY.format(fields) + before, "tiling_key=Key")


REFUSED_KEYS = [
    # fields of the class, text before, words
    ("pass", "", "TilingKeyField"), ("A = TilingKeyField(bits=0, values=[1])", "", "bits"),
    ("A = TilingKeyField(bits=1, values=[])", "", "no values"),
    ("A = TilingKeyField(bits=1, values=[True])", "", "ints"),
    ("A = TilingKeyField(bits=1, values=[1, 1])", "", "twice"),
    ("A = TilingKeyField(bits=1, values=[1, 2, 3])", "", "do not fit 1 bit"),
    ("A = TilingKeyField(bits=64, values=[1])\n    B = TilingKeyField(bits=1, values=[1])", "", "65 bits"),
    ("A = TilingKeyField(bits=1, values=[1])\n    is_valid = 3", "", "is_valid"),
    ("x = TilingKeyField(bits=1, values=[1])", "", "parameter"),
    ("A = TilingKeyField(bits=1, values=[1])", "A = 3\n", "`A`"),
]


@pytest.mark.parametrize(("fields", "before", "words"), REFUSED_KEYS)
def test_schemas_are_refused_at_decoration(fields: str, before: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        keyed(fields, "pass", before)


def test_a_key_field_may_share_the_name_of_a_function_or_class() -> None:
    assert keyed("A = TilingKeyField(bits=1, values=[1])", "pass", "def A():\n    pass\n") is not None


def test_key_values_are_constants_in_kernel_and_helpers_and_decide_branches() -> None:
    body = """
    if A == 7:
        t = pl.TileType(shape=[A + 1, 8], dtype=pl.DT_FP32)
        x[0] = helper()
    elif pl.constexpr(A == 2**40):
        x[0] = 5
    else:
        nowhere()
    """
    kernel = keyed("A = TilingKeyField(bits=2, values=[7, 2**40, -1])", body, "def helper():\n    return A * 2\n")
    out = np.zeros(1, np.int32)
    for value, wanted in ((7, 14), (2**40, 5), (7, 14)):
        kernel[None, 1, {"A": value}](out)
        assert out[0] == wanted
    assert len(kernel.variants) == 2
    with pytest.raises(errors.UndefinedVariableError):
        kernel[None, 1, {"A": -1}](out)


def test_datatypes_are_constants() -> None:
    body = """
    v = pl.make_tensor(x, [4], dtype=dt)
    if dt == pl.DT_INT32:
        v[0] = 1
    elif dt in (pl.DT_INT64, pl.DT_INT16):
        v[0] = 2
    else:
        nowhere()
    """
    kernel = kernel_of(body, "x: pl.Ptr[pl.DT_UINT8]", options="datatype={'x': 'dt'}")
    launches = ((pl.DT_INT32, np.int32, 1), (pl.DT_INT64, np.int64, 2), (pl.DT_INT16, np.int16, 2))
    for dtype, numpy_dtype, wanted in launches:
        out = np.zeros(4, numpy_dtype)
        kernel[None, 1, {"x": dtype}](out)
        assert out[0] == wanted
    assert len(kernel.variants) == 3


# --- 8 ---


def test_platform_information() -> None:
    info = get_platform_info()
    assert (info.soc_version, info.core_num, info.cube_core_num, info.vector_core_num, info.arch) == (
        "DAV_3510", 32, 32, 64, "a5"
    )  # fmt: skip
    assert get_platform_info() is info
    assert get_platform_info(force_refresh=True) == info
    assert (PlatformInfo().core_num, PlatformInfo().arch) == (0, "")
    assert [PlatformInfo(soc).arch for soc in ("DAV_3510", "DAV_2201", "DAV_1001", "else")] == ["a5", "a3", "a3", "a3"]


def test_other_decorators_are_ignored() -> None:
    text = """
import functools
def noisy(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        raise AssertionError
    return inner
@pl.jit
@noisy
def k(x: pl.Tensor[[1], pl.DT_INT32], n: pl.DT_INT32 = 4):
    with pl.section_vector():
        x[0] = n
"""
    out = np.zeros(1, np.int32)
    module(text)["k"](out)
    assert out[0] == 4
