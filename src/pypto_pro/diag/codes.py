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
    ("P009", "value", ERROR, "a kernel that the automatic pipeline cannot transform"),
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
    ("D103", "lost_load", WARNING, "loaded bytes, or a product, overwritten unread"),
    ("D104", "unwritten_output", WARNING, "output bytes a narrowed store left out"),
    ("D105", "stale_operand", WARNING, "a sum continued after it was stored"),
    ("D106", "stride_mismatch", WARNING, "producer and consumer use different pitches"),
    ("D107", "nan_born", NOTE, "where the first NaN or infinity was made"),
    ("D108", "wrapped_cast", NOTE, "a cast that wrapped values"),
    ("D109", "tie_rounding", NOTE, "a cast that rounded exact ties away from zero"),
    ("D110", "stale_capture", NOTE, "a module constant changed after compilation"),
    ("D111", "stale_box", NOTE, "a box round-up read bytes nobody wrote"),
    ("D112", "shape_mismatch", ERROR, "operands whose valid shapes do not fit together"),
    ("D113", "unflushed_store", ERROR, "the end of an unaligned store stream that never reaches its tile"),
    ("D114", "repeated_store", WARNING, "stores through a cursor that does not move"),
    ("D115", "narrow_form", WARNING, "a 64-bit operation on more columns than the device computes"),
    # M: placement (the layout report has its own L codes for the rows of its table)
    ("M101", "address_overlap", ERROR, "two live tiles share bytes without proof"),
    ("M102", "misaligned_slot", ERROR, "a slot off its space's alignment"),
    ("M103", "over_capacity", ERROR, "a slot past the end of its space"),
    ("M104", "mx_scale_address", ERROR, "a scale tile not at its data address >> 4"),
    ("M105", "bank_conflict", NOTE, "concurrent accesses to one L1 bank"),
    ("M106", "short_slot", WARNING, "a tile that reserves fewer bytes than it needs"),
    # L: the layout report, one row of its table at a time
    ("L001", "value", ERROR, "a plan file that cannot be read, or a field of it that makes no sense"),
    ("L101", "misaligned_slot", ERROR, "a slot off the alignment of its space"),
    ("L102", "placement", ERROR, "a negative slot address"),
    ("L103", "over_capacity", ERROR, "the highest end address of a space is past its capacity"),
    ("L104", "address_overlap", ERROR, "two slots share bytes without a proof that they may"),
    ("L105", "placement", ERROR, "a tile shape that is not made of positive compile-time integers"),
    ("L106", "placement", ERROR, "an address list whose length is not the depth of the group"),
    ("L107", "placement", ERROR, "a depth that differs from the number of mutex ids"),
    ("L108", "placement", ERROR, "a mutex id outside 0..31"),
    ("L109", "placement", ERROR, "the same mutex id twice in one slot"),
    ("L110", "placement", ERROR, "slots of one group with different numbers of mutex ids"),
    ("L111", "mx_scale_address", ERROR, "a scale slot that is not at its data address >> 4"),
    ("L112", "placement", ERROR, "an access reaches past the reservation of its tile"),
    ("L113", "placement", ERROR, "a tile in a space that holds no tiles"),
    ("L114", "placement", ERROR, "a tile size that is not a positive compile-time integer"),
    ("L115", "mx_scale_address", ERROR, "a scale tile with another number of slots than its data tile"),
    ("L116", "mx_scale_address", WARNING, "a scale tile without a data tile, or with two"),
    ("L120", "over_capacity", ERROR, "no placement fits the capacity"),
    ("L121", "bank_conflict", WARNING, "a bank separation the planner gave up"),
    ("L122", "placement", WARNING, "a planned reuse that needs a new mutex id, flag or cross-core edge"),
    ("L201", "placement", WARNING, "a tile size below what its shape needs"),
    ("L202", "placement", NOTE, "holes below the highest address"),
    ("L203", "bank_conflict", WARNING, "parallel accesses that meet in an L1 bank or bank group"),
    ("L204", "placement", WARNING, "a space whose alignment and capacity are not known"),
    ("L205", "placement", NOTE, "a sub-byte tile reserves twice its packed bytes"),
    ("L206", "placement", WARNING, "a shape that breaks the row rule of its layout"),
    ("L207", "placement", WARNING, "a proved overlap of slots with different mutex ids"),
    ("L208", "placement", NOTE, "slots that share a mutex id but no bytes"),
    ("L209", "placement", NOTE, "capacities taken from the snapshot of the chip"),
    ("L210", "placement", NOTE, "a slot that is never read"),
    ("L211", "placement", NOTE, "two slots overlap only in part"),
    ("L212", "placement", WARNING, "an order that was observed, not proved"),
    ("L213", "placement", NOTE, "a Bias tile, which the placement rules do not cover"),
    ("L214", "stride_mismatch", WARNING, "a tile of boxes written with one pitch and read with another"),
    # W: the host-wrapper audit; K: its knowledge record
    ("W101", "host_cast", ERROR, "a cast on the host"),
    ("W102", "host_view", ERROR, "a view or reshape on the host"),
    ("W103", "host_bit_view", ERROR, "a bit reinterpretation on the host"),
    ("W104", "host_axis_order", ERROR, "a change of the axis order on the host"),
    ("W105", "host_copy", ERROR, "a copy or device move on the host"),
    ("W106", "host_slice", ERROR, "a slice, index read or iteration of a tensor on the host"),
    ("W107", "host_join", ERROR, "a join, padding or repetition on the host"),
    ("W108", "host_creation", ERROR, "a tensor created by anything but torch.empty"),
    ("W109", "undeclared_output", ERROR, "a torch.empty that is no declared output"),
    ("W110", "host_read", ERROR, "tensor data read on the host"),
    ("W111", "host_sync", ERROR, "a device synchronisation in the wrapper"),
    ("W112", "host_compute", ERROR, "arithmetic or comparison with a tensor on the host"),
    ("W113", "host_write", ERROR, "a write into a tensor on the host"),
    ("W114", "unlisted_metadata", ERROR, "metadata of a tensor that is not on the list"),
    ("W115", "torch_call", ERROR, "a torch function other than torch.empty"),
    ("W116", "not_provable", ERROR, "a call that cannot be shown to stay inside the boundary"),
    ("W117", "array_library", ERROR, "a tensor handed to another array library"),
    ("W118", "autograd", ERROR, "autograd or a torch module around the launch"),
    ("W119", "unproven", WARNING, "an operator on a value that may or may not be a tensor"),
    ("W120", "no_launch", ERROR, "a path through the wrapper without a launch"),
    ("W121", "second_launch", ERROR, "a path through the wrapper with more than one launch"),
    ("W122", "launch_in_loop", ERROR, "a launch inside a host loop"),
    ("W123", "second_kernel", ERROR, "more than one kernel"),
    ("W124", "not_a_kernel", ERROR, "a launch of something that is no pl.jit kernel"),
    ("W130", "no_wrapper", ERROR, "a delivered file without its wrapper"),
    ("W140", "missing_default", ERROR, "a parameter that callers omit has no default"),
    ("W141", "unsafe_import", ERROR, "a module-level import that the delivery does not contain"),
    ("W142", "bypassed_wrapper", ERROR, "a test that launches the kernel itself"),
    ("W150", "design_violation", ERROR, "a design that plans work outside the boundary"),
    ("K201", "kb_usage", ERROR, "a knowledge record that is missing or cannot be read"),
    ("K202", "kb_usage", ERROR, "version, operator or class of the record differ from the selection"),
    ("K203", "kb_usage", ERROR, "a selected reference without an entry"),
    ("K204", "kb_usage", ERROR, "an entry whose reference is not selected or does not exist"),
    ("K205", "kb_usage", ERROR, "an invariant that says nothing"),
    ("K206", "kb_usage", ERROR, "a status an author may not write"),
    ("K207", "kb_usage", ERROR, "an implementation location that does not exist"),
    ("K208", "kb_usage", ERROR, "a justification is missing"),
    ("K209", "kb_usage", ERROR, "no entry for the wrapper-boundary constraint"),
    ("K210", "kb_usage", ERROR, "the boundary entry does not hold for the audited wrapper"),
    ("K211", "kb_usage", ERROR, "a selected reference changed after it was selected"),
    ("K212", "kb_usage", ERROR, "a claim of verification in generated code"),
)

CODES: dict[str, Code] = {row[0]: Code(*row) for row in _TABLE}
BY_KIND: dict[str, Code] = {}
for _code in CODES.values():
    BY_KIND.setdefault(_code.kind, _code)
