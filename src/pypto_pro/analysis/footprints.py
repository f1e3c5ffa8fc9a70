"""Byte regions: whether two of them meet, where first, and whether one covers the other.

A region is `rows` runs of `row_bytes` bytes, `pitch` apart. Everything here is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pypto_pro.layouts import Region


def plain(region: Region) -> Region:
    """The same bytes in one form: runs that touch are one run, and the pitch of a single run is its length."""
    start, rows, width, pitch = region.start, region.rows, region.row_bytes, region.pitch
    if rows > 1 and pitch <= width:
        width, rows = (rows - 1) * pitch + width, 1
    return Region(start, 1, width, width) if rows == 1 else Region(start, rows, width, pitch)


def end_of(region: Region) -> int:
    """One past its last byte."""
    return region.start + (region.rows - 1) * region.pitch + region.row_bytes


def size_of(region: Region) -> int:
    """Bytes of a plain region."""
    return region.rows * region.row_bytes


def runs(region: Region) -> Iterator[tuple[int, int]]:
    """Its byte ranges, ascending."""
    for k in range(region.rows):
        start = region.start + k * region.pitch
        yield start, start + region.row_bytes


def meeting_rows(region: Region, start: int, end: int) -> tuple[int, int]:
    """The rows [first, last) of a plain region that share bytes with [start, end)."""
    first = max((start - region.start - region.row_bytes) // region.pitch + 1, 0)
    last = min(-(-(end - region.start) // region.pitch), region.rows)
    return first, max(first, last)


def meets(a: Region, b: Region) -> bool:
    """Whether two plain regions share a byte."""
    if a.start >= end_of(b) or b.start >= end_of(a):
        return False
    if a.rows == 1 or b.rows == 1:
        flat, other = (a, b) if a.rows == 1 else (b, a)
        first, last = meeting_rows(other, flat.start, flat.start + flat.row_bytes)
        return first < last
    if a.pitch == b.pitch:
        return _same_pitch(a, b)
    few, many = (a, b) if a.rows <= b.rows else (b, a)
    return any(first < last for first, last in (meeting_rows(many, *run) for run in runs(few)))


def _same_pitch(a: Region, b: Region) -> bool:
    """Starts of rows are `shift - m * pitch` apart for some m; only the two nearest m can bring rows together."""
    shift = b.start - a.start
    nearest = shift // a.pitch
    for m in (nearest, nearest + 1):
        apart = shift - m * a.pitch  # start of b's row minus start of a's row
        if -b.row_bytes < apart < a.row_bytes and -b.rows < m < a.rows:
            return True
    return False


def shared(a: Region, b: Region) -> Iterator[tuple[int, int]]:
    """The byte ranges two plain regions have in common, ascending in the rows of `a`."""
    for start, end in runs(a):
        first, last = meeting_rows(b, start, end)
        for k in range(first, last):
            low = b.start + k * b.pitch
            yield max(start, low), min(end, low + b.row_bytes)


def covers(outer: Region, inner: Region) -> bool:
    """Whether every byte of `inner` lies in `outer`; both plain."""
    if outer.start > inner.start or end_of(inner) > end_of(outer):
        return False
    if outer.rows == 1:
        return True
    if inner.rows > 1 and inner.pitch != outer.pitch:
        return False  # rows would have to be compared one by one; callers only lose an optimisation
    row, offset = divmod(inner.start - outer.start, outer.pitch)
    return offset + inner.row_bytes <= outer.row_bytes and row + inner.rows <= outer.rows


def union(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Byte ranges, merged and ascending."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def without(ranges: Iterable[tuple[int, int]], taken: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of `ranges` outside `taken`."""
    found: list[tuple[int, int]] = []
    cuts = union(taken)
    for start, end in union(ranges):
        for low, high in cuts:
            if high <= start or low >= end:
                continue
            if low > start:
                found.append((start, low))
            start = max(start, high)
            if start >= end:
                break
        if start < end:
            found.append((start, end))
    return found
