"""The files of a profile: tables and a trace, laid out as the device's profiler does."""

from __future__ import annotations

import csv
import json
import os
import socket
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProfiledLaunch:
    """One launch; times in microseconds of this machine's clock."""

    kernel: str
    step: int
    start_us: float
    duration_us: float
    block_dim: int
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]


def write_directory(base: Path, worker: str | None, launches: Sequence[ProfiledLaunch], device: int) -> Path:
    """Write all files of a profile below `base`; the directory that holds them."""
    stamp = f"{time.strftime('%Y%m%d%H%M%S')}{time.time_ns() // 1_000_000 % 1000:03d}"
    name = worker or f"{socket.gethostname()}_{os.getpid()}"
    output = base / f"{name}_{stamp}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True, exist_ok=True)
    _write_details(output / "kernel_details.csv", launches, device)
    _write_statistic(output / "op_statistic.csv", launches, device)
    write_chrome_trace(output / "trace_view.json", launches)
    return output


def write_chrome_trace(path: Path, launches: Sequence[ProfiledLaunch]) -> None:
    """Complete events, one a launch."""
    events = [
        {
            "name": launch.kernel, "ph": "X", "pid": os.getpid(), "tid": 0, "ts": launch.start_us,
            "dur": launch.duration_us,
            "args": {
                "step": launch.step, "block_dim": launch.block_dim, "shapes": launch.shapes, "dtypes": launch.dtypes,
            },
        }
        for launch in launches
    ]  # fmt: skip
    path.write_text(json.dumps(events), encoding="utf-8")


def _write_details(path: Path, launches: Sequence[ProfiledLaunch], device: int) -> None:
    heads = (
        "Step Id", "Device_id", "Task ID", "Stream ID", "Name", "Type", "Start Time(us)", "Duration(us)", "Block Dim",
        "Input Shapes", "Input Data Types",
    )  # fmt: skip
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(heads)
        for number, launch in enumerate(launches):
            shapes = ";".join(",".join(map(str, shape)) for shape in launch.shapes)
            rows.writerow(
                (launch.step, device, number, 0, launch.kernel, launch.kernel, f"{launch.start_us:.3f}",
                 f"{launch.duration_us:.3f}", launch.block_dim, shapes, ";".join(launch.dtypes))
            )  # fmt: skip


def _write_statistic(path: Path, launches: Sequence[ProfiledLaunch], device: int) -> None:
    times: dict[str, list[float]] = defaultdict(list)
    for launch in launches:
        times[launch.kernel].append(launch.duration_us)
    whole = sum(map(sum, times.values())) or 1.0
    heads = (
        "Device_id", "OP Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)", "Ratio(%)",
    )  # fmt: skip
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(heads)
        for name, taken in sorted(times.items(), key=lambda item: -sum(item[1])):
            total = sum(taken)
            figures = (total, min(taken), total / len(taken), max(taken), 100 * total / whole)
            rows.writerow((device, name, len(taken), *(f"{figure:.3f}" for figure in figures)))
