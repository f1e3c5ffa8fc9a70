"""`torch_npu.profiler`: profiles that hold our kernel launches, with the times of this machine's clock.

`kernel_details.csv`, `op_statistic.csv` and `trace_view.json` are written where and under the names that scripts read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, IntEnum
from pathlib import Path
from types import TracebackType
from typing import Any

from pypto_pro.diag.errors import ArgumentKindError
from pypto_pro.runtime import launch_hooks
from pypto_pro.runtime.launch_hooks import Ended, LaunchEvent
from pypto_pro.torch_shim.current import current_index
from pypto_pro.torch_shim.missing import missing_names
from pypto_pro.torch_shim.profile_files import ProfiledLaunch, write_chrome_trace, write_directory


class ProfilerActivity(Enum):
    """What to profile. Only launches are recorded, under either."""

    CPU = "CPU"
    NPU = "NPU"


class ProfilerAction(IntEnum):
    """What happens with the launches of a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ProfilerLevel(Enum):
    """How much the device collects; no difference here."""

    Level_none = "Level_none"
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"


class AiCMetrics(Enum):
    """Counters of the device's cores, which a CPU does not have."""

    PipeUtilization = "PipeUtilization"
    ArithmeticUtilization = "ArithmeticUtilization"
    Memory = "Memory"
    MemoryL0 = "MemoryL0"
    MemoryUB = "MemoryUB"
    ResourceConflictRatio = "ResourceConflictRatio"
    L2Cache = "L2Cache"
    MemoryAccess = "MemoryAccess"
    AiCoreNone = "ACL_AICORE_NONE"


class ExportType(Enum):
    """File formats of a profile; text is what is written."""

    Text = "text"
    Db = "db"


class _ExperimentalConfig:
    """Settings of the device's collectors; kept, without effect."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings


Schedule = Callable[[int], ProfilerAction]


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0) -> Schedule:
    """Steps to leave out, warm up and record, in cycles: as torch.profiler has it. ValueError unless active > 0."""
    if active <= 0 or min(wait, warmup, repeat, skip_first) < 0:
        raise ValueError("schedule needs active above 0 and no negative number")
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0 or (repeat and step >= repeat * cycle):
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == cycle - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, analyse_flag: bool = True, **_: Any
) -> Callable[[profile], None]:
    """A handler that writes each finished profile to its own directory below `dir_name`."""

    def handle(finished: profile) -> None:
        finished.written_to = write_directory(Path(dir_name), worker_name, finished.launches, current_index())

    return handle


class profile:  # noqa: N801  (the name scripts use)
    """`with torch_npu.profiler.profile(...) as prof`: records the launches inside, `prof.step()` after each step.

    `launches` holds those of the current cycle, oldest first. Arguments about counters, stacks and memory are accepted
    and have no effect. ArgumentKindError for arguments the device library does not have.
    """

    _IGNORED = frozenset(
        ("activities", "record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules",
         "experimental_config", "use_cuda")
    )  # fmt: skip

    def __init__(
        self, *, schedule: Schedule | None = None, on_trace_ready: Callable[[profile], None] | None = None,
        **accepted: Any,
    ) -> None:  # fmt: skip
        for name in accepted:
            if name not in self._IGNORED:
                raise ArgumentKindError(f"torch_npu.profiler.profile() got an unexpected keyword argument '{name}'")
        self._schedule = schedule
        self._ready = on_trace_ready
        self._lock = threading.Lock()
        self.step_num = 0
        self.launches: list[ProfiledLaunch] = []
        self.written_to: Path | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Record from here."""
        if self._observe not in launch_hooks.observers:
            launch_hooks.observers.append(self._observe)

    def stop(self) -> None:
        """Record no more; what was recorded goes to the handler."""
        if self._observe in launch_hooks.observers:
            launch_hooks.observers.remove(self._observe)
            if self._action() in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE) and self.launches:
                self._deliver()

    def step(self) -> None:
        """The end of a step; the last one of a cycle hands the cycle to the handler."""
        if self._schedule is not None and self._action() is ProfilerAction.RECORD_AND_SAVE:
            self._deliver()
            self.launches = []
        self.step_num += 1

    def export_chrome_trace(self, output_path: str) -> None:
        """Write the launches as a trace for chrome://tracing or Perfetto."""
        write_chrome_trace(Path(output_path), self.launches)

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def _deliver(self) -> None:
        if self._ready is not None:
            self._ready(self)

    def _observe(self, event: LaunchEvent) -> Ended | None:
        if self._action() not in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            return None
        shapes, dtypes = _described(event.args.values())
        step, start = self.step_num, time.perf_counter_ns()

        def ended() -> None:
            lasted = time.perf_counter_ns() - start
            launch = ProfiledLaunch(event.kernel, step, start / 1e3, lasted / 1e3, event.block_dim, shapes, dtypes)
            with self._lock:
                self.launches.append(launch)

        return ended


def _described(values: Iterable[Any]) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
    """Shapes and dtypes of the arrays among the arguments."""
    arrays: Sequence[Any] = [value for value in values if hasattr(value, "shape") and hasattr(value, "dtype")]
    return tuple(tuple(a.shape) for a in arrays), tuple(str(a.dtype).removeprefix("torch.") for a in arrays)


__all__ = [
    "AiCMetrics", "ExportType", "ProfilerAction", "ProfilerActivity", "ProfilerLevel", "profile", "schedule",
    "tensorboard_trace_handler",
]  # fmt: skip
__getattr__ = missing_names("torch_npu.profiler", __all__)
