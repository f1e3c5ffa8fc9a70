"""Launches from end to end on both executors: forms, variants, keys and data, errors in their order, tooling."""

from __future__ import annotations

import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.diag.errors import ParserError, ParserSyntaxError, StuckError, UndefinedVariableError
from pypto_pro.ir.nodes import Kernel
from pypto_pro.ir.parser import parse_kernel
from pypto_pro.ir.printer import print_kernel
from pypto_pro.runtime import launch_hooks
from pypto_pro.runtime.inspect import find_kernel, ir_text, load_file
from pypto_pro.runtime.platform import get_platform_info
from pypto_pro.runtime.tilingkey import TilingKeyField

FACTOR = 2.0


@pytest.fixture(params=["native", "interp"], autouse=True)
def executor(request: pytest.FixtureRequest) -> Iterator[str]:
    with pypto_pro.options(executor=request.param):
        yield request.param


@pl.jit
def scale(x: pl.Tensor[[pl.DYNAMIC, 16], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, 16], pl.DT_FP32], by: pl.DT_FP32 = 2.0):
    with pl.section_vector():
        kind = pl.TileType(shape=[1, 16], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        tiles = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0, 1])
        for i in pl.range(pl.get_block_idx(), x.shape[0], pl.get_block_num()):
            t = tiles.next()
            pl.load(t, x, [i, 0])
            pl.mul(t, t, by)
            pl.store(y, t, [i, 0])


def data(rows: int = 5) -> tuple[Any, Any]:
    x = np.arange(rows * 16, dtype=np.float32).reshape(rows, 16)
    return x, np.full_like(x, np.nan)


@pytest.mark.parametrize(
    "launch",
    [
        lambda x, y: scale(x, y),
        lambda x, y: scale[3](x, y),
        lambda x, y: scale[None, 7](x, y, 2.0),
        lambda x, y: scale["stream", 2](y=y, x=x),
        lambda x, y: scale[None, 2](torch.from_numpy(x), torch.from_numpy(y), by=2.0),
    ],
)
def test_launch_forms(launch: Any) -> None:
    x, y = data()
    assert launch(x, y) is None
    np.testing.assert_array_equal(y, 2 * x)


def test_a_launcher_is_used_again_and_dynamic_sizes_share_a_variant() -> None:
    launcher = scale[None, 2]
    for rows in (1, 4, 9):
        x, y = data(rows)
        launcher(x, y)
        np.testing.assert_array_equal(y, 2 * x)
    assert len(scale.variants) == 1


def test_static_axes_make_variants() -> None:
    @pl.jit
    def k(x: pl.Tensor[[pl.STATIC, pl.DYNAMIC], pl.DT_FP32], out: pl.Tensor[[1, 8], pl.DT_INT64]):
        with pl.section_vector():
            out[0, 0] = x.shape[0]
            out[0, 1] = x.shape[1]

    out = np.zeros((1, 8), np.int64)
    for rows, cols in ((8, 4), (8, 5), (16, 4), (8, 4)):
        k(np.zeros((rows, cols), np.float32), out)
        assert out[0, :2].tolist() == [rows, cols]
    assert len(k.variants) == 2


def test_datatypes_make_variants() -> None:
    @pl.jit(datatype={"x": "dt", "y": "dt"})
    def double(x: pl.Ptr[pl.DT_UINT8], y: pl.Ptr[pl.DT_UINT8]):
        a = pl.make_tensor(x, [1, 32], dtype=dt)
        b = pl.make_tensor(y, [1, 32], dtype=dt)
        with pl.section_vector():
            kind = pl.TileType(shape=[1, 32], dtype=dt, target_memory=pl.MemorySpace.Vec)
            tiles = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0])
            t = tiles.next()
            pl.load(t, a, [0, 0])
            pl.add(t, t, t)
            pl.store(b, t, [0, 0])

    for dtype, numpy_dtype in ((pl.DT_FP16, np.float16), (pl.DT_INT32, np.int32), (pl.DT_FP16, np.float16)):
        x = np.arange(32).astype(numpy_dtype)
        y = np.zeros_like(x)
        double[None, 1, {"x": dtype, "y": dtype}](x, y)
        np.testing.assert_array_equal(y, 2 * x)
    assert len(double.variants) == 2


class Mode:
    Sign = TilingKeyField(bits=1, values=[1, -1])


@dataclass
class Plan:
    first: int
    factors: float[2]
    offset: bool


