"""Kernels built ahead: artifacts, headers that a C++ compiler accepts, descriptions, and the command."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import pypto_pro.language as pl
from pypto_pro import options
from pypto_pro.cli import main
from pypto_pro.ir.parser import parse_kernel
from pypto_pro.runtime import offline
from pypto_pro.runtime.offline import generate_binary_headers
from pypto_pro.runtime.tilingkey import TilingKeyField, TilingKeySchema

FILE = Path(__file__)


class Choice:
    Fast = TilingKeyField(bits=1, values=[1, 0])
    Width = TilingKeyField(bits=2, values=[16, 64, 128])

    def is_valid(self, key: Any) -> bool:
        return key != (0, 128)


@dataclass
class Shape:
    rows: int
    last: bool[3]  # type: ignore[valid-type]
    scale: float = 1.0
    sizes: int[2] = field(default_factory=lambda: [0, 0])  # type: ignore[valid-type]


@pl.jit(tiling_key=Choice, datatype={"x": "dt", "y": "dt"})
def operator(x: pl.Ptr[pl.DT_UINT8], y: pl.Ptr[pl.DT_UINT8], workspace: pl.Ptr[pl.DT_UINT8], tiling: Shape):
    with pl.section_vector():
        t = pl.make_tile_group(type=pl.TileType(shape=[1, Width], dtype=dt), addrs=0, mutex_ids=[0]).current()
        if Fast == 1:
            pl.load(t, pl.make_tensor(x, [tiling.rows, Width], dtype=dt), [0, 0])
        else:
            pl.expands(t, 2.0)
        pl.store(pl.make_tensor(y, [tiling.rows, Width], dtype=dt), t, [0, 0])


@pl.jit(tiling_key=Choice)
def no_tiling(x: pl.Ptr[pl.DT_UINT8]):
    pass


class Impossible(Choice):
    A = TilingKeyField(bits=1, values=[0])

    def is_valid(self, key: Any) -> bool:
        return False


@pl.jit(tiling_key=Impossible)
def never(x: pl.Ptr[pl.DT_UINT8], t: Shape):
    pass


@pl.jit
def keyless(x: pl.Ptr[pl.DT_UINT8], t: Shape):
    pass


# --- headers ----------------------------------------------------------------------------------------------------------


def test_what_headers_cannot_be_made_for(tmp_path: Path) -> None:
    for kernel, error in ((len, TypeError), (keyless, ValueError), (never, ValueError), (no_tiling, RuntimeError)):
        with pytest.raises(error):
            generate_binary_headers(kernel, tmp_path)


def test_the_files_of_the_headers(tmp_path: Path) -> None:
    folder = generate_binary_headers(operator, tmp_path)
    assert folder == tmp_path / "runtime_offline__operator__a5" / "binary"
    assert sorted(path.name for path in folder.iterdir()) == [
        "Choice_tilingkey.h", "Shape_tiling.h", "operator_pypto_infer.cpp"
    ]  # fmt: skip
    text = (folder / "Choice_tilingkey.h").read_text()
    assert "/* Fast: bits 0 to 0, values 1, 0 */" in text
    assert "/* Width: bits 1 to 2, values 16, 64, 128 */" in text
    rows = [line.strip(" \\") for line in text.splitlines() if line.strip().startswith("X(")]
    legal = [k for k in itertools.product([1, 0], [16, 64, 128]) if k != (0, 128)]
    packed = [[1, 0].index(a) | [16, 64, 128].index(b) << 1 for a, b in legal]
    assert rows == [f"X({p:#x}ull, {a}, {b})" for p, (a, b) in zip(packed, legal, strict=True)]
    tiling = (folder / "Shape_tiling.h").read_text()
    assert [line.strip() for line in tiling.splitlines()][4:8] == [
        "int64_t rows;", "bool last[3];", "float scale;", "int64_t sizes[2];"
    ]  # fmt: skip


compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")


class Odd:
    Sign = TilingKeyField(bits=3, values=[-5, 0, 7, -(1 << 63), (1 << 63) - 1])
    Only = TilingKeyField(bits=1, values=[3])
    Wide = TilingKeyField(bits=60, values=[1 << 40, 2])


@pytest.mark.skipif(compiler is None, reason="needs a C++ compiler")
def test_the_headers_compile_and_agree(tmp_path: Path) -> None:
    assert compiler is not None
    folder = generate_binary_headers(operator, tmp_path)
    source = folder / "operator_pypto_infer.cpp"
    subprocess.run([compiler, "-std=c++17", "-Wall", "-Werror", "-fsyntax-only", str(source)], check=True)
    schema = TilingKeySchema.of(Odd)
    keys = [*schema.legal_keys()]
    lines = [offline.key_header(schema), "#include <stdio.h>", "int main(void) {"]
    for key in keys:
        values = ", ".join(f"{v}ll" if v > -(1 << 63) else "INT64_MIN" for v in key.values())
        lines.append(f'    printf("%llx\\n", (unsigned long long)GET_TPL_TILING_KEY({values}));')
    lines.append('    printf("%llx\\n", (unsigned long long)GET_TPL_TILING_KEY(1, 3, 2));')
    lines.append("    return 0;\n}\n")
    program = tmp_path / "keys.c"
    program.write_text("\n".join(lines).replace("#pragma once", ""))
    subprocess.run(["cc", "-w", str(program), "-o", str(tmp_path / "keys")], check=True)
    out = subprocess.run([str(tmp_path / "keys")], capture_output=True, text=True, check=True).stdout.split()
    assert [int(text, 16) for text in out] == [*(schema.pack(key) for key in keys), (1 << 64) - 1]


# --- variants ---------------------------------------------------------------------------------------------------------


def test_build_writes_every_artifact_and_the_disk_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_PRO_CACHE_DIR", str(tmp_path / "cache"))
    built = offline.build(operator, tmp_path / "out", {"Fast": 0, "Width": 64})
    assert (built.kind, built.packed) == ("vector", 3)
    assert built.folder.name == "tk_3"
    assert built.folder.parent.name.startswith("dt_")
    assert built.folder.parent.parent.name == "runtime_offline__operator__a5"
    names = {path.name for path in built.folder.iterdir()}
    assert names == {"vector.ir", "vector.ll", "functions", "layout.txt", "Shape_tiling.h"}
    assert parse_kernel((built.folder / "vector.ir").read_text()) == built.ir
    assert "define i32 @" in (built.folder / "vector.ll").read_text()
    assert any("store" in path.read_text() for path in (built.folder / "functions").iterdir())
    (row,) = (built.folder / "layout.txt").read_text().splitlines()[1:]
    assert row.split()[:4] == ["Vec", "0x0", "0x80", "128"]
    record = json.loads((built.folder.parent / "datatype.json").read_text())
    assert record == {
        "constants": {"dt": {"name": "DT_FP16"}},
        "params": {p: {"dtype": {"name": "DT_FP16"}, "variable": "dt"} for p in "xy"},
    }
    fresh = pl.jit(tiling_key=Choice, datatype={"x": "dt", "y": "dt"})(operator.source.fn)
    y = np.zeros(64, np.float16)
    with options(executor="native"):
        launch = fresh[None, 1, {"Fast": 0, "Width": 64}, {"x": pl.DT_FP16, "y": pl.DT_FP16}]
        launch(None, y, None, Shape(1, [False] * 3))
    assert (y == 2).all()
    (variant,) = fresh.variants
    assert variant.stored is not None


def test_kept_artifacts_of_a_launch(tmp_path: Path) -> None:
    fresh = pl.jit(tiling_key=Choice, datatype={"x": "dt", "y": "dt"}, name="odd name!")(operator.source.fn)
    for executor, lowered in (("interp", False), ("native", True)):
        made = pl.jit(tiling_key=Choice, datatype={"x": "dt", "y": "dt"}, name="odd name!")(fresh.source.fn)
        with options(executor=executor, keep=str(tmp_path / executor)):
            launch = made[None, 1, {"Fast": 1, "Width": 16}, {"x": pl.DT_FP32, "y": pl.DT_FP32}]
            launch(np.zeros(16, np.float32), np.zeros(16, np.float32), None, Shape(1, [True] * 3))
        (folder,) = (tmp_path / executor).glob("runtime_offline__odd_name__a5/dt_*/tk_0")
        assert (folder / "vector.ir").exists()
        assert (folder / "vector.ll").exists() is lowered


def test_legal_keys_may_be_restricted() -> None:
    assert offline.legal_keys(operator, [{"Fast": 0, "Width": 16}]) == [{"Fast": 0, "Width": 16}]
    with pytest.raises(RuntimeError, match="none of the keys"):
        offline.legal_keys(operator, [{"Fast": 0, "Width": 128}])


def test_datatypes_come_from_the_macros_of_the_build() -> None:
    macros = {"orig_dtype_X": "DT_BF16", "ORIG_DTYPE_y": "dt_bf16"}
    assert offline.macro_datatypes(operator, macros) == (("dt", pl.DT_BF16),)
    with pytest.raises(RuntimeError, match="ORIG_DTYPE_Y"):
        offline.macro_datatypes(operator, {"ORIG_DTYPE_X": "DT_BF16"})
    with pytest.raises(RuntimeError, match="dt_string"):
        offline.macro_datatypes(operator, {**macros, "ORIG_DTYPE_Y": "DT_STRING"})
    with pytest.raises(ValueError, match="both"):
        offline.macro_datatypes(operator, {**macros, "ORIG_DTYPE_Y": "DT_FLOAT"})
    assert offline.macro_datatypes(keyless, {}) == ()


def test_an_operator_build_describes_its_variants(tmp_path: Path) -> None:
    only = [{"Fast": 1, "Width": 16}, {"Fast": 0, "Width": 64}]
    path = offline.build_operator(operator, tmp_path, only, {"ORIG_DTYPE_X": "DT_FLOAT", "ORIG_DTYPE_Y": "DT_FLOAT"})
    text = json.loads(path.read_text())
    assert text["datatypes"] == {"dt": "DT_FP32"}
    assert [row["packed"] for row in text["variants"]] == ["0", "3"]
    assert all((path.parent / row["folder"] / "vector.ir").exists() for row in text["variants"])


# --- the command ------------------------------------------------------------------------------------------------------


def command(*args: str) -> Any:
    return CliRunner().invoke(main, ["build", *args])


def test_the_command(tmp_path: Path) -> None:
    done = command(f"{FILE}:operator", "--out", str(tmp_path), "--all-keys", "--headers", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert [row["packed"] for row in told["built"]] == ["0", "2", "4", "1", "3"]
    assert all((Path(row["folder"]) / "layout.md").read_text().startswith("## 3.") for row in told["built"])
    assert Path(told["headers"][0]).is_dir()
    done = command(f"{FILE}:operator", "--out", str(tmp_path), "--key", "Fast=0", "--key", "Width=64",
                   "--key", "x=DT_FP32", "--key", "y=DT_FP32")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "Fast=0 Width=64" in done.output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("nowhere.py",), "no file"),
        ((f"{FILE}:nothing",), "no kernel `nothing`"),
        ((f"{FILE}:operator", "--key", "Fast=7"), "tiling key"),
        ((f"{FILE}:operator", "--all-keys", "--key", "Fast=1"), "exclude"),
        ((f"{FILE}:keyless", "--headers"), "no tiling key class"),
    ],
)
def test_wrong_usage(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    done = command(*args, "--out", str(tmp_path))
    assert done.exit_code == 2, done.output
    assert message in done.output


def test_a_mistake_in_the_kernel_is_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text("import pypto_pro.language as pl\n@pl.jit\ndef k(x: pl.Ptr[pl.DT_UINT8]):\n    y = missing\n")
    done = command(str(file), "--out", str(tmp_path))
    assert done.exit_code == 1
    assert "wrong.py:4" in done.output


def test_built_kernels_are_found_by_a_script(tmp_path: Path) -> None:
    """Where the kernel is part of `__main__` instead of a module."""
    file = tmp_path / "script.py"
    file.write_text(
        "import numpy as np\nimport pypto_pro.language as pl\nN = 3.0\n@pl.jit\n"
        "def k(y: pl.Tensor[[1, 8], pl.DT_FP32]):\n    with pl.section_vector():\n"
        "        t = pl.make_tile(pl.TileType(shape=[1, 8], dtype=pl.DT_FP32), addr=0, size=32)\n"
        "        pl.expands(t, N)\n        pl.store(y, t, [0, 0])\n"
        "if __name__ == '__main__':\n    y = np.zeros((1, 8), np.float32)\n    k[None, 1](y)\n"
        "    (v,) = k.variants\n    print(y[0, 0], v.stored is not None)\n"
    )
    env = {**os.environ, "PYPTO_PRO_CACHE_DIR": str(tmp_path / "cache"), "PYPTO_PRO_EXECUTOR": "native"}
    build = ["-c", "from pypto_pro.cli import main; main()", "build", str(file), "--out", str(tmp_path)]
    for args in (build, [str(file)]):
        done = subprocess.run([sys.executable, *args], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "3.0 True"


def test_run_keeps_the_artifacts_of_a_script(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(
        "import numpy as np\nimport pypto_pro.language as pl\n@pl.jit\n"
        "def k(y: pl.Tensor[[8], pl.DT_INT32]):\n    with pl.section_vector():\n        y[0] = 3\n"
        "y = np.zeros(8, np.int32)\nk(y)\nprint(y[0])\n"
    )
    run = ["-c", "from pypto_pro.cli import main; main()", "run", "--keep", str(tmp_path / "kept"), str(file)]
    done = subprocess.run([sys.executable, *run], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "3"), done.stderr
    assert {path.name for path in (tmp_path / "kept" / "k__a5" / "tk_none").iterdir()} >= {"vector.ir", "layout.txt"}
