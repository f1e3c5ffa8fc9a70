"""LLVM set-up: the host target, module -> object code, object code -> callable addresses.

Every module is compiled on its own to an object (cached by `objects`), loaded once a process, and finds the functions
of other modules by name. llvmlite is imported by the first compilation, not before.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from pypto_pro.native import objects


@dataclass(frozen=True)
class Host:
    """What the code generator needs to know about this CPU."""

    name: str
    features: str
    arch: str
    has_half_conversion: bool
    """Vector conversions between half and single precision are instructions."""
    has_fma: bool
    has_byte_masks: bool
    """Masked loads and stores exist for 8- and 16-bit elements."""
    fp32_lanes: int
    """FP32 elements in one vector register."""

    @property
    def half_lanes(self) -> int:
        """FP16 elements a loop converts at a time: Zen 4 is slower at conversions of whole registers."""
        return 8 if self.name == "znver4" else 2 * self.fp32_lanes

    @property
    def key(self) -> str:
        """Everything outside the module text that decides what object code comes out."""
        return f"{self.name} {self.features} llvm{llvm.llvm_version_info} llvmlite{llvmlite.__version__} opt2 passes1"


@cache
def host() -> Host:
    """The CPU this process runs on."""
    _initialise()
    features = llvm.get_host_cpu_features()
    arch = llvm.get_process_triple().split("-")[0]
    has = {name for name, on in features.items() if on}
    on_arm = arch in ("aarch64", "arm64")
    wide = {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= has
    return Host(
        name=llvm.get_host_cpu_name(),
        features=features.flatten(),
        arch=arch,
        has_half_conversion=on_arm or "f16c" in has,
        has_fma=on_arm or "fma" in has,
        has_byte_masks=wide,
        fp32_lanes=16 if wide else 8 if "avx2" in has else 4,
    )


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _target_machine(opt: int = 2) -> Any:
    machine = host()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=machine.name, features=machine.features, opt=opt, reloc="pic", codemodel="small", jit=True
    )


@cache
def _jit() -> Any:
    return llvm.create_lljit_compiler(_target_machine())


LONG_TEXT = 100_000
"""Characters of a program from which compiling it well costs more than it can bring."""

_lock = threading.RLock()
_names = itertools.count()
_loaded: list[Any] = []  # resource trackers: code lives as long as the process
_owners: dict[int, Part] = {}  # by address of a function
_parts: dict[tuple[str, ...], Part] = {}  # by exports


def object_key(text: str) -> str:
    """Key of the object code of one module's text on this CPU."""
    return hashlib.sha256(f"{host().key}\n{text}".encode()).hexdigest()


def compile_module(text: str, glue: bool = False, quick: bool = False) -> bytes:
    """Object code of an LLVM module given as text; from the cache when it is there.

    glue: the module is a core program, whose time goes into the functions it calls; a long one is compiled quickly
    instead of well. quick: this one is, too.
    """
    quick = quick or (glue and len(text) > LONG_TEXT)
    key = object_key(f"{quick} {text}")
    with _lock:
        found = objects.load(key)
        if found is None:
            found = generate(text, quick)
            objects.save(key, found)
    return found


class OutOfTime(Exception):
    """The time of `time_bound` is over."""


_deadline: ContextVar[float] = ContextVar("pypto_pro_deadline", default=math.inf)


@contextmanager
def time_bound(seconds: float) -> Iterator[None]:
    """Raise OutOfTime from the first module that would be compiled after `seconds`."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def generate(text: str, quick: bool = False) -> bytes:
    """Object code of a module, not cached."""
    if time.monotonic() > _deadline.get():
        raise OutOfTime
    machine = _target_machine(0 if quick else 2)
    module = llvm.parse_assembly(text)
    module.verify()
    _optimise(module, quick)
    return bytes(machine.emit_object(module))


def _optimise(module: Any, quick: bool = False) -> None:
    """The passes our code needs, a third of the time of the standard pipeline: it is already vectors and simple loops.

    Slots become registers, redundant loads and arithmetic go; invariants are moved out of loops by the code generator.
    """
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(_target_machine(), tuning)
    well = ("sroa", "instruction_combine", "simplify_cfg", "new_gvn", "instruction_combine", "simplify_cfg")
    for function in module.functions:
        if not function.is_declaration:
            passes = llvm.create_new_function_pass_manager()
            for name in ("sroa", "simplify_cfg") if quick else well:
                getattr(passes, f"add_{name}_pass")()
            passes.run(function, builder)


@dataclass(frozen=True, eq=False)
class Part:
    """Loaded object code: the addresses of what it exports, and of what it may call, by the names it uses."""

    code: bytes
    exports: dict[str, int]
    imports: dict[str, int]

    def mentions(self) -> dict[str, int]:
        """The imports whose names stand in the code (names in a symbol table may share their ends)."""
        names = b"\n".join(text for text in self.code.split(b"\0") if 2 < len(text) < MAX_NAME)
        return {name: address for name, address in self.imports.items() if name.encode() in names}


MAX_NAME = 400
"""Bytes of the longest symbol; longer runs without a zero are code."""


def owner(address: int) -> Part:
    """The part that exports a function."""
    return _owners[address]


def known(exports: tuple[str, ...], code: bytes) -> Part | None:
    """The part with these exports and this very code, when it is loaded."""
    found = _parts.get(exports)
    return found if found is not None and found.code == code else None


def link(code: bytes, exports: tuple[str, ...], imports: dict[str, int]) -> dict[str, int]:
    """Load object code; returns the addresses of `exports`. `imports` gives those of the functions it calls."""
    return link_all([(code, exports, imports)])[0].exports


def link_all(codes: Sequence[tuple[bytes, tuple[str, ...], dict[str, int]]]) -> list[Part]:
    """Load several objects at once, each with exports and imports; none calls another, no name is exported twice."""
    with _lock:
        library = llvm.JITLibraryBuilder().add_current_process()
        for name, address in {name: at for _, _, imports in codes for name, at in imports.items()}.items():
            library.import_symbol(name, address)
        for code, exports, _ in codes:
            library.add_object_img(code)
            for name in exports:
                library.export_symbol(name)
        tracker = library.link(_jit(), f"native{next(_names)}")
        _loaded.append(tracker)
        parts = [Part(code, {name: tracker[name] for name in exports}, imports) for code, exports, imports in codes]
        _parts.update((tuple(part.exports), part) for part in parts)
        _owners.update((address, part) for part in parts for address in part.exports.values())
        return parts


def assembly(text: str) -> str:
    """Optimised machine code of a module as text, for people."""
    module = llvm.parse_assembly(text)
    _optimise(module)
    return str(_target_machine().emit_assembly(module))