@pl.jit(tiling_key=Mode)
def planned(out: pl.Tensor[[1, 8], pl.DT_FP32], plan: Plan):
    with pl.section_vector():
        for i in pl.range(plan.first, 8):
            if Sign == 1:
                out[0, i] = plan.factors[1]
            else:
                out[0, i] = -plan.factors[0]
        if plan.offset:
            out[0, 0] = 7.0


def test_key_and_data_of_a_launch() -> None:
    out = np.zeros((1, 8), np.float32)
    planned[None, 1, {"Sign": 1}](out, Plan(3, [1.5, 2.5], False))
    assert out[0].tolist() == [0, 0, 0, 2.5, 2.5, 2.5, 2.5, 2.5]
    planned[None, 1, {"Sign": -1}](out, Plan(6, (1.5, 2.5), True))
    assert out[0].tolist() == [7, 0, 0, 2.5, 2.5, 2.5, -1.5, -1.5]
    with pytest.raises(ValueError, match="legal are"):
        planned[None, 1, {"Sign": 0}]


def test_null_pointers_share_the_variant() -> None:
    @pl.jit
    def k(p: pl.Ptr[pl.DT_FP32], out: pl.Tensor[[1, 8], pl.DT_INT32]):
        with pl.section_vector():
            out[0, 0] = 1 if p is None else 2

    out = np.zeros((1, 8), np.int32)
    for pointer, expected in ((None, 1), (np.zeros(4, np.float32), 2)):
        k(pointer, out)
        assert out[0, 0] == expected
    assert len(k.variants) == 1


def test_schedules_agree(executor: str) -> None:
    if executor == "native":
        pytest.skip("interp only")
    for schedule in ("in_order", "latest", "random"):
        x, y = data()
        with pypto_pro.options(schedule=schedule, seed=3):
            scale[None, 2](x, y)
        np.testing.assert_array_equal(y, 2 * x)


