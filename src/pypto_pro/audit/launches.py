"""Launch rules: W120 to W123, from the exits of the wrapper and the launch expressions on the way to them."""

from __future__ import annotations

from pypto_pro.audit.findings import make_finding
from pypto_pro.audit.interpreter import Interpretation
from pypto_pro.audit.report import ExitSite, Finding, LaunchSite
from pypto_pro.audit.source import FunctionNode, Source
from pypto_pro.audit.state import Exit
from pypto_pro.audit.trace import Launch
from pypto_pro.audit.values import Kernel
from pypto_pro.diag import Span


def check_launches(source: Source, wrapper: FunctionNode | None, name: str, result: Interpretation) -> list[Finding]:
    """Every path exactly one launch, none in a loop, one kernel."""
    launches = [e for e in result.events if isinstance(e, Launch)]
    return [
        *_missing(source, wrapper, name, result, launches),
        *_repeated(source, name, result, launches),
        *_looped(source, launches),
        *_kernels(source, name, result, launches),
    ]


def _missing(
    source: Source, wrapper: FunctionNode | None, name: str, result: Interpretation, launches: list[Launch]
) -> list[Finding]:
    """W120: a normal exit that no launch precedes."""
    others = [launch_span(source, launch) for launch in launches[:1]]
    found = []
    for leave in result.exits:
        if leave.state.count.reached == 0:
            words = {"return": "returns", "handler": "returns from a handler", "fallthrough": "ends"}[leave.kind]
            guard = f" (when {leave.guard})" if leave.guard else ""
            message = f"`{name}` {words} in line {_exit_line(leave)} without a launch{guard}"
            label = "no launch before this exit"
            found.append(
                make_finding(
                    source,
                    "W120",
                    leave.node,
                    message,
                    chain=((name, wrapper.lineno if wrapper else 0),),
                    label=label,
                    others=others,
                )
            )
    if not result.exits and result.finished and result.resolved and not launches and wrapper is not None:
        message = f"`{name}` never returns normally and launches nothing"
        found.append(make_finding(source, "W120", wrapper, message, label="no path through this function launches"))
    return found


def _exit_line(leave: Exit) -> int:
    if leave.kind == "fallthrough":
        return getattr(leave.node, "end_lineno", 0) or 0
    return getattr(leave.node, "lineno", 0)


def _repeated(source: Source, name: str, result: Interpretation, launches: list[Launch]) -> list[Finding]:
    """W121: an exit that two launches outside loops may precede. One finding a wrapper, at the second launch."""
    if not any(leave.state.count.straight >= 2 for leave in result.exits):
        return []
    straight = [launch for launch in launches if launch.loop is None]
    places = list(dict.fromkeys((launch.node, launch.chain) for launch in straight))
    node, chain = places[1] if len(places) > 1 else places[0]
    lines = sorted({getattr(n, "lineno", 0) for n, _ in places})
    callers = sorted({c[-1][1] for _, c in places if len(c) > 1})
    where = (
        f"lines {_listed(lines)}"
        if len(lines) > 1
        else f"line {lines[0]}" + (f", called in lines {_listed(callers)}" if callers else "")
    )
    others = [launch_span(source, launch, "another launch") for launch in straight if launch.node is not node][:4]
    message = f"`{name}` launches more than once on one path: {where}"
    return [make_finding(source, "W121", node, message, chain=chain, label="second launch", others=others)]


def _looped(source: Source, launches: list[Launch]) -> list[Finding]:
    """W122: one finding a launch expression inside a loop."""
    found: dict[object, Finding] = {}
    for launch in launches:
        if launch.loop is None or launch.node in found:
            continue
        line = getattr(launch.loop, "lineno", 0)
        kind = _loop_word(launch.loop)
        loop = source.span(launch.loop, f"{kind} here")
        others = (
            []
            if line == getattr(launch.node, "lineno", 0)
            else [Span(loop.file, loop.line, loop.column, loop.line, 0, loop.label)]
        )
        message = f"`{source.expression(launch.node)}` launches once for every round of the {kind} in line {line}"
        found[launch.node] = make_finding(
            source, "W122", launch.node, message, chain=launch.chain, label="launched in a loop", others=others
        )
    return list(found.values())


def _loop_word(loop: object) -> str:
    name = type(loop).__name__
    words = {
        "For": "`for` loop",
        "AsyncFor": "`for` loop",
        "While": "`while` loop",
        "Call": "callback",
        "FunctionDef": "generator",
    }
    return words.get(name, "comprehension")


def _kernels(source: Source, name: str, result: Interpretation, launches: list[Launch]) -> list[Finding]:
    """W123: more than one kernel reachable."""
    first: dict[Kernel, Launch] = {}
    for launch in launches:
        for kernel in launch.kernels:
            first.setdefault(kernel, launch)
    by_node = {kernel.node: (kernel, launch) for kernel, launch in reversed(first.items())}
    kernels = list(reversed(by_node.values()))
    if len(kernels) < 2:
        return []
    listed = ", ".join(f"`{k.node.name}` (line {k.node.lineno})" for k, _ in kernels)
    second = kernels[1][1]
    others = [
        launch_span(source, launch, f"`{k.node.name}` is launched here")
        for k, launch in kernels
        if launch.node is not second.node
    ]
    message = f"`{name}` reaches {len(kernels)} kernels: {listed}"
    return [
        make_finding(source, "W123", second.node, message, chain=second.chain, label="a second kernel", others=others)
    ]


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def launch_span(source: Source, launch: Launch, label: str = "the launch") -> Span:
    """The launch as a labelled secondary span."""
    return source.span(launch.node, label)


def launch_sites(source: Source, launches: list[Launch]) -> tuple[LaunchSite, ...]:
    """Launch expressions for the report, each once a chain."""
    sites: dict[LaunchSite, None] = {}
    for launch in launches:
        span = source.span(launch.node)
        site = LaunchSite(
            span.line,
            span.column,
            launch.form,
            launch.block_dim,
            launch.loop is not None,
            tuple(n for n, _ in launch.chain),
        )
        sites[site] = None
    return tuple(sorted(sites, key=lambda s: (s.line, s.col, s.chain)))


def exit_sites(exits: list[Exit]) -> tuple[ExitSite, ...]:
    """Exits for the report."""
    rows = [ExitSite(_exit_line(e), e.kind, e.state.count.low, e.state.count.high) for e in exits]
    return tuple(sorted(set(rows), key=lambda r: (r.line, r.kind, r.min, r.max)))


def launch_range(exits: list[Exit]) -> dict[str, int]:
    """Launches over all exits; 2 stands for two or more."""
    if not exits:
        return {"min": 0, "max": 0}
    return {"min": min(e.state.count.low for e in exits), "max": max(e.state.count.high for e in exits)}
