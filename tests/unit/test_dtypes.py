"""The element types against the table of types-and-memory 1."""

from __future__ import annotations

import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from pypto_pro import enums
from pypto_pro.dtypes import DataType

D = DataType

# member, bits, signed, float, C type, to_string, torch
TABLE = """
BOOL 8 no no bool bool bool
INT4 4 yes no unknown int4 -
INT8 8 yes no int8_t int8 int8
INT16 16 yes no int16_t int16 int16
INT32 32 yes no int32_t int32 int32
INT64 64 yes no int64_t int64 int64
UINT4 4 no no unknown uint4 -
UINT8 8 no no uint8_t uint8 uint8
UINT16 16 no no uint16_t uint16 uint16
UINT32 32 no no uint32_t uint32 uint32
UINT64 64 no no uint64_t uint64 uint64
FP4 4 no yes unknown fp4 -
FP4E2M1 4 no yes float4_e2m1x2_t fp4e2m1 float4_e2m1fn_x2
FP4E1M2 4 no yes float4_e1m2x2_t fp4e1m2 uint8
FP8E4M3FN 8 no yes float8_e4m3_t fp8e4m3fn float8_e4m3fn
FP8E5M2 8 no yes float8_e5m2_t fp8e5m2 float8_e5m2
FP8E8M0 8 no yes float8_e8m0_t fp8e8m0 float8_e8m0fnu
FP16 16 no yes half fp16 float16
BF16 16 no yes bfloat16_t bf16 bfloat16
FP32 32 no yes float fp32 float32
HF4 4 no yes unknown hf4 -
HF8 8 no yes hifloat8_t hf8 uint8
"""
ROWS = [line.split() for line in TABLE.split("\n") if line]


@pytest.mark.parametrize(("name", "bits", "signed", "floating", "c_type", "text", "torch"), ROWS)
def test_table(name: str, bits: str, signed: str, floating: str, c_type: str, text: str, torch: str) -> None:
    d = D[f"DT_{name}"]
    assert d.get_bit() == d.bits() == int(bits)
    assert d.is_signed_int() is d.is_signed() is (signed == "yes")
    assert d.is_float() is (floating == "yes")
    assert d.is_unsigned_int() is d.is_unsigned() is name.startswith("UINT")
    assert d.is_int() is (d.is_signed() or d.is_unsigned())
    assert d.to_c_type_string() == c_type
    assert d.to_string() == d.str() == text
    assert d.torch_name == (None if torch == "-" else torch)
    assert d.nbytes == max(1, int(bits) // 8)
    assert d.bits_dtype == np.dtype(f"uint{max(8, int(bits))}")


def test_only_index_is_not_in_the_table() -> None:
    assert {d.name for d in D} == {f"DT_{r[0]}" for r in ROWS} | {"DT_INDEX"}
    assert (D.DT_INDEX.bits(), D.DT_INDEX.is_signed()) == (64, True)
    assert D.DT_INDEX is not D.DT_INT64


def test_groups() -> None:
    storage = {"FP4", "FP8E4M3FN", "FP8E5M2", "FP8E8M0", "FP4E2M1", "FP4E1M2", "INT4", "UINT4", "HF4", "HF8"}
    assert {d for d in D if d.is_storage_only} == {D[f"DT_{n}"] for n in storage}
    unmovable = {"BOOL", "INT4", "UINT4", "FP4", "HF4", "INDEX"}
    assert {d for d in D if not d.is_movable} == {D[f"DT_{n}"] for n in unmovable}
    unchecked = {"UINT16", "UINT32", "INT4", "UINT4", "FP4", "HF4", "FP4E2M1", "FP4E1M2", "FP8E4M3FN", "FP8E5M2",
                 "FP8E8M0", "INDEX"}  # fmt: skip
    assert {d for d in D if not d.is_torch_checked} == {D[f"DT_{n}"] for n in unchecked}


def test_integer_limits() -> None:
    assert (D.DT_INT4.int_min, D.DT_INT4.int_max) == (-8, 7)
    assert (D.DT_UINT4.int_min, D.DT_UINT4.int_max) == (0, 15)
    assert (D.DT_BOOL.int_min, D.DT_BOOL.int_max) == (0, 1)
    for d in (D.DT_INT8, D.DT_INT64, D.DT_UINT16, D.DT_UINT64):
        assert (d.int_min, d.int_max) == (np.iinfo(d.numpy).min, np.iinfo(d.numpy).max)
    for limit in ("int_min", "int_max"):
        with pytest.raises(ValueError, match="integer"):
            getattr(D.DT_FP32, limit)


def test_host_dtypes() -> None:
    assert D.from_numpy(np.float16) is D.DT_FP16
    assert D.from_numpy(ml_dtypes.bfloat16) is D.DT_BF16
    assert D.from_numpy(ml_dtypes.float8_e4m3fn) is D.DT_FP8E4M3FN
    assert D.from_numpy("<i8") is D.DT_INT64
    assert D.from_numpy(np.bool_) is D.DT_BOOL
    assert D.from_numpy(np.uint8) is D.DT_UINT8
    assert D.from_numpy(np.float64) is None
    assert D.from_torch_name("torch.bfloat16") is D.DT_BF16
    assert D.from_torch_name("uint8") is D.DT_UINT8
    assert D.from_torch_name("torch.complex64") is None
    for d in D:
        if d.torch_name not in (None, "uint8"):
            assert D.from_torch_name(f"torch.{d.torch_name}") is d


def test_members_survive_pickling_and_print_short() -> None:
    for d in D:
        assert pickle.loads(pickle.dumps(d)) is d
        assert repr(d) == f"DataType.{d.name}"


def test_importing_does_not_import_torch() -> None:
    modules = "pypto_pro.dtypes, pypto_pro.numerics, pypto_pro.layouts, pypto_pro.hw"
    subprocess.run([sys.executable, "-c", f"import sys, {modules}; assert 'torch' not in sys.modules"], check=True)


def test_no_enum_has_aliases() -> None:
    for value in vars(enums).values():
        if isinstance(value, type) and issubclass(value, enums.Enum) and value.__module__ == enums.__name__:
            assert len(list(value)) == len(value.__members__), value


@pytest.mark.parametrize(
    ("member", "value"),
    [
        (enums.TilePad.min, 3),
        (enums.CompactMode.row_plus_one, 2),
        (enums.AccToVecMode.DualModeSplitN, 3),
        (enums.STPhase.Final, 3),
        (enums.AccPhase.Partial, 2),
        (enums.CacheLine.ENTIRE_DATA_CACHE, 1),
        (enums.RoundMode.CAST_ODD, 6),
        (enums.CrossCoreSyncMode.UNICAST_BLOCK, 3),
        (enums.AtomicType.AtomicAdd, 1),
        (enums.ReluPreMode.NormalRelu, 1),
        (enums.CompareMode.GT, 4),
        (enums.CompareMode.GE, 5),
    ],
)
def test_published_enum_values(member: enums.Enum, value: int) -> None:
    assert member.value == value


def test_round_modes_of_both_paths_agree_where_they_share_a_name() -> None:
    for mode in enums.VFRoundMode:
        if mode.name in enums.RoundMode.__members__:
            assert enums.RoundMode[mode.name].value == mode.value
