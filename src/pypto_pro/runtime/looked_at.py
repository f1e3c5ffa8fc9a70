"""`looked_at` of a report as lines of text."""

from __future__ import annotations

from typing import Any


def looked_at_lines(looked: dict[str, Any]) -> list[str]:
    """What was run, and what was not seen."""
    if not looked.get("ran"):
        return ["nothing was run: the launch was refused"]
    runs = looked.get("runs", [])
    shown = ", ".join(_run(run) for run in runs[:4]) + (f" and {len(runs) - 4} more" if len(runs) > 4 else "")
    shapes = ", ".join(f"{name} {tuple(dims)}" for name, dims in looked.get("shapes", {}).items())
    blocks = looked["blocks"]
    head = f"looked at: `{looked['kernel']}` on {blocks} block{'s' if blocks > 1 else ''}"
    lines = [f"{head}, {shapes}; {shown}" if shapes else f"{head}; {shown}"]
    return lines + [f"  {note}" for note in looked.get("notes", [])]


def _run(run: dict[str, Any]) -> str:
    seed = f" {run['seed']}" if run["schedule"] == "random" else ""
    ended = "" if run["finished"] else ", did not finish"
    return f"schedule {run['schedule']}{seed} ({run['instructions']} instructions{ended})"
