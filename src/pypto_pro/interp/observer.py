"""What an execution tells whoever watches it. The checks implement `Observer`; without one nothing is recorded.

Calls arrive in the order the simulator does things, one thread, never re-entrantly. For an instruction: `issued` when
the scalar unit appends it, `started` when its pipe begins it (reads happen here), `completed` when its effects are in
memory. A synchronisation instruction gets `issued`, then its own call (`flag_set`, `locked`, ...) instead of
`completed`. What S itself does (element access, S-side waits) has the same shape: an instruction of pipe S.

Matching is by index and never depends on the schedule: the n-th set of a flag with its n-th wait, mutex tickets in
issue order, the n-th credit of a counter with the n-th wait, rendezvous by arrival number.

Methods that a subclass does not override cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Core, Instr, Machine
    from pypto_pro.interp.result import RunResult
    from pypto_pro.interp.sites import IndexSite, NameSite, Site
    from pypto_pro.interp.sync import Counter, Credit, Flag, Mutex, UnitFlag
    from pypto_pro.ops.entry import Caution
    from pypto_pro.ops.overrun import Overrun


class Observer:
    """Override what you want to know. `instr.mark` is a free slot of yours on every instruction."""

    def launched(self, machine: Machine) -> None:
        """Before anything runs: `machine.cores`, `machine.storages`, `machine.launch`."""

    def issued(self, instr: Instr) -> None:
        """S appended it to its pipe. `instr.plan` is known except for vector functions and SIMT launches."""

    def started(self, instr: Instr) -> None:
        """An op begins on its pipe: sources are read now."""

    def completed(self, instr: Instr) -> None:
        """An op's effects are in memory; `instr.plan.footprints` says what it touched."""

    def out_of_bounds(self, instr: Instr, overrun: Overrun, site: Site) -> None:
        """An operand leaves its tensor or memory space; bytes outside were not touched.

        `site` is the op: the instruction's own, or one inside a vector function or SIMT launch.
        """

    def index_outside(self, core: Core, site: IndexSite, index: int, trips: tuple[int, ...]) -> None:
        """A run-time index lies outside the group, tuple or array it indexes; `trips` are the loops' values."""

    def used_without_value(self, core: Core, site: NameSite, trips: tuple[int, ...]) -> None:
        """The program uses a variable that nothing on its way gave a value; it counts as zero, or as an empty tile."""

    def cautioned(self, instr: Instr, caution: Caution) -> None:
        """An op runs, but something its author may rely on does not hold (`caution.kind`, `caution.message`)."""

    # --- flags, barriers, mutexes -----------------------------------------------------------------------------------

    def flag_set(self, instr: Instr, flag: Flag, index: int) -> None:
        """Set number `index` (from 0) of a flag. `flag.sets - flag.waits > 1` afterwards: set while still set."""

    def flag_waited(self, instr: Instr, flag: Flag, index: int, setter: Instr) -> None:
        """Wait number `index` took the set of the same index."""

    def barrier(self, instr: Instr) -> None:
        """`bar_<pipe>` passed, or `bar_all` when `instr.site.pipe` is S."""

    def locked(self, instr: Instr, mutex: Mutex, ticket: int, releaser: Instr | None) -> None:
        """Ticket granted; `releaser` is the unlock of the ticket before it (None for the first)."""

    def unlocked(self, instr: Instr, mutex: Mutex, ticket: int | None) -> None:
        """Ticket released; None: that pipe did not hold the mutex and nothing happened."""

    # --- across cores -----------------------------------------------------------------------------------------------

    def cross_set(self, instr: Instr, credits: tuple[Credit, ...]) -> None:
        """A SET took effect. Credits it made: one a target counter; for a rendezvous only the last arrival makes them.

        Empty also when nobody receives it (no such core in this kernel).
        """

    def cross_held(self, instr: Instr, counter: Counter) -> None:
        """A SET found 15 credits on a counter and waits for room. Once an instruction."""

    def cross_waited(self, instr: Instr, credit: Credit) -> None:
        """A WAIT took a credit (`credit.senders`: one SET, or all participants' of a rendezvous)."""

    def met(self, arrivals: tuple[Instr, ...]) -> None:
        """`sync_all`: these participants arrived; each passes now."""

    # --- matrix unit and its exit -----------------------------------------------------------------------------------

    def phase_passed(self, instr: Instr, unit_flag: UnitFlag, source: Instr | None) -> None:
        """An op with a phase found its unit flag as needed; `source` is the op that left it so. Before `started`."""

    # --- scalar data cache ------------------------------------------------------------------------------------------

    def line_filled(self, instr: Instr, first: int, size: int) -> None:
        """The core's scalar cache took a line of GM (host address, bytes) for this access."""

    def line_written_back(self, core: Core, instr: Instr | None, first: int, size: int) -> None:
        """Dirty bytes of a line went to GM: by `dcci` (the instruction), or None at kernel end."""

    def line_dropped(self, core: Core, instr: Instr, first: int, size: int) -> None:
        """`dcci` invalidated a line."""

    # --- registers --------------------------------------------------------------------------------------------------

    def undefined_bytes(self, instr: Instr, address: int, size: int) -> Any:
        """Which of some UB bytes are undefined: a bool array of `size`, or None when all are defined."""
        return None

    def undefined_used(self, instr: Instr, site: Site, lanes: int) -> None:
        """A register op computed with, or stored, `lanes` active lanes that hold undefined bytes."""

    # --- ends -------------------------------------------------------------------------------------------------------

    def core_ended(self, core: Core) -> None:
        """A core's program finished and its pipes are empty."""

    def ended(self, result: RunResult) -> None:
        """Nothing moves any more: everything finished, or `result.blocked` says who waits for what."""


class Calls:
    """An observer's overridden methods by name; None where the base class's would run."""

    def __init__(self, observer: Observer | None) -> None:
        for name in [n for n in vars(Observer) if not n.startswith("_")]:
            own = getattr(type(observer), name, None)
            watched = observer is not None and own is not getattr(Observer, name)
            setattr(self, name, getattr(observer, name) if watched else None)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
