"""The 64-bit parameter words of the fixpipe (numerics 6): bits 0..31 scale, 37..45 offset, 46 signed INT8 range."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_SIGNED_BIT = 46
_OFFSET_BIT, _OFFSET_BITS = 37, 9
_CHANNEL_SCALE_MASK = 0xFFFFE000  # sign, exponent, 10 mantissa bits


class FixpipeWord(NamedTuple):
    """Decoded words, one element each."""

    scale: npt.NDArray[np.float32]
    offset: npt.NDArray[np.int64]
    """Added before rounding, -256..255."""
    signed: npt.NDArray[np.bool_]
    """The 8-bit result is clamped to -128..127 instead of 0..255."""


def decode_fixpipe_words(words: npt.ArrayLike, *, per_channel: bool) -> FixpipeWord:
    """Fields of uint64 (or int64) words; the multiplier sees only 10 mantissa bits of a per-channel scale."""
    raw = np.atleast_1d(np.asarray(words)).astype(np.uint64)
    scale = (raw & np.uint64(_CHANNEL_SCALE_MASK if per_channel else 0xFFFFFFFF)).astype(np.uint32).view(np.float32)
    field = (raw >> np.uint64(_OFFSET_BIT) & np.uint64((1 << _OFFSET_BITS) - 1)).astype(np.int64)
    half = 1 << (_OFFSET_BITS - 1)
    return FixpipeWord(scale, (field ^ half) - half, (raw >> np.uint64(_SIGNED_BIT) & np.uint64(1)).astype(np.bool_))


def scalar_fixpipe_word(scale_bits: int, *, signed: bool) -> int:
    """The per-tensor word of an FP32 scale given as its bit pattern; `signed` for an INT8 destination."""
    return scale_bits & 0xFFFFFFFF | signed << _SIGNED_BIT
