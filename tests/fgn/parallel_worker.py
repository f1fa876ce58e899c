"""What one process of test_parallel.py does, run by torch.multiprocessing: on the simulator with gloo,
or each on a GPU of its own with NCCL."""

import copy
import os
import re
import socket
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.parallel import DistributedDataParallel

import fgn
from fgn.parallel import ChainParallel

# A loaded machine may take minutes for what takes a second.
PATIENCE = timedelta(minutes=5)


def join(rank: int, processes: int, store: str, kind: str):
    init = {"init_method": f"file://{store}", "rank": rank, "world_size": processes, "timeout": PATIENCE}
    if kind == "cuda":
        torch.cuda.set_device(rank)
        torch.set_default_device(f"cuda:{rank}")
        dist.init_process_group("nccl", **init)
        return
    if "lo" in [name for _, name in socket.if_nameindex()]:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", **init)


def models() -> dict[str, nn.Module]:
    """Modules that are one chain, the same in every process."""
    torch.manual_seed(0)
    found = {
        "two vectors": fgn.GemmBiasAddHardtanhMishGroupNorm(12, 32, (32,), 8),
        "a number for all channels": fgn.GemmBiasAddHardtanhMishGroupNorm(12, 32, (1,), 8),
        "operators after": fgn.MatmulGroupNormLeakyReluSum(12, 32, 4),
        "PReLU, not fused": nn.Sequential(nn.Linear(12, 32), nn.PReLU(32), nn.GroupNorm(4, 32), nn.SiLU()),
        "no bias": fgn.fuse(nn.Sequential(nn.Linear(12, 32, bias=False), nn.GroupNorm(4, 32, affine=False))),
    }
    for model in found.values():
        for parameter in model.parameters():
            nn.init.normal_(parameter)
    return found


def whole(value) -> torch.Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value


def gradients(model: nn.Module, x, y) -> dict[str, torch.Tensor]:
    (y * torch.linspace(-1, 1, y.numel()).reshape(y.shape)).sum().backward()
    return {"x": x.grad} | {name: whole(value.grad) for name, value in model.named_parameters()}


def assert_same(found: dict, expected: dict, what: str):
    assert list(found) == list(expected)
    for name, value in expected.items():
        close = torch.allclose(found[name], value, rtol=2e-5, atol=2e-5)
        assert close, f"{what}: the gradient of {name} is off by {(found[name] - value).abs().max()}"


