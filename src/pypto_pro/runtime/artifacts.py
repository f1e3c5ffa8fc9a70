"""What a compile leaves on disk on request (`keep`): IR a core, the tiling header, the datatype record.

The files are for reading; nothing loads them again. Directory names follow the device tool chain:
`<prefix>__a5[__shape_<12 hex>]/[dt_<16 hex>/]tk_<packed key in hex, or none>/`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
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
    root: str, name: str, file: str, signature: Signature, kernel: Kernel, specs: tuple[ParamSpec, ...],
    variables: Mapping[str, str] | None,
) -> Path:
    """Write the files of one variant below `root`; the directory they are in."""
    record = None if variables is None else datatype_record(variables, dict(signature.datatypes))
    folder = Path(root) / directory(name, file, signature, record)
    folder.mkdir(parents=True, exist_ok=True)
    for program in kernel.programs:
        (folder / f"{program.core.value}.ir").write_text(print_kernel(kernel, program.core, lines=True), "utf-8")
    if record is not None:
        (folder.parent / "datatype.json").write_text(_canonical(record) + "\n", "utf-8")
    for spec in specs:
        if spec.struct is not None:
            (folder / f"{spec.struct.name}_tiling.h").write_text(TilingLayout.of(spec.struct).header(), "utf-8")
    return folder


def _canonical(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
