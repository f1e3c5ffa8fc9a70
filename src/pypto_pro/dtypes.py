"""`DataType`: every element type of the language, its facts, and its numpy and torch counterparts.

Pure facts; the codecs that give bit patterns a value are in `numerics`. torch is named by string and never imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import ml_dtypes
import numpy as np
import numpy.typing as npt

_Text = str  # inside the class `str` is a method of the language


@dataclass(frozen=True)
class _Facts:
    """One row of the table: bits; class (s signed, u unsigned, f float, b bool); C type; torch; numpy of values."""

    name: str
    bits: int
    kind: str
    c_type: str
    torch_name: str | None
    numpy: npt.DTypeLike


_RAW = np.uint8  # formats numpy has no type for: values stay bit patterns, one per byte


class DataType(Enum):
    """An element type. `DT_INDEX` (64-bit signed, int literals and index arithmetic) is internal to the compiler."""

    DT_BOOL = _Facts("bool", 8, "b", "bool", "bool", np.bool_)
    DT_INT4 = _Facts("int4", 4, "s", "unknown", None, ml_dtypes.int4)
    DT_INT8 = _Facts("int8", 8, "s", "int8_t", "int8", np.int8)
    DT_INT16 = _Facts("int16", 16, "s", "int16_t", "int16", np.int16)
    DT_INT32 = _Facts("int32", 32, "s", "int32_t", "int32", np.int32)
    DT_INT64 = _Facts("int64", 64, "s", "int64_t", "int64", np.int64)
    DT_UINT4 = _Facts("uint4", 4, "u", "unknown", None, ml_dtypes.uint4)
    DT_UINT8 = _Facts("uint8", 8, "u", "uint8_t", "uint8", np.uint8)
    DT_UINT16 = _Facts("uint16", 16, "u", "uint16_t", "uint16", np.uint16)
    DT_UINT32 = _Facts("uint32", 32, "u", "uint32_t", "uint32", np.uint32)
    DT_UINT64 = _Facts("uint64", 64, "u", "uint64_t", "uint64", np.uint64)
    DT_FP4 = _Facts("fp4", 4, "f", "unknown", None, _RAW)
    DT_FP4E2M1 = _Facts("fp4e2m1", 4, "f", "float4_e2m1x2_t", "float4_e2m1fn_x2", ml_dtypes.float4_e2m1fn)
    DT_FP4E1M2 = _Facts("fp4e1m2", 4, "f", "float4_e1m2x2_t", "uint8", _RAW)
    DT_FP8E4M3FN = _Facts("fp8e4m3fn", 8, "f", "float8_e4m3_t", "float8_e4m3fn", ml_dtypes.float8_e4m3fn)
    DT_FP8E5M2 = _Facts("fp8e5m2", 8, "f", "float8_e5m2_t", "float8_e5m2", ml_dtypes.float8_e5m2)
    DT_FP8E8M0 = _Facts("fp8e8m0", 8, "f", "float8_e8m0_t", "float8_e8m0fnu", ml_dtypes.float8_e8m0fnu)
    DT_FP16 = _Facts("fp16", 16, "f", "half", "float16", np.float16)
    DT_BF16 = _Facts("bf16", 16, "f", "bfloat16_t", "bfloat16", ml_dtypes.bfloat16)
    DT_FP32 = _Facts("fp32", 32, "f", "float", "float32", np.float32)
    DT_HF4 = _Facts("hf4", 4, "f", "unknown", None, _RAW)
    DT_HF8 = _Facts("hf8", 8, "f", "hifloat8_t", "uint8", _RAW)
    DT_INDEX = _Facts("index", 64, "s", "int64_t", None, np.int64)

    def __init__(self, facts: _Facts) -> None:
        self._bits = facts.bits
        self._kind = facts.kind
        self.nbytes: int = max(1, facts.bits // 8)
        """Bytes one element takes when it stands alone: 1 for the sub-byte types."""
        self.numpy: np.dtype[np.generic] = np.dtype(facts.numpy)
        """numpy dtype of decoded values; uint8 bit patterns for FP4, FP4E1M2, HF4 and HF8."""
        self.bits_dtype: np.dtype[np.unsignedinteger] = np.dtype(f"u{self.nbytes}")
        """Unsigned numpy dtype of bit patterns; 4-bit elements sit in the low half of a uint8."""
        self.torch_name: _Text | None = facts.torch_name
        """Name of the torch dtype a host tensor has (`getattr(torch, name)`), None without one."""

    def __repr__(self) -> _Text:
        return f"DataType.{self.name}"

    def get_bit(self) -> int:
        """Bits of one element."""
        return self._bits

    def bits(self) -> int:
        """Bits of one element."""
        return self._bits

    def is_float(self) -> bool:
        """True for every floating format, the placeholders FP4 and HF4 included."""
        return self._kind == "f"

    def is_int(self) -> bool:
        """True for signed and unsigned integers; BOOL is neither."""
        return self._kind in "su"

    def is_signed_int(self) -> bool:
        """True for INT4..INT64."""
        return self._kind == "s"

    def is_signed(self) -> bool:
        """As `is_signed_int`."""
        return self._kind == "s"

    def is_unsigned_int(self) -> bool:
        """True for UINT4..UINT64."""
        return self._kind == "u"

    def is_unsigned(self) -> bool:
        """As `is_unsigned_int`."""
        return self._kind == "u"

    def to_string(self) -> _Text:
        """The short lower-case name, `fp8e4m3fn`."""
        return self.value.name

    def to_c_type_string(self) -> _Text:
        """The device C type, `unknown` where there is none."""
        return self.value.c_type

    def str(self) -> _Text:
        """As `to_string`."""
        return self.value.name

    @property
    def is_sub_byte(self) -> bool:
        """True when two elements share a byte."""
        return self._bits < 8

    @property
    def is_storage_only(self) -> bool:
        """True for the types that scalar expressions, getval and setval reject."""
        return self in _STORAGE_ONLY

    @property
    def is_movable(self) -> bool:
        """True for the types that load, store, move and insert accept."""
        return self in _MOVABLE

    @property
    def is_torch_checked(self) -> bool:
        """True when a launch requires exactly the torch dtype `torch_name` of a tensor argument."""
        return self in _TORCH_CHECKED

    @property
    def int_min(self) -> int:
        """Smallest value of an integer type; 0 for BOOL. ValueError for floats."""
        if self._kind == "f":
            raise ValueError(f"{self.name} is not an integer type")
        return -(1 << (self._bits - 1)) if self._kind == "s" else 0

    @property
    def int_max(self) -> int:
        """Largest value of an integer type; 1 for BOOL. ValueError for floats."""
        match self._kind:
            case "s":
                return (1 << (self._bits - 1)) - 1
            case "u":
                return (1 << self._bits) - 1
            case "b":
                return 1
        raise ValueError(f"{self.name} is not an integer type")

    @classmethod
    def from_torch_name(cls, name: _Text) -> DataType | None:
        """The dtype of a torch tensor from `str(t.dtype)`, with or without `torch.`; None when there is none."""
        return _FROM_TORCH.get(name.removeprefix("torch."))

    @classmethod
    def from_numpy(cls, dtype: npt.DTypeLike) -> DataType | None:
        """The dtype of a numpy array; None when the language has no such type (float64, complex, objects)."""
        return _FROM_NUMPY.get(np.dtype(dtype))


_D = DataType
_STORAGE_ONLY = frozenset({_D.DT_FP4, _D.DT_FP8E4M3FN, _D.DT_FP8E5M2, _D.DT_FP8E8M0, _D.DT_FP4E2M1, _D.DT_FP4E1M2,
                           _D.DT_INT4, _D.DT_UINT4, _D.DT_HF4, _D.DT_HF8})  # fmt: skip
_MOVABLE = frozenset(_D) - {_D.DT_BOOL, _D.DT_INT4, _D.DT_UINT4, _D.DT_FP4, _D.DT_HF4, _D.DT_INDEX}
_TORCH_CHECKED = frozenset({_D.DT_FP16, _D.DT_BF16, _D.DT_FP32, _D.DT_INT8, _D.DT_INT16, _D.DT_INT32, _D.DT_INT64,
                            _D.DT_UINT8, _D.DT_UINT64, _D.DT_BOOL, _D.DT_HF8})  # fmt: skip
# A uint8 host array is UINT8: the formats stored as raw bytes never come from a host dtype.
_RAW_STORED = frozenset({_D.DT_FP4, _D.DT_FP4E1M2, _D.DT_HF4, _D.DT_HF8, _D.DT_INDEX})
_FROM_TORCH = {d.torch_name: d for d in _D if d.torch_name is not None and d not in _RAW_STORED}
_FROM_NUMPY = {d.numpy: d for d in _D if d not in _RAW_STORED}
