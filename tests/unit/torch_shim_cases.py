"""What device "npu" of the stand-in does. Run by test_torch_shim.py in a process of its own, under `--pypto-npu`."""

from __future__ import annotations

import copy
import csv
import ctypes
import io
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_npu

import pypto_pro.language as pl
from pypto_pro.diag.errors import ArgumentError, ArgumentKindError
from pypto_pro.torch_shim.missing import MissingModuleError, MissingNameError, UnsupportedError

NPU = torch.device("npu:0")


@pl.jit
def double(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32]):
    tile = pl.TileType(shape=[16, 64], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    slots = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0, 1])
    with pl.section_vector():
        for r in pl.range(pl.get_block_idx() * 16, x.shape[0], pl.get_block_num() * 16):
            t = slots.next()
            pl.set_validshape(t, [pl.min(16, x.shape[0] - r), 64])
            pl.load(t, x, [r, 0])
            pl.add(t, t, t)
            pl.store(y, t, [r, 0])


def sample(*shape: int) -> Any:
    return torch.arange(float(np.prod(shape))).reshape(shape)


# --- devices ----------------------------------------------------------------------------------------------------------


def test_tensors_know_their_device() -> None:
    x = torch.empty(3, device="npu")
    assert type(x) is torch.Tensor
    assert (x.device, x.is_npu, x.is_cpu, str(x.device)) == (NPU, True, False, "npu:0")
    assert not torch.empty(3).is_npu
    assert (x.cpu().device.type, x.to("cpu").is_npu, x.to("npu:0") is x) == ("cpu", False, True)
    assert "device='npu:0'" in repr(sample(2).npu())


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(2, 3, device="npu"),
        lambda: torch.tensor([1, 2], device="npu:0"),
        lambda: torch.arange(4, device=NPU),
        lambda: torch.randn(2, dtype=torch.float16, device="npu"),
        lambda: torch.full((2,), 3.0, device="npu"),
        lambda: torch.zeros_like(sample(3).npu()),
        lambda: torch.zeros_like(sample(3), device="npu"),
        lambda: sample(3).npu().new_ones(2),
        lambda: torch.from_numpy(np.ones(3)).to(NPU, non_blocking=True),
        lambda: sample(3).to("npu", torch.bfloat16),
        lambda: torch.nn.Parameter(sample(3).npu()),
        lambda: torch.empty(2, 3, dtype=torch.float8_e4m3fn, device="npu").view(torch.uint8),
        lambda: torch.load(saved(sample(3).npu())),
        lambda: copy.deepcopy(sample(3).npu()),
        lambda: sample(3).pin_memory().npu(),
    ],
)
def test_ways_to_make_one(make: Any) -> None:
    assert make().device == NPU


def saved(tensor: Any) -> Any:
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return file


def test_default_device_and_the_current_one() -> None:
    with torch.device("npu"):
        assert torch.ones(2).is_npu
    torch.npu.set_device("npu:3")
    try:
        made = [torch.ones(2, device="npu"), torch.ones(2).npu(), torch.ones(2).to("npu"), torch.randn(2, device="npu")]
        assert {x.device.index for x in made} == {3}
        assert torch.equal(made[0] + made[1], torch.full((2,), 2.0, device="npu"))
        with torch.npu.device(1):
            assert torch.npu.current_device() == 1
            assert torch.ones(2, device="npu").device.index == 1
        assert torch.npu.current_device() == 3
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.npu.current_device()))
        thread.start()
        thread.join()
        assert seen == [0]
    finally:
        torch.npu.set_device(0)
    with pytest.raises(RuntimeError, match="invalid device index 99"):
        torch.npu.set_device(99)
    with pytest.raises(ValueError, match="expected a device of type npu"):
        torch.npu.synchronize("cpu")


def test_moving_copies_and_mixing_is_refused() -> None:
    x = sample(2, 3)
    y = x.npu()
    y.add_(1)
    assert torch.equal(x, sample(2, 3))
    assert torch.equal(y.cpu(), x + 1)
    with pytest.raises(RuntimeError, match="same device"):
        x + y
    with pytest.raises(RuntimeError, match="same device"):
        torch.matmul(y, x.t())
    with pytest.raises(TypeError, match="can't convert npu:0 device type tensor to numpy"):
        y.numpy()
    assert torch.equal(y + torch.tensor(1.0), y + 1)  # CPU scalars may mix
    assert torch.equal(y[torch.tensor([1])].cpu(), y.cpu()[1:])  # and indices


# --- operators --------------------------------------------------------------------------------------------------------

