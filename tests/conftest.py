"""Options and fixtures every test shares."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files from what the code says now")


@pytest.fixture(scope="session", autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The caller's settings do not reach the tests, and compiled kernels do not land in the caller's cache."""
    for name in [name for name in os.environ if name.startswith("PYPTO_PRO_")]:
        del os.environ[name]
    os.environ["PYPTO_PRO_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["NO_COLOR"] = "1"
    os.environ.pop("FORCE_COLOR", None)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path | str, str], None]:
    """`golden(path, text)`: the text must equal the file (relative paths: below the test's directory).

    `pytest --update-golden` writes the file instead; the change is then reviewed like code.
    """

    def compare(path: Path | str, text: str) -> None:
        file = request.path.parent / path
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        assert file.exists(), f"{file.relative_to(ROOT)} is missing: run pytest --update-golden and review it"
        expected = file.read_text(encoding="utf-8")
        if text != expected:
            lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), "golden", "now", lineterm="")
            pytest.fail(f"{file.relative_to(ROOT)} differs:\n" + "\n".join(lines), pytrace=False)

    return compare
