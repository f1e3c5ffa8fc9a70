"""The pytest plugin: device tests on this machine, and every launch of a test under the checks.

pytest loads it whenever the package is installed, so nothing is imported here until one of its options is given.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pypto_pro.runtime.checking import Report

SETTINGS = {"pypto_check": "PYPTO_PRO_CHECK", "pypto_executor": "PYPTO_PRO_EXECUTOR"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin."""
    group = parser.getgroup("pypto-pro", "tile kernels on the CPU")
    group.addoption("--pypto-npu", action="store_true", help="let torch's device npu, and torch_npu, be this machine")
    group.addoption("--pypto-check", action="store_true", help="check every launch; findings fail the test")
    group.addoption("--pypto-executor", choices=("native", "interp"), help="what runs a launch")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Settings and the stand-in, before a conftest.py can import torch_npu."""
    chosen = early_config.known_args_namespace
    for name, variable in SETTINGS.items():
        value = getattr(chosen, name, None)
        if value:
            _set_until_the_end(early_config, variable, "1" if value is True else value)
    if getattr(chosen, "pypto_check", False):
        early_config.pluginmanager.register(CheckedTests(), "pypto-pro-checks")
    if getattr(chosen, "pypto_npu", False):
        import pypto_pro.torch_shim  # noqa: F401  (its import is what activates it)


def _set_until_the_end(config: pytest.Config, variable: str, value: str) -> None:
    before = os.environ.get(variable)
    os.environ[variable] = value

    def restore() -> None:
        if before is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = before

    config.add_cleanup(restore)


class CheckedTests:
    """Gathers what the checks find during each test, and fails the test for it."""

    def __init__(self) -> None:
        self.launches = 0
        self.findings = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Launches of fixtures."""
        with self._judged(item, "setup"):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Launches of the test itself."""
        with self._judged(item, "call"):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Launches of fixtures that end."""
        with self._judged(item, "teardown"):
            return (yield)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker of pytest-xdist hands its counts to the process that reports."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["pypto_counts"] = (self.launches, self.findings)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the counts of a worker that has ended."""
        launches, findings = getattr(node, "workeroutput", {}).get("pypto_counts", (0, 0))
        self.launches += launches
        self.findings += findings

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """How much was looked at."""
        from pypto_pro.diag.names import counted

        launches, findings = counted(self.launches, "launch", "launches"), counted(self.findings, "finding")
        terminalreporter.write_line(f"pypto-pro: {launches} checked, {findings}")

    @contextmanager
    def _judged(self, item: pytest.Item, when: str) -> Iterator[None]:
        from pypto_pro.runtime.checking import collecting

        reports: list[Report] = []
        failed = True
        try:
            with collecting(reports.append):
                yield
            failed = False
        finally:
            self.launches += len(reports)
            text = self._found(reports)
            if text and failed:
                item.add_report_section(when, "pypto-pro", text)
        if text:
            pytest.fail(text, pytrace=False)

    def _found(self, reports: list[Report]) -> str:
        """The findings of severity error and warning of one phase as text, empty when there are none."""
        from pypto_pro.diag import Severity
        from pypto_pro.diag.render_text import render, summary

        found = [f for report in reports for f in report.findings if f.severity is not Severity.NOTE]
        distinct = list(dict.fromkeys(found))
        self.findings += len(distinct)
        if not distinct:
            return ""
        return f"{summary(distinct)} in the launches of this test\n\n{render(distinct, color=False)}"
