"""Bit-exact numbers: codecs of every format, rounding, the conversion matrix, fixpipe parameters.

Arrays of bit patterns have `DataType.bits_dtype` (4-bit elements one per uint8); values are float32, int64 or uint64.
"""

from pypto_pro.numerics.convert import (
    REGISTER_CASTS,
    TILE_CASTS,
    RegisterCast,
    TileCast,
    convert,
)
from pypto_pro.numerics.encode import encode, round_integral
from pypto_pro.numerics.fixpipe import FixpipeWord, decode_fixpipe_words, scalar_fixpipe_word
from pypto_pro.numerics.formats import FORMATS, FloatFormat, decode, pad_bits
from pypto_pro.numerics.native import from_native, to_native

__all__ = [
    "FORMATS",
    "REGISTER_CASTS",
    "TILE_CASTS",
    "FixpipeWord",
    "FloatFormat",
    "RegisterCast",
    "TileCast",
    "convert",
    "decode",
    "decode_fixpipe_words",
    "encode",
    "from_native",
    "pad_bits",
    "round_integral",
    "scalar_fixpipe_word",
    "to_native",
]
