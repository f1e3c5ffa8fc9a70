"""Many damaged kernels through the whole package, in processes that may die or hang without harm.

    python tests/fuzz/run.py [COUNT] [--first SEED] [--workers N] [--show SEED]

Prints how they were answered and every problem: an internal error, a crash, a hang. Exit code 1 when there is one.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HANG_SECONDS = 240.0
"""Of one case: long past the time after which its launch is interrupted, on a busy machine as well."""
RESTART_EVERY = 400
"""Cases of one process: compiled code stays loaded as long as its process."""


class Worker:
    """One child process, replaced when it dies, hangs or is full."""

    def __init__(self, cache: str) -> None:
        self.cache = cache
        self.child: Any = None
        self.errors: Any = None
        self.answers: queue.Queue[str] = queue.Queue()
        self.done = 0

    def run(self, seed: int) -> dict[str, Any]:
        """The answer to one case."""
        if self.child is None or self.done >= RESTART_EVERY:
            self.start()
        self.done += 1
        hangs, line = False, ""
        try:
            self.child.stdin.write(f"{seed}\n")
            self.child.stdin.flush()
            line = self.answers.get(timeout=HANG_SECONDS)
        except queue.Empty:
            hangs = True
        except OSError:
            """It has ended, or is about to."""
        if line:
            return json.loads(line)  # type: ignore[no-any-return]
        if hangs:
            self.child.send_signal(signal.SIGABRT)  # faulthandler writes where every thread stands
        code = self.child.wait()
        problem = f"hangs for {HANG_SECONDS:.0f} s" if hangs else f"the process ended with {code}"
        self.stop()
        self.errors.seek(0)
        return {"seed": seed, "answer": "dead", "problem": f"{problem}\n{self.errors.read()[-4000:]}"}

    def start(self) -> None:
        """A fresh process."""
        self.stop()
        here = Path(__file__).parent
        paths = os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "PYPTO_PRO_CACHE_DIR": self.cache, "PYTHONPATH": paths, "PYPTO_PRO_THREADS": "2"}
        self.errors = tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", str(here / "worker.py")], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=env, stderr=self.errors,
        )  # fmt: skip
        self.answers, self.done = queue.Queue(), 0
        threading.Thread(target=_pump, args=(self.child.stdout, self.answers), daemon=True).start()

    def stop(self) -> None:
        """End the process."""
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            self.child = None


def _pump(stream: Any, into: queue.Queue[str]) -> None:
    for line in stream:
        into.put(line)
    into.put("")  # the process ended


def answers(seeds: range, workers: int = 1) -> Iterator[dict[str, Any]]:
    """The answers to cases, in the order in which they come."""
    todo: queue.Queue[int] = queue.Queue()
    for seed in seeds:
        todo.put(seed)
    results: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def serve(worker: Worker) -> None:
        try:
            while True:
                results.put(worker.run(todo.get_nowait()))
        except queue.Empty:
            pass
        finally:
            worker.stop()
            results.put(None)

    with tempfile.TemporaryDirectory() as cache:
        for _ in range(workers):
            threading.Thread(target=serve, args=(Worker(cache),), daemon=True).start()
        ended = 0
        while ended < workers:
            found = results.get()
            if found is None:
                ended += 1
            else:
                yield found


def show(seed: int) -> None:
    """Print what is damaged in a case."""
    from damage import damaged

    file, text = damaged(seed)
    before = file.read_text(encoding="utf-8").splitlines(keepends=True)
    lines = difflib.unified_diff(before, text.splitlines(keepends=True), str(file), f"damaged {seed}")
    print("".join(lines))


def main() -> int:
    """Run, count, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int, metavar="SEED", help="print the damage of one case, and run nothing")
    chosen = parser.parse_args()
    if chosen.show is not None:
        show(chosen.show)
        return 0
    told: Counter[str] = Counter()
    problems = 0
    for done, found in enumerate(answers(range(chosen.first, chosen.first + chosen.count), chosen.workers), 1):
        told[found["answer"]] += 1
        if "problem" in found:
            problems += 1
            print(f"seed {found['seed']} ({found.get('file', '?')}): {found['problem']}", flush=True)
        if done % 500 == 0:
            print(f"{done} of {chosen.count}: {dict(told.most_common())}, {problems} problems", flush=True)
    print(f"{sum(told.values())} cases: {dict(told.most_common())}, {problems} problems")
    return int(problems > 0)


if __name__ == "__main__":
    sys.exit(main())
