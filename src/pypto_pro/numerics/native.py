"""Working representation of elements while an operation computes: arithmetic in it rounds and wraps as the device does.

FP16, BF16 and smaller floats compute in FP32 and round once to their own format: FP32 keeps at least 2p + 2 bits of a
p-bit format, so add, sub, mul, div and sqrt come out correctly rounded. Integers compute in their own width and wrap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pypto_pro.dtypes import DataType
from pypto_pro.numerics.encode import encode, pack_integer
from pypto_pro.numerics.formats import Bits, Values, decode


def to_native(bits: Bits, dtype: DataType) -> Values:
    """Values to compute with: float32 for floats, the integer's own dtype (int8, uint8 for 4 bits), bool for BOOL.

    A view of `bits` for FP32 and integers of 8 to 64 bits.
    """
    if dtype.is_float() or dtype is DataType.DT_UINT64:
        return decode(bits, dtype)
    if dtype.is_sub_byte:
        return decode(bits, dtype).astype(np.int8 if dtype.is_signed() else np.uint8)
    if dtype is DataType.DT_BOOL:
        return bits.astype(np.bool_)
    return bits.view(dtype.numpy)


def from_native(values: npt.NDArray[Any], dtype: DataType) -> Bits:
    """Bit patterns of results: floats rounded to nearest even with IEEE overflow, integers cut to their low bits."""
    if dtype.is_float() or dtype is DataType.DT_BOOL:
        return encode(values, dtype)
    return pack_integer(values, dtype)
