"""Kernels built ahead of a launch: artifacts, the disk cache, and the headers an operator's host code includes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.frontend.signature import ParamKind
from pypto_pro.hw.a5 import A5
from pypto_pro.ir.nodes import Kernel
from pypto_pro.runtime import artifacts, compiling, options
from pypto_pro.runtime.jit import JitKernel
from pypto_pro.runtime.specialise import Signature
from pypto_pro.runtime.tilingdata import TilingLayout
from pypto_pro.runtime.tilingkey import TilingKeySchema

BUILD = "build"
MACRO_PREFIX = "ORIG_DTYPE_"
MACRO_DTYPES = {
    "dt_bool": DataType.DT_BOOL, "dt_int8": DataType.DT_INT8, "dt_int16": DataType.DT_INT16,
    "dt_int32": DataType.DT_INT32, "dt_int64": DataType.DT_INT64, "dt_uint8": DataType.DT_UINT8,
    "dt_uint16": DataType.DT_UINT16, "dt_uint32": DataType.DT_UINT32, "dt_uint64": DataType.DT_UINT64,
    "dt_float16": DataType.DT_FP16, "dt_float": DataType.DT_FP32, "dt_bf16": DataType.DT_BF16,
    "dt_float8_e4m3fn": DataType.DT_FP8E4M3FN, "dt_float8_e5m2": DataType.DT_FP8E5M2,
    "dt_float8_e8m0": DataType.DT_FP8E8M0, "dt_fp4_e2m1": DataType.DT_FP4E2M1, "dt_fp4_e1m2": DataType.DT_FP4E1M2,
    "dt_hifloat8": DataType.DT_HF8,
}  # fmt: skip
Datatypes = tuple[tuple[str, DataType], ...]


@dataclass(frozen=True)
class Built:
    """One variant: its key (None without), where its files are, its IR, and the seconds it took."""

    kernel: str
    key: Mapping[str, int] | None
    packed: int | None
    folder: Path
    ir: Kernel = field(repr=False)
    seconds: float

    @property
    def kind(self) -> str:
        """`vector`, `cube` or `mixed`."""
        return self.ir.kind

    def to_json(self) -> dict[str, Any]:
        """The facts as plain data; the packed key in hex."""
        packed = None if self.packed is None else f"{self.packed:x}"
        return {"kernel": self.kernel, "key": self.key, "packed": packed, "folder": str(self.folder), "kind": self.kind}


# --- variants ---------------------------------------------------------------------------------------------------------


def build(
    kernel: JitKernel, out: str | Path = BUILD, key: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None, datatypes: Datatypes | None = None,
) -> Built:
    """Compile one variant for native, put it into the disk cache, and write its artifacts below `out`.

    Without a key the first legal one is taken, without datatypes FP16 for every variable. Raises what a first launch
    raises, and ValueError for a missing or wrong key or shape.
    """
    began = time.perf_counter()
    if kernel.key_schema is not None:
        key = kernel.key_schema.check(dict(key)) if key is not None else legal_keys(kernel)[0]
    chosen = default_datatypes(kernel) if datatypes is None else datatypes
    static = kernel.binder.static_from_shapes(shapes or {})
    packed = kernel.key_schema.pack(key) if kernel.key_schema is not None and key is not None else None
    signature = Signature(static, packed, chosen)
    with options.options(executor="native", check=False, keep=str(out)):
        variant = compiling.make_variant(kernel, signature, key)
        compiling.native_code(variant)
    record = None
    if kernel.datatype_schema is not None:
        record = artifacts.datatype_record(kernel.datatype_schema, dict(chosen))
    folder = Path(out) / artifacts.directory(*named(kernel), signature, record)
    return Built(kernel.source.name, key, packed, folder, variant.kernel, time.perf_counter() - began)


def named(kernel: JitKernel) -> tuple[str, str]:
    """What names the build directory: the `name` option or the function, and the file."""
    return kernel.options.name or kernel.source.name, kernel.source.fn.__code__.co_filename


def default_datatypes(kernel: JitKernel) -> Datatypes:
    """FP16 for every datatype variable."""
    schema = kernel.dtype_schema
    return tuple((v, DataType.DT_FP16) for v in dict.fromkeys(schema.variables.values())) if schema is not None else ()


def legal_keys(kernel: JitKernel, only: Sequence[Mapping[str, int]] | None = None) -> list[dict[str, int]]:
    """Every legal key, the last field varying fastest; `only` restricts them.

    ValueError without a tiling key class or without a legal combination, RuntimeError when `only` leaves none.
    """
    schema = _schema(kernel)
    found = [*schema.legal_keys()]
    if not found:
        raise ValueError(f"`{schema.owner.__name__}` has no legal combination")
    if only is not None:
        wanted = [dict(key) for key in only]
        found = [key for key in found if key in wanted]
        if not found:
            raise RuntimeError(f"none of the keys asked for is a legal key of `{schema.owner.__name__}`")
    return found


def macro_datatypes(kernel: JitKernel, macros: Mapping[str, str]) -> Datatypes:
    """The dtypes of an operator build from its macros: `{"ORIG_DTYPE_X": "DT_FLOAT16"}`, names in any case.

    RuntimeError for a missing macro or a dtype that kernels do not have, ValueError when parameters of one variable
    disagree.
    """
    schema = kernel.dtype_schema
    if schema is None:
        return ()
    by_name = {name.lower(): value for name, value in macros.items()}
    given = {}
    for parameter in schema.variables:
        macro = f"{MACRO_PREFIX}{parameter.upper()}"
        if macro.lower() not in by_name:
            raise RuntimeError(f"the build does not define {macro}, the dtype of `{parameter}`")
        value = by_name[macro.lower()].lower()
        if value not in MACRO_DTYPES:
            raise RuntimeError(f"{macro} is {value}, which kernels do not have; there are {', '.join(MACRO_DTYPES)}")
        given[parameter] = MACRO_DTYPES[value]
    return schema.check(given)


def build_operator(
    kernel: JitKernel, out: str | Path = BUILD, only: Sequence[Mapping[str, int]] | None = None,
    macros: Mapping[str, str] | None = None,
) -> Path:
    """Build every legal key of an operator kernel; the path of its JSON description, beside the variants.

    The description lists the variants: packed key, field values, core kinds and folder. Raises what `legal_keys`,
    `macro_datatypes` and `build` raise.
    """
    keys = legal_keys(kernel, only)
    dtypes = macro_datatypes(kernel, macros) if macros is not None else default_datatypes(kernel)
    built = [build(kernel, out, key, None, dtypes) for key in keys]
    name, file = named(kernel)
    path = Path(out) / f"{artifacts.prefix(name, file)}__{A5.arch}" / f"{kernel.source.name}.json"
    text = {
        "kernel": kernel.source.name,
        "arch": A5.arch,
        "datatypes": {variable: dtype.name for variable, dtype in dtypes},
        "variants": [{**row.to_json(), "folder": str(row.folder.relative_to(path.parent))} for row in built],
    }
    path.write_text(json.dumps(text, indent=1) + "\n", "utf-8")
    return path


# --- headers ----------------------------------------------------------------------------------------------------------


def generate_binary_headers(kernel: Any, out: str | Path = BUILD) -> Path:
    """Write the headers that an operator's host code includes; the directory, `<kernel build dir>/binary/`.

    `<TilingClass>_tiling.h`: the struct; `<KeyClass>_tilingkey.h`: fields, legal combinations and the macro
    GET_TPL_TILING_KEY; `<kernel>_pypto_infer.cpp`: assertions that both agree with the kernel, and its parameters. The
    kernel is read for the first legal key and FP16 for every datatype variable. TypeError for something that is no
    kernel, ValueError without a tiling key class or without a legal key, RuntimeError without tiling data.
    """
    if not isinstance(kernel, JitKernel):
        raise TypeError(f"binary headers are made for a kernel, found {type(kernel).__name__}")
    keys = legal_keys(kernel)
    tiling = next((spec.struct for spec in kernel.specs if spec.kind is ParamKind.TILING), None)
    if tiling is None:
        raise RuntimeError(f"`{kernel.source.name}` has no tiling data parameter")
    kernel.compile(kernel.binder.static_from_shapes({}), keys[0], default_datatypes(kernel))
    name, file = named(kernel)
    folder = Path(out) / f"{artifacts.prefix(name, file)}__{A5.arch}" / "binary"
    folder.mkdir(parents=True, exist_ok=True)
    layout, schema = TilingLayout.of(tiling), _schema(kernel)
    key_file = f"{schema.owner.__name__}_tilingkey.h"
    (folder / f"{layout.name}_tiling.h").write_text(f"#pragma once\n#include <stdint.h>\n\n{layout.header()}", "utf-8")
    (folder / key_file).write_text(key_header(schema), "utf-8")
    text = _infer_source(kernel, layout, schema, keys, key_file)
    (folder / f"{kernel.source.name}_pypto_infer.cpp").write_text(text, "utf-8")
    return folder


def _schema(kernel: JitKernel) -> TilingKeySchema:
    if kernel.key_schema is None:
        raise ValueError(f"`{kernel.source.name}` has no tiling key class")
    return kernel.key_schema


def key_header(schema: TilingKeySchema) -> str:
    """The key class as C text. `GET_TPL_TILING_KEY(v0, v1, ...)` takes actual values in field order and is a constant
    expression; a value that no field has gives UINT64_MAX."""
    owner = schema.owner.__name__
    lines = ["#pragma once", "#include <stdint.h>", "", f"/* {owner}: the first field lies in the lowest bits */"]
    offset, indices, parts = 0, [], []
    for position, (name, entry) in enumerate(schema.fields):
        values = ", ".join(map(str, entry.values))
        lines.append(f"/* {name}: bits {offset} to {offset + entry.bits - 1}, values {values} */")
        lines += [f"#define {owner}_{name}_BITS {entry.bits}", f"#define {owner}_{name}_OFFSET {offset}"]
        tests = "".join(f"(int64_t)(v) == {_c_int(value)} ? {k}ull : " for k, value in enumerate(entry.values))
        lines.append(f"#define {owner}_{name}_INDEX(v) ({tests}UINT64_MAX)")
        indices.append(f"{owner}_{name}_INDEX(v{position})")
        parts.append(f"{indices[-1]} << {offset}" if offset else indices[-1])
        offset += entry.bits
    given = ", ".join(f"v{k}" for k in range(len(schema.fields)))
    wrong = " || ".join(f"{index} == UINT64_MAX" for index in indices)
    packed = " | ".join(f"({part})" for part in parts)
    lines += ["", f"#define GET_TPL_TILING_KEY({given}) (({wrong}) ? UINT64_MAX : ({packed}))", ""]
    lines.append(f"/* X(packed key, {', '.join(schema.names)}) for every legal combination */")
    combinations = (f"X({schema.pack(key):#x}ull, {', '.join(map(str, key.values()))})" for key in schema.legal_keys())
    lines.append(" \\\n    ".join([f"#define {owner}_COMBINATIONS(X)", *combinations]))
    return "\n".join([*lines, ""])


def _c_int(value: int) -> str:
    """A C literal of an int64_t; the least one has none."""
    return f"INT64_C({value})" if value > -(1 << 63) else "INT64_MIN"


def _infer_source(
    kernel: JitKernel, layout: TilingLayout, schema: TilingKeySchema, keys: Sequence[Mapping[str, int]], key_file: str
) -> str:
    lines = [f'#include "{layout.name}_tiling.h"', f'#include "{key_file}"', "#include <cstddef>", ""]
    lines.append(f"static_assert(sizeof({layout.name}) == {layout.size});")
    lines += [f"static_assert(offsetof({layout.name}, {m.name}) == {m.offset});" for m in layout.members]
    for key in keys:
        values = ", ".join(map(str, key.values()))
        lines.append(f"static_assert(GET_TPL_TILING_KEY({values}) == {schema.pack(key):#x}ull);")
    lines += ["", "struct PyptoParam { const char* name; const char* kind; const char* dtype; };"]
    lines.append(f"extern const PyptoParam {kernel.source.name}_params[] = {{")
    for spec in kernel.specs:
        dtype = spec.dtype.name if spec.dtype is not None else layout.name
        lines.append(f'    {{"{spec.name}", "{spec.kind.value}", "{dtype}"}},')
    return "\n".join([*lines, "};", ""])
