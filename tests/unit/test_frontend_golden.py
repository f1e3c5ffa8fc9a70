"""IR of whole kernels, kept as text under `tests/golden/frontend`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from pypto_pro.frontend.parse import Specialisation, parse_kernel
from pypto_pro.ir.parser import parse_kernel as parse_text
from pypto_pro.ir.printer import print_kernel
from pypto_pro.ir.verify import check
from pypto_pro.ops.table import lookup
from pypto_pro.runtime.jit import is_kernel

GOLDEN = Path("..") / "golden" / "frontend"


def sources() -> dict[str, Any]:
    """The kernels of `sources.py`, by name."""
    spec = spec_from_file_location("golden_sources", Path(__file__).parent / GOLDEN / "sources.py")
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(made)
    return {name: value for name, value in vars(made).items() if is_kernel(value)}


KERNELS = sources()


@pytest.mark.parametrize("name", KERNELS)
def test_ir_of_kernel(name: str, golden: Callable[[Path | str, str], None]) -> None:
    kernel = KERNELS[name]
    found = parse_kernel(kernel.source, Specialisation(), auto_mutex=kernel.options.auto_mutex)
    assert not check(found, lookup)
    text = print_kernel(found)
    assert parse_text(text) == found
    golden(GOLDEN / f"{name}.ir", text)
