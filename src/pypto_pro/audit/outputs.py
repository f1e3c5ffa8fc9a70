"""Declared outputs: which kernel parameter each `torch.empty` reaches, whether it is written and returned (W109)."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from pypto_pro.audit.findings import make_finding
from pypto_pro.audit.interpreter import Interpretation
from pypto_pro.audit.report import Contract, EmptySite, Finding, Output
from pypto_pro.audit.source import Source
from pypto_pro.audit.trace import Allocation, Chain, Launch
from pypto_pro.audit.values import Kernel, Tensor, options

KEPT_HELP = "allocate the output in every call, or let the caller hand it in (`out=`)"


@dataclass
class Reached:
    """How far one allocation gets."""

    node: ast.AST
    chain: Chain
    name: str
    parameters: list[str] = field(default_factory=list)
    written: bool = False
    returned: bool = False
    kept: bool = False  # for later calls, which launch on it
    launched_unseen: bool = False  # handed to a launch whose kernel the audit does not see


def trace_allocations(result: Interpretation, source: Source) -> dict[str, Reached]:
    """Follow every allocation to kernel parameters and to the returned value."""
    machine = result.machine
    reached = {
        e.site: Reached(e.node, e.chain, machine.site_names.get(e.site, source.expression(e.node)))
        for e in result.events
        if isinstance(e, Allocation)
    }
    for launch in (e for e in result.events if isinstance(e, Launch)):
        written = _written(result, launch.kernels)
        for parameter, value in launch.arguments:
            for site in machine.sources_of(value) & reached.keys():
                entry = reached[site]
                entry.launched_unseen = entry.launched_unseen or not launch.kernels
                if parameter not in entry.parameters:
                    entry.parameters.append(parameter)
                entry.written = entry.written or parameter in written
    for leave in result.exits:
        machine.state = leave.state
        for site in machine.sources_of(leave.value) & reached.keys():
            reached[site].returned = True
    for site in result.kept & reached.keys():
        reached[site].kept = True
    return reached


def _written(result: Interpretation, kernels: tuple[Kernel, ...]) -> frozenset[str]:
    return frozenset[str]().union(*(result.machine.kernel_facts(k).written for k in kernels))


def check_outputs(
    source: Source, result: Interpretation, reached: dict[str, Reached], named: frozenset[str]
) -> list[Finding]:
    """W109 for every allocation that is no declared output. `named` are kernel parameters the contract names itself."""
    found = []
    for entry in reached.values():
        why = undeclared(entry, named)
        if why is not None:
            message = f"`{entry.name}`, from `torch.empty`, is no declared output: {why}"
            found.append(
                make_finding(source, "W109", entry.node, message, chain=entry.chain, subject=entry.name, label=why,
                             help_text=KEPT_HELP if entry.kept else None)
            )  # fmt: skip
    return found


def undeclared(entry: Reached, named: frozenset[str]) -> str | None:
    """Which half of the condition fails; None for a declared output."""
    if entry.kept:
        return "kept for later calls, whose launch overwrites what earlier callers still hold"
    if named & set(entry.parameters):
        return None
    if not entry.parameters and not entry.launched_unseen:
        return "never passed to the kernel"
    if not entry.written and not entry.launched_unseen:
        return f"passed as parameter `{entry.parameters[0]}`, which the kernel only reads"
    if not entry.returned:
        return "written by the kernel but not returned"
    return None


def contract(result: Interpretation, reached: dict[str, Reached], named: frozenset[str]) -> Contract:
    """The outputs as the report lists them."""
    launches = [e for e in result.events if isinstance(e, Launch)]
    rows: dict[Output, None] = {}
    for launch in launches:
        written = named or _written(result, launch.kernels)
        for parameter, value in launch.arguments:
            if parameter not in written:
                continue
            for tensor in (v for v in options(value) if isinstance(v, Tensor)):
                rows[_output(result, parameter, tensor, reached)] = None
    origin = "option" if named else "kernel_writes" if any(launch.kernels for launch in launches) else "returns"
    if origin == "returns":
        for entry in (r for r in reached.values() if r.returned):
            rows[Output("", entry.name, getattr(entry.node, "lineno", None), False, True)] = None
    return Contract(origin, tuple(sorted(rows, key=lambda o: (o.allocated_line or 0, o.kernel_param))))


def _output(result: Interpretation, parameter: str, tensor: Tensor, reached: dict[str, Reached]) -> Output:
    sites = [reached[s] for s in sorted(tensor.sources) if s in reached]
    if sites and tensor.origin in ("empty", "derived"):
        return Output(parameter, sites[0].name, getattr(sites[0].node, "lineno", None), False, sites[0].returned)
    returned = False
    for leave in result.exits:
        result.machine.state = leave.state
        returned = returned or bool(tensor.sources & result.machine.sources_of(leave.value))
    return Output(parameter, tensor.label, None, tensor.origin == "param", returned)


def empty_sites(reached: dict[str, Reached], named: frozenset[str]) -> tuple[EmptySite, ...]:
    """Allocations for the report."""
    rows = []
    for entry in reached.values():
        why = undeclared(entry, named)
        words = why or (
            f"named output `{entry.parameters[0]}`"
            if named
            else f"output `{entry.parameters[0] if entry.parameters else '?'}`"
        )
        rows.append(EmptySite(getattr(entry.node, "lineno", 0), entry.name, why is None, words))
    return tuple(sorted(set(rows), key=lambda r: (r.line, r.var)))
