"""Compiled kernels on disk: found again when nothing changed, never when anything did; and what runs from them."""

from __future__ import annotations

import json
import linecache
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto_pro import options
from pypto_pro.diag.errors import ParserError, StuckError
from pypto_pro.runtime import stored
from pypto_pro.runtime.inspect import load_file
from pypto_pro.runtime.jit import JitKernel
from pypto_pro.runtime.specialise import Variant

KERNEL = """
import pypto_pro.language as pl
{imports}

{before}

@pl.jit
def k(y: pl.Tensor[[1, 8], pl.DT_FP32]):
    with pl.section_vector():
        t = pl.make_tile(pl.TileType(shape=[1, 8], dtype=pl.DT_FP32), addr=0, size=32)
        pl.expands(t, {value})
        pl.store(y, t, [0, 0])
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_PRO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # files change faster than their times


def kernel_of(file: Path) -> JitKernel:
    """The kernel of a file as a new process would see it."""
    sys.modules.pop("other", None)
    sys.path_importer_cache.clear()
    linecache.clearcache()
    return load_file(file).k


def launched(kernel: JitKernel, *args: Any) -> Variant:
    with options(executor="native"):
        kernel[None, 1](*args)
    (variant,) = kernel.variants
    return variant


def run(file: Path) -> tuple[float, bool]:
    """What the kernel writes, and whether it came out of the cache."""
    y = np.zeros((1, 8), np.float32)
    variant = launched(kernel_of(file), y)
    assert (y == y[0, 0]).all()
    return float(y[0, 0]), variant.stored is not None


def write(folder: Path, value: str, before: str = "", imports: str = "", name: str = "kern.py") -> Path:
    file = folder / name
    file.write_text(KERNEL.format(value=value, before=before, imports=imports), encoding="utf-8")
    return file


# --- found again ------------------------------------------------------------------------------------------------------


def test_the_second_process_reads_no_kernel_and_generates_no_code(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    text = KERNEL.format(value="N * 2.0", before="N = 3", imports="import sys\nimport numpy as np")
    script.write_text(text + """
