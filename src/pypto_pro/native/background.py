"""Threads that help with launches: daemons, so that a launch still running does not keep the process from ending."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

MOST = 256


class Task:
    """Work for a helper: it belongs to the thread that begins it, or to the one that calls it off.

    A signal handler may interrupt the latter anywhere: asking once more gives the same answer.
    """

    __slots__ = ("_over", "_owner", "error", "work")

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.error: BaseException | None = None
        self._owner: dict[str, str] = {}
        self._over = threading.Lock()
        self._over.acquire()

    def begin(self) -> None:
        """Do it, unless it was called off."""
        if self._owner.setdefault("is", "helper") != "helper":
            return
        try:
            self.work()
        except BaseException as error:
            self.error = error
        finally:
            self._over.release()

    def call_off(self) -> bool:
        """Whether nobody has begun it; nobody will then."""
        return self._owner.setdefault("is", "caller") == "caller"

    def wait(self) -> BaseException | None:
        """Wait until a task that was begun is over; what it raised."""
        with self._over:
            return self.error


class _Pool:
    """Threads that take tasks from one queue, started when there are more tasks than idle threads."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[Task] = SimpleQueue()
        self.lock = threading.RLock()  # a signal handler may launch, too
        self.idle = self.threads = 0

    def submit(self, task: Task) -> None:
        with self.lock:
            starts = self.idle <= self.tasks.qsize() and self.threads < MOST
            self.threads += starts
        self.tasks.put(task)
        if starts:
            threading.Thread(target=self._serve, name="pypto-pro", daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self.lock:
                self.idle += 1
            task = self.tasks.get()
            with self.lock:
                self.idle -= 1
            task.begin()
            del task  # it holds on to the launch


_pool = _Pool()


def submit(task: Task) -> None:
    """Hand work to a helper thread."""
    _pool.submit(task)


def _forget_threads() -> None:
    """A forked child has none of the parent's threads."""
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
