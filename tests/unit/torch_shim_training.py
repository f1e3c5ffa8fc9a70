"""Mixed precision, pinned memory and collectives of the stand-in. Run by test_torch_shim.py, under `--pypto-npu`."""

from __future__ import annotations

import copy
import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch_npu
from torch.utils.data import DataLoader, TensorDataset

from pypto_pro.torch_shim.missing import MissingNameError, UnsupportedError

HALF, BF16, FP32, FP64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
F = torch.nn.functional


def on_npu(*shape: int, dtype: Any = FP32) -> Any:
    return torch.linspace(0.1, 1, torch.Size(shape).numel()).reshape(shape).to("npu", dtype)


# --- mixed precision --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "wanted"),
    [
        (lambda x: x @ x, HALF),
        (lambda x: torch.einsum("ij,kj->ik", x, x), HALF),
        (lambda x: F.linear(x, x, x[0]), HALF),
        (lambda x: F.conv2d(x[None, None], torch.ones(1, 1, 3, 3, device="npu")), HALF),
        (lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]), HALF),
        (lambda x: F.conv_transpose2d(x[None, None], torch.ones(1, 1, 3, 3, device="npu")), HALF),
        (lambda x: torch.softmax(x.half(), -1), FP32),
        (lambda x: F.layer_norm(x.half(), (4,)), FP32),
        (lambda x: x.half().sum(), FP32),
        (lambda x: x.half().sum(1, dtype=HALF), HALF),
        (lambda x: x.half().norm(dim=1), FP32),
        (lambda x: torch.exp(x.half()), FP32),
        (lambda x: x.half() ** 2, FP32),
        (lambda x: F.mse_loss(x.half(), x), FP32),
        (lambda x: torch.cat([x, x.half()]), FP32),
        (lambda x: torch.atan2(x.half(), x.bfloat16()), FP32),
        (lambda x: torch.dot(x[0].half(), x[1].half()), HALF),
        (lambda x: x.half() + 1, HALF),
        (lambda x: x + x.half(), FP32),
        (lambda x: x.double() @ x.double(), FP64),
        (lambda x: torch.arange(4, device="npu").sum(), torch.int64),
    ],
)
def test_autocast_chooses_the_type(run: Callable[[Any], Any], wanted: Any) -> None:
    x = on_npu(4, 4)
    with torch.autocast("npu"):
        cast = run(x)
        with torch.autocast("npu", enabled=False):
            assert (x @ x).dtype == FP32
    assert (cast.dtype, cast.device.type) == (wanted, "npu")
    plain = run(x)
    assert torch.allclose(cast.cpu().double(), plain.cpu().double(), rtol=2e-3, atol=5e-3)


def test_autocast_forms() -> None:
    x = on_npu(4, 4)
    with torch.autocast(device_type="npu", dtype=BF16):
        assert (x @ x).dtype == BF16
        assert (x.cpu() @ x.cpu()).dtype == FP32
    with torch.npu.amp.autocast():
        assert (x @ x).dtype == HALF
    with torch_npu.npu.amp.autocast(dtype=BF16):
        assert (x @ x).dtype == BF16
    assert (x @ x).dtype == FP32
    with pytest.warns(UserWarning, match="only supports dtypes"), torch.autocast("npu", dtype=torch.int8):
        assert (x @ x).dtype == FP32


