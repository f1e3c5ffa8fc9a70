"""Every stable code: its kind, usual severity and a one-line meaning. `pypto-pro explain CODE` shows more."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_pro.diag.diagnostic import Severity

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


@dataclass(frozen=True)
class Code:
    """A registered code."""

    code: str
    kind: str
    severity: Severity
    meaning: str


_TABLE = (
    # P: what the front end and the launch reject
    ("P001", "syntax", ERROR, "a construct the kernel language does not have"),
    ("P002", "type", ERROR, "a value of the wrong type or kind"),
    ("P003", "value", ERROR, "a value outside what an operation accepts"),
    ("P004", "syntax", ERROR, "a name that is not defined"),
    ("P005", "syntax", ERROR, "a Python feature outside the subset"),
    ("P006", "syntax", ERROR, "an operation used in a way it does not support"),
    ("P007", "type", ERROR, "a compile-time constant or an enum member is required"),
    ("P008", "syntax", ERROR, "an error raised while the kernel was read"),
    ("P020", "type", ERROR, "a launch argument of the wrong type or dtype"),
    ("P021", "value", ERROR, "a launch argument of the wrong rank, shape, size or strides"),
    # S: synchronisation
    ("S101", "race", ERROR, "unordered conflicting accesses"),
    ("S102", "deadlock", ERROR, "nobody can move"),
    ("S103", "livelock", ERROR, "a polling loop that cannot end"),
    ("S104", "leftover_flag", ERROR, "a flag, mutex or credit still set at kernel end"),
    ("S105", "set_of_set_flag", ERROR, "a set that may meet a flag that is still set"),
    ("S106", "mutex", ERROR, "unlock of what is not held, or lock twice"),
    ("S107", "counter_overflow", ERROR, "more than 15 credits outstanding on a cross-core counter"),
    ("S108", "unicast_mapping", ERROR, "a UNICAST id without, or with a wrong, +16"),
    ("S109", "mode_mismatch", ERROR, "a wait takes a credit of another mode"),
    ("S110", "reserved_event_id", ERROR, "an id that sync_all or the pipeline uses itself"),
    ("S111", "sync_id", ERROR, "an event, mutex or counter id out of range"),
    ("S112", "residency", ERROR, "an all-core rendezvous with more blocks than cores"),
    ("S113", "waw_hazard", WARNING, "overlapping writes of one DMA pipe without a barrier"),
    ("S114", "identical_write", WARNING, "unordered writes of equal bytes"),
    ("S115", "coherence", ERROR, "scalar accesses across cores without dcci"),
    ("S116", "mem_bar", ERROR, "aliasing register accesses without vf.mem_bar"),
    ("S117", "no_lock", NOTE, "a tile that auto_mutex does not lock"),
    # D: data
    ("D101", "uninitialised_read", ERROR, "bytes read before anybody wrote them"),
    ("D102", "out_of_bounds", ERROR, "bytes past a tensor or a memory space"),
    ("D103", "lost_load", WARNING, "loaded bytes overwritten unread"),
    ("D104", "unwritten_output", WARNING, "output bytes a narrowed store left out"),
    ("D105", "stale_operand", WARNING, "a sum continued after it was stored"),
    ("D106", "stride_mismatch", WARNING, "producer and consumer use different pitches"),
    ("D107", "nan_born", NOTE, "where the first NaN or infinity was made"),
    ("D108", "wrapped_cast", NOTE, "a cast that wrapped values"),
    ("D109", "tie_rounding", NOTE, "a cast that rounded exact ties away from zero"),
    ("D110", "stale_capture", NOTE, "a module constant changed after compilation"),
    ("D111", "stale_box", NOTE, "a box round-up read bytes nobody wrote"),
    # M: placement (the layout report has its own L codes for the rows of its table)
    ("M101", "address_overlap", ERROR, "two live tiles share bytes without proof"),
    ("M102", "misaligned_slot", ERROR, "a slot off its space's alignment"),
    ("M103", "over_capacity", ERROR, "a slot past the end of its space"),
    ("M104", "mx_scale_address", ERROR, "a scale tile not at its data address >> 4"),
    ("M105", "bank_conflict", NOTE, "concurrent accesses to one L1 bank"),
)

CODES: dict[str, Code] = {row[0]: Code(*row) for row in _TABLE}
BY_KIND: dict[str, Code] = {}
for _code in CODES.values():
    BY_KIND.setdefault(_code.kind, _code)
