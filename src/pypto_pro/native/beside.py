"""Compiling beside what goes on: LLVM lets Python run while it works, so another thread hands it the modules."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue

Job = Callable[[], object]
LOOK_SECONDS = 0.5
"""How long a thread nobody ended, its block having been interrupted, holds up the end of the process."""


class _Worker:
    """A thread that does jobs in their order, every one: who gave it relies on what a job does when it fails."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=copy_context().run, args=(self._work,), name="pypto-pro-compile")

    def _work(self) -> None:
        while True:
            try:
                job = self.jobs.get(timeout=LOOK_SECONDS)
            except Empty:
                if not threading.main_thread().is_alive():
                    return
                continue
            if job is None:
                return
            try:
                job()
            except BaseException as error:
                self.failure = self.failure or error

    def catch_up(self) -> None:
        """Wait until everything given so far is done."""
        done = threading.Event()
        self.jobs.put(done.set)
        done.wait()

    def end(self) -> None:
        """Wait until everything is done."""
        self.jobs.put(None)
        if self.thread.ident is not None:
            self.thread.join()


_worker: ContextVar[_Worker | None] = ContextVar("pypto_pro_worker", default=None)


@contextmanager
def beside() -> Iterator[None]:
    """What `later` gets is done by another thread, and done at the end of the block; raises what a job raised.

    Inside another such block, which happens in signal handlers, that one's jobs are done first.
    """
    around = _worker.get()
    if around is not None:
        around.catch_up()
    worker = _Worker()
    try:
        worker.thread.start()
        _worker.set(worker)
        yield
    finally:
        _worker.set(around)
        worker.end()
    if worker.failure is not None:
        raise worker.failure


def later(job: Job) -> None:
    """Do a job: inside `beside` behind those that were given before, elsewhere now."""
    worker = _worker.get()
    if worker is None:
        job()
    else:
        worker.jobs.put(job)
