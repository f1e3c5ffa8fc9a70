"""Compiled variants on disk: the first launch of a kernel in a new process reads one file and compiles nothing.

The key covers everything a compile depends on: the package (files and times), Python and the processor, the options of
the decorator, the signature, and what `dependencies` says of the kernel's text and names. An entry holds the native
image and the IR as text, which is read back only when something asks for it: the simulator, a check, a report.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pypto_pro import diskcache
from pypto_pro.dtypes import DataType
from pypto_pro.frontend.signature import ParamSpec
from pypto_pro.ir.nodes import Kernel
from pypto_pro.runtime.binding import StaticDims
from pypto_pro.runtime.dependencies import Dependencies

KIND = "kernels"


def key_of(
    found: Dependencies, options: tuple[Any, ...], specs: Sequence[ParamSpec], static: StaticDims,
    key: Mapping[str, int] | None, datatypes: Sequence[tuple[str, DataType]],
) -> str:
    """The key of one variant; `options` are those of the decorator that change the code."""
    from pypto_pro.native.engine import host

    parts = (
        diskcache.package_stamp(), host().key, sys.version, found.digest, repr(options),
        [(s.name, s.kind.value, s.dtype, s.dims, s.open_ended, s.layout, s.struct) for s in specs],
        static, sorted((key or {}).items()), [(name, dtype.name) for name, dtype in datatypes],
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Stored:
    """One entry as read: `written` are the indices of parameters the kernel writes, `captured` the module constants."""

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