def check_against_unsharded(mesh):
    """Outputs and gradients, gathered and sharded, and after a step of an optimizer."""
    processes, rank = mesh.size(), mesh.get_local_rank()
    for name, model in models().items():
        sharded = copy.deepcopy(model)
        assert parallelize_module(sharded, mesh, ChainParallel(output_layouts=Replicate())) is sharded
        optimizers = [torch.optim.Adam(one.parameters(), lr=0.1) for one in (model, sharded)]
        for _ in range(2):
            torch.manual_seed(1)
            x = torch.rand(5, 12)
            xs = [x.clone().requires_grad_() for _ in range(2)]
            ys = [model(xs[0]), sharded(xs[1])]
            torch.testing.assert_close(ys[1], ys[0], rtol=1e-5, atol=1e-5)
            assert_same(gradients(sharded, xs[1], ys[1]), gradients(model, xs[0], ys[0]), name)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        columns = copy.deepcopy(models()[name])
        expected = columns(xs[0])
        parallelize_module(columns, mesh, ChainParallel())
        for x in (xs[0], DTensor.from_local(xs[0], mesh, [Replicate()])):
            assert torch.allclose(columns(x), expected.chunk(processes, 1)[rank], rtol=1e-5, atol=1e-5)
    local = {key: value.to_local().shape for key, value in columns.named_parameters()}
    assert local == {"0.weight": (32 // processes, 12)}


def check_two_in_a_row(mesh):
    """The columns of one are the rows of the next, gathered between them."""
    torch.manual_seed(2)
    first, second = (nn.Sequential(nn.Linear(n, 16), nn.GELU(), nn.GroupNorm(4, 16)) for n in (12, 16))
    model = nn.Sequential(first, second)
    x = torch.rand(5, 12)
    expected = model(x)
    plan = {"0": ChainParallel(), "1": ChainParallel(input_layouts=Shard(1), output_layouts=Replicate())}
    parallelize_module(model, mesh, plan)
    assert torch.allclose(model(x), expected, rtol=1e-5, atol=1e-5)
    # It is what the module says at the call.
    hidden = first(x)
    model[1][2].eps = 0.5
    hidden = DTensor.from_local(hidden, mesh, [Shard(1)]).full_tensor()
    product = nn.functional.linear(hidden, whole(second[0].weight), whole(second[0].bias))
    expected = nn.functional.group_norm(nn.functional.gelu(product), 4, eps=0.5)
    assert torch.allclose(model(x), expected, rtol=1e-4, atol=1e-4)


def check_refusals(mesh):
    cases = [
        (fgn.GemmGroupNormHardtanh(12, 30, 3, -1.0, 1.0), "divides the 3 groups of the norm, got "),
        (nn.Sequential(nn.Linear(12, 16), nn.LayerNorm(16)), r"expected one whose forward\(\) is a chain"),
        (
            nn.Sequential(nn.Linear(12, 16), nn.GroupNorm(4, 16), nn.Linear(16, 16), nn.GroupNorm(4, 16)),
            "is one chain and nothing else",
        ),
        (
            nn.Sequential(nn.Linear(12, 16), nn.GroupNorm(4, 16), nn.Linear(16, 16)),
            "is one chain and nothing else",
        ),
    ]
    for model, message in cases:
        before = [(name, id(value)) for name, value in model.named_parameters()]
        try:
            parallelize_module(model, mesh, ChainParallel())
        except ValueError as error:
            assert re.search(message, str(error)), error
        else:
            raise AssertionError(f"not refused: {message}")
        assert before == [(name, id(value)) for name, value in model.named_parameters()]
    model = fgn.GemmGroupNormHardtanh(12, 16, 4, -1.0, 1.0)
    parallelize_module(model, mesh, ChainParallel())
    model.gemm.register_forward_hook(lambda *_: None)
    try:
        model(torch.rand(2, 12))
    except RuntimeError as error:
        assert "no longer the chain that was parallelized" in str(error), error
    else:
        raise AssertionError("a hook that would not be called is not refused")


def check_data_parallel(rank: int, processes: int):
    """DistributedDataParallel and fully_shard: the gradients are the mean over the processes' rows."""
    torch.manual_seed(3)
    x = torch.rand(4 * processes, 12)
    mine = x.chunk(processes)[rank]
    for wrap in (DistributedDataParallel, fully_shard):
        for name in ("two vectors", "no bias"):
            model = models()[name]
            parallel = wrap(copy.deepcopy(model))
            model(x).square().mean().backward()
            parallel(mine).square().mean().backward()
            found = [whole(value.grad) for value in parallel.parameters()]
            for gradient, parameter in zip(found, model.parameters(), strict=True):
                torch.testing.assert_close(gradient, parameter.grad, rtol=2e-5, atol=2e-5)


def check_both(processes: int, kind: str):
    """Columns over one dimension of a mesh, rows of the batch over the other."""
    mesh = init_device_mesh(kind, (processes // 2, 2), mesh_dim_names=("data", "columns"))
    model = models()["two vectors"]
    torch.manual_seed(4)
    x = torch.rand(4 * mesh["data"].size(), 12)
    both = copy.deepcopy(model)
    parallelize_module(both, mesh["columns"], ChainParallel(output_layouts=Replicate()))
    fully_shard(both, mesh=mesh["data"])
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (model, both)]
    for _ in range(2):
        model(x).square().mean().backward()
        both(x.chunk(mesh["data"].size())[mesh["data"].get_local_rank()]).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for name, value in model.named_parameters():
        found = both.get_parameter(name).full_tensor()
        torch.testing.assert_close(found, value, rtol=2e-5, atol=2e-5)


def run(rank: int, processes: int, store: str, kind: str):
    torch.set_num_threads(1)
    join(rank, processes, store, kind)
    try:
        meshes = [init_device_mesh(kind, (processes,))]
        if processes > 2:
            # Pairs of processes, each of which does the same.
            meshes.append(
                init_device_mesh(kind, (processes // 2, 2), mesh_dim_names=("pair", "columns"))["columns"]
            )
        for mesh in meshes:
            check_against_unsharded(mesh)
            check_two_in_a_row(mesh)
        check_refusals(meshes[0])
        check_data_parallel(rank, processes)
        check_both(processes, kind)
        dist.barrier()
    finally:
        dist.destroy_process_group()