OPERATORS = {
    "views": lambda x: x.t()[1:].unsqueeze(0).expand(2, -1, -1).reshape(-1),
    "written views": lambda x: (x[0].mul_(3), x.view(-1)[2:4].zero_(), x.t_().transpose(0, 1), x)[-1],
    "matmul": lambda x: x @ x.t(),
    "casts": lambda x: x.half().to(torch.int32).double(),
    "bits": lambda x: x.view(torch.int32) ^ 5,
    "numbers as operands": lambda x: (5 - x) / 2 + (x.int() % 3) + (x.int() << 1) + torch.fmod(x, 2) + x**2 + (x > 1),
    "promotion by numbers": lambda x: x.half() * 2.5 + x.int().add(1.5).half(),
    "softmax": lambda x: torch.softmax(x, -1),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    "layer norm": lambda x: torch.nn.functional.layer_norm(x, (x.shape[-1],)),
    "gelu": torch.nn.functional.gelu,
    "convolution": lambda x: torch.conv2d(x[None, None], x[None, None, :1, :2]),
    "sort": lambda x: torch.cat([x.sort(descending=True).values, x.topk(2).values], dim=1),
    "masks": lambda x: torch.where(x > 2, x, 0.0)[x[:, 0] < 3],
    "empty operands": lambda x: torch.cat([x[:0], x]),
    "reductions": lambda x: x.cumsum(0).mean(1, keepdim=True) + x.max(),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "complex": lambda x: torch.view_as_real(torch.fft.fft(x).conj().resolve_conj()),
    "lazily negated": lambda x: torch.fft.fft(x).conj().imag.clone() + torch.fft.hfft(x, 3),
    "indexed write": lambda x: x.index_put_((torch.tensor([0]),), torch.tensor(9.0)),
    "out": lambda x: torch.add(x, x, out=torch.empty(0, device=x.device)),
    "resized": lambda x: x.clone().resize_(1, 2),
    "numbers": lambda x: torch.tensor([x.sum().item(), float(x[0, 1]), len(x.tolist())]),
    "deep": lambda x: torch.linalg.inv(x @ x.t() + torch.eye(x.shape[0], device=x.device)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_equal_the_cpu(name: str) -> None:
    on_cpu = OPERATORS[name](sample(2, 3))
    on_npu = OPERATORS[name](sample(2, 3).npu())
    assert on_npu.shape == on_cpu.shape
    torch.testing.assert_close(on_npu.cpu(), on_cpu)


def test_views_share_memory_and_grow() -> None:
    x = sample(2, 3).npu()
    assert x.t()[1:].data_ptr() == x.data_ptr() + 4
    assert x.view(6).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    x.resize_(4, 3)
    assert torch.equal(x[:2].cpu(), sample(2, 3))


def test_inference_mode() -> None:
    with torch.inference_mode():
        x = torch.ones(4, 64, device="npu")
        y = torch.empty_like(x)
        double(x, y)
        assert y.sum().item() == 512


def test_a_module_trains() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 2), torch.nn.Flatten(), torch.nn.Linear(8, 1))
    twin = copy.deepcopy(model).npu()
    for module, device in ((model, "cpu"), (twin, "npu")):
        optimiser = torch.optim.AdamW(module.parameters(), lr=0.1)
        for _ in range(2):
            optimiser.zero_grad()
            module(sample(1, 1, 3, 3).to(device)).square().sum().backward()
            optimiser.step()
    for ours, theirs in zip(twin.parameters(), model.parameters(), strict=True):
        assert ours.is_npu
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)


def test_random_numbers_are_the_devices_own() -> None:
    torch.manual_seed(5)
    a, cpu = torch.randn(4, device="npu"), torch.randn(4)
    torch.manual_seed(5)
    torch.randn(7, device="npu")
    assert torch.equal(torch.randn(4), cpu)
    torch.npu.manual_seed(5)
    state = torch.npu.get_rng_state()
    assert torch.equal(torch.randn(4, device="npu"), a)
    torch.npu.set_rng_state(state)
    assert torch.equal(torch.randn(4, device="npu"), a)
    generator = torch.Generator(device="npu").manual_seed(5)
    assert generator.device == NPU
    assert torch.equal(torch.randn(4, device="npu", generator=generator), a)
    assert isinstance(torch.default_generator, torch.Generator)


# --- torch.npu --------------------------------------------------------------------------------------------------------


def test_queries() -> None:
    assert torch.npu.is_available()
    assert torch_npu.npu is torch.npu
    assert torch.npu.device_count() >= 1
    assert torch.npu.get_device_name(0) == torch.npu.get_device_properties("npu:0").name == "Ascend950"
    assert torch.npu.get_device_properties().vector_core_num == 64
    assert torch.accelerator.current_accelerator().type == "npu"
    torch.accelerator.synchronize()


