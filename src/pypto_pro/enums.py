"""The public enumerations of the language, with the values the language reference publishes.

Where the reference gives names only, members are numbered from 0 in its order. All are plain `Enum`s: the front end
rejects an int where an enum member is required, and a member must therefore not be an int (`CompactMode` is the
exception, its members *are* the ints `TileType.compact` takes).
"""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum


class CoreKind(StrEnum):
    """The two kinds of core of a block: cube (AIC) and vector (AIV)."""

    CUBE = "cube"
    VECTOR = "vector"


# --- memory and tiles ---------------------------------------------------------------------------------------------


class MemorySpace(Enum):
    """Where a tile lives; each space has its own address origin 0. `DDR` is global memory and holds tensors only."""

    DDR = 0
    Vec = 1
    Mat = 2
    Left = 3
    Right = 4
    Acc = 5
    Scaling = 6
    ScaleLeft = 7
    ScaleRight = 8
    Bias = 9


class TensorLayout(Enum):
    """Element order. ND row-major, DN column-major; XY: X orders the boxes, Y the elements of one (Z row, N column)."""

    ND = "ND"
    DN = "DN"
    NZ = "NZ"
    ZN = "ZN"
    NN = "NN"
    ZZ = "ZZ"


class TilePad(Enum):
    """What fills the tail of a tile: nothing, zero, or the largest or smallest value of the dtype."""

    null = 0
    zero = 1
    max = 2
    min = 3


class CompactMode(IntEnum):
    """Which extent a fractal tile is addressed with: declared, valid rounded up to 16, or that plus one row."""

    null = 0
    normal = 1
    row_plus_one = 2


class FillPadMode(Enum):
    """`pl.fillpad`: pad inside equal shapes, into a larger tile, or in place."""

    NORMAL = 0
    EXPAND = 1
    INPLACE = 2


class CacheLine(Enum):
    """How much of the scalar data cache `dcci` writes back and drops."""

    SINGLE_CACHE_LINE = 0
    ENTIRE_DATA_CACHE = 1


class DcciDst(Enum):
    """Which memory `dcci` writes back to; AUTO means OUT for a tensor and UB for a tile."""

    AUTO = 0
    CACHELINE_OUT = 1
    CACHELINE_UB = 2
    CACHELINE_ALL = 3
    CACHELINE_ATOMIC = 4


# --- pipes and synchronisation ------------------------------------------------------------------------------------


class PipeType(Enum):
    """The in-order instruction queues of a core. `ALL` names every pipe in a barrier and is never a concrete pipe."""

    MTE1 = 0
    MTE2 = 1
    MTE3 = 2
    M = 3
    V = 4
    S = 5
    FIX = 6
    ALL = 7


class CrossCoreSyncMode(Enum):
    """Who takes part in a cross-core signal."""

    INTER_BLOCK = 0
    INTER_SUBBLOCK = 1
    INTRA_BLOCK = 2
    UNICAST_BLOCK = 3


class SyncCoreType(Enum):
    """Which cores of the launch meet in `sync_all`."""

    AIV_ONLY = 0
    AIC_ONLY = 1
    MIX = 2


class SyncAllMode(Enum):
    """`sync_all` by reserved cross-core counters (HARD) or by a counter in global memory (SOFT)."""

    HARD = 0
    SOFT = 1


# --- cube core ----------------------------------------------------------------------------------------------------


class ReluPreMode(Enum):
    """Activation applied on an Acc exit before conversion."""

    NoRelu = 0
    NormalRelu = 1


class AtomicType(Enum):
    """Whether a store replaces global memory or adds to it."""

    AtomicNone = 0
    AtomicAdd = 1


class AccToVecMode(Enum):
    """Which vector core receives an Acc tile: one of them, or both halves of a split along M or N."""

    SingleModeVec0 = 0
    SingleModeVec1 = 1
    DualModeSplitM = 2
    DualModeSplitN = 3


class STPhase(Enum):
    """Unit-flag handshake of a store out of Acc: none, wait for set, wait for set and clear."""

    Unspecified = 0
    Partial = 2
    Final = 3


class AccPhase(Enum):
    """Unit-flag handshake of a matmul into Acc: none, wait for clear, wait for clear and set."""

    Unspecified = 0
    Partial = 2
    Final = 3


# --- numbers ------------------------------------------------------------------------------------------------------


class RoundMode(Enum):
    """Rounding of tile conversions; CAST_NONE truncates to integers and rounds to nearest even otherwise."""

    CAST_NONE = 0
    CAST_RINT = 1
    CAST_ROUND = 2
    CAST_FLOOR = 3
    CAST_CEIL = 4
    CAST_TRUNC = 5
    CAST_ODD = 6


