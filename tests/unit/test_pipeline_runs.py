"""Pipelines that run: full, sync_only and numpy agree on both executors, under every schedule, and checks are clean."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_text import module
from numpy.typing import NDArray
from pipeline_kernels import Chain

import pypto_pro
from pypto_pro.frontend.closure import Captures
from pypto_pro.frontend.pipeline.config import PipelineConfig

SYNC_ONLY = "pl.pipeline.PipelineConfig(sync_only=True)"
SCHEDULES: tuple[dict[str, Any], ...] = ({"schedule": "latest"}, {"schedule": "random", "seed": 7})
"""Those besides the order of issue, in which the checks run."""


def launched(kernel: Any, chain: Chain, sizes: tuple[int, int], blocks: int = 1) -> NDArray[Any]:
    """y of one launch with the settings of the moment."""
    tasks = sizes[0] * sizes[1] if chain.nested else sizes[1]
    x, w = chain.inputs(tasks, seed=tasks)
    y = np.full((x.shape[0], 32), -1.0, np.float32)
    kernel[None, blocks](x, w, y, *sizes)
    return y


def wanted(chain: Chain, sizes: tuple[int, int]) -> NDArray[Any]:
    tasks = sizes[0] * sizes[1] if chain.nested else sizes[1]
    x, w = chain.inputs(tasks, seed=tasks)
    return chain.expected(x, w, tasks)


def everywhere(chain: Chain, sizes: tuple[int, int]) -> None:
    """Native and the simulator under three schedules give numpy's numbers; the checks have nothing to say."""
    kernel, right = chain.kernel(), wanted(chain, sizes)
    with pypto_pro.options(executor="native"):
        assert np.array_equal(launched(kernel, chain, sizes), right)
    for chosen in SCHEDULES:
        with pypto_pro.options(executor="interp", **chosen):
            assert np.array_equal(launched(kernel, chain, sizes), right)
    tasks = sizes[0] * sizes[1] if chain.nested else sizes[1]
    x, w = chain.inputs(tasks, seed=tasks)
    y = np.full(right.shape, -1.0, np.float32)
    report = pypto_pro.check(kernel[None, 1], x, w, y, *sizes)
    assert report.clean, report.render()
    assert np.array_equal(y, right)


@pytest.mark.parametrize("kinds", ["C", "V", "CV", "VC", "CVC", "VCV", "CVCV", "VCVC"])
@pytest.mark.parametrize("config", ["pl.pipeline.PipelineConfig()", SYNC_ONLY])
def test_chains(kinds: str, config: str) -> None:
    everywhere(Chain(kinds, config=config), (1, 5))


@pytest.mark.parametrize("config", ["pl.pipeline.PipelineConfig()", SYNC_ONLY])
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (1, 1), (3, 2), (4, 1)])
def test_trip_counts(config: str, sizes: tuple[int, int]) -> None:
    """Zero trips of either loop, fewer tasks than the pipeline is deep, and drains once for all outer trips."""
    everywhere(Chain("CVCV", config=config, nested=True), sizes)


def random_chain(rng: random.Random) -> tuple[Chain, tuple[int, int]]:
    kinds = rng.choice(["CV", "CVC", "CVCV", "VCV", "VCVC"])
    preload = rng.randint(1, 4)
    sync_only = rng.random() < 0.25
    least = 1 if sync_only else 2  # what the widest distance between producer and consumer needs, see A6
    if not sync_only and len(kinds) > 2:
        least = max(2, preload)
    slots = tuple(rng.randint(least, least + 1) for _ in kinds[1:])
    config = SYNC_ONLY if sync_only else f"pl.pipeline.PipelineConfig(preload={preload})"
    return Chain(kinds, slots, config, rng.random() < 0.5), (rng.randint(0, 3), rng.randint(0, 4))


@pytest.mark.parametrize("seed", range(12))
def test_random_chains(seed: int) -> None:
    everywhere(*random_chain(random.Random(seed)))


def test_blocks_share_nothing() -> None:
    """Every block runs its own pipeline; all write the same tensor here, block by block."""
    loop = "b = pl.get_block_idx() // pl.get_subblock_num()\n    for i in pl.range(b, n, pl.get_block_num()):"
    text = Chain("CVCV").source().replace("for i in pl.range(0, n):", loop)
    kernel = module(text)["kernel"]
    chain = Chain("CVCV")
    for executor in ("native", "interp"):
        with pypto_pro.options(executor=executor):
            assert np.array_equal(launched(kernel, chain, (1, 7), blocks=3), wanted(chain, (1, 7)))


def test_a_loop_left_early() -> None:
    """`break` ends the pipeline loop; the tasks under way are drained."""
    first = "        off = i * 32\n"
    text = Chain("CVCV").source().replace(first, "        if i == m:\n            break\n" + first)
    kernel, chain = module(text)["kernel"], Chain("CVCV")
    x, w = chain.inputs(6)
    y = np.full((x.shape[0], 32), -1.0, np.float32)
    report = pypto_pro.check(kernel[None, 1], x, w, y, 3, 6)
    assert report.clean, report.render()
    assert np.array_equal(y, chain.expected(x, w, 3))


