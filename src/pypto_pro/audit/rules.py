"""The rules of the host-wrapper boundary: one entry a code, with its failure class, its words and the in-kernel
replacement.
"""

from __future__ import annotations

from dataclasses import dataclass

BOUNDARY, CHEATING = "wrapper_boundary_violation", "cheating"
KNOWLEDGE, SIGNATURE = "kb_usage_invalid", "signature_mismatch"
IMPORT, DESIGN = "delivery_import_unsafe", "design_violation"
# Which class a report with several failures is filed under, the gravest first.
PRECEDENCE = (DESIGN, CHEATING, BOUNDARY, KNOWLEDGE, SIGNATURE, IMPORT)

GATE = (
    "the conversion exists on chip only where the platform's support table lists it: confirm the target first; "
    "without it the design is blocked and has to be escalated"
)


@dataclass(frozen=True)
class Rule:
    """One code: `phrase` completes the sentence "`expression` ...", `item` is the allow-list item it breaks."""

    code: str
    category: str
    phrase: str
    item: str
    help: str
    gated: bool = False


_ONLY_METADATA = (
    "A2: a wrapper reads shape, ndim, dim(), size(), stride(), dtype, device, layout, numel() and storage_offset(), "
    "nothing else"
)
_ONLY_EMPTY = "A4: `torch.empty` is the only torch function a wrapper may call, and only for declared outputs"
_ONE_LAUNCH = "A5: a wrapper launches one kernel, exactly once on every path, never inside a host loop"
_NO_TENSOR_OP = "A1-A5 name everything a wrapper may do; an operation on a tensor is not among it, free or not"

_TABLE = (
    Rule(
        "W101",
        BOUNDARY,
        "casts on the host",
        _NO_TENSOR_OP,
        "load in the native dtype and convert on chip: `pl.cast` on tiles, or `vf.astype` in a vector function",
        True,
    ),
    Rule(
        "W102",
        BOUNDARY,
        "makes a view or reshapes on the host",
        _NO_TENSOR_OP,
        "pass the real shape and compute the flat offset in the kernel",
    ),
    Rule(
        "W103",
        BOUNDARY,
        "reinterprets the bits on the host",
        _NO_TENSOR_OP,
        "`pl.Ptr` parameters are not dtype-checked: read the same bytes under another dtype inside the kernel",
    ),
    Rule(
        "W104",
        BOUNDARY,
        "changes the axis order on the host",
        _NO_TENSOR_OP,
        "pass the strides as integers and index the axis in the tile loop: `pl.make_tensor` with explicit strides",
    ),
    Rule(
        "W105",
        BOUNDARY,
        "copies or moves on the host",
        _NO_TENSOR_OP,
        "pass the strides as integers; use a strided transfer, or fold the stride into the loop bounds",
    ),
    Rule(
        "W106",
        BOUNDARY,
        "reads a part of the tensor on the host",
        _NO_TENSOR_OP,
        "pass the whole tensor and an offset argument; add the offset to the base in the kernel",
    ),
    Rule(
        "W107",
        BOUNDARY,
        "joins, pads or repeats on the host",
        _NO_TENSOR_OP,
        "pass all operands and select inside the loop; for a tail use `pl.set_validshape` instead of padding",
    ),
    Rule(
        "W108",
        BOUNDARY,
        "creates a tensor",
        _ONLY_EMPTY,
        "allocate with `torch.empty` and write every output element in the kernel; "
        "compute indices and masks arithmetically there",
    ),
    Rule(
        "W109",
        BOUNDARY,
        "allocates something that is not a declared output",
        _ONLY_EMPTY,
        "drop the allocation: keep intermediate data on chip, or make it an argument of the contract",
    ),
    Rule(
        "W110",
        BOUNDARY,
        "reads tensor data on the host",
        _ONLY_METADATA,
        "decide on metadata and Python arguments here, and read the data inside the kernel",
    ),
    Rule("W111", BOUNDARY, "synchronises with the device", _NO_TENSOR_OP, "delete it; the caller synchronises"),
    Rule(
        "W112",
        CHEATING,
        "computes with a tensor on the host",
        _NO_TENSOR_OP,
        "do the arithmetic in the kernel, on tiles or in a vector function",
    ),
    Rule(
        "W113",
        BOUNDARY,
        "writes into a tensor on the host",
        _NO_TENSOR_OP,
        "write every output element in the kernel, or initialise there",
    ),
    Rule(
        "W114",
        BOUNDARY,
        "reads metadata that is not on the list",
        _ONLY_METADATA,
        "use shape, ndim, dim(), size(), stride(), dtype, device, layout, numel() or storage_offset(); "
        "pass the strides as integers and let the kernel handle every layout",
    ),
    Rule(
        "W115",
        BOUNDARY,
        "calls a torch function other than `torch.empty`",
        _ONLY_EMPTY,
        "compare attributes or use plain Python; streams, grad modes and profilers belong to the caller",
    ),
    Rule(
        "W116",
        BOUNDARY,
        "cannot be shown to stay inside the boundary",
        _NO_TENSOR_OP,
        "inline it, or move it into this file, so that the audit can follow it",
    ),
    Rule(
        "W117",
        BOUNDARY,
        "hands the tensor to another array library",
        _NO_TENSOR_OP,
        "derive what you need from metadata, or compute it in the kernel",
    ),
    Rule(
        "W118",
        BOUNDARY,
        "wraps the launch into autograd or a module",
        _NO_TENSOR_OP,
        "call the kernel directly; differentiation and modules belong to the caller",
    ),
    Rule(
        "W120",
        BOUNDARY,
        "is reached without a launch",
        _ONE_LAUNCH,
        "launch on every path and let the kernel's loop run zero times; raise where the arguments are illegal",
    ),
    Rule(
        "W121",
        CHEATING,
        "is reached after more than one launch",
        _ONE_LAUNCH,
        "move the second step into the kernel and launch once",
    ),
    Rule(
        "W122",
        CHEATING,
        "launches inside a host loop",
        _ONE_LAUNCH,
        "expand the list into fixed slots (addresses and shapes as parameters), launch once, iterate inside the kernel",
    ),
    Rule(
        "W123",
        CHEATING,
        "makes a second kernel part of the operator",
        _ONE_LAUNCH,
        "select inside one kernel: by a `tiling_key`, a `datatype` variable or a run-time parameter",
    ),
    Rule(
        "W124",
        CHEATING,
        "is launched but is no `@pl.jit` kernel",
        _ONE_LAUNCH,
        "write the kernel with `@pl.jit` of `pypto_pro.language`",
    ),
    Rule(
        "W130",
        BOUNDARY,
        "has no wrapper",
        "the delivered callable is `<op>_wrapper`",
        "name the public callable `<op>_wrapper`",
    ),
    Rule(
        "W140",
        SIGNATURE,
        "has no default",
        "what the reference lets a caller omit, the wrapper lets him omit",
        "give the parameter the default of the reference",
    ),
    Rule(
        "W141",
        IMPORT,
        "is imported at module level",
        "a delivered file imports the standard library, torch, torch_npu, numpy, pypto_pro and its golden",
        "import development helpers inside the function that needs them",
    ),
    Rule(
        "W142",
        SIGNATURE,
        "launches the kernel itself",
        "tests of a delivered file call the wrapper",
        "call the wrapper: what is tested must be what is delivered",
    ),
    Rule(
        "W150",
        DESIGN,
        "plans work outside the boundary",
        "no document can waive a rule of the boundary",
        "express the step in the kernel, or report the design as blocked with evidence",
    ),
)
RULES: dict[str, Rule] = {rule.code: rule for rule in _TABLE}