def test_training_with_a_scaler() -> None:
    from torch_npu.npu.amp import GradScaler, autocast

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1)).npu()
    optimiser, scaler = torch.optim.AdamW(model.parameters(), lr=3e-2), GradScaler(init_scale=128.0)
    x = on_npu(32, 4)
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        with autocast():
            made = model(x)
            loss = F.mse_loss(made, x.sum(1, keepdim=True))
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        losses.append(loss.item())
    assert (made.dtype, model[0].weight.grad.dtype) == (HALF, FP32)
    assert losses[-1] < losses[0] / 4
    scaler.scale(loss.detach().requires_grad_() * float("inf")).backward()
    before = scaler.get_scale()
    model[0].weight.grad.fill_(float("inf"))
    scaler.step(optimiser)
    scaler.update()
    assert scaler.get_scale() == before / 2


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("bias", [True, False])
def test_recurrent_layers(kind: Any, bias: bool) -> None:
    torch.manual_seed(1)
    layer = kind(4, 5, bias=bias, num_layers=2)
    twin = copy.deepcopy(layer).npu()
    x = torch.randn(3, 2, 4)
    x_npu = x.npu().requires_grad_()
    made, made_npu = layer(x.requires_grad_())[0], twin(x_npu)[0]
    assert torch.allclose(made, made_npu.cpu(), atol=1e-6)
    made.square().sum().backward()
    made_npu.square().sum().backward()
    assert torch.allclose(x.grad, x_npu.grad.cpu(), atol=1e-5)
    for a, b in zip(layer.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad.cpu(), atol=1e-4)
    with torch.inference_mode():
        assert torch.equal(twin(x_npu)[0].cpu(), made_npu.detach().cpu())
    with torch.autocast("npu"):
        assert twin(x_npu)[0].dtype == HALF


def test_gradients_on_every_device() -> None:
    for index in (3, 0, 7):
        x = torch.ones(2, device=f"npu:{index}", requires_grad=True)
        (x * 2).exp().sum().backward()
        (grad,) = torch.autograd.grad((x * 2).sum(), x)
        assert (x.grad.device.index, grad.tolist()) == (index, [2, 2])
    x = torch.ones(2, device="npu:2", requires_grad=True)
    (x.to("npu:5") * 3).cpu().sum().backward()
    assert (x.grad.device.index, x.grad.tolist()) == (2, [3, 3])
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.ones(1).backward()


# --- pinned memory ----------------------------------------------------------------------------------------------------


def test_pinned_tensors() -> None:
    made = [
        torch.empty(3, 4, pin_memory=True),
        torch.zeros(3, 4, dtype=HALF, pin_memory=True),
        torch.tensor([[1.0, 2]], pin_memory=True),
        torch.ones(2, 2).pin_memory(),
        torch.randn(2, 2, requires_grad=True, pin_memory=True),
        torch.empty_like(torch.ones(2, 2), pin_memory=True),
    ]
    assert all(x.is_pinned() and x[1:].is_pinned() and x.device.type == "cpu" for x in made)
    assert made[4].is_leaf
    assert made[4].requires_grad
    assert not torch.empty(3).is_pinned()
    assert not torch.empty(3, pin_memory=False).is_pinned()
    assert not on_npu(3).is_pinned()
    assert torch.equal(made[2].to("npu", non_blocking=True).cpu(), torch.tensor([[1.0, 2]]))
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.empty(3, device="npu", pin_memory=True)


def test_the_mark_ends_with_the_memory() -> None:
    from pypto_pro.torch_shim import pinned

    before = set(pinned._marked)
    x = torch.empty(1000, pin_memory=True)
    assert set(pinned._marked) - before == {x.data_ptr()}
    del x
    gc.collect()
    assert set(pinned._marked) <= before


def test_pinning_loader_and_default_device() -> None:
    loader = DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2, pin_memory=True)
    assert all(batch.is_pinned() for (batch,) in loader)
    with torch.device("npu"):
        assert torch.ones(2).is_npu
        assert torch.tensor([1.0]).is_npu


# --- collectives ------------------------------------------------------------------------------------------------------


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("hccl", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_a_process_alone() -> None:
    assert dist.get_backend() == "hccl"
    assert dist.is_hccl_available()
    x = on_npu(4)
    y = torch.empty_like(x)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    dist.all_gather([y], x)
    assert torch.equal(x.cpu(), y.cpu())
    dist.barrier()
    cpu = torch.ones(2)
    dist.all_reduce(cpu)
    with pytest.raises(RuntimeError, match="same device"):
        dist.all_gather([torch.empty(4)], x)
    packed = torch_npu.npu_format_cast(torch.ones(16, 16, dtype=HALF, device="npu"), 29)
    with pytest.raises(UnsupportedError, match="FRACTAL_NZ format cannot take part"):
        dist.all_reduce(packed)


@pytest.mark.usefixtures("alone")
def test_a_data_parallel_model() -> None:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).npu(), device_ids=[0])
    model(torch.ones(2, 4, device="npu")).sum().backward()
    assert torch.equal(model.module.weight.grad.cpu(), torch.full((4, 4), 2.0))