@pytest.mark.parametrize("config", ["preload=2", "sync_only=True"])
@pytest.mark.parametrize("jump", ["break", "continue"])
def test_jumps_behind_the_stages(jump: str, config: str) -> None:
    """A trip that ends behind its last stage has made a whole task, which is counted and drained like any other."""
    config = f"pl.pipeline.PipelineConfig({config})"
    lines = Chain("CVCV", config=config).source().splitlines()
    last = max(k for k, line in enumerate(lines) if line.startswith("            s3("))
    lines[last + 1 : last + 1] = ["        if i == 2:", f"            {jump}", "        off = off + 0"]
    kernel, chain = module("\n".join(lines) + "\n")["kernel"], Chain("CVCV")
    x, w = chain.inputs(5)
    y = np.full((x.shape[0], 32), -1.0, np.float32)
    report = pypto_pro.check(kernel[None, 1], x, w, y, 1, 5)
    assert report.clean, report.render()
    assert np.array_equal(y, chain.expected(x, w, 3 if jump == "break" else 5))


def test_removed_signals_are_found() -> None:
    """The synchronisation is needed: the transformed kernel without one signal is not clean."""
    captures = Captures()
    Chain("CV").kernel().compile((), None, (), captures=captures)
    lines = captures.transformed.splitlines()
    own = [i for i, line in enumerate(lines) if "fwd_ids_ch0[_pl_ctx" in line]
    assert len(own) == 3  # set and wait in the loop, the wait of the drain beat
    stages = Chain("CV").source().split("@pl.jit")[0].replace("@pl.pipeline.stage\n", "")
    body = "\n".join(line for i, line in enumerate(lines) if i not in own)
    text = stages + body.replace("pipeline=pl.pipeline.PipelineConfig()", "")
    chain = Chain("CV")
    x, w = chain.inputs(4)
    report = pypto_pro.check(module(text)["kernel"][None, 1], x, w, np.zeros((128, 32), np.float32), 1, 4)
    assert not report.clean


@pytest.mark.parametrize("use", [
    "pl.add(t, t, 2.0)\n    pl.adds(u, t, 0.0)", "bump(t)\n    pl.adds(u, t, 0.0)",
    "pl.add(t[0:16, 0:32], t, 2.0)\n    pl.adds(u, t, 0.0)",
])  # fmt: skip
def test_a_consumer_may_work_in_place(use: str) -> None:
    text = Chain("CV").source().replace("pl.add(u, t, 2.0)", use)
    text = """
@pl.vector_function
def bump(t):
    mask = vf.create_mask(dtype=pl.DT_FP32)
    for i in pl.range(0, 8):
        r = vf.load_align(t, i * 64)
        r = vf.adds(r, 2.0, mask)
        vf.store_align(t, r, mask, i * 64)
""" + text if "bump" in use else text
    kernel, chain = module(text)["kernel"], Chain("CV")
    x, w = chain.inputs(5)
    y = np.zeros((160, 32), np.float32)
    report = pypto_pro.check(kernel[None, 1], x, w, y, 1, 5)
    assert report.clean, report.render()
    assert np.array_equal(y, chain.expected(x, w, 5))


# --- the example -----------------------------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]


def file(path: Path) -> Any:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(f"pipeline_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


def test_example(capsys: pytest.CaptureFixture[str]) -> None:
    example = file(ROOT / "examples" / "mlp_pipeline.py")
    example.main()
    assert "largest error" in capsys.readouterr().out
    x, w1, w2 = example.inputs(300)
    y = np.zeros((300, example.N), np.float32)
    report = pypto_pro.check(example.mlp[None, 1], x, w1, w2, y)
    assert report.clean, report.render()


def test_flash_attention() -> None:
    """Four stages, two loops, values that the vector cores keep from stage to stage."""
    example = file(ROOT / "examples" / "flash_attention_pipeline.py")
    q, k, v = example.inputs(1, 256, 384)
    found = []
    for config in (PipelineConfig(preload=2), PipelineConfig(preload=1), PipelineConfig(sync_only=True)):
        o = np.zeros_like(q)
        report = pypto_pro.check(example.make_attention(config)[None, 1], q, k, v, o)
        assert report.clean, report.render()
        found.append(o)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_the_pipeline_is_faster_than_the_serial_order() -> None:
    """In the model of the bench: cores overlap, and the matrix unit works most of the time."""
    bench = file(ROOT / "bench" / "pipeline.py")
    for name in ("mlp", "attention"):
        row = bench.measure(name)
        assert row.gain > 1.5
        assert row.matrix_busy[1] > 1.5 * row.matrix_busy[0]
