"""The exit of the accumulator: scale, relu and conversion on pipe FIX, shared by store and move (cube.yaml notes)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from pypto_pro import numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import AtomicType, MemorySpace, ReluPreMode, RoundMode, STPhase
from pypto_pro.ops import rules
from pypto_pro.ops.entry import Access, Box, Effect, Keyword, Kind, Operand, Role
from pypto_pro.ops.operands import Array, ScalarInfo, TensorInfo, TileArg, TileInfo

D = DataType

ScaleIn = Annotated[
    Any,
    Operand(frozenset({Kind.SCALAR, Kind.TILE, Kind.TENSOR}), Role.IN, const_dtype=D.DT_FP32),
]
Relu = Annotated["ReluPreMode | None", Keyword(enum=ReluPreMode)]

PLAIN_EXITS = {D.DT_FP32: (D.DT_FP32, D.DT_FP16, D.DT_BF16), D.DT_INT32: (D.DT_INT32,)}
SCALED_EXITS = {
    D.DT_FP32: (D.DT_INT8, D.DT_HF8, D.DT_FP8E4M3FN, D.DT_FP16, D.DT_FP32),
    D.DT_INT32: (D.DT_INT8, D.DT_FP16),
}
MAX_CHANNELS = 512


@dataclass(frozen=True)
class Exit:
    """What happens to accumulator values on their way out: `scale` as `exit_bits` takes it, then relu."""

    scale: Any
    relu: bool


def exit_of(src: Any, scale: Any, relu: ReluPreMode | None) -> Exit | None:
    """The exit of a transfer; None unless it leaves Acc."""
    return Exit(scale, relu is ReluPreMode.NormalRelu) if src.type.space is MemorySpace.Acc else None


def exit_values(src: TileArg, bits: Array) -> Array:
    """Raw accumulator elements as the values they hold: INT32 or FP32."""
    return np.asarray(bits.view(np.int32 if src.dtype is D.DT_INT32 else np.float32))


def exit_bits(
    values: Array, dtype: DataType, scale: TileArg | float | int | None, relu: ReluPreMode | None
) -> Array:
    """Bits of accumulator values [m, n] in `dtype` after y = relu(values * scale).

    scale: a float, an int holding the float32 bit pattern (run-time INT32/INT64), a [1, N] tile of parameter words
    (one a column), or None. NaN becomes 0 under relu.
    """
    if scale is None:
        return np.asarray(numerics.encode(_relu(values, relu), dtype, RoundMode.CAST_RINT))
    word = _words(scale, values.shape[1], dtype)
    result = one_nan(_relu(values.astype(np.float32) * word.scale, relu))
    if dtype is D.DT_INT8:
        rounded = np.rint(result.astype(np.float64) + word.offset)
        low, high = np.where(word.signed, -128, 0), np.where(word.signed, 127, 255)
        whole = np.nan_to_num(np.clip(rounded, low, high), nan=0.0)
        codes: Array = whole.astype(np.int64).astype(np.uint8)
        return codes
    return np.asarray(numerics.encode(result, dtype, RoundMode.CAST_RINT, saturate=True, keep_nan=dtype is D.DT_FP16))


def one_nan(values: Array) -> Array:
    """Float values with every NaN as conversions make it (numerics 1): which of its bits arithmetic keeps is the
    host's business."""
    nan = np.isnan(values)
    return np.asarray(np.where(nan, values.dtype.type(np.nan), values)) if nan.any() else values


def _relu(values: Array, relu: ReluPreMode | None) -> Array:
    if relu is not ReluPreMode.NormalRelu:
        return values
    return np.asarray(np.where(values > 0, values, values.dtype.type(0)))


def _words(scale: TileArg | float | int, columns: int, dtype: DataType) -> numerics.FixpipeWord:
    """Parameter words by column; a scalar scale sets the signed flag for INT8 by itself."""
    if isinstance(scale, TileArg):
        return numerics.decode_fixpipe_words(scale.bits(1, columns), per_channel=True)
    pattern = int(np.float32(scale).view(np.uint32)) if isinstance(scale, float) else scale
    word = numerics.scalar_fixpipe_word(pattern, signed=dtype is D.DT_INT8)
    return numerics.decode_fixpipe_words(np.uint64(word), per_channel=False)


