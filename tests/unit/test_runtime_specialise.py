"""Variants: which parameters a kernel writes, one compile a signature, nothing kept of a failed one; artifacts."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import pypto_pro.language as pl
from pypto_pro.ir.parser import parse_kernel
from pypto_pro.runtime import artifacts
from pypto_pro.runtime.specialise import Signature, Variant, VariantCache, written_params

TEXT = """
T0 = TileType([16, 64], fp32, Vec)

@kernel(auto_mutex=False)
def k(x: Tensor([16, 64], fp32), p: Ptr(fp32), q: Ptr(fp32), r: Ptr(fp32), n: index):
    with vector:
        t: T0 = make_tile(0, None, 'c')
        view: Tensor([16, 64], fp32) = make_tensor(p + 4, (16, 64), None)
        alias: Tensor([16, 64], fp32) = copy_tensor(view)
        other: Ptr(fp32) = q
        read: Tensor([16, 64], fp32) = make_tensor(r, (16, 64), None)
        pl.load(t, x, (0, 0), order=None)
        pl.load(t, read, (0, 0), order=None)
        pl.store(alias, t, (0, 0), None, relu_pre_mode=None, order=None, atomic=AtomicType.AtomicNone, phase=None)
        out: Tensor([16, 64], fp32) = make_tensor(other, (16, 64), None)
        pl.setval(out, n, 1.0)
"""


def test_written_parameters_are_found_through_views_and_pointers() -> None:
    kernel = parse_kernel(TEXT)
    assert sorted(var.name for var in written_params(kernel)) == ["p", "q"]
    assert Variant.of(kernel).written == {1, 2}


def test_threads_compile_a_signature_once() -> None:
    cache, made = VariantCache(), []

    def make(signature: Signature) -> Variant:
        made.append(signature)
        time.sleep(0.02)
        return Variant.of(parse_kernel(TEXT))

    found: list[Any] = []
    work = [threading.Thread(target=lambda: found.append(cache.get_or_make(Signature(), make))) for _ in range(4)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len(made) == 1
    assert len({id(variant) for variant in found}) == 1
    cache.get_or_make(Signature(key=3), make)
    assert len(cache) == 2


def test_failed_compiles_are_not_kept() -> None:
    cache = VariantCache()

    def fail(_: Signature) -> Variant:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            cache.get_or_make(Signature(), fail)
    assert len(cache) == 0
    assert cache.get_or_make(Signature(), lambda _: Variant.of(parse_kernel(TEXT))).kernel.name == "k"


@pytest.mark.parametrize(
    ("name", "file", "expected"),
    [
        ("add", "/a/kernels.py", "add"),
        ("add", "test_add.py", "add"),
        ("add", "test_ops.py", "ops__add"),
        ("..a b/c_", "x.py", "a_b_c"),
        ("___", "x.py", "kernel"),
    ],
)
def test_prefix_of_the_build_directory(name: str, file: str, expected: str) -> None:
    assert artifacts.prefix(name, file) == expected


@dataclass
class Sizes:
    rows: int


@pl.jit(datatype={"x": "dt"})
def typed(x: pl.Ptr[pl.DT_UINT8], t: Sizes):
    pass


def test_artifacts(tmp_path: Path) -> None:
    signature = Signature(((0, 1, 8),), 0x2A, (("dt", pl.DT_FP16),))
    kernel = parse_kernel(TEXT)
    folder = artifacts.write(str(tmp_path), "k", "m.py", signature, kernel, typed.specs, {"x": "dt"})
    shape, dtype, key = folder.relative_to(tmp_path).parts
    assert shape.startswith("k__a5__shape_")
    assert len(shape) == len("k__a5__shape_") + 12
    assert (dtype[:3], len(dtype), key) == ("dt_", 19, "tk_2a")
    files = ["Sizes_tiling.h", "functions", "layout.txt", "vector.ir", "vector.ll"]
    assert sorted(path.name for path in folder.iterdir()) == files
    assert parse_kernel((folder / "vector.ir").read_text(encoding="utf-8")) == kernel
    assert json.loads((folder.parent / "datatype.json").read_text()) == {
        "params": {"x": {"variable": "dt", "dtype": {"name": "DT_FP16"}}},
        "constants": {"dt": {"name": "DT_FP16"}},
    }
    plain = artifacts.directory("k", "m.py", Signature(), None)
    assert plain.parts == ("k__a5", "tk_none")
