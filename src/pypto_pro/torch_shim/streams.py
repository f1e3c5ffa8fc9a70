"""Streams and events of `torch.npu`. A launch has ended when it returns, so a stream is only a name and a wait is over.

Times are those of this machine's clock: what an event pair measures is how long the CPU took.
"""

from __future__ import annotations

import itertools
import threading
import time
from types import TracebackType
from typing import Any

import torch

from pypto_pro.torch_shim.current import index_of
from pypto_pro.torch_shim.tensors import TYPE

_ids = itertools.count(1)


class Stream:
    """A queue of work on one device."""

    def __init__(self, device: Any = None, priority: int = 0, *, stream_id: int | None = None, **_: Any) -> None:
        self.device_index = index_of(device)
        self.priority = priority
        self.stream_id = next(_ids) if stream_id is None else stream_id

    @property
    def device(self) -> Any:
        """The device the stream belongs to."""
        return torch.device(TYPE, self.device_index)

    @property
    def npu_stream(self) -> int:
        """The handle."""
        return self.stream_id

    def synchronize(self) -> None:
        """Wait for the stream's work, which has ended."""

    def query(self) -> bool:
        """Whether the stream's work has ended: always."""
        return True

    def wait_stream(self, stream: Stream) -> None:
        """Order later work after the other stream's."""

    def wait_event(self, event: Event) -> None:
        """Order later work after an event."""

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event (a new one by default) here and now."""
        recorded = Event() if event is None else event
        recorded.record(self)
        return recorded

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"<torch.npu.Stream device={self.device} stream_id={self.stream_id}>"

    def _key(self) -> tuple[int, int]:
        return self.device_index, self.stream_id


class Event:
    """A point in a stream. `enable_timing` lets `elapsed_time` be asked, as on the device."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.enable_timing = enable_timing
        self._at: int | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Take the time."""
        self._at = time.perf_counter_ns()

    def wait(self, stream: Stream | None = None) -> None:
        """Order the stream's later work after this event."""

    def query(self) -> bool:
        """Whether the work before the event has ended: always."""
        return True

    def synchronize(self) -> None:
        """Wait for the event, which is over."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds of this machine's clock from this event to `end_event`.

        RuntimeError when one of them was not recorded, or was made without `enable_timing=True`.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("both events must be created with enable_timing=True to measure a time")
        if self._at is None or end_event._at is None:
            raise RuntimeError("both events must be recorded before their elapsed time can be asked")
        return (end_event._at - self._at) / 1e6

    def __repr__(self) -> str:
        return f"<torch.npu.Event {'not recorded' if self._at is None else 'recorded'}>"


class _Chosen(threading.local):
    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}


_chosen = _Chosen()


def default_stream(device: Any = None) -> Stream:
    """The stream that is current unless another is set."""
    return Stream(index_of(device), stream_id=0)


def current_stream(device: Any = None) -> Stream:
    """The stream set for this thread, else the default one."""
    index = index_of(device)
    return _chosen.streams.get(index) or default_stream(index)


def set_stream(stream: Stream | None) -> None:
    """Make a stream the current one of its device; None changes nothing."""
    if stream is not None:
        _chosen.streams[stream.device_index] = stream


class StreamContext:
    """`with torch.npu.stream(s)`: `s` is current inside. A stream of None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: Stream | None = None

    def __enter__(self) -> Stream | None:
        if self.stream is not None:
            self._before = current_stream(self.stream.device_index)
            set_stream(self.stream)
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        set_stream(self._before)
