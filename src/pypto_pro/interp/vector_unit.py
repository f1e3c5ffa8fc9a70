"""The vector unit during a vector-function call: registers, UB accesses, cursors, undefined lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro.enums import MemorySpace, MergeMode
from pypto_pro.interp.calls import TRIP_LIMIT, EndlessLoop, MemBar, RegisterAccess
from pypto_pro.interp.declare import stores_of
from pypto_pro.interp.memory import POISON, SimTile
from pypto_pro.interp.sites import Site
from pypto_pro.interp.streams import Streams
from pypto_pro.ir.types import AddrRegType, MaskType, RegType, UnalignRegType
from pypto_pro.ops.entry import Effect, Kind, OpEntry, Operand, Role
from pypto_pro.ops.overrun import Overrun
from pypto_pro.ops.vf_operands import AddrArg, Array, Bits, MaskArg, RegArg, RegisterType, UnalignArg

if TYPE_CHECKING:
    from pypto_pro.interp.calls import Event
    from pypto_pro.interp.machine import Core, Instr


@dataclass(slots=True, eq=False)
class RegisterSite(Site):
    """One register op in the text of a vector function."""

    entry: OpEntry = field(kw_only=True)
    attrs: dict[str, Any] = field(kw_only=True)
    targets: tuple[RegisterType, ...] = field(kw_only=True)
    sources: tuple[Any, ...] = field(kw_only=True)
    """Types of the operands, None for absent ones."""
    staging: int = field(init=False)
    """Position of the staging register among the operands; negative without one."""
    stored: int = field(init=False)
    """Position of the tile it stores to; negative when it stores to none."""

    def __post_init__(self) -> None:
        Site.__post_init__(self)
        found = (k for k, type_ in enumerate(self.sources) if isinstance(type_, UnalignRegType))
        self.staging = next(found, -1)
        tiles = (k for k, p in enumerate(self.entry.data_params) if _is_stored_to(p.spec))
        self.stored = next(tiles, -1)


def undefined_value(type_: RegisterType) -> Any:
    """What a register holds before anything wrote it."""
    match type_:
        case RegType(dtype):
            return RegArg(dtype, np.full(256, POISON, np.uint8).view(dtype.numpy), np.ones(256, np.bool_))
        case MaskType():
            return MaskArg(np.zeros(256, np.bool_))
        case AddrRegType(dtype):
            return AddrArg(dtype, 0)
        case UnalignRegType():
            return UnalignArg()


def wrap(type_: RegisterType, value: Any) -> Any:
    """The result of a meaning as a value of its target."""
    if not isinstance(value, np.ndarray):
        return value
    if isinstance(type_, MaskType):
        return MaskArg(value)
    assert isinstance(type_, RegType)
    wanted = type_.dtype.numpy
    if value.dtype is not wanted:
        value = np.ascontiguousarray(value).view(wanted)
    return RegArg(type_.dtype, value)


class VectorUnit:
    """One per vector core; `begin` starts a call."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.ub = stores_of(core, MemorySpace.Vec)[0]
        self.tracks = core.machine.calls.undefined_bytes is not None
        self.old: tuple[Any, ...] = ()
        self.targets: tuple[RegisterType, ...] = ()
        self.sources: tuple[Any, ...] = ()
        self.recording = False
        self.data_dependent = False
        self.trace: list[Event] = []
        self.streams = Streams()
        self.asked: tuple[int, int] | None = None
        """The cursor the op at hand asked for."""
        self.cursors: dict[tuple[int, int], int] = {}
        self.trips = 0
        self.mask = (False, 0, 0)
        """The mask special register as it was at issue."""
        self.instr: Instr
        self.site: RegisterSite
        self._undefined_load = False
        self._plane = False

    def begin(self, instr: Instr, recording: bool) -> None:
        """A new call: fresh cursors, an empty trace."""
        self.instr = instr
        self.recording = recording
        self.data_dependent = False
        self.trace = []
        self.streams = Streams()
        self.cursors = {}
        self.trips = 0

    def trip(self) -> None:
        """One trip of a `while` loop."""
        self.trips += 1
        if self.trips > TRIP_LIMIT:
            raise EndlessLoop(self.instr)

    def op(self, site: RegisterSite, args: tuple[Any, ...], old: tuple[Any, ...]) -> Any:
        """Carry out a register op; its result, or a tuple of results."""
        self.site = site
        self.old = old
        self.targets = site.targets
        self.sources = site.sources
        self._undefined_load = False
        if self.recording and any(map(_is_data_mask, args)) and any(isinstance(a, SimTile) for a in args):
            self.data_dependent = True
        meaning = site.entry.meaning
        assert meaning is not None
        before = self.cursors.copy() if self.cursors else {}
        held = self._held(site, args)
        self.asked = None
        result = meaning(self, *args, **site.attrs)
        if self.recording and site.stored >= 0:
            moved = self.asked is not None and self.cursors.get(self.asked, 0) != before.get(self.asked, 0)
            self.streams.stored(site, args, self.asked, moved=moved)
        targets = site.targets
        if len(targets) == 1:
            made = wrap(targets[0], result)
        elif targets:
            made = tuple(wrap(t, r) for t, r in zip(targets, result, strict=True))
        else:
            made = None
        if self.recording and any(isinstance(t, MaskType) for t in targets):
            from_data = any(isinstance(a, RegArg | SimTile) or _is_data_mask(a) for a in args)
            for value in made if isinstance(made, tuple) else (made,):
                if isinstance(value, MaskArg):
                    value.from_data = from_data
        if self.tracks and (self._undefined_load or any(map(_is_undefined, args)) or _merges(site, old)):
            self._follow_undefined(site, args, made, before, held)
        return made

    @staticmethod
    def _held(site: RegisterSite, args: tuple[Any, ...]) -> tuple[NDArray[np.uint8], int] | None:
        """What the staging register holds now: bytes and their address."""
        if site.staging < 0:
            return None
        staging = args[site.staging]
        return staging.pending, staging.address

    # --- undefined lanes ----------------------------------------------------------------------------------------

    def _follow_undefined(
        self, site: RegisterSite, args: tuple[Any, ...], made: Any, before: dict[tuple[int, int], int],
        held: tuple[NDArray[np.uint8], int] | None,
    ) -> None:  # fmt: skip
        """Undefined bytes travel through copies; computing with active ones is reported.

        A copy is done a second time on planes, from the cursors and the staging register it began with.
        """
        used = self._used(site, args)
        if not site.entry.copies:
            self._report_used(site, args, used)
            self._keep_undefined(site, args, made)
            return
        meaning = site.entry.meaning
        assert meaning is not None
        selects = [p.spec.selects for p in site.entry.data_params]  # type: ignore[union-attr]
        self._report_used(site, tuple(a if s else None for a, s in zip(args, selects, strict=True)), used)
        cursors, ar, dependent = self.cursors, self.ar, self.data_dependent
        after = self._held(site, args)
        if held is not None:
            self._hold(site, args, (np.zeros_like(held[0]), held[1]))
        self._plane, self.cursors = True, dict(before)
        self.old = tuple(map(_plane_of, self.old))
        plane = _plane_of if any(isinstance(a, SimTile) for a in args) else _pure_plane  # numbers: offsets, or values
        planes = (a if s else plane(a) for a, s in zip(args, selects, strict=True))
        try:
            result = meaning(self, *planes, **site.attrs)
        finally:
            self._plane = False
            if after is not None:  # bytes that wait count as used: they reach UB without a further look
                self._report(site, int(args[site.staging].pending.astype(np.bool_).sum()))
            self.cursors, self.ar, self.data_dependent = cursors, ar, dependent
            self._hold(site, args, after)
        results = result if isinstance(result, tuple) else (result,)
        for value, made_of in zip(made if isinstance(made, tuple) else (made,), results, strict=True):
            if isinstance(value, RegArg):
                where = wrap(RegType(value.dtype), made_of).bytes != 0
                value.undefined = where if where.any() else None

    @staticmethod
    def _hold(site: RegisterSite, args: tuple[Any, ...], held: tuple[NDArray[np.uint8], int] | None) -> None:
        """Put bytes back into the staging register."""
        if held is not None:
            args[site.staging].pending, args[site.staging].address = held

    def _used(self, site: RegisterSite, args: tuple[Any, ...]) -> dict[str, Bits]:
        """Bytes of the operands whose values the op uses, by its own rule; the others: active lanes."""
        facet = site.entry.facets.get("consumes")
        return {} if facet is None else facet(**site.entry.bind(args, tuple(site.attrs.items())))

    def _report_used(self, site: RegisterSite, args: tuple[Any, ...], used: dict[str, Bits]) -> None:
        masks = [a for a in args if isinstance(a, MaskArg)]
        named = [(p.name, a) for p, a in zip(site.entry.data_params, args, strict=True)]
        if site.entry.reads_target:
            named += [("", value) for value in self.old]
        for name, reg in named:
            if isinstance(reg, RegArg) and reg.undefined is not None:
                if name in used:
                    lanes = (reg.undefined & used[name]).reshape(-1, reg.width).any(axis=1)
                else:
                    lanes = reg.undefined.reshape(-1, reg.width).any(axis=1)
                    lanes = lanes & masks[-1].lanes(reg.width) if masks else lanes
                self._report(site, int(lanes.sum()))

    def _keep_undefined(self, site: RegisterSite, args: tuple[Any, ...], made: Any) -> None:
        """Inactive lanes that merging leaves as they were stay undefined."""
        merges = site.attrs.get("mode") is MergeMode.MERGING
        if merges and isinstance(made, RegArg) and any(map(_is_undefined, self.old)):
            inactive = ~np.repeat(args[-1].lanes(made.width), made.width)
            where = self.old[0].undefined & inactive
            made.undefined = where if where.any() else None

    def _report(self, site: RegisterSite, lanes: int) -> None:
        if lanes and self.core.machine.calls.undefined_used is not None:
            self.core.machine.calls.undefined_used(self.instr, site, lanes)

    # --- what meanings call -------------------------------------------------------------------------------------

    @property
    def ar(self) -> int:
        """The AR register."""
        return self.core.vector_state.ar

    @ar.setter
    def ar(self, count: int) -> None:
        self.core.vector_state.ar = count

    def mask_spr(self) -> tuple[bool, int, int]:
        """(count mode?, high 64 bits, low 64 bits)."""
        return self.mask

    def depends_on_data(self) -> None:
        """Never replay this call's trace."""
        self.data_dependent = True

    def barrier(self, mode: Any) -> None:
        """`mem_bar`."""
        if self.recording:
            self.trace.append(MemBar(self.site, mode))

    def cursor(self, tile: SimTile) -> int:
        """Where the post-update cursor of a tile expression stands."""
        self.asked = (id(tile.root or tile), tile.shift)
        return self.cursors.get(self.asked, 0)

    def advance(self, tile: SimTile, count: int) -> None:
        """Move it on."""
        key = (id(tile.root or tile), tile.shift)
        self.cursors[key] = self.cursors.get(key, 0) + count

    def load(self, tile: SimTile, start: int, size: int, align: int = 1) -> NDArray[np.uint8]:
        """Fresh bytes of UB; poison outside it."""
        address = tile.addr + start
        if self.tracks:
            undefined = self.core.machine.calls.undefined_bytes(self.instr, address, size)
            self._undefined_load = self._undefined_load or undefined is not None
            if self._plane:
                return np.zeros(size, np.uint8) if undefined is None else undefined.astype(np.uint8) * np.uint8(255)
        limit = self.ub.capacity
        if address >= 0 and address + size <= limit:
            data = self.ub.mem[address : address + size].copy()
        else:
            data = np.full(size, POISON, np.uint8)
            low, high = max(address, 0), min(address + size, limit)
            if low < high:
                data[low - address : high - address] = self.ub.mem[low:high]
            self._outside(tile, Effect.READ, address, size)
        if self.recording:
            low, high = max(address, tile.reserved[0]), min(address + size, tile.reserved[1])
            self._record(tile, Effect.READ, low, max(high - low, 0), None, align)
        return data

    def store(
        self, tile: SimTile, start: int, data: Array, where: Bits | None = None, align: int = 1
    ) -> None:
        """Bytes into UB; those outside are dropped."""
        raw = np.ascontiguousarray(data).view(np.uint8)
        if self._plane:
            used = raw.astype(np.bool_) if where is None else raw.astype(np.bool_) & where
            self._report(self.site, int(used.sum()))
            return
        address, size, limit = tile.addr + start, raw.size, self.ub.capacity
        if address < 0 or address + size > limit:
            inside = np.arange(address, address + size)
            keep = (inside >= 0) & (inside < limit) & (True if where is None else where)
            if (~keep & (True if where is None else where)).any():
                self._outside(tile, Effect.WRITE, address, size)
            self.ub.mem[inside[keep]] = raw[keep]
            where = keep
        elif where is None:
            self.ub.mem[address : address + size] = raw
        else:
            np.copyto(self.ub.mem[address : address + size], raw, where=where)
        if self.recording:
            self._record(tile, Effect.WRITE, address, size, where, align)

    def gather(self, tile: SimTile, starts: Array, size: int) -> NDArray[np.uint8]:
        """Bytes at offsets that come from data, one access; poison outside UB."""
        if not starts.size:
            return np.zeros((0, size), np.uint8)
        low, span = int(starts.min()), int(starts.max() - starts.min()) + size
        places = np.asarray(starts)[:, None] + np.arange(size)
        if self.tracks:
            undefined = self.core.machine.calls.undefined_bytes(self.instr, tile.addr + low, span)
            self._undefined_load = self._undefined_load or undefined is not None
            if self._plane:
                plane = np.zeros(span, np.uint8) if undefined is None else undefined.astype(np.uint8) * np.uint8(255)
                return plane[places - low]
        address = tile.addr + places
        inside = (address >= 0) & (address < self.ub.capacity)
        found = np.where(inside, self.ub.mem[np.where(inside, address, 0)], np.uint8(POISON))
        if not inside.all():
            self._outside(tile, Effect.READ, tile.addr + low, span)
        if self.recording:
            self._record_places(tile, Effect.READ, address[inside])
        return found

    def scatter(self, tile: SimTile, starts: Array, data: Array) -> None:
        """Bytes to offsets that come from data, one access; those outside UB are dropped."""
        raw = np.ascontiguousarray(data).view(np.uint8).reshape(len(starts), -1)
        if self._plane:
            self._report(self.site, int((raw != 0).sum()))
            return
        if not starts.size:
            return
        address = (tile.addr + np.asarray(starts)[:, None] + np.arange(raw.shape[1]))[::-1]  # the first row is last
        inside = (address >= 0) & (address < self.ub.capacity)
        self.ub.mem[address[inside]] = raw[::-1][inside]
        if not inside.all():
            self._outside(tile, Effect.WRITE, int(address.min()), int(address.max() - address.min()) + 1)
        if self.recording:
            self._record_places(tile, Effect.WRITE, address[inside])

    def _record_places(self, tile: SimTile, effect: Effect, places: Array) -> None:
        """An access of scattered bytes, as one range with the bytes it touches."""
        if not places.size:
            return
        low = int(places.min())
        where = np.zeros(int(places.max()) - low + 1, np.bool_)
        where[places - low] = True
        self._record(tile, effect, low, where.size, where, 1)

    def _record(
        self, tile: SimTile, effect: Effect, address: int, size: int, where: Bits | None, align: int
    ) -> None:
        self.trace.append(RegisterAccess(self.site, tile.name, effect, self.ub, address, size, where, align))

    def _outside(self, tile: SimTile, effect: Effect, address: int, size: int) -> None:
        overrun = Overrun(tile.name, tile.name, effect, address, address + size, self.ub.capacity, self.ub.name)
        self.core.machine.engine.overran(self.instr, overrun, self.site)


def _is_stored_to(spec: Any) -> bool:
    return isinstance(spec, Operand) and Kind.TILE in spec.kinds and spec.role is not Role.IN


def _is_undefined(operand: Any) -> bool:
    return isinstance(operand, RegArg) and operand.undefined is not None


def _is_data_mask(operand: Any) -> bool:
    return isinstance(operand, MaskArg) and operand.from_data


def _merges(site: RegisterSite, old: tuple[Any, ...]) -> bool:
    """Whether the target's old bytes are an operand, or may stay, and some are undefined."""
    keeps = site.entry.copies or site.entry.reads_target or site.attrs.get("mode") is MergeMode.MERGING
    return keeps and any(map(_is_undefined, old))


def _pure_plane(operand: Any) -> Any:
    """As `_plane_of`; a number, which is defined, becomes 0."""
    return 0 if isinstance(operand, int | float) else _plane_of(operand)


def _plane_of(operand: Any) -> Any:
    """A register operand as a plane: 0xFF where its bytes are undefined."""
    if not isinstance(operand, RegArg):
        return operand
    plane = np.zeros(256, np.uint8)
    if operand.undefined is not None:
        plane[operand.undefined] = 255
    return RegArg(operand.dtype, plane.view(operand.dtype.numpy))
