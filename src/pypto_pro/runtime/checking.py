"""`check`: run a launch on the simulator with every check on, and report instead of raising.

`options(check=True)` and PYPTO_PRO_CHECK=1 do the same for ordinary launches: findings are printed, errors raise
CheckError. `pypto-pro check` collects the reports of all launches of a script.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pypto_pro.diag import Diagnostic, Severity
from pypto_pro.diag.errors import ArgumentKindError, CheckError, DiagnosticError
from pypto_pro.ir.launch import Launch
from pypto_pro.runtime import options
from pypto_pro.runtime.checked_runs import LookedAt, run_checked
from pypto_pro.runtime.findings import as_finding
from pypto_pro.runtime.jit import JitKernel, Launcher
from pypto_pro.runtime.options import Options
from pypto_pro.runtime.specialise import Variant


@dataclass(frozen=True)
class Report:
    """What a check found. `findings` are worst first; `looked_at` says what was covered and what was not."""

    findings: list[Diagnostic]
    looked_at: dict[str, Any] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether there is neither an error nor a warning."""
        return all(f.severity is Severity.NOTE for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        """`{"findings": [...], "looked_at": {...}}`, as docs/check-report-schema.json describes."""
        from pypto_pro.diag.render_json import to_json

        return {"findings": to_json(self.findings), "looked_at": self.looked_at}

    def render(self, color: bool | None = None) -> str:
        """The report as text: every finding with its source lines, then how far it looked."""
        from pypto_pro.diag.render_text import render, summary
        from pypto_pro.runtime.looked_at import looked_at_lines

        parts = [render(self.findings, color=color)] if self.findings else []
        parts.append("\n".join([summary(self.findings), *looked_at_lines(self.looked_at)]))
        return "\n\n".join(parts)

    def __str__(self) -> str:
        return self.render(color=False)


def check(launcher: Launcher | JitKernel, /, *args: Any, **kwargs: Any) -> Report:
    """Run `launcher(*args, **kwargs)` under every check: `check(kernel[None, 4], x, y)`.

    A mistake in the kernel or the launch is a finding, never an exception. Outputs are written as far as the run got.
    Schedule and seeds come from `options(...)`. ArgumentKindError (a TypeError) for something that is no kernel.
    """
    if not isinstance(launcher, Launcher | JitKernel):
        raise ArgumentKindError(f"check takes a kernel or kernel[stream, blocks], found {type(launcher).__name__}")
    chosen = options.current()
    try:
        prepared = launcher.prepare(args, kwargs)
    except DiagnosticError as error:
        return rejected(error)
    return report_of(prepared.variant, prepared.launch, chosen)


def rejected(error: DiagnosticError) -> Report:
    """The report on a launch that was refused before anything ran."""
    found = getattr(error, "findings", None) or [as_finding(error)]
    return Report(list(found), {"kernel": error.diagnostic.kernel, "ran": False})


def report_of(variant: Variant, launch: Launch, chosen: Options) -> Report:
    """Check one launch of a compiled kernel."""
    looked = LookedAt()
    findings = run_checked(variant, launch, chosen, looked)
    return Report(findings, looked.as_dict(variant.kernel, launch))


# --- launches under options(check=True) -------------------------------------------------------------------------------

_collectors: list[Callable[[Report], None]] = []


@contextmanager
def collecting(take: Callable[[Report], None]) -> Iterator[None]:
    """Hand the reports of checked launches to `take`; they neither print nor raise meanwhile."""
    _collectors.append(take)
    try:
        yield
    finally:
        _collectors.remove(take)


def launch(variant: Variant, values: Launch, chosen: Options) -> None:
    """A launch under checks: prints what was found. CheckError when there are errors."""
    report = report_of(variant, values, chosen)
    if _collectors:
        _collectors[-1](report)
        return
    if report.findings:
        print(report.render(), file=sys.stderr)
    errors = [f for f in report.findings if f.severity is Severity.ERROR]
    if errors:
        raise CheckError.from_findings(report.findings)
