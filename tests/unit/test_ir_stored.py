"""Kernels as text and back, with every span."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from pypto_pro.ir import stored, walk
from pypto_pro.ir.nodes import Kernel
from pypto_pro.runtime.inspect import kernels_of, load_file

ROOT = Path(__file__).resolve().parents[2]


def kernels() -> dict[str, Any]:
    found = {}
    for file in (*sorted((ROOT / "examples").glob("*.py")), ROOT / "tests" / "golden" / "frontend" / "sources.py"):
        if "import torch" in file.read_text(encoding="utf-8") and importlib.util.find_spec("torch") is None:
            continue
        found.update({f"{file.stem}:{name}": kernel for name, kernel in kernels_of(load_file(file)).items()})
    return {
        name: kernel for name, kernel in found.items()
        if kernel.key_schema is None and kernel.dtype_schema is None and not kernel.binder.has_static
    }  # fmt: skip


KERNELS = kernels()


def spans(kernel: Kernel) -> list[Any]:
    return [kernel.span, *(stmt.span for program in kernel.programs for stmt in walk.statements(program.body))]


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_is_lost(name: str) -> None:
    kernel = KERNELS[name].compile((), None, ())
    back = stored.load(stored.dump(kernel))
    assert back == kernel
    assert back.captured == kernel.captured
    assert spans(back) == spans(kernel)


def test_there_are_kernels_with_helpers() -> None:
    assert len(KERNELS) > 10
    made = [spans(kernel.compile((), None, ())) for kernel in KERNELS.values()]
    assert any(span.inlined_at is not None for found in made for span in found)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"texts": [], "spans": [], "ir": ""}'])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError, SyntaxError, TypeError)):
        stored.load(text)