WORKER = """
import gc, sys, torch, torch_npu, torch.distributed as dist
rank = int(sys.argv[2])
dist.init_process_group("hccl", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
torch.npu.set_device(rank)
x = torch.ones(3, dtype=torch.bfloat16, device="npu") * (rank + 1)
works = [dist.all_reduce(x, async_op=True)]
gathered = torch.empty(4, device="npu")
works.append(dist.all_gather_into_tensor(gathered, torch.full((2,), float(rank), device="npu"), async_op=True))
del works[0]
gc.collect()
for work in works:
    work.wait()
parts = torch.empty(2, device="npu")
dist.all_to_all_single(parts, torch.arange(2.0, device="npu") + 10 * rank)
if rank == 0:
    sent = dist.isend(torch.full((2,), 7.0, device="npu"), 1)
    gc.collect()
    sent.wait()
else:
    got = torch.empty(2, device="npu")
    dist.recv(got, 0)
    assert got.tolist() == [7, 7]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).npu(), device_ids=[rank])
model(torch.ones(3, 2, device="npu") * (rank + 1)).sum().backward()
assert model.module.weight.grad.tolist() == [[4.5, 4.5]] * 2, model.module.weight.grad
objects = [None, None]
dist.all_gather_object(objects, {"rank": rank})
dist.barrier()
print(x.tolist(), gathered.tolist(), parts.tolist(), objects, x.device)
dist.destroy_process_group()
"""


def test_two_processes(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER, encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-c", "from pypto_pro.cli import main; main()", "run", str(script)]
    started = [
        subprocess.Popen([*command, str(tmp_path / "store"), str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    printed = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0]
    shared = "[3.0, 3.0, 3.0] [0.0, 0.0, 1.0, 1.0]"
    objects = "[{'rank': 0}, {'rank': 1}]"
    assert printed == [f"{shared} [0.0, 10.0] {objects} npu:0\n", f"{shared} [1.0, 11.0] {objects} npu:1\n"]


SPAWNING = """
import torch, torch_npu, torch.distributed as dist, torch.multiprocessing as mp
import pypto_pro.language as pl

@pl.jit
def double(x: pl.Tensor[[16, 64], pl.DT_FP32], y: pl.Tensor[[16, 64], pl.DT_FP32]):
    t = pl.make_tile_group(type=pl.TileType(shape=[16, 64], dtype=pl.DT_FP32), addrs=0, mutex_ids=[0]).current()
    with pl.section_vector():
        pl.load(t, x, [0, 0])
        pl.add(t, t, t)
        pl.store(y, t, [0, 0])

def work(rank, store):
    dist.init_process_group("hccl", init_method="file://" + store, rank=rank, world_size=2)
    x = torch.ones(16, 64, device=f"npu:{rank}")
    double(x, x)
    dist.all_reduce(x)
    assert x.unique().tolist() == [4]
    dist.destroy_process_group()

if __name__ == "__main__":
    import sys
    mp.spawn(work, (sys.argv[1],), nprocs=2)
    print("done")
"""


def test_processes_that_a_script_spawns(tmp_path: Path) -> None:
    script = tmp_path / "spawning.py"
    script.write_text(SPAWNING, encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-c", "from pypto_pro.cli import main; main()", "run", str(script)]
    done = subprocess.run([*command, str(tmp_path / "store")], capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


# --- settings and graphs ----------------------------------------------------------------------------------------------


def test_settings() -> None:
    torch.npu.matmul.allow_hf32 = True
    torch.npu.conv.allow_hf32 = False
    torch.npu.set_option({"ACL_PRECISION_MODE": "must_keep_origin_dtype"})
    assert not torch.npu.is_current_stream_capturing()


def test_graphs_say_what_to_do() -> None:
    assert not hasattr(torch.npu, "NPUGraph")
    with pytest.raises(MissingNameError, match=r"`torch.npu` has no `NPUGraph`(.|\n)*run the code itself"):
        torch.npu.NPUGraph()