y = np.zeros((1, 8), np.float32)
k[None, 1](y)
heavy = ("pypto_pro.frontend.parse", "pypto_pro.ops.table", "pypto_pro.native.kernel")
print(y[0, 0], [m for m in heavy if m in sys.modules])
""", encoding="utf-8")  # fmt: skip
    env = {**os.environ, "PYPTO_PRO_EXECUTOR": "native"}
    out = [subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=True).stdout
           for _ in range(2)]  # fmt: skip
    assert out[0].startswith("6.0 ['pypto_pro.frontend.parse'")
    assert out[1] == "6.0 []\n"


def test_an_unchanged_kernel_is_found(tmp_path: Path) -> None:
    file = write(tmp_path, "1.5")
    assert run(file) == (1.5, False)
    assert run(file) == (1.5, True)
    assert run(file) == (1.5, True)


def test_globals_that_share_a_name_with_a_parameter_or_attribute_do_not_count(tmp_path: Path) -> None:
    file = write(tmp_path, "N.real * 1.0", before="import random\nN = 1\ny = real = t = store = random.random()")
    assert run(file) == (1.0, False)
    assert run(file) == (1.0, True)


def test_branches_that_look_up_other_names_are_kept_side_by_side(tmp_path: Path) -> None:
    file = write(tmp_path, "A * 1.0 if MODE == 1 else B * 1.0", imports="from other import *")

    def see(mode: int, a: int, b: int) -> tuple[float, bool]:
        (tmp_path / "other.py").write_text(f"MODE, A, B = {mode}, {a}, {b}")
        return run(file)

    sys.path.insert(0, str(tmp_path))
    try:
        assert [see(1, 5, 6), see(2, 5, 6)] == [(5.0, False), (6.0, False)]
        assert [see(1, 5, 7), see(2, 4, 6)] == [(5.0, True), (6.0, True)]
        assert [see(1, 4, 6), see(2, 5, 7)] == [(4.0, False), (7.0, False)]
    finally:
        sys.path.remove(str(tmp_path))


CHANGES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "text": ({"value": "1.0"}, {"value": "2.0"}),
    "constant": ({"value": "N * 1.0", "before": "N = 1"}, {"value": "N * 1.0", "before": "N = 2"}),
    "tuple": ({"value": "N[1]", "before": "N = (3.0, 1.0)"}, {"value": "N[1]", "before": "N = (3.0, 2.0)"}),
    "helper": (
        {"value": "f()", "before": "def f():\n    return 1.0"}, {"value": "f()", "before": "def f():\n    return 2.0"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changed_text_is_compiled(tmp_path: Path, name: str) -> None:
    first, second = CHANGES[name]
    assert run(write(tmp_path, **first)) == (1.0, False)
    assert run(write(tmp_path, **second)) == (2.0, False)
    assert run(write(tmp_path, **first)) == (1.0, True)


OUTSIDE: dict[str, tuple[str, str]] = {
    # how the kernel reads it; what the other file holds, with V for the value
    "module constant": ("other.N * 1.0", "N = V"),
    "imported constant": ("N * 1.0", "N = V"),
    "helper": ("f()", "def f():\n    return V * 1.0"),
    "constant of a helper": ("f()", "M = V\ndef f():\n    return M * 1.0"),
    "helper of a helper": ("f()", "def g():\n    return V * 1.0\ndef f():\n    return g()"),
    "dict": ("D['n'] * 1.0", "D = {'n': V}"),
    "class attribute": ("C.n * 1.0", "class C:\n    n = V"),
    "inherited attribute": ("C.n * 1.0", "class B:\n    n = V\nclass C(B):\n    pass"),
    "object": ("C.n * 1.0", "import types\nC = types.SimpleNamespace(n=V)"),
    "dataclass": (
        "C.n * 1.0",
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass T:\n    n: int = 0\nC = T(V)",
    ),
    "property": ("C.n * 1.0", "class T:\n    @property\n    def n(self):\n        return V\nC = T()"),
    "slots": (
        "C.n * 1.0",
        "class T:\n    __slots__ = ('n',)\n    def __init__(self, n):\n        self.n = n\nC = T(V)",
    ),
    "private slots": (
        "C.n * 1.0",
        "class T:\n    __slots__ = ('__n',)\n    def __init__(self, n):\n        self.__n = n\n"
        "    @property\n    def n(self):\n        return self.__n\nC = T(V)",
    ),
    "slots that answer to every name": (
        "C.n * 1.0",
        "class T:\n    __slots__ = ('k',)\n    def __init__(self, k):\n        self.k = k\n"
        "    def __getattr__(self, name):\n        return self.k\nC = T(V)",
    ),
    "enum": ("E.n.value * 1.0", "import enum\nclass E(enum.Enum):\n    n = V"),
    "named tuple": (
        "P.n * 1.0",
        "import collections\nP = collections.namedtuple('P', 'n')(V)",
    ),
    "numpy scalar": ("float(S)", "import numpy\nS = numpy.float32(V)"),
    "array": ("float(A[0])", "import numpy\nA = numpy.array([V, 0])"),
    "called function": ("calc(3) * 1.0", "def calc(k):\n    return sum(V for _ in range(k)) // k"),
    "constant of a called function": ("calc(3) * 1.0", "Z = [V]\ndef calc(k):\n    return Z[0] + k - k"),
    "default of a helper": ("f()", "M = V\ndef f(n=M):\n    return n * 1.0"),
    "closure": ("f()", "def make(n):\n    def f():\n        return n * 1.0\n    return f\nf = make(V)"),
    "function in a tuple": ("T[0](1) * 1.0", "def calc(k):\n    return V * k\nT = (calc,)"),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_change_in_another_file_is_compiled(tmp_path: Path, name: str) -> None:
    reads, text = OUTSIDE[name]
    root = re.split(r"\W", reads.removeprefix("float("))[0]
    imports = "import other" if root == "other" else f"from other import {root}"
    file = write(tmp_path, reads, imports=imports)

    def see(value: int) -> tuple[float, bool]:
        (tmp_path / "other.py").write_text(text.replace("V", str(value)), encoding="utf-8")
        return run(file)

    sys.path.insert(0, str(tmp_path))
    try:
        assert see(1) == (1.0, False)
        assert see(2) == (2.0, False)
        assert see(1) == (1.0, True)
        assert see(2) == (2.0, True)
    finally:
        sys.path.remove(str(tmp_path))


NEVER = {
    "the environment": ("read()", "import os\ndef read():\n    return float(os.environ['PYPTO_TEST_V'])"),
    "an import inside": ("read()", "def read():\n    import os\n    return float(os.environ['PYPTO_TEST_V'])"),
    "a file": ("read(1) * 1.0", "def read(k):\n    return k * float(open(__file__ + '.v').read())"),
    "the time": ("read(1) * 0.0", "import time\ndef read(k):\n    return k * time.time()"),
    "state": ("read(1) * 1.0", "S = []\ndef read(k):\n    S.append(k)\n    return len(S)"),
    "an open file": ("float(F.fileno() * 0)", "F = open(__file__)"),
    "a class with a module of its own": (
        "float(O.n)",
        "class T:\n    @property\n    def __module__(self):\n        return 3\nO = T()\nO.n = 1\n"
        "O.f = open(__file__)",
    ),
    "what fails at being looked at": (
        "float(A[0])",
        "import numpy\nclass T(numpy.ndarray):\n    @property\n    def dtype(self):\n        raise RuntimeError\n"
        "A = numpy.ones(1).view(T)",
    ),
    "a very deep list": ("float(len(L))", "L = [1]\nfor _ in range(20000):\n    L = [L]"),
}


@pytest.mark.parametrize("name", NEVER)
def test_what_cannot_be_described_is_never_stored(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, before = NEVER[name]
    file = write(tmp_path, value, before)
    for text in ("1", "2"):
        monkeypatch.setenv("PYPTO_TEST_V", text)
        (tmp_path / "kern.py.v").write_text(text)
        try:
            found, hit = run(file)
        except ParserError:  # the front end does not run it: nothing to store
            return
        assert not hit
        if name in ("the environment", "an import inside", "a file"):
            assert found == float(text)


def test_enclosing_variables_are_part_of_the_key(tmp_path: Path) -> None:
    text = KERNEL.format(value="n * 1.0", before="def make(n):", imports="")
    head, body = text.split("@pl.jit")
    lines = "\n".join("    " + line for line in ("@pl.jit" + body).splitlines())
    file = tmp_path / "kern.py"
    file.write_text(f"{head}{lines}\n    return k\n", encoding="utf-8")
    seen = []
    for n in (1, 2, 1, 2):
        kernel = load_file(file).make(n)
        y = np.zeros((1, 8), np.float32)
        seen.append((launched(kernel, y).stored is not None, float(y[0, 0])))
    assert seen == [(False, 1.0), (False, 2.0), (True, 1.0), (True, 2.0)]


KEYED = """
import pypto_pro.language as pl
from pypto_pro.runtime.tilingkey import TilingKeyField

