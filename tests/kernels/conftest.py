"""Loading kernel files as modules."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], ModuleType]:
    """Import a kernel file under the name of its stem; the module is registered while the test runs."""
    monkeypatch.syspath_prepend(str(HERE / "broken"))

    def load_file(path: Path) -> ModuleType:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
        return module

    return load_file
