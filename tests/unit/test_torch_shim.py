"""The torch stand-in from outside: `pypto-pro run`, the pytest plugin, and what processes that did not ask for it see.

Each test runs a process of its own, because torch's device key can be taken once. What device "npu" does is tested in
torch_shim_cases.py and torch_shim_training.py, which run here as a whole.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
DEVICE = HERE.parent / "device"
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; "
COMMAND = "from pypto_pro.cli import main; main()"

RACE = """\
import numpy as np
import pytest
import pypto_pro.language as pl

@pl.jit(auto_mutex=False)
def racy(x: pl.Tensor[[16, 64], pl.DT_FP32], y: pl.Tensor[[16, 64], pl.DT_FP32]):
    with pl.section_vector():
        t = pl.make_tile(pl.TileType(shape=[16, 64], dtype=pl.DT_FP32), addr=0)
        pl.load(t, x, [0, 0])
        pl.store(y, t, [0, 0])

def launch():
    racy[None, 1](np.ones((16, 64), np.float32), np.zeros((16, 64), np.float32))

@pytest.fixture
def prepared():
    launch()

def test_passes_otherwise():
    launch()

def test_fails_anyway():
    launch()
    assert 1 == 2

def test_fixture(prepared):
    pass

def test_without_a_launch():
    pass

def test_refused():
    with pytest.raises(TypeError):
        racy[None, 1](1, 2)

def test_executor():
    import pypto_pro.runtime.options as options
    assert options.current().executor == "interp"
"""


def python(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a fresh interpreter with these arguments."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=400)


def run(*arguments: str | Path, before: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`pypto-pro run ARGUMENTS`."""
    return python("-c", before + COMMAND, "run", *map(str, arguments), cwd=cwd)


def pytest_run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`pytest ARGUMENTS`, without the options of this repository."""
    return python("-m", "pytest", "-p", "no:cacheprovider", *map(str, arguments), cwd=cwd)


def script(folder: Path, text: str) -> Path:
    file = folder / "script.py"
    file.write_text(text, encoding="utf-8")
    return file


# --- what the device does, and device scripts -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("cases", ["torch_shim_cases.py", "torch_shim_training.py"])
def test_cases(cases: str) -> None:
    done = pytest_run("--pypto-npu", HERE / cases)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.slow
def test_a_directory_of_device_tests() -> None:
    done = pytest_run("--pypto-npu", "--pypto-check", DEVICE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "13 launches checked, 0 findings" in done.stdout
    assert "14 passed" in done.stdout


def test_the_directory_is_left_alone_without_the_device() -> None:
    done = pytest_run(DEVICE)
    assert done.returncode == 5, done.stdout + done.stderr
    assert "no tests ran" in done.stdout


def test_run_a_device_script() -> None:
    done = run("--executor", "native", DEVICE / "elementwise.py", "--rows", "70", "--blocks", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PASS elementwise on Ascend950")


@pytest.mark.slow
def test_run_under_the_checks() -> None:
    done = run("--check", DEVICE / "fused_attention.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PASS fused_attention")
    assert "looked at: `attention_kernel` on 4 blocks" in done.stderr
    assert "error[" not in done.stderr


def test_run_stops_at_an_error_of_the_checks(tmp_path: Path) -> None:
    done = run("--check", script(tmp_path, RACE + "\nlaunch()\nprint('went on')\n"))
    assert done.returncode == 1
    assert "went on" not in done.stdout
    assert "error[S101]" in done.stderr
    assert "Traceback" not in done.stderr


def test_run_names_what_is_missing(tmp_path: Path) -> None:
    text = "import torch_npu\n\ndef step(x):\n    return torch_npu.npu_rotary_mul(x, x, x)\n\nstep(1)\n"
    done = run(script(tmp_path, text), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error[P004] MissingNameError: the stand-in for `torch_npu` has no `npu_rotary_mul`")
    assert "script.py:4:" in done.stderr
    assert "Traceback" not in done.stderr


def test_run_is_like_python(tmp_path: Path) -> None:
    text = (
        "import sys, os\nassert __name__ == '__main__' and sys.modules['__main__'].sys is sys\n"
        "print(sys.argv[1:], sys.path[0] == os.path.dirname(__file__), 'torch' in sys.modules)\n"
        "def fail():\n    raise ValueError('boom')\nfail() if sys.argv[1] == '--fail' else sys.exit(3)\n"
    )
    file = script(tmp_path, text)
    done = run(file, "--check", "7")
    assert (done.returncode, done.stdout, done.stderr) == (3, "['--check', '7'] True False\n", "")
    done = run(file, "--fail")
    assert done.returncode == 1
    traceback = done.stderr.splitlines()
    assert traceback[0] == "Traceback (most recent call last):"
    assert traceback[1] == f'  File "{file}", line 6, in <module>'
    assert traceback[-1] == "ValueError: boom"
    assert run(tmp_path / "none.py").returncode == 2


def test_run_without_torch(tmp_path: Path) -> None:
    file = script(tmp_path, RACE + "\nlaunch()\nprint('ran')\nimport torch_npu\n")
    done = run(file, before=WITHOUT_TORCH)
    assert (done.returncode, done.stdout) == (1, "ran\n")
    assert done.stderr.startswith("error[P004] MissingModuleError: `torch_npu` needs torch, which is not installed")
    assert "help: pip install 'pypto-pro[torch]'" in done.stderr
    done = run(script(tmp_path, "import torch\n"), before=WITHOUT_TORCH)
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr
    assert done.stderr.endswith("install it with: pip install 'pypto-pro[torch]'\n")


# --- processes that did not ask, and those that ask by an import ------------------------------------------------------

ON_REQUEST = """\
import sys
import pypto_pro.language, pypto_pro.pytest_plugin
assert not {"torch", "pypto_pro.torch_shim", "pypto_pro.runtime.checking"} & sys.modules.keys()
import torch
assert not hasattr(torch, "npu") and torch._C._get_privateuse1_backend_name() == "privateuseone"
try:
    import torch_npu
