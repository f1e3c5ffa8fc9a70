"""The tile kernel language: `import pypto_pro.language as pl`.

Types, enumerations and decorators stand here by name; operations (`pl.load`, `pl.add`, ...) come from the op table.
"""

from __future__ import annotations

from builtins import range  # noqa: UP029
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.enums import (
    AccPhase,
    AccToVecMode,
    AtomicType,
    BinType,
    CacheLine,
    CastLayout,
    CompactMode,
    CompareMode,
    CrossCoreSyncMode,
    DataCopyMode,
    DcciDst,
    DuplicatePos,
    FillPadMode,
    FunctionType,
    HistType,
    IndexOrder,
    LoadDist,
    MaskPattern,
    MaskWidth,
    MemBarMode,
    MemorySpace,
    MergeMode,
    PackPart,
    PipeType,
    QuantMode,
    ReduceMode,
    ReluPreMode,
    RoundMode,
    SaturateMode,
    SqueezeMode,
    StoreDist,
    STPhase,
    SyncAllMode,
    SyncCoreType,
    TensorLayout,
    TilePad,
    VFRoundMode,
)
from pypto_pro.frontend.annotations import DYNAMIC, STATIC, MemRef, Ptr, Scalar, Tensor, Tile
from pypto_pro.frontend.markers import inline, vector_function
from pypto_pro.ir.types import TileType
from pypto_pro.language import mutex, parser, pipeline, simt, system
from pypto_pro.language.definitions import (
    KernelDef,
    function,
    kernel,
    loads,
    loads_program,
    parse,
    parse_program,
    program,
)
from pypto_pro.language.host import constexpr, make_tuple, section_cube, section_vector, struct, struct_array
from pypto_pro.language.registers import Vf
from pypto_pro.language.stubs import names_below, stub
from pypto_pro.runtime.jit import jit

DT_BOOL = DataType.DT_BOOL
DT_INT4 = DataType.DT_INT4
DT_INT8 = DataType.DT_INT8
DT_INT16 = DataType.DT_INT16
DT_INT32 = DataType.DT_INT32
DT_INT64 = DataType.DT_INT64
DT_UINT4 = DataType.DT_UINT4
DT_UINT8 = DataType.DT_UINT8
DT_UINT16 = DataType.DT_UINT16
DT_UINT32 = DataType.DT_UINT32
DT_UINT64 = DataType.DT_UINT64
DT_FP4 = DataType.DT_FP4
DT_FP4E2M1 = DataType.DT_FP4E2M1
DT_FP4E1M2 = DataType.DT_FP4E1M2
DT_FP8E4M3FN = DataType.DT_FP8E4M3FN
DT_FP8E5M2 = DataType.DT_FP8E5M2
DT_FP8E8M0 = DataType.DT_FP8E8M0
DT_FP16 = DataType.DT_FP16
DT_BF16 = DataType.DT_BF16
DT_FP32 = DataType.DT_FP32
DT_HF4 = DataType.DT_HF4
DT_HF8 = DataType.DT_HF8

ND = TensorLayout.ND
DN = TensorLayout.DN
NZ = TensorLayout.NZ
ZN = TensorLayout.ZN
NN = TensorLayout.NN
ZZ = TensorLayout.ZZ

__all__ = [  # noqa: RUF022
    "AccPhase",
    "AccToVecMode",
    "AtomicType",
    "BinType",
    "CacheLine",
    "CastLayout",
    "CompactMode",
    "CompareMode",
    "CrossCoreSyncMode",
    "DN",
    "DT_BF16",
    "DT_BOOL",
    "DT_FP16",
    "DT_FP32",
    "DT_FP4",
    "DT_FP4E1M2",
    "DT_FP4E2M1",
    "DT_FP8E4M3FN",
    "DT_FP8E5M2",
    "DT_FP8E8M0",
    "DT_HF4",
    "DT_HF8",
    "DT_INT16",
    "DT_INT32",
    "DT_INT4",
    "DT_INT64",
    "DT_INT8",
    "DT_UINT16",
    "DT_UINT32",
    "DT_UINT4",
    "DT_UINT64",
    "DT_UINT8",
    "DYNAMIC",
    "DataCopyMode",
    "DataType",
    "DcciDst",
    "DuplicatePos",
    "FillPadMode",
    "FunctionType",
    "HistType",
    "IndexOrder",
    "KernelDef",
    "LoadDist",
    "MaskPattern",
    "MaskWidth",
    "MemBarMode",
    "MemRef",
    "MemorySpace",
    "MergeMode",
    "ND",
    "NN",
    "NZ",
    "PackPart",
    "PipeType",
    "Ptr",
    "QuantMode",
    "ReduceMode",
    "ReluPreMode",
    "RoundMode",
    "STATIC",
    "STPhase",
    "SaturateMode",
    "Scalar",
    "SqueezeMode",
    "StoreDist",
    "SyncAllMode",
    "SyncCoreType",
    "Tensor",
    "TensorLayout",
    "Tile",
    "TilePad",
    "TileType",
    "VFRoundMode",
    "Vf",
    "ZN",
    "ZZ",
    "constexpr",
    "function",
    "inline",
    "jit",
    "kernel",
    "loads",
    "loads_program",
    "make_tuple",
    "mutex",
    "parse",
    "parse_program",
    "parser",
    "pipeline",
    "program",
    "range",
    "section_cube",
    "section_vector",
    "simt",
    "struct",
    "struct_array",
    "system",
    "vector_function",
]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # asked by tools, never an op
        raise AttributeError(name)
    return stub(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *names_below("")})
