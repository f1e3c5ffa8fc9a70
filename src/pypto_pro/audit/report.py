"""The result of an audit as data. Field order is the order of the JSON form; `docs/audit-schema.json` states the
shape.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from pypto_pro.audit.rules import main_category
from pypto_pro.diag import Span

SCHEMA_VERSION = 1
_JSON_NAMES = {"class_": "class"}  # Python keywords among the field names


@dataclass(frozen=True)
class Finding:
    """One broken rule at one place. `spans`, `calls` and `notes` feed the diagnostic; JSON holds plain positions."""

    code: str
    category: str
    severity: str
    message: str
    line: int
    col: int
    end_line: int
    end_col: int
    subject: str
    expression: str
    chain: tuple[dict[str, Any], ...]
    help: str | None
    gate: str | None
    static: bool = True
    dynamic: str = "not_run"
    count: int = 1
    spans: tuple[Span, ...] = field(default=(), metadata={"json": False})
    calls: tuple[Span, ...] = field(default=(), metadata={"json": False})
    notes: tuple[str, ...] = field(default=(), metadata={"json": False})

    @property
    def order(self) -> tuple[int, int, str, str]:
        """Lists are sorted by line, then column."""
        return (self.line, self.col, self.code, self.subject)


@dataclass(frozen=True)
class UnprovenUse:
    """An operator on a value of unknown kind, or a function that launches in a file without a wrapper."""

    line: int
    expression: str
    subject: str
    why: str
    span: Span | None = field(default=None, metadata={"json": False})
    help: str | None = field(default=None, metadata={"json": False})


@dataclass(frozen=True)
class LaunchSite:
    """One launch expression."""

    line: int
    col: int
    form: str
    block_dim_text: str
    in_loop: bool
    chain: tuple[str, ...]


@dataclass(frozen=True)
class ExitSite:
    """One normal way out of the wrapper, with the launches that may precede it (2 = two or more)."""

    line: int
    kind: str
    min: int
    max: int


@dataclass(frozen=True)
class Output:
    """One output of the contract: a kernel parameter and what the wrapper passes for it."""

    kernel_param: str
    var: str
    allocated_line: int | None
    given_by_caller: bool
    returned: bool


@dataclass(frozen=True)
class Contract:
    """Where the declared outputs come from, and what they are."""

    source: str
    outputs: tuple[Output, ...] = ()


@dataclass(frozen=True)
class EmptySite:
    """One call of `torch.empty`."""

    line: int
    var: str
    declared: bool
    why: str


@dataclass(frozen=True)
class MetadataSite:
    """One read of a listed member."""

    tensor: str
    member: str
    line: int


@dataclass(frozen=True)
class CallSite:
    """One call of the wrapper or a helper, and how it was classified."""

    line: int
    callee: str
    resolved: bool
    class_: str
    code: str | None


@dataclass
class DynamicReport:
    """The dynamic part of a wrapper's report; `cases` are recorded calls (see `recorder.py`)."""

    ran: bool = False
    reason: str = "not asked for"
    cases: tuple[Any, ...] = ()
    lines_run: tuple[int, ...] = ()
    lines_not_run: tuple[int, ...] = ()
    disagreements: tuple[str, ...] = ()


@dataclass
class WrapperReport:
    """Everything about one wrapper."""

    name: str
    line: int
    end_line: int
    role_reason: str
    params: tuple[dict[str, str], ...]
    kernel: dict[str, Any] | None
    contract: Contract
    launches: tuple[LaunchSite, ...]
    launch_count: dict[str, int]
    exits: tuple[ExitSite, ...]
    metadata_reads: tuple[MetadataSite, ...]
    empties: tuple[EmptySite, ...]
    calls: tuple[CallSite, ...]
    findings: tuple[Finding, ...]
    unproven: tuple[UnprovenUse, ...]
    dynamic: DynamicReport
    verdict: str = "ok"
    functions_interpreted: int = field(default=1, metadata={"json": False})
    call_depth: int = field(default=1, metadata={"json": False})

    def judge(self) -> None:
        """Set the verdict from what was found."""
        self.verdict = "violation" if self.findings else "unproven" if self.unproven else "ok"


@dataclass(frozen=True)
class FunctionRole:
    """A function of the file, its role and why it has it."""

    name: str
    line: int
    role: str
    reason: str


@dataclass
class Report:
    """The audit of one file. `findings` at this level belong to the file, not to one wrapper (delivery rules)."""

    schema_version: int
    tool: str
    file: str
    file_sha256: str
    mode: str
    verdict: str
    main_category: str | None
    limits: tuple[str, ...]
    wrappers: list[WrapperReport]
    findings: tuple[Finding, ...]
    functions: tuple[FunctionRole, ...]
    kb_usage: Any = None
    allow_unproven: bool = field(default=False, metadata={"json": False})
    unaudited: tuple[UnprovenUse, ...] = field(default=(), metadata={"json": False})

    def all_findings(self) -> list[Finding]:
        """Findings of the file and of every wrapper, by line and column; one place is listed once."""
        seen: dict[tuple[Any, ...], Finding] = {}
        for finding in [*self.findings, *(f for w in self.wrappers for f in w.findings)]:
            seen.setdefault((finding.code, finding.line, finding.col, finding.subject, finding.message), finding)
        return sorted(seen.values(), key=lambda f: f.order)

    def all_unproven(self) -> list[UnprovenUse]:
        """Unproven uses of every wrapper, by line, and launchers nobody looked at where there is no wrapper."""
        found = dict.fromkeys((*self.unaudited, *(u for w in self.wrappers for u in w.unproven)))
        return sorted(found, key=lambda u: (u.line, u.expression))

    def judge(self) -> None:
        """Set verdict and main failure class."""
        found = self.all_findings()
        categories = [f.category for f in found]
        record = self.kb_usage
        if record is not None and record.findings:
            categories.append("kb_usage_invalid")
        unproven = bool(self.all_unproven())
        self.verdict = "violation" if categories else "unproven" if unproven else "ok"
        self.main_category = main_category(categories)

    @property
    def exit_code(self) -> int:
        """0 when the boundary holds; `--allow-unproven` forgives what could not be decided, never in delivery mode."""
        if self.verdict == "unproven" and self.allow_unproven and self.mode not in ("delivery", "staged"):
            return 0
        return 0 if self.verdict == "ok" else 1

    def to_json(self) -> dict[str, Any]:
        """Plain data in the fixed field order."""
        data = as_json(self)
        assert isinstance(data, dict)
        return data


def as_json(value: Any) -> Any:
    """Dataclasses as dictionaries in field order, tuples as lists; fields marked `json: False` are left out."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = [f for f in fields(value) if f.metadata.get("json", True)]
        return {_JSON_NAMES.get(f.name, f.name): as_json(getattr(value, f.name)) for f in shown}
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    return value
