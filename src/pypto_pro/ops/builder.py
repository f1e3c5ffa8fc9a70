"""What a `lower` facet is written against: operands of an op function under construction, and the builder handed first.

    @add.lower
    def _(k: Builder, out: NativeTile, lhs: NativeTile, rhs: NativeTile | NativeScalar) -> Any:
        return k.elementwise(out, (lhs, rhs), lambda a, b: a + b)

A facet runs once for each static signature (tile types, dtypes, keywords) and emits code; `if` on run-time values is
`k.if_`, on static facts plain Python. Numbers under construction (`NativeScalar`, `Lanes`) have Python's operators.
Floats of every width compute as FP32 lanes and are rounded to nearest even when stored; `lanes.rounded(dtype)` rounds
in between. Integers keep their width and wrap.

Returning NotImplemented (or None from an element function) declines the signature: the op then runs its numpy meaning
through a callback, slower but never missing. The patterns decline by themselves for layouts and dtypes they have no
code for, so return their result. At run time `k.require(condition)` goes to the meaning where the condition is false;
every pattern does so for accesses outside the tile's memory space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from pypto_pro.dtypes import DataType
from pypto_pro.enums import RoundMode
from pypto_pro.ir.types import TensorType, TileType
from pypto_pro.ops.entry import Box
from pypto_pro.ops.fixpipe import Exit


class NativeScalar(Protocol):
    """One number: arithmetic and comparisons as on Python ints (`//` and `%` floor), no `bool()`."""

    @property
    def dtype(self) -> DataType:
        """Its dtype; extents and offsets are INDEX."""

    def __add__(self, other: Any) -> NativeScalar: ...
    def __radd__(self, other: Any) -> NativeScalar: ...
    def __sub__(self, other: Any) -> NativeScalar: ...
    def __rsub__(self, other: Any) -> NativeScalar: ...
    def __mul__(self, other: Any) -> NativeScalar: ...
    def __floordiv__(self, other: Any) -> NativeScalar: ...
    def __mod__(self, other: Any) -> NativeScalar: ...
    def __lt__(self, other: Any) -> NativeScalar: ...
    def __le__(self, other: Any) -> NativeScalar: ...
    def __gt__(self, other: Any) -> NativeScalar: ...
    def __ge__(self, other: Any) -> NativeScalar: ...
    def __eq__(self, other: object) -> NativeScalar: ...  # type: ignore[override]
    def __ne__(self, other: object) -> NativeScalar: ...  # type: ignore[override]
    def __and__(self, other: Any) -> NativeScalar: ...
    def __or__(self, other: Any) -> NativeScalar: ...
    def __invert__(self) -> NativeScalar: ...

    def least(self, other: Any) -> NativeScalar:
        """The smaller of two."""

    def most(self, other: Any) -> NativeScalar:
        """The larger of two."""

    def to(self, dtype: DataType) -> NativeScalar:
        """C conversion."""

    def choose(self, then: Any, other: Any) -> NativeScalar:
        """`then if self else other`, for BOOL scalars."""


class Lanes(Protocol):
    """A vector of values: + - * / % & | ^ << >>, comparisons (BOOL lanes), with lanes, scalars and numbers."""

    @property
    def dtype(self) -> DataType:
        """FP32 for floats of every width, BOOL for comparisons, else the integer dtype."""

    @property
    def count(self) -> int:
        """Number of lanes."""

    def __add__(self, other: Any) -> Lanes: ...
    def __radd__(self, other: Any) -> Lanes: ...
    def __sub__(self, other: Any) -> Lanes: ...
    def __rsub__(self, other: Any) -> Lanes: ...
    def __mul__(self, other: Any) -> Lanes: ...
    def __rmul__(self, other: Any) -> Lanes: ...
    def __truediv__(self, other: Any) -> Lanes: ...
    def __rtruediv__(self, other: Any) -> Lanes: ...
    def __mod__(self, other: Any) -> Lanes: ...
    def __and__(self, other: Any) -> Lanes: ...
    def __or__(self, other: Any) -> Lanes: ...
    def __xor__(self, other: Any) -> Lanes: ...
    def __lshift__(self, other: Any) -> Lanes: ...
    def __rshift__(self, other: Any) -> Lanes: ...
    def __invert__(self) -> Lanes: ...
    def __neg__(self) -> Lanes: ...
    def __lt__(self, other: Any) -> Lanes: ...
    def __le__(self, other: Any) -> Lanes: ...
    def __gt__(self, other: Any) -> Lanes: ...
    def __ge__(self, other: Any) -> Lanes: ...
    def __eq__(self, other: object) -> Lanes: ...  # type: ignore[override]
    def __ne__(self, other: object) -> Lanes: ...  # type: ignore[override]

    def to(self, dtype: DataType) -> Lanes:
        """C conversion: floats truncate to integers (saturating), integers wrap."""

    def rounded(self, dtype: DataType) -> Lanes:
        """FP32 lanes rounded to what FP16 or BF16 can hold; others unchanged."""

    def bits_as(self, dtype: DataType) -> Lanes:
        """The same bits as lanes of another dtype of equal width."""

    def select(self, then: Any, other: Any) -> Lanes:
        """`then` where these BOOL lanes are true, `other` elsewhere."""

    def lane(self, index: int) -> NativeScalar:
        """One lane as a number."""

    def halved(self, combine: Callable[[Lanes, Lanes], Lanes]) -> NativeScalar:
        """All lanes combined into one, the upper half onto the lower half, again and again."""


class NativeTile(Protocol):
    """A tile operand: static type; address (bytes), valid rows and columns at issue."""

    @property
    def type(self) -> TileType: ...
    @property
    def dtype(self) -> DataType: ...
    @property
    def addr(self) -> NativeScalar: ...
    @property
    def vr(self) -> NativeScalar: ...
    @property
    def vc(self) -> NativeScalar: ...

    def on(self, sub: int) -> NativeTile:
        """The same tile in the Vec memory of AIV `sub`, for tiles named by the cube core."""


class NativeTensor(Protocol):
    """A tensor operand: static type; extents and strides in elements."""

    @property
    def type(self) -> TensorType: ...
    @property
    def dtype(self) -> DataType: ...
    @property
    def dims(self) -> tuple[NativeScalar, ...]: ...
    @property
    def strides(self) -> tuple[NativeScalar, ...]: ...


Number: TypeAlias = "NativeScalar | int"
Source: TypeAlias = "NativeTile | NativeScalar | int | float"
Axes: TypeAlias = "tuple[int | None, int]"


class Builder(Protocol):
    """Emits the native function of one op."""

    # --- whole tiles; each returns None, or NotImplemented when it has no code for the operands ----------------------

    def elementwise(
        self, out: NativeTile, sources: Sequence[Source], compute: Callable[..., Lanes | None], *,
        rows: Number | None = None, cols: Number | None = None, scalar_dtype: DataType | None = None,
    ) -> Any:
        """out[i, j] = compute(sources[i, j]...) over the valid shape of `out` (or `rows` x `cols`).

        Numbers among the sources are converted to `scalar_dtype`, by default the dtype of `out`.
        """

    def reduce_rows(
        self, out: NativeTile, src: NativeTile, start: float | int, combine: Callable[[Lanes, Lanes], Lanes], *,
        tree: bool = False,
    ) -> Any:
        """out[i, 0] = the valid elements of row i of `src` combined.

        tree: in the device's order (halves of 256-byte blocks, blocks left to right, rounded each time); else any.
        """

    def reduce_cols(
        self, out: NativeTile, src: NativeTile, combine: Callable[[Lanes, Lanes], Lanes], *, paired: bool = False
    ) -> Any:
        """out[0, j] = the valid elements of column j of `src` combined; paired: row 0, rows 1 + 2, rows 3 + 4, ..."""

    def broadcast(
        self, out: NativeTile, full: NativeTile, part: NativeTile, dim: int, compute: Callable[[Lanes, Lanes], Lanes]
    ) -> Any:
        """out[i, j] = compute(full[i, j], part[i, 0]) for dim 0, compute(full[i, j], part[0, j]) for dim 1."""

    def copy_box(
        self, dst: NativeTile, target: Box, src: NativeTile, source: Box, *, transposed: bool = False,
        way_out: Exit | None = None,
    ) -> Any:
        """Copy elements between boxes of tiles of any layout; differing float dtypes convert, nearest even.

        transposed: target[j, i] = source[i, j]. `way_out`: what happens to accumulator values on the way.
        """

    def load_window(
        self, dst: NativeTile, src: NativeTensor, offsets: Sequence[Number], axes: Axes, rows: Number, cols: Number, *,
        fill_rows: Number, fill_cols: Number, fill: int = 0,
    ) -> Any:
        """dst[i, j] = window of `src` for i < rows, j < cols, and bits `fill` up to fill_rows x fill_cols."""

    def load_scales(
        self, dst: NativeTile, src: NativeTensor, offsets: Sequence[Number], axes: Axes, *, fill_rows: Number,
        fill_cols: Number,
    ) -> Any:
        """MX scales from a tensor whose last axis holds two groups, zeros up to fill_rows x fill_cols."""

    def store_window(
        self, dst: NativeTensor, offsets: Sequence[Number], axes: Axes, src: NativeTile, source: Box, *,
        add: bool = False, way_out: Exit | None = None,
    ) -> Any:
        """window of `dst` = box of `src`; `add`: atomic addition. `way_out`: what happens to accumulator values."""

    def matmul(
        self, dst: NativeTile, lhs: NativeTile, rhs: NativeTile, bias: NativeTile | None = None, *,
        scales: tuple[NativeTile, NativeTile] | None = None, accumulate: bool = False,
    ) -> Any:
        """dst = lhs @ rhs, plus `bias` over rows or the old `dst`, packed for the run-time m and n.

        scales: E8M0 factors of lhs and rhs, one for 32 elements of K.
        """

    # --- functions on lanes ------------------------------------------------------------------------------------------

    def max(self, lhs: Any, rhs: Any) -> Lanes:
        """Larger of two, NaN when either is."""

    def min(self, lhs: Any, rhs: Any) -> Lanes:
        """Smaller of two, NaN when either is."""

    def fma(self, a: Any, b: Any, c: Any) -> Lanes:
        """a * b + c, rounded once."""

    def exp(self, x: Lanes) -> Lanes:
        """e ** x."""

    def log(self, x: Lanes) -> Lanes:
        """Natural logarithm."""

    def sqrt(self, x: Lanes) -> Lanes:
        """Square root, correctly rounded."""

    def abs(self, x: Lanes) -> Lanes:
        """|x|."""

    def integral(self, x: Lanes, rule: RoundMode) -> Lanes | None:
        """FP32 lanes rounded to integral values."""

    def convert(
        self, lanes: Lanes, source: DataType, target: DataType, rule: RoundMode, saturate: bool, infinite_wraps: bool
    ) -> Lanes | None:
        """Conversion by the rules of numerics 4; None where there is no code for it."""

    # --- pieces for everything else ----------------------------------------------------------------------------------

    def require(self, *conditions: NativeScalar) -> None:
        """Go on where all hold, else run the op's meaning instead. Before anything is written."""

    def fits(self, tile: NativeTile, rows: Number, cols: Number) -> NativeScalar:
        """Whether [0, rows) x [0, cols) of an ND or DN tile lies inside its space."""

    def for_range(self, start: Number, stop: Number, step: int = 1) -> AbstractContextManager[NativeScalar]:
        """`for i in range(start, stop, step)`, step positive."""

    def if_(self, condition: NativeScalar) -> AbstractContextManager[None]:
        """`if condition:`."""

    def scalar(self, number: Number) -> NativeScalar:
        """An INDEX scalar."""

    def pointer(self, tile: NativeTile, offset: Number = 0) -> Any:
        """Host address of the element `offset` elements behind the tile's address."""

    def element(self, holder: NativeTile | NativeTensor, offset: Number) -> Any:
        """Host address of an element of the raw storage; requires that it lies in its memory."""

    def load_scalar(self, address: Any, dtype: DataType) -> NativeScalar:
        """One element from a host address."""

    def store_scalar(self, value: NativeScalar, address: Any, dtype: DataType) -> None:
        """One element to a host address."""

    def load(self, address: Any, dtype: DataType, count: int, left: Any = None, fill: Any = 0) -> Lanes:
        """`count` lanes from a host address; with `left` (from `vectors`) the first `left`, the others `fill`."""

    def store(self, value: Lanes, address: Any, dtype: DataType, left: Any = None) -> None:
        """Lanes to a host address; with `left` only the first `left`."""

    def vectors(self, count: int, length: NativeScalar, body: Callable[[NativeScalar, Any], None]) -> None:
        """`body(first, None)` for whole vectors of `count` in [0, length), `body(first, left)` for the rest."""

    def lanes_of(self, number: Any, dtype: DataType, count: int) -> Lanes:
        """A number, converted to `dtype`, in every lane."""

    def lane_count(self, *dtypes: DataType) -> int:
        """Lanes a loop over these dtypes should work on at a time."""

    def result(self, value: NativeScalar, index: int = 0) -> None:
        """Give the op's `index`-th result."""