class VFRoundMode(Enum):
    """Rounding of register conversions; members shared with `RoundMode` have its values."""

    CAST_RINT = 1
    CAST_ROUND = 2
    CAST_FLOOR = 3
    CAST_CEIL = 4
    CAST_TRUNC = 5
    CAST_ODD = 6
    CAST_HYBRID = 7


class SaturateMode(Enum):
    """Whether a register conversion keeps low bits / infinities (OFF) or clamps to the target range (ON)."""

    OFF = 0
    ON = 1


class QuantMode(Enum):
    """`pl.quant`: symmetric to INT8, or asymmetric with an offset to UINT8."""

    SYM = 0
    ASYM = 1


class CompareMode(Enum):
    """Comparison codes; the ints are what `pl.gather(cmp_mode=...)` takes."""

    EQ = 0
    NE = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5


class ReduceMode(Enum):
    """Reserved for the keywords `reduce_mode` and `reduce_type`, which no public operation defines."""

    SUM = 0
    MAX = 1
    MIN = 2


# --- vector functions ---------------------------------------------------------------------------------------------


class MaskPattern(Enum):
    """Lane sets of `vf.create_mask`: all, none, the first k, half, quarter, every third, every fourth."""

    ALL = 0
    ALLF = 1
    VL1 = 2
    VL2 = 3
    VL3 = 4
    VL4 = 5
    VL8 = 6
    VL16 = 7
    VL32 = 8
    VL64 = 9
    VL128 = 10
    H = 11
    Q = 12
    M3 = 13
    M4 = 14


class MergeMode(Enum):
    """What inactive lanes of a result hold: zero, or the old destination."""

    ZEROING = 0
    MERGING = 1


class DuplicatePos(Enum):
    """Which lane `vf.full` broadcasts: the first or the last."""

    LOWEST = 0
    HIGHEST = 1


class CastLayout(Enum):
    """Which sub-position inside the wider element's slot holds the narrow element."""

    ZERO = 0
    ONE = 1
    TWO = 2
    THREE = 3


class LoadDist(Enum):
    """How a register load distributes the elements it reads."""

    NORM = 0
    BRC = 1
    BRC_B8 = 2
    BRC_B16 = 3
    BRC_B32 = 4
    US = 5
    US_B8 = 6
    US_B16 = 7
    DS = 8
    DS_B8 = 9
    DS_B16 = 10
    UNPK = 11
    UNPK_B8 = 12
    UNPK_B16 = 13
    UNPK_B32 = 14
    UNPK4 = 15
    BLK = 16
    E2B = 17
    E2B_B16 = 18
    E2B_B32 = 19
    DINTLV_B8 = 20
    DINTLV_B16 = 21
    DINTLV_B32 = 22


class StoreDist(Enum):
    """How a register store lays out the lanes it writes."""

    NORM = 0
    NORM_B16 = 1
    FIRST_ELEMENT = 2
    PACK = 3
    PACK4 = 4
    INTLV = 5
    INTLV_B32 = 6


class DataCopyMode(Enum):
    """Element-wise register access, strided 32-byte blocks, or a gather of 32-byte blocks."""

    NORM = 0
    DATA_BLOCK_COPY = 1
    DATA_BLOCK_LOAD = 2


class PackPart(Enum):
    """Half of the narrow register that `vf.pack` writes and `vf.unpack` reads."""

    LOWER = 0
    UPPER = 1


class SqueezeMode(Enum):
    """Whether `vf.squeeze` records the number of kept bytes in AR."""

    NO_STORE_REG = 0
    STORE_REG = 1


class HistType(Enum):
    """Cumulative or plain counts of `vf.histograms`."""

    ACCUMULATE = 0
    FREQUENCY = 1


class BinType(Enum):
    """Values `vf.histograms` counts: 0..127 or 128..255."""

    BIN0 = 0
    BIN1 = 1


class IndexOrder(Enum):
    """Direction of `vf.arange`."""

    INCREASE_ORDER = 0
    DECREASE_ORDER = 1


class MaskWidth(Enum):
    """Lane width the special mask registers are read at by `vf.get_mask_spr`."""

    B32 = 0
    B16 = 1


class MemBarMode(Enum):
    """`vf.mem_bar`: accesses that must finish, accesses that wait (V vector, S scalar; LD load, ST store)."""

    VST_VLD = 0
    VLD_VST = 1
    VST_VST = 2
    VST_LD = 3
    VST_ST = 4
    VLD_ST = 5
    ST_VLD = 6
    ST_VST = 7
    LD_VST = 8
    VV_ALL = 9
    VS_ALL = 10
    SV_ALL = 11


# --- host tooling -------------------------------------------------------------------------------------------------


class FunctionType(Enum):
    """Metadata of `pl.function` and `pl.kernel`; changes nothing."""

    Opaque = 0
    InCore = 1
    Helper = 2
