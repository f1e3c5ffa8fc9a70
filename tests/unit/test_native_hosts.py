"""The code for hosts without AVX-512, FMA or half conversions, run on this one: the op tests in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_pro.native import engine

FAKE = """
import sys
import pytest
from pypto_pro.native import engine
engine._initialise()
fake = engine.Host(name="{cpu}", features="", arch="x86_64", has_half_conversion={half}, has_fma={half},
                   has_byte_masks=False, fp32_lanes={lanes})
real = engine.host
for module in list(sys.modules.values()):
    if getattr(module, "host", None) is real:
        module.host = lambda: fake
sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-k", {chosen!r}, {folder!r}]))
"""
CHOSEN = (
    "test_two_tiles and FP16 or test_unary or test_reductions and FP16 or test_casts and fp16 or test_products "
    "or test_narrow or test_within_two_ulp or test_atomic_store"
)


@pytest.mark.slow
@pytest.mark.skipif(engine.host().arch != "x86_64", reason="the older hosts are x86-64")
@pytest.mark.parametrize(("cpu", "half", "lanes"), [("nehalem", False, 4), ("haswell", True, 8)])
def test_older_hosts(tmp_path: Path, cpu: str, half: bool, lanes: int) -> None:
    folder = str(Path(__file__).parent)
    script = FAKE.format(cpu=cpu, half=half, lanes=lanes, chosen=CHOSEN, folder=f"{folder}/test_native_ops.py")
    env = {**os.environ, "PYPTO_PRO_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