def test_memory_is_counted() -> None:
    before = torch.npu.memory_allocated()
    torch.npu.reset_peak_memory_stats()
    x = torch.empty(1000, device="npu")
    y = x[5:]
    del x
    assert torch.npu.memory_allocated() == before + 4000
    z = torch.empty(500, device="npu")
    del z, y
    assert torch.npu.memory_allocated() == before
    assert torch.npu.max_memory_allocated() == before + 6000
    assert torch.npu.memory_stats()["allocated_bytes.all.peak"] == before + 6000
    free, total = torch.npu.mem_get_info()
    assert 0 < free <= total


def test_streams_and_events() -> None:
    assert torch.npu.current_stream() == torch.npu.default_stream()
    stream = torch.npu.Stream()
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    x = torch.ones(64, 64, device="npu")
    y = torch.empty_like(x)
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() == stream
        start.record()
        double[stream, 2](x, y)
        end.record(stream)
    stream.synchronize()
    end.synchronize()
    assert torch.npu.current_stream() == torch.npu.default_stream()
    assert end.query()
    assert 0 < start.elapsed_time(end) < 60_000
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        torch.npu.Event().elapsed_time(end)
    with pytest.raises(RuntimeError, match="must be recorded"):
        torch.npu.Event(enable_timing=True).elapsed_time(end)


# --- torch_npu --------------------------------------------------------------------------------------------------------


def test_trans_quant_param() -> None:
    scale = torch.tensor([2.0, 0.1, -1.5, 1 + 2**-11 + 2**-20])
    offset = torch.tensor([0.0, -3.0, 400.0, 2.5])
    signed = 1 << 46
    bits = scale.numpy().view(np.uint32).astype(np.int64)
    cut = torch.from_numpy((bits & 0xFFFFE000) | signed)
    for device in ("npu", "cpu"):
        words = torch_npu.npu_trans_quant_param(scale.to(device))
        assert (words.dtype, words.device.type) == (torch.int64, device)
        assert torch.equal(words.cpu(), cut)
    with_offset = torch_npu.npu_trans_quant_param(scale.npu(), offset.npu()).cpu()
    fields = torch.tensor([0, -3 & 0x1FF, 255, 2]) << 37
    assert torch.equal(with_offset, cut | fields)
    rounded = torch_npu.npu_trans_quant_param(scale, round_mode=1)[3].item()
    assert np.uint32(rounded & 0xFFFFFFFF).view(np.float32) == 1 + 2**-10
    assert torch_npu.npu_trans_quant_param(torch.tensor([float("inf")]), round_mode=1).item() == 0x7F800000 | signed
    with pytest.raises(TypeError, match=r"`scale` is an FP32 tensor, found torch\.float16"):
        torch_npu.npu_trans_quant_param(scale.half())
    with pytest.raises(ValueError, match=r"shape \[n\] or \[1, n\], found \[2, 2\]"):
        torch_npu.npu_trans_quant_param(torch.ones(2, 2))