except ModuleNotFoundError as error:
    assert type(error) is ModuleNotFoundError, error
else:
    sys.exit("the real torch_npu is installed")
import pypto_pro.torch_shim
assert torch.ones(3, device="npu").is_npu
import torch_npu, torch_npu.profiler
from torch_npu.npu import Event
assert torch_npu.npu.Event is Event and sys.modules["torch.npu"] is torch.npu
"""

TOO_LATE = """\
import sys, types
sys.modules["torch_npu"] = types.ModuleType("torch_npu")
import pypto_pro.torch_shim
"""


def test_only_on_request() -> None:
    done = python("-c", ON_REQUEST)
    assert done.returncode == 0, done.stdout + done.stderr


def test_too_late() -> None:
    done = python("-c", TOO_LATE)
    assert done.returncode == 1
    assert "ActivationError: `torch_npu` is loaded already" in done.stderr


# --- the plugin's checks ----------------------------------------------------------------------------------------------


def test_findings_fail_the_test_that_launched(tmp_path: Path) -> None:
    (tmp_path / "test_race.py").write_text(RACE, encoding="utf-8")
    done = pytest_run("--pypto-check", "--pypto-executor", "interp", "-rA", "test_race.py", cwd=tmp_path)
    lines = done.stdout.splitlines()
    outcome = {line.split("::")[1].split(" ")[0]: line.split(" ")[0] for line in lines if "test_race.py::" in line}
    assert outcome == {
        "test_without_a_launch": "PASSED", "test_refused": "PASSED", "test_executor": "PASSED",
        "test_passes_otherwise": "FAILED", "test_fails_anyway": "FAILED", "test_fixture": "ERROR",
    }, done.stdout  # fmt: skip
    assert "error[S101]" in done.stdout
    assert "test_race.py:10" in done.stdout
    assert "assert 1 == 2" in done.stdout  # the test's own failure, with the findings as a section
    assert "Captured pypto-pro call" in done.stdout
    assert any(line.startswith("pypto-pro: 3 launches checked, ") for line in lines)
    plain = pytest_run("-q", "test_race.py", "-k", "passes or fixture or launch", cwd=tmp_path)
    assert plain.returncode == 0, plain.stdout
    assert "pypto-pro:" not in plain.stdout