def scale_access(scale: Any, columns: Any) -> list[Access]:
    """The parameter words an exit reads."""
    return [Access("scale", Effect.READ, Box(0, 0, 1, columns))] if hasattr(scale, "type") else []


# --- static rules ----------------------------------------------------------------------------------------------------


def is_omitted(keyword: object) -> bool:
    """Whether a keyword of an exit asks for nothing: not given, or the member that stands for that."""
    return keyword is None or keyword is ReluPreMode.NoRelu or keyword is STPhase.Unspecified


def check_exit(source: DataType, target: DataType, scale: object) -> None:
    """Source and target dtypes of an exit, and the scale operand."""
    if source not in PLAIN_EXITS:
        raise TypeError(f"an accumulator is FP32 or INT32, found {rules.names([source])}")
    if scale is None:
        if target not in PLAIN_EXITS[source]:
            raise TypeError(f"{rules.names([source])} leaves Acc as {rules.names(PLAIN_EXITS[source])}, "
                            f"or with a scale as {rules.names(SCALED_EXITS[source])}; found {rules.names([target])}")
        return
    if target in (D.DT_UINT8, D.DT_BF16):
        raise ValueError(f"a scaled exit cannot give {rules.names([target])}")
    check_scale(scale)
    if target not in SCALED_EXITS[source]:
        raise TypeError(f"a scaled exit from {rules.names([source])} gives {rules.names(SCALED_EXITS[source])}; "
                        f"found {rules.names([target])}")


def check_scale(scale: object) -> None:
    """Beside numbers: an FP32/INT32/INT64 scalar, or a [1, N] INT64 tile in Scaling; TypeError and ValueError."""
    match scale:
        case TensorInfo():
            raise ValueError("scale Tensor is not supported for per-channel quantization: load the words into Mat and "
                             "move them to a tile in Scaling")
        case TileInfo():
            check_scale_tile(scale)
        case ScalarInfo(value=None):
            if scale.type.dtype not in (D.DT_FP32, D.DT_INT32, D.DT_INT64, D.DT_INDEX):
                raise TypeError(f"scale runtime scalar dtype {scale.type.dtype.to_string()} is not supported; "
                                "FP32, or INT32/INT64 holding the FP32 bits, is needed")


def check_scale_tile(scale: TileInfo) -> None:
    """Rules of a per-channel parameter tile; ValueError."""
    type_ = scale.type
    if type_.space is not MemorySpace.Scaling:
        raise ValueError(f"the scale tile `{scale.name}` must be in MemorySpace.Scaling, found {type_.space.name}")
    if type_.rows != 1:
        raise ValueError(f"scale tile must have shape [1, N] (row == 1), found {list(type_.shape)}")
    if type_.cols % 16 or type_.cols > MAX_CHANNELS:
        raise ValueError(f"N of the scale tile must be a multiple of 16 up to {MAX_CHANNELS}, found {type_.cols}")
    if type_.dtype is D.DT_FP32:
        raise ValueError("scale tile dtype FP32 is not supported; make the INT64 words with npu_trans_quant_param")
    if type_.dtype is not D.DT_INT64:
        raise ValueError(f"scale tile dtype must be INT64, found {rules.names([type_.dtype])}")


def check_per_channel(
    scale: object, relu: ReluPreMode | None, phase: STPhase | None, order: tuple[int, ...] | None, atomic: AtomicType
) -> None:
    """What a per-channel scale tile excludes; ValueError."""
    if not isinstance(scale, TileInfo):
        return
    if not is_omitted(relu):
        raise ValueError("a per-channel scale cannot be used together with relu_pre_mode")
    if not is_omitted(phase):
        raise ValueError("a per-channel scale cannot be combined with phase")
    if order is not None or atomic is not AtomicType.AtomicNone:
        raise ValueError("a per-channel scale takes neither order nor atomic")