def test_launches_from_threads() -> None:
    results = [data(rows) for rows in range(1, 9)]

    def work(x: Any, y: Any) -> None:
        scale[None, 3](x, y)

    threads = [threading.Thread(target=work, args=pair) for pair in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, y in results:
        np.testing.assert_array_equal(y, 2 * x)


def test_globals_are_those_of_the_first_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit
    def k(out: pl.Tensor[[1, 8], pl.DT_FP32]):
        with pl.section_vector():
            out[0, 0] = FACTOR

    out = np.zeros((1, 8), np.float32)
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    k(out)
    monkeypatch.setitem(globals(), "FACTOR", 6.0)
    k(out)
    assert out[0, 0] == 5.0


def test_source_errors_come_at_the_first_launch_and_leave_nothing() -> None:
    @pl.jit
    def k(x: pl.Tensor[[4], pl.DT_FP32], n: pl.DT_INT32):
        with pl.section_vector():
            undefined_name + 1

    for wrong in (np.zeros(3, np.float32), np.zeros(4, np.int32)):  # arguments of tensors are checked before
        with pytest.raises((TypeError, ValueError)) as caught:
            k(wrong, 1)
        assert not isinstance(caught.value, ParserError)
    for _ in range(2):
        with pytest.raises(pl.parser.ParserError, match="undefined_name"):  # scalars only behind
            k(np.zeros(4, np.float32), 1.5)
    assert len(k.variants) == 0


def test_scalars_are_checked_behind_the_compile_and_nothing_runs() -> None:
    x, y = data()
    with pytest.raises(TypeError, match=r"pass 1\.0"):
        scale(x, y, 1)
    assert np.isnan(y).all()


def test_a_tiling_parameter_that_is_not_the_last() -> None:
    @pl.jit
    def k(t: Plan, x: pl.Ptr[pl.DT_FP32]):
        pass

    with pytest.raises(ParserSyntaxError, match="last"):
        k(Plan(1, [1.0, 1.0], False), None)


def test_read_only_outputs_are_rejected() -> None:
    x, y = data()
    y.flags.writeable = False
    with pytest.raises(ValueError, match="`y` is written by the kernel"):
        scale(x, y)
    x.flags.writeable = False
    _, y = data()
    scale(x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_a_stuck_launch_says_who_waits_where() -> None:
    @pl.jit(auto_mutex=False)
    def k(x: pl.Tensor[[1, 8], pl.DT_FP32]):
        with pl.section_vector():
            pl.system.wait_cross_core(
                pipe=pl.PipeType.S, event_id=3, sync_mode=pl.CrossCoreSyncMode.INTER_BLOCK
            )

    with pytest.raises(StuckError, match="no core can go on") as caught:
        k[None, 2](np.zeros((1, 8), np.float32))
    assert "wait_cross_core" in caught.value.diagnostic.spans[0].source_line()


def test_observers_see_launches() -> None:
    seen: list[Any] = []
    launch_hooks.observers.append(seen.append)
    try:
        x, y = data()
        scale[None, 2](x, y)
    finally:
        launch_hooks.observers.remove(seen.append)
    (event,) = seen
    assert (event.kernel, event.block_dim, list(event.args)) == ("scale", 2, ["x", "y", "by"])
    assert event.args["x"] is x


def test_ir_of_a_file() -> None:
    text = ir_text(__file__, "scale", core="vector", after="frontend")
    assert "mutex_lock" not in text
    assert "pl.load(t, x, (" in text
    kernel = parse_kernel(ir_text(__file__, "scale"))
    assert [program.core.value for program in kernel.programs] == ["vector"]
    assert "out" in ir_text(__file__, "planned", key={"Sign": -1})
    for wrong, error in (("nothing", LookupError), (None, LookupError)):
        with pytest.raises(error):
            find_kernel(load_file(__file__), wrong)
    with pytest.raises(ValueError, match="core"):
        ir_text(__file__, "scale", core="scalar")
    with pytest.raises(FileNotFoundError):
        ir_text("no_such_file.py", "scale")


def test_definitions_for_tooling(tmp_path: Path) -> None:
    @pl.kernel(name="other", auto_mutex=False)
    def defined(x: pl.Tensor[[pl.STATIC, 8], pl.DT_FP32]):
        with pl.section_vector():
            x[0, 0] = 1.0

    assert isinstance(defined, pl.KernelDef)
    assert (defined.name, defined.auto_mutex) == ("other", False)
    assert isinstance(defined.ir({"x": (4, 8)}), Kernel)
    assert not callable(defined)
    head = "@pl.function\ndef f(x: pl.Tensor[[2, 8], pl.DT_FP32]):\n"
    text = head + "    with pl.section_vector():\n        x[0, 0] = 1.0\n"
    assert pl.parse(text).ir().name == "f"
    path = tmp_path / "text.py"
    path.write_text(text)
    assert pl.loads(path).name == "f"
    for wrong, error in (("x = 1", ValueError), (text + text.replace("f(", "g("), ValueError), ("def", SyntaxError)):
        with pytest.raises(error):
            pl.parse(wrong)
    with pytest.raises(ParserError):
        pl.parse(text.replace("x[0, 0] = 1.0", "import os"))


def test_a_program_is_a_class_of_functions_that_call_each_other() -> None:
    @pl.program
    class Both:
        @pl.function
        def main(self, x: pl.Tensor[[2, 8], pl.DT_FP32], n: pl.DT_INT32):
            with pl.section_vector():
                x[0, 0] = self.double(n)

        @pl.function
        def double(self, n):
            return n * 2

    assert "pl.setval" in print_kernel(Both.main.ir())
    with pytest.raises(UndefinedVariableError, match="triple"):

        @pl.program
        class Wrong:
            @pl.function
            def main(self, x: pl.Tensor[[2, 8], pl.DT_FP32]):
                with pl.section_vector():
                    x[0, 0] = self.triple(1)


def test_the_platform_answers_for_a_launch() -> None:
    x, y = data(70)
    scale[None, get_platform_info().vector_core_num](x, y)
    np.testing.assert_array_equal(y, 2 * x)


@pl.jit
def unfinished(x: pl.Tensor[[8, 64], pl.DT_FP32]):
    with pl.section_vector():
        pl.lod(x)


def test_an_error_shows_the_author_not_this_package():
    with pytest.raises(ParserSyntaxError, match=r"did you mean `pl\.load`") as caught:
        unfinished(np.ones((8, 64), np.float32))
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "__call__"
    assert len(names) <= 3


def test_kernels_of_a_command_line_text():
    text = (
        "import numpy as np\nimport pypto_pro.language as pl\n@pl.jit\n"
        "def k(y: pl.Tensor[[1, 16], pl.DT_INT32]):\n    with pl.section_vector():\n        y[0, 3] = 7\n"
        "y = np.zeros((1, 16), np.int32)\nk(y)\nprint(y[0, 3])\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("7", "")