class Key:
    A = TilingKeyField(bits=2, values=[{values}])

@pl.jit(tiling_key=Key, datatype={{"x": "dt"}}, auto_mutex={mutex})
def k(x: pl.Ptr[pl.DT_UINT8], y: pl.Tensor[[pl.STATIC, 8], pl.DT_FP32]):
    with pl.section_vector():
        t = pl.make_tile(pl.TileType(shape=[1, 8], dtype=pl.DT_FP32), addr=0, size=32)
        pl.expands(t, A + y.shape[0] * 10.0 + (100.0 if dt == pl.DT_FP16 else 200.0))
        pl.store(y, t, [0, 0])
"""


def test_signature_and_options_are_part_of_the_key(tmp_path: Path) -> None:
    file = tmp_path / "kern.py"

    def see(values: str = "1, 2", key: int = 1, rows: int = 1, dt: str = "DT_FP16", mutex: bool = True) -> Any:
        import pypto_pro.language as pl

        file.write_text(KEYED.format(values=values, mutex=mutex), encoding="utf-8")
        kernel = kernel_of(file)
        y = np.zeros((rows, 8), np.float32)
        with options(executor="native"):
            kernel[None, 1, {"A": key}, {"x": getattr(pl, dt)}](None, y)
        (variant,) = kernel.variants
        return float(y[0, 0]), variant.stored is not None

    cases: list[tuple[dict[str, Any], float]] = [
        ({}, 111.0), ({"key": 2}, 112.0), ({"rows": 2}, 121.0), ({"dt": "DT_FP32"}, 211.0), ({"mutex": False}, 111.0),
        ({"values": "3, 1"}, 111.0), ({"values": "3, 1", "key": 3}, 113.0),
    ]  # fmt: skip
    assert [see(**change) for change, _ in cases] == [(value, False) for _, value in cases]
    assert [see(**change) for change, _ in cases] == [(value, True) for _, value in cases]


# --- never trusted ----------------------------------------------------------------------------------------------------


def entries(root: Path) -> list[Path]:
    return [path for path in (root / "cache" / "kernels").rglob("*") if path.is_file()]


@pytest.mark.parametrize("damage", [b"", b"garbage", b"\x80\x04\x95", None])
def test_damaged_entries_are_made_anew_with_a_note(tmp_path: Path, damage: bytes | None) -> None:
    file = write(tmp_path, "1.5")
    run(file)
    (entry,) = entries(tmp_path)
    content = entry.read_bytes()
    entry.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if damage is None else damage)
    with pytest.warns(RuntimeWarning, match="damaged or foreign"):
        assert run(file) == (1.5, False)
    assert run(file) == (1.5, True)


def test_an_image_that_cannot_be_loaded_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, "1.5")
    run(file)
    real = stored.Stored.native

    def broken(entry: stored.Stored) -> Any:
        return real(stored.Stored(entry.written, entry.captured, entry.ir, entry.image[:40]))

    monkeypatch.setattr(stored.Stored, "native", broken)
    with pytest.warns(RuntimeWarning, match="cannot be loaded"):
        assert run(file) == (1.5, True)


def test_a_kernel_that_fails_to_compile_is_not_kept(tmp_path: Path) -> None:
    file = write(tmp_path, "Missing", before="")
    kernel = kernel_of(file)
    for _ in range(2):
        with pytest.raises(ParserError, match="Missing"):
            kernel[None, 1](np.zeros((1, 8), np.float32))
    assert len(kernel.variants) == 0
    kernel.source.fn.__globals__["Missing"] = 4.0
    y = np.zeros((1, 8), np.float32)
    launched(kernel, y)
    assert y[0, 0] == 4.0
    assert entries(tmp_path) != []


# --- running from the cache -------------------------------------------------------------------------------------------

TALKING = """
import pypto_pro.language as pl

