"""LLVM set-up: the host target, module -> object code, object code -> callable addresses.

Every module is compiled on its own to an object (cached by `objects`), loaded once a process, and finds the functions
of other modules by name. llvmlite is imported by the first compilation, not before.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
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


def object_key(text: str) -> str:
    """Key of the object code of one module's text on this CPU."""
    return hashlib.sha256(f"{host().key}\n{text}".encode()).hexdigest()


def compile_module(text: str, glue: bool = False) -> bytes:
    """Object code of an LLVM module given as text; from the cache when it is there.

    glue: the module is a core program, whose time goes into the functions it calls; a long one is compiled quickly
    instead of well.
    """
    quick = glue and len(text) > LONG_TEXT
    key = object_key(f"{quick} {text}")
    with _lock:
        found = objects.load(key)
        if found is None:
            found = generate(text, quick)
            objects.save(key, found)
    return found


def generate(text: str, quick: bool = False) -> bytes:
    """Object code of a module, not cached."""
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


def link(code: bytes, exports: tuple[str, ...], imports: dict[str, int]) -> dict[str, int]:
    """Load object code; returns the addresses of `exports`. `imports` gives those of the functions it calls."""
    with _lock:
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name, address in imports.items():
            library.import_symbol(name, address)
        for name in exports:
            library.export_symbol(name)
        tracker = library.link(_jit(), f"native{next(_names)}")
        _loaded.append(tracker)
        return {name: tracker[name] for name in exports}


def assembly(text: str) -> str:
    """Optimised machine code of a module as text, for people."""
    module = llvm.parse_assembly(text)
    _optimise(module)
    return str(_target_machine().emit_assembly(module))
