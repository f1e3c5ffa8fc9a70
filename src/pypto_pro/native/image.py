"""Compiled kernels as bytes, and back without generating code.

An image holds every piece of object code that the kernel's programs reach, the addresses of the entry points as (piece,
name), and what the scheduler must know. Loading links the pieces that this process does not hold yet, callees first.
Where generated code hands over to Python (ops without native code, debugging output, reports), the IR is needed; it is
asked for then.

Layout: 8 bytes length of the head, the head as JSON, the pieces' code one after the other.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind
from pypto_pro.ir.launch import Launch
from pypto_pro.ir.nodes import Kernel, Var
from pypto_pro.ir.types import PtrType, ScalarType, StructType, TensorType, Type
from pypto_pro.native import engine, scheduler
from pypto_pro.native.engine import Part
from pypto_pro.native.executable import Executable, Plan

if TYPE_CHECKING:
    from pypto_pro.native.program import Site

_PLAN = ("resumable", "queues", "parking", "polls", "peeks")


class CompiledKernel:
    """Native code of one kernel specialisation. Launches from several threads may overlap."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable

    def run(self, launch: Launch, threads: int | None = None) -> None:
        """Run a launch to its end; the caller's buffers hold the outputs when it returns.

        `threads`: workers, default PYPTO_PRO_THREADS or one a processor. Raises StuckError when no core can go on,
        KeyboardInterrupt when interrupted; RuntimeWarning once a line for accesses out of bounds.
        """
        scheduler.launch(self.executable, launch, threads)

    def image(self) -> bytes:
        """The kernel as bytes for `load`, on a host with the same `engine.host().key`."""
        return _dump(self.executable)


class LazySites(Sequence["Site"]):
    """The `count` sites of an image: made from the kernel's IR when generated code first asks for one."""

    def __init__(self, kernel: Callable[[], Kernel], count: int) -> None:
        self._kernel = kernel
        self._count = count
        self._lock = threading.RLock()

    @cached_property
    def _sites(self) -> Sequence[Site]:
        from pypto_pro.native.kernel import compile

        return compile(self._kernel()).executable.sites

    @overload
    def __getitem__(self, index: int) -> Site: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Site]: ...

    def __getitem__(self, index: Any) -> Any:
        with self._lock:
            return self._sites[index]

    def __len__(self) -> int:
        return self._count


# --- writing ----------------------------------------------------------------------------------------------------------


def _dump(executable: Executable) -> bytes:
    parts: dict[int, int] = {}  # id of a part -> position, callees first
    code: list[bytes] = []
    rows: list[dict[str, Any]] = []

    def place(address: int) -> tuple[int, str]:
        part = engine.owner(address)
        if id(part) not in parts:
            imports = {name: place(at) for name, at in part.mentions().items()}
            parts[id(part)] = len(rows)
            rows.append({"exports": [*part.exports], "imports": imports, "size": len(part.code)})
            code.append(part.code)
        return parts[id(part)], next(name for name, at in part.exports.items() if at == address)

    plan = executable.plan
    head = {
        "name": executable.name,
        "kinds": [kind.value for kind in plan.kinds],
        "plan": {name: getattr(plan, name) for name in _PLAN},
        "params": [[var.name, *_type_words(var.type)] for var in executable.params],
        "steps": {kind.value: place(at) for kind, at in executable.steps.items()},
        "run": place(executable.run),
        "drain": place(executable.drain) if executable.drain else None,
        "frame_bytes": {kind.value: size for kind, size in executable.frame_bytes.items()},
        "areas": executable.areas,
        "sites": len(executable.sites),
        "parts": rows,
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *code])


def _type_words(kind: Type) -> tuple[Any, ...]:
    """What marshalling an argument takes of a parameter's type."""
    match kind:
        case TensorType(dtype, dims):
            return "tensor", dtype.name, list(dims)
        case PtrType(dtype):
            return "ptr", dtype.name
        case ScalarType(dtype):
            return "scalar", dtype.name
    return ("tiling",)


# --- reading ----------------------------------------------------------------------------------------------------------


def load(data: bytes, kernel: Callable[[], Kernel]) -> CompiledKernel:
    """The kernel of an image. `kernel` gives its IR, should generated code need Python."""
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])
    parts = _load_parts(head["parts"], memoryview(data)[8 + size :])

    def address(place: tuple[int, str]) -> int:
        position, name = place
        return parts[position].exports[name]

    plan = Plan(tuple(CoreKind(kind) for kind in head["kinds"]), **head["plan"])
    return CompiledKernel(
        Executable(
            head["name"], plan, tuple(_param(*words) for words in head["params"]),
            steps={CoreKind(kind): address(place) for kind, place in head["steps"].items()},
            run=address(head["run"]),
            drain=address(head["drain"]) if head["drain"] else 0,
            frame_bytes={CoreKind(kind): count for kind, count in head["frame_bytes"].items()},
            sites=LazySites(kernel, head["sites"]), areas=[(offset, count) for offset, count in head["areas"]],
        )
    )  # fmt: skip


def _param(name: str, kind: str, dtype: str = "", dims: Sequence[int | None] = ()) -> Var:
    match kind:
        case "tensor":
            return Var(name, TensorType(DataType[dtype], tuple(dims)))
        case "ptr":
            return Var(name, PtrType(DataType[dtype]))
        case "scalar":
            return Var(name, ScalarType(DataType[dtype]))
    return Var(name, StructType("", (), is_tiling=True))


def _load_parts(rows: list[dict[str, Any]], code: memoryview) -> list[Part]:
    """The pieces in order; those this process holds already are not loaded again.

    Callees stand before callers. Pieces of one function are loaded together, level by level; those of several alone,
    since names inside them may repeat.
    """
    parts: dict[int, Part] = {}
    levels: dict[int, int] = {}
    batches: dict[int, list[int]] = {}
    offset = 0
    pieces: list[bytes] = []
    for position, row in enumerate(rows):
        pieces.append(bytes(code[offset : offset + row["size"]]))
        offset += row["size"]
        known = engine.known(tuple(row["exports"]), pieces[position])
        if known is not None:
            parts[position] = known
            continue
        level = max((levels[callee] + 1 for callee, _ in row["imports"].values() if callee in levels), default=0)
        levels[position] = level
        batches.setdefault(level, []).append(position)
    for _, batch in sorted(batches.items()):
        together = [position for position in batch if len(rows[position]["exports"]) == 1]
        alone = [[position] for position in batch if len(rows[position]["exports"]) > 1]
        for chosen in filter(None, (together, *alone)):
            wanted = [(pieces[k], tuple(rows[k]["exports"]), _addresses(rows[k]["imports"], parts)) for k in chosen]
            parts.update(zip(chosen, engine.link_all(wanted), strict=True))
    return [parts[position] for position in range(len(rows))]


def _addresses(imports: dict[str, list[Any]], parts: dict[int, Part]) -> dict[str, int]:
    return {name: parts[position].exports[export] for name, (position, export) in imports.items()}