def tell(n):
    pl.printf("n = %d\\n", n)

@pl.jit
def k(x: pl.Tensor[[4, 8], pl.DT_FP32], n: pl.DT_INT32):
    with pl.section_vector():
        t = pl.make_tile(pl.TileType(shape=[4, 8], dtype=pl.DT_FP32), addr=0, size=128)
        tell(n)
        pl.load(t, x, [n, 0])
"""

STUCK = """
import pypto_pro.language as pl

@pl.jit
def k(x: pl.Tensor[[4, 8], pl.DT_FP32]):
    with pl.section_vector():
        pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=3)  # nobody sets it
    with pl.section_cube():
        pass
"""


def test_python_is_reached_from_a_stored_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kern.py"
    file.write_text(TALKING, encoding="utf-8")
    told = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            variant = launched(kernel_of(file), np.ones((4, 8), np.float32), 2)
        told.append((capsys.readouterr().out, [(str(w.message), w.filename, w.lineno) for w in caught]))
    assert variant.stored is not None
    assert told[0] == told[1]
    assert "n = 2" in told[0][0]
    assert told[0][1][0][1:] == (str(file), 12)


def test_a_stuck_launch_of_a_stored_kernel_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "kern.py"
    file.write_text(STUCK, encoding="utf-8")
    texts = []
    for _ in range(2):
        with pytest.raises(StuckError) as caught:
            launched(kernel_of(file), np.zeros((4, 8), np.float32))
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert "event 3" in texts[0]
    assert "kern.py:7" in texts[0]


def test_the_simulator_and_checks_take_the_ir_of_a_stored_kernel(tmp_path: Path) -> None:
    file = write(tmp_path, "2.5")
    run(file)
    kernel = kernel_of(file)
    y = np.zeros((1, 8), np.float32)
    variant = launched(kernel, y)
    assert variant.stored is not None
    y[:] = 0
    with options(executor="interp"):
        kernel[None, 1](y)
    assert (y == 2.5).all()
    assert variant.kernel == kernel.compile((), None, ())


def test_read_only_outputs_are_refused_from_the_cache_too(tmp_path: Path) -> None:
    file = write(tmp_path, "2.5")
    run(file)
    y = np.zeros((1, 8), np.float32)
    y.flags.writeable = False
    with options(executor="native"), pytest.raises(ValueError, match="read-only"):
        kernel_of(file)[None, 1](y)


def test_an_entry_says_what_it_is(tmp_path: Path) -> None:
    run(write(tmp_path, "N * 1.0", before="N = 7"))
    (entry,) = entries(tmp_path)
    found = stored.read(entry.name)
    assert found is not None
    assert (found.written, found.captured) == ((0,), ("N",))
    assert found.kernel().captured == (("N", "7"),)
    assert json.loads(found.ir)["texts"][0].endswith("kern.py")