_CREATION_HELP = {
    "arange": "compute the index arithmetically in the kernel",
    "zeros": "allocate with `torch.empty`; write every output element in the kernel, or initialise there",
    "zeros_like": "allocate with `torch.empty`; write every output element in the kernel, or initialise there",
    "tril": "compute the mask arithmetically in the kernel",
    "triu": "compute the mask arithmetically in the kernel",
    "empty_like": "call `torch.empty` with the shape, dtype and device spelled out",
    "new_empty": "call `torch.empty` with the shape, dtype and device spelled out",
    "empty_strided": "call `torch.empty` with the shape, dtype and device spelled out",
}
_MEMBER_HELP = {
    ("W102", "detach"): "pass the tensor as it is: a kernel launch records no gradient",
    ("W105", "cpu"): "leave the tensor where it is; the caller moves it",
    ("W105", "cuda"): "leave the tensor where it is; the caller moves it",
    ("W105", "npu"): "leave the tensor where it is; the caller moves it",
    ("W105", "clone"): "pass the tensor itself: a kernel does not write its inputs",
    ("W107", "pad"): "`pl.set_validshape` for the tail (and fill on chip where the op needs it) instead of padding",
    ("W107", "cat"): "pass all operands and select inside the loop",
    ("W114", "__len__"): "write `x.shape[0]`",
    ("W114", "len"): "write `x.shape[0]`",
    ("W114", "data_ptr"): "let the kernel take any address it accepts; `storage_offset()` is listed",
    ("W115", "numel"): "write `x.numel()`",
    ("W115", "is_tensor"): "write `isinstance(x, torch.Tensor)`",
    ("W115", "current_stream"): "launch on `None`: it means the current stream",
}


def help_for(code: str, member: str, *, after_launch: bool) -> str:
    """The in-kernel replacement for one finding. `member` is the last component of what was used."""
    if code == "W101" and after_launch:
        return "convert per tile before `pl.store`: `pl.cast` on tiles, or `vf.astype` in a vector function"
    if code == "W108" and member in _CREATION_HELP:
        return _CREATION_HELP[member]
    return _MEMBER_HELP.get((code, member), RULES[code].help)


def main_category(categories: list[str]) -> str | None:
    """The gravest failure class among those found."""
    return next((c for c in PRECEDENCE if c in categories), None)
