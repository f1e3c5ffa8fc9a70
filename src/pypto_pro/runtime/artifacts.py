"""What a compile leaves on disk on request (`keep`): IR and LLVM text a core, layout table, tiling header, dtypes, and
the transformed source of a kernel with the `pipeline` option.

The files are for reading; nothing loads them again. Directory names follow the device tool chain:
`<prefix>__a5[__shape_<12 hex>]/[dt_<16 hex>/]tk_<packed key in hex, or none>/`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.frontend.signature import ParamSpec
from pypto_pro.hw.a5 import A5
from pypto_pro.ir.nodes import Kernel
from pypto_pro.ir.printer import print_kernel
from pypto_pro.runtime.specialise import Signature
from pypto_pro.runtime.tilingdata import TilingLayout


def prefix(name: str, file: str) -> str:
    """The kernel's part of the directory name: unusual characters replaced, `test_<x>.py` giving `<x>__<name>`."""
    clean = re.sub(r"[^0-9A-Za-z_.-]", "_", name).strip("._") or "kernel"
    stem = Path(file).stem
    if not stem.startswith("test_") or not file.endswith(".py"):
        return clean
    topic = stem.removeprefix("test_")
    return clean if topic == clean else f"{topic}__{clean}"


def datatype_record(variables: Mapping[str, str], datatypes: Mapping[str, DataType]) -> dict[str, Any]:
    """What `datatype.json` holds: the variable and dtype of every listed parameter, the dtype of every variable."""
    return {
        "params": {p: {"variable": v, "dtype": {"name": datatypes[v].name}} for p, v in variables.items()},
        "constants": {variable: {"name": dtype.name} for variable, dtype in datatypes.items()},
    }


def directory(name: str, file: str, signature: Signature, record: Mapping[str, Any] | None) -> Path:
    """The relative directory of one variant."""
    top = f"{prefix(name, file)}__{A5.arch}"
    if signature.static:
        top += f"__shape_{_digest(json.dumps(signature.static))[:12]}"
    parts = [top]
    if record is not None:
        parts.append(f"dt_{_digest(_canonical(record))[:16]}")
    parts.append("tk_none" if signature.key is None else f"tk_{signature.key:x}")
    return Path(*parts)


def write(
    root: str, name: str, file: str, signature: Signature, kernel: Kernel, specs: Iterable[ParamSpec],
    variables: Mapping[str, str] | None, *, llvm: bool = True, transformed: str = "",
) -> Path:
    """Write the files of one variant below `root`; the directory they are in. `llvm`: the LLVM texts too;
    `transformed`: the kernel as the `pipeline` option left it.
    """
    record = None if variables is None else datatype_record(variables, dict(signature.datatypes))
    folder = Path(root) / directory(name, file, signature, record)
    folder.mkdir(parents=True, exist_ok=True)
    for program in kernel.programs:
        _put(folder / f"{program.core.value}.ir", print_kernel(kernel, program.core, lines=True))
    _put(folder / "layout.txt", layout_table(kernel))
    if transformed:
        _put(folder / "pipeline_generated.py", transformed)
    if record is not None:
        _put(folder.parent / "datatype.json", _canonical(record) + "\n")
    for spec in specs:
        if spec.struct is not None:
            _put(folder / f"{spec.struct.name}_tiling.h", TilingLayout.of(spec.struct).header())
    if llvm:
        _write_llvm(folder, kernel)
    return folder


def _write_llvm(folder: Path, kernel: Kernel) -> None:
    from pypto_pro.native.listing import listing

    made = listing(kernel)
    for core, text in made.programs.items():
        _put(folder / f"{core.value}.ll", text)
    (folder / "functions").mkdir(exist_ok=True)
    for symbol, text in made.functions.items():
        _put(folder / "functions" / f"{symbol}.ll", text)


def layout_table(kernel: Kernel) -> str:
    """One line a physical slot, by space and address: where it lies, its size, shape, dtype, and where it is made."""
    from pypto_pro.memory.check import check_layout
    from pypto_pro.memory.extract import design_of_kernel

    report = check_layout(design_of_kernel(kernel))
    lines = [("space", "start", "end", "bytes", "tile", "shape", "dtype", "line")]
    for row in sorted(report.rows, key=lambda row: (row.space.value, row.start, row.end)):
        span = row.tile.span
        lines.append((
            row.space.name, f"{row.start:#x}", f"{row.end:#x}", str(row.size), row.shown,
            "x".join(map(str, row.tile.type.shape)), row.tile.type.dtype.to_string(), str(span.line if span else ""),
        ))  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)
    return "\n".join(rows) + "\n"


def _put(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


def _canonical(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
