"""`torch_npu.npu_trans_quant_param`: scales (and offsets) as the 64-bit words that the fixpipe unit reads.

Word: bits 13 to 31 the scale's sign, exponent and upper 10 mantissa bits; bits 37 to 45 the offset, 9-bit two's
complement; bit 46 set, for the signed INT8 range.
"""

from __future__ import annotations

from typing import Any

import torch

_SIGNED = 1 << 46
_OFFSET_AT, _OFFSET_BITS = 37, 9
_DROPPED = 13  # mantissa bits that the multiplier does not have


def npu_trans_quant_param(scale: Any, offset: Any = None, round_mode: int = 0) -> Any:
    """One word an element of `scale`, INT64, on its device and of the shape of both arguments broadcast.

    `scale` and `offset` are FP32 of shape [n] or [1, n]; an offset is rounded to the nearest integer (ties to even) and
    clamped to -256..255. `round_mode` 0 cuts the scale's mantissa, 1 rounds it, ties to even. TypeError for other
    dtypes, ValueError for other shapes and modes.
    """
    _check("scale", scale)
    if round_mode not in (0, 1):
        raise ValueError(f"round_mode is 0 (cut) or 1 (round), found {round_mode!r}")
    bits = scale.detach().cpu().contiguous().view(torch.int32).to(torch.int64) & 0xFFFFFFFF
    if round_mode == 1:
        finite = (bits & 0x7F800000) != 0x7F800000
        half = (1 << (_DROPPED - 1)) - 1
        bits = torch.where(finite, bits + half + ((bits >> _DROPPED) & 1), bits)
    words = (bits & (0xFFFFFFFF << _DROPPED) & 0xFFFFFFFF) | _SIGNED
    if offset is not None:
        _check("offset", offset)
        steps = offset.detach().cpu().round().clamp(-256, 255).to(torch.int64)
        words = words | ((steps & ((1 << _OFFSET_BITS) - 1)) << _OFFSET_AT)
    return words.to(scale.device)


def _check(name: str, value: Any) -> None:
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        found = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
        raise TypeError(f"npu_trans_quant_param: `{name}` is an FP32 tensor, found {found}")
    if not (value.dim() == 1 or (value.dim() == 2 and value.shape[0] == 1)):
        raise ValueError(f"npu_trans_quant_param: `{name}` has shape [n] or [1, n], found {list(value.shape)}")
