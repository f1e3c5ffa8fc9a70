"""One launch under the checks, in one or several schedules, with the cheap placement rules beside it."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pypto_pro.analysis.coverage import find_unreached
from pypto_pro.analysis.dependence import reads_deciding, reads_placing
from pypto_pro.diag import Diagnostic
from pypto_pro.diag.errors import DiagnosticError
from pypto_pro.ir.launch import BufferValue, Launch
from pypto_pro.ir.nodes import Kernel
from pypto_pro.runtime.findings import as_finding
from pypto_pro.runtime.notes import notes_of
from pypto_pro.runtime.options import Options
from pypto_pro.runtime.placement import placement_findings
from pypto_pro.runtime.specialise import Variant, written_params

if TYPE_CHECKING:
    from pypto_pro.interp.checks import Checker


@dataclass
class LookedAt:
    """How far the runs of one launch looked."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ran: set[int] = field(default_factory=set)
    """Ids of the statements that some run reached."""

    def saw(self, checker: Checker) -> None:
        """Take over what one run saw."""
        self.ran |= {id(site.node) for site in checker.sites}
        for text in checker.remarks():
            if text not in self.notes:
                self.notes.append(text)

    def conclude(self, kernel: Kernel) -> None:
        """Say what the runs did not see, and whether their order holds for other schedules."""
        if all(run["finished"] for run in self.runs):
            unseen = find_unreached(kernel, lambda stmt: id(stmt) in self.ran)
            if unseen:
                self.notes.append("not seen: " + "; ".join(unseen))
        self.notes.append(verdict(kernel))

    def as_dict(self, kernel: Kernel, launch: Launch) -> dict[str, Any]:
        """The record of a report."""
        shapes = {
            p.name: list(a.dims)
            for p, a in zip(kernel.params, launch.args, strict=True)
            if isinstance(a, BufferValue) and a.dims
        }
        return {
            "kernel": kernel.name,
            "blocks": launch.block_dim,
            "shapes": shapes,
            "ran": True,
            "runs": self.runs,
            "notes": self.notes,
        }


def verdict(kernel: Kernel) -> str:
    """For which runs the order that was found holds."""
    control = [span for p in kernel.programs for span in reads_deciding(p.body)]
    addresses = [span for p in kernel.programs for span in reads_placing(p.body)]
    if control:
        lines = ", ".join(str(line) for line in sorted({span.line for span in control}))
        return f"branches or signals depend on data read at line {lines}: the order holds for the data of this launch"
    text = "no branch and no signal depends on data: what is said about order holds for every schedule of this launch"
    if addresses:
        lines = ", ".join(str(line) for line in sorted({span.line for span in addresses}))
        text += f"; addresses depend on data read at line {lines}"
    return text


def schedules(chosen: Options) -> Iterator[tuple[str, int]]:
    """The schedules to run: the chosen one, then random ones with the seeds that follow."""
    yield chosen.schedule, chosen.seed
    for k in range(1, chosen.schedules):
        yield "random", chosen.seed + k


def run_checked(variant: Variant, launch: Launch, chosen: Options, looked: LookedAt) -> list[Diagnostic]:
    """Findings of all schedules together. Buffers hold the results of the last run."""
    from pypto_pro import interp
    from pypto_pro.interp.checks import Checker

    kernel = variant.kernel
    before = _saved(kernel, launch) if chosen.schedules > 1 else []
    findings: dict[Any, Diagnostic] = {}
    for number, (schedule, seed) in enumerate(schedules(chosen)):
        if number:
            _restore(before)
        checker = Checker(kernel)
        run = {"schedule": schedule, "seed": seed, "finished": True, "instructions": 0}
        try:
            with collector_paused():
                result = interp.run(kernel, launch, schedule=schedule, seed=seed, observer=checker)
            run |= {"finished": result.finished, "instructions": result.instructions}
            found = checker.findings
        except DiagnosticError as error:
            run["finished"] = False
            found = [as_finding(error), *checker.findings]
        looked.runs.append(run)
        looked.saw(checker)
        for finding in found:
            findings.setdefault(_key(finding), replayable(finding, schedule, seed))
    looked.conclude(kernel)
    return placement_findings(kernel, [*findings.values(), *notes_of(kernel, variant.watched)])


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without Python's search for cycles: a run keeps many objects and drops none that way."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def replayable(finding: Diagnostic, schedule: str, seed: int) -> Diagnostic:
    """The finding with the schedule that showed it, unless that is the default one."""
    if schedule == "in_order":
        return finding
    return finding.with_notes(f"seen in schedule {schedule}, seed {seed}: `--replay {schedule}:{seed}` runs it again")


def _key(finding: Diagnostic) -> Any:
    """Findings of two schedules at the same lines, between the same kinds of cores, are one."""
    return finding.code, finding.scope, frozenset((s.file, s.line) for s in finding.spans[:2])


def _saved(kernel: Kernel, launch: Launch) -> list[tuple[int, bytes]]:
    """The bytes of every buffer that the kernel may write."""
    written = written_params(kernel)
    return [
        (value.address, ctypes.string_at(value.address, value.size_bytes))
        for param, value in zip(kernel.params, launch.args, strict=True)
        if isinstance(value, BufferValue) and param in written and value.size_bytes
    ]


def _restore(saved: list[tuple[int, bytes]]) -> None:
    for address, data in saved:
        ctypes.memmove(address, data, len(data))