@pytest.mark.parametrize(("dtype", "columns"), [(torch.float16, 16), (torch.int8, 32), (torch.float32, 8)])
def test_format_cast(dtype: Any, columns: int) -> None:
    x = torch.randint(0, 100, (3, 32, 64)).to(dtype).npu()
    packed = torch_npu.npu_format_cast(x, 29)
    assert (torch_npu.get_npu_format(x), torch_npu.get_npu_format(packed)) == (2, 29)
    assert torch_npu.npu_format_cast(packed, torch_npu.Format.FRACTAL_NZ) is packed
    assert (packed.shape, packed.device) == (x.shape, x.device)
    assert torch.equal(packed, x)  # operators see the logical order
    assert torch.equal(torch_npu.npu_format_cast(packed, 2).cpu(), x.cpu())
    stored = np.frombuffer(ctypes.string_at(packed.data_ptr(), packed.nbytes), x.cpu().numpy().dtype)
    blocks = x.cpu().numpy().reshape(3, 32, 64 // columns, columns).transpose(0, 2, 1, 3)
    assert np.array_equal(stored, blocks.ravel())
    with pytest.raises(UnsupportedError, match="a view of a tensor in FRACTAL_NZ"):
        packed[0] + 1
    with pytest.raises(UnsupportedError, match="cannot be written"):
        packed.add_(1)
    with pytest.raises(UnsupportedError, match="must be multiples of 16 and"):
        torch_npu.npu_format_cast(x[:, :5], 29)
    with pytest.raises(UnsupportedError, match="format 4 is not available; there are 2"):
        torch_npu.npu_format_cast(x, 4)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(MissingNameError, match=r"`torch_npu` has no `npu_rotary_mul`(.|\n)*torch_shim_cases.py"):
        torch_npu.npu_rotary_mul(1)
    with pytest.raises(MissingNameError, match=r"did you mean `npu_format_cast`"):
        torch_npu.npu_format_csat(1)
    with pytest.raises(MissingNameError, match=r"`torch.npu` has no `npugraph`"):
        torch.npu.npugraph()
    with pytest.raises(MissingModuleError, match=r"no module `torch_npu.contrib`(.|\n)*torch_shim_cases.py"):
        import torch_npu.contrib as contrib  # noqa: F401
    assert not hasattr(torch_npu, "npu_rotary_mul")


def test_profiler(tmp_path: Path) -> None:
    from torch_npu.profiler import ProfilerActivity, ProfilerLevel, _ExperimentalConfig

    x = torch.ones(40, 64, device="npu")
    y = torch.empty_like(x)
    with torch_npu.profiler.profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.NPU],
        schedule=torch_npu.profiler.schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1),
        on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(str(tmp_path / "prof")),
        record_shapes=True,
        experimental_config=_ExperimentalConfig(profiler_level=ProfilerLevel.Level1),
    ) as prof:
        for _ in range(6):
            double[None, 3](x, y)
            prof.step()
    (output,) = (tmp_path / "prof").glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT")
    with (output / "kernel_details.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["Step Id"], r["Name"], r["Block Dim"], r["Input Shapes"]) for r in rows] == [
        (step, "double", "3", "40,64;40,64") for step in ("3", "4")
    ]
    assert all(float(r["Duration(us)"]) > 0 for r in rows)
    with (output / "op_statistic.csv").open() as file:
        assert next(csv.DictReader(file))["Count"] == "2"
    with torch_npu.profiler.profile() as prof:
        double(x, y)
    double(x, y)
    assert [(launch.kernel, launch.dtypes) for launch in prof.launches] == [("double", ("float32", "float32"))]
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    assert json.loads((tmp_path / "trace.json").read_text())[0]["name"] == "double"
    with pytest.raises(ArgumentKindError, match="unexpected keyword argument 'colour'"):
        torch_npu.profiler.profile(colour=1)


# --- kernels ----------------------------------------------------------------------------------------------------------


def test_a_kernel_gets_the_memory_itself() -> None:
    x = torch.zeros(100, 64, device="npu")
    y = torch.full((104, 64), -1.0, device="npu")
    x[3:] = 2.0
    double[None, 2](x[3:], y[4:101])
    assert torch.equal(y[4:101].cpu(), torch.full((97, 64), 4.0))
    assert bool((y[:4] == -1).all())
    assert bool((y[101:] == -1).all())


def test_arguments_that_are_refused() -> None:
    x = torch.zeros(16, 64, device="npu")
    with pytest.raises(ArgumentKindError, match=r"`y` is a torch\.strided tensor on device meta"):
        double(x, torch.empty(16, 64, device="meta"))
    with pytest.raises(ArgumentError, match="found a tensor that requires grad"):
        double(x, torch.zeros(16, 64, device="npu", requires_grad=True))
    with pytest.raises(ArgumentError, match="has strides"):
        double(torch.zeros(64, 64, device="npu").t(), torch.zeros(64, 64, device="npu"))


@torch.library.custom_op("shim_cases::double", mutates_args=(), device_types="npu")
def double_op(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    double[None, 2](x, y)
    return y


@double_op.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("shim_cases::double_into", mutates_args=("y",))
def double_into(x: torch.Tensor, y: torch.Tensor) -> None:
    double[None, 2](x, y)


def test_custom_operators() -> None:
    x = torch.ones(20, 64, device="npu")
    assert torch.equal(torch.ops.shim_cases.double(x), x + 1)
    y = torch.zeros_like(x)
    double_into(x, y)
    assert torch.equal(y, x + 1)
    with pytest.raises(NotImplementedError, match="'CPU' backend"):
        double_op(torch.ones(20, 64))
    library = torch.library.Library("shim_cases", "FRAGMENT")
    library.define("cpu_only(Tensor x) -> Tensor")
    library.impl("cpu_only", lambda x: x, "CPU")
    with pytest.raises(UnsupportedError, match="`shim_cases::cpu_only` has no kernel for device npu"):
        torch.ops.shim_cases.cpu_only(x)


def test_compile() -> None:
    x = torch.ones(20, 64, device="npu")

    def step(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        double[None, 2](x * 3, y)
        return y + 1

    assert torch.equal(torch.compile(step)(x), torch.full_like(x, 7.0))
    whole = torch.compile(lambda x: torch.ops.shim_cases.double(x) + 1, fullgraph=True)
    assert torch.equal(whole(x), x + 2)
