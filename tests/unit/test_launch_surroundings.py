"""Launches in awkward surroundings: forks, signal handlers, the end of the process, memory that went away."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import pypto_pro.language as pl
from pypto_pro import options
from pypto_pro.diag.errors import ArgumentError

KERNELS = '''
import os, signal, sys, threading, time
import numpy as np
import pypto_pro.language as pl

@pl.jit
def count(y: pl.Tensor[[16], pl.DT_INT32], steps: pl.DT_INT64):
    with pl.section_vector():
        n = 0
        for i in pl.range(steps):
            n = n + i
        y[0] = n

@pl.jit
def meet(y: pl.Tensor[[64], pl.DT_INT32]):
    with pl.section_vector():
        pl.system.sync_all(core_type=pl.SyncCoreType.AIV_ONLY)
        y[pl.get_block_idx()] = 1

def works():
    y, z = np.zeros(16, np.int32), np.zeros(64, np.int32)
    count[None, 4](y, 10)
    meet[None, 8](z)
    return y[0] == 45 and z.sum() == 8

def child():
    """Exit status of a forked child that launches."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        os._exit(0 if works() else 1)
    return os.waitpid(pid, 0)[1]
'''


def run(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    """A script with the kernels above in a process of its own, with an empty cache."""
    script = tmp_path / "script.py"
    script.write_text(KERNELS + body, encoding="utf-8")
    environment = {
        "PYPTO_PRO_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "PYPTO_PRO_EXECUTOR": "native",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=100, check=False
    )


pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX signals")


def test_forks_while_another_thread_compiles_and_launches(tmp_path: Path) -> None:
    done = run(tmp_path, '''
running = threading.Thread(target=works)
running.start()
statuses = []
for k in range(4):
    time.sleep(0.05 * k)
    statuses.append(child())
running.join()
launching = threading.Thread(target=count[None, 4], args=(np.zeros(16, np.int32), 400_000_000))
launching.start()
statuses.append(child())
launching.join()
print(statuses, works())
''')  # fmt: skip
    assert done.stdout.strip() == "[0, 0, 0, 0, 0] True", done.stderr


def test_a_handler_that_launches_what_it_interrupts(tmp_path: Path) -> None:
    done = run(tmp_path, '''
def handler(*_):
    heard.append(bool(works()))

heard = []
count[None, 1](np.zeros(16, np.int32), 1)  # its own signature is compiled; the other kernel is not
signal.signal(signal.SIGALRM, handler)
y = np.zeros(16, np.int32)
while len(heard) < 3:
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    count[None, 2](y, 100_000_000)
print(set(heard))
''')  # fmt: skip
    assert done.stdout.strip() == "{True}", done.stderr


def test_the_process_ends_although_a_daemon_thread_launches(tmp_path: Path) -> None:
    began = time.monotonic()
    done = run(tmp_path, '''
works()
threading.Thread(target=count[None, 4], args=(np.zeros(16, np.int32), 1 << 60), daemon=True).start()
time.sleep(0.3)
print("over")
''')  # fmt: skip
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "over", "")
    assert time.monotonic() - began < 60


@pl.jit
def meets(y: pl.Tensor[[64], pl.DT_INT32]):
    with pl.section_vector():
        pl.system.sync_all(core_type=pl.SyncCoreType.AIV_ONLY)
        y[0] = 1


def test_more_blocks_that_wait_for_each_other_than_can_be_alive() -> None:
    with options(executor="native", check=False), pytest.raises(ArgumentError, match="at most 16384 here, found 1"):
        meets[None, 100_000](np.zeros(64, np.int32))


@pytest.mark.parametrize("kept", [0, 32])
def test_a_torch_tensor_whose_memory_went_away(kept: int) -> None:
    torch = pytest.importorskip("torch")
    y = torch.zeros(64, dtype=torch.int32)
    with options(executor="native", check=False):
        meets[None, 2](y)
        y.untyped_storage().resize_(kept)
        with pytest.raises(ArgumentError, match=f"256 bytes into its storage, which was cut to {kept}"):
            meets[None, 2](y)
