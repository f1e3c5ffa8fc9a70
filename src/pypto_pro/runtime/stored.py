"""Compiled variants on disk: the first launch of a kernel in a new process reads two small files and compiles nothing.

The first, under a key of the kernel's text, options and signature, says which names earlier compiles looked up; the
second key adds what `dependencies` says of these names now. Both cover the package (files and times), Python and the
processor. An entry holds the native image and the IR as text, which is read back only when something asks for it: the
simulator, a check, a report.
"""

from __future__ import annotations

import hashlib
import json
import linecache
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pypto_pro import diskcache
from pypto_pro.dtypes import DataType
from pypto_pro.frontend.signature import ParamSpec
from pypto_pro.frontend.source import KernelSource
from pypto_pro.ir.nodes import Kernel
from pypto_pro.runtime.binding import StaticDims
from pypto_pro.runtime.dependencies import Dependencies

KIND, NAMES = "kernels", "names"
MAX_NAMES = 8
"""How many sets of names are kept for one kernel: branches on constants make a compile look up others."""


def text_key(
    source: KernelSource, options: tuple[Any, ...], specs: Sequence[ParamSpec], static: StaticDims,
    key: Mapping[str, int] | None, datatypes: Sequence[tuple[str, DataType]],
) -> str:
    """The key of a variant before its names are known; `options` are those of the decorator that change the code."""
    from pypto_pro.native.engine import host

    code = source.fn.__code__
    parts = (
        diskcache.package_stamp(), host().key, sys.version, code.co_filename, code.co_firstlineno, code.co_name,
        linecache.getlines(code.co_filename), repr(options),
        [(s.name, s.kind.value, s.dtype, s.dims, s.open_ended, s.layout, s.struct) for s in specs],
        static, sorted((key or {}).items()), [(name, dtype.name) for name, dtype in datatypes],
    )  # fmt: skip
    return _digest(repr(parts))


def entry_key(text: str, found: Dependencies) -> str:
    """The key of a variant whose names stand for what `found` says."""
    return _digest(f"{text} {found.digest}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def names_of(text: str) -> list[frozenset[str]]:
    """The sets of names that earlier compiles of a kernel looked up, the latest first."""
    data = diskcache.read(NAMES, text)
    return [frozenset(names) for names in json.loads(data)] if data is not None else []


def remember(text: str, names: frozenset[str]) -> None:
    """Note that a compile looked up these names."""
    sets = [names, *(known for known in names_of(text) if known != names)][:MAX_NAMES]
    diskcache.write(NAMES, text, json.dumps([sorted(one) for one in sets]).encode())


@dataclass(frozen=True)
class Stored:
    """One entry as read: `written` are the indices of parameters the kernel writes, `captured` the constants
    from outside, as text that reaches them."""

    written: tuple[int, ...]
    captured: tuple[str, ...]
    ir: bytes
    image: bytes

    def kernel(self) -> Kernel:
        """The IR."""
        from pypto_pro.ir.stored import load

        return load(self.ir.decode())

    def native(self) -> Any:
        """The compiled kernel, loaded into this process."""
        from pypto_pro.native import image

        return image.load(self.image, self.kernel)


def read(key: str) -> Stored | None:
    """The entry under a key, None when there is none."""
    data = diskcache.read(KIND, key)
    if data is None:
        return None
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])
    middle = 8 + size + head["ir"]
    return Stored(tuple(head["written"]), tuple(head["captured"]), data[8 + size : middle], data[middle:])


def write(key: str, kernel: Kernel, written: Sequence[int], image: bytes) -> None:
    """Store a compiled variant. Kernels whose attributes IR text cannot hold are left out."""
    from pypto_pro.ir.stored import dump

    try:
        text = dump(kernel).encode()
    except TypeError:
        return
    names = [name for name, _ in kernel.captured]
    head = json.dumps({"written": sorted(written), "captured": names, "ir": len(text)}).encode()
    diskcache.write(KIND, key, b"".join([len(head).to_bytes(8, "little"), head, text, image]))
