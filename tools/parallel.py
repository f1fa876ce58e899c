"""Times one layer on 1 GPU and on several: fgn's columns beside torch's, by CUDA events, in ms.

    torchrun --nproc-per-node 2 tools/parallel.py
    torchrun --nproc-per-node 2 tools/parallel.py --shape 4096,8192,8192,256 --precisions bf16 ieee

Subjects: `one GPU` is the module on each GPU alone; `fgn` is `fgn.parallel.ChainParallel`;
`torch.compile` is the reference with its Linear under torch's own `ColwiseParallel` and the norm on its local
groups, compiled. y stays sharded in both. A call's time is that of the slowest process; each median is of
`--repeats` rounds, in which the subjects take turns. `--train` times a step: forward, backward, gradients of
x and of all parameters. `--record FILE` writes a CSV with the GPU, the versions and the date.
"""

from __future__ import annotations

import argparse
import os

import pandas as pd
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

import fgn
from fgn.measure.software import recorded_environment
from fgn.parallel import ChainParallel
from fgn.precision import PRECISIONS, torch_precision

CALLS = 20  # of one round, between two events


class ColumnsByTorch(nn.Module):
    """The same columns and groups in each process by torch's ColwiseParallel and torch's operators."""

    def __init__(self, module: fgn.GemmBiasAddHardtanhMishGroupNorm, mesh):
        super().__init__()
        rank, processes, norm = mesh.get_local_rank(), mesh.size(), module.groupnorm
        self.gemm = parallelize_module(module.gemm, mesh, ColwiseParallel())
        self.groups, self.eps = norm.num_groups // processes, norm.eps
        for name, vector in (("bias", module.bias), ("scale", norm.weight), ("shift", norm.bias)):
            setattr(self, name, nn.Parameter(vector.detach().chunk(processes)[rank].clone()))

    def forward(self, x):
        v = F.mish(F.hardtanh(self.gemm(x) + self.bias))
        return F.group_norm(v, self.groups, self.scale, self.shift, self.eps)


def rounds(calls: dict, repeats: int) -> dict[str, float]:
    """The median time of each call in ms: of the slowest process, the subjects in turns."""
    times = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            dist.barrier()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(CALLS):
                call()
            end.record()
            end.synchronize()
            slowest = torch.tensor(begin.elapsed_time(end) / CALLS, device="cuda")
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            times[name].append(slowest.item())
    return {name: pd.Series(values).median() for name, values in times.items()}


def call_of(model: nn.Module, x, train: bool):
    """A call without arguments: the forward, or a step."""
    if not train:

        @torch.no_grad()
        def forward():
            return model(x)

        return forward
    x = x.clone().requires_grad_()

    def step():
        y = model(x)
        y.backward(torch.ones_like(y))
        x.grad = None
        for parameter in model.parameters():
            parameter.grad = None

    return step


def measure(shape, precision: str, train: bool, repeats: int, mesh) -> dict[str, float]:
    batch, in_features, out_features, groups = shape
    dtype = PRECISIONS[precision].dtype

    def module():
        torch.manual_seed(0)
        made = fgn.GemmBiasAddHardtanhMishGroupNorm(in_features, out_features, (out_features,), groups)
        return made.to("cuda", dtype)

    x = torch.rand(batch, in_features, device="cuda").to(dtype)
    dist.broadcast(x, 0)
    with torch_precision(precision):
        whole, ours = module(), parallelize_module(module(), mesh, ChainParallel())
        theirs = ColumnsByTorch(module(), mesh)
        mine = whole(x).chunk(mesh.size(), 1)[mesh.get_local_rank()].double()
        for name, y in (("fgn", ours(x)), ("torch", theirs(x))):
            y = y.to_local() if isinstance(y, DTensor) else y
            error = ((y.double() - mine).norm() / mine.norm()).item()
            assert error < 2e-2, f"{name} in {precision} is off by {error}"
        compiled = torch.compile(theirs)
        calls = {"one GPU": whole, "fgn": ours, "torch.compile": compiled}
        calls = {name: call_of(model, x, train) for name, model in calls.items()}
        for call in calls.values():
            for _ in range(3):
                call()
        return rounds(calls, repeats)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="4096,8192,8192,256", help="batch,in_features,out_features,groups")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=["bf16", "ieee"])
    parser.add_argument("--train", action="store_true", help="time a step instead of the forward")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--record", metavar="FILE")
    arguments = parser.parse_args()
    if not torch.cuda.is_available() or "RANK" not in os.environ:
        parser.exit(2, "expected GPUs, and to be run by torchrun --nproc-per-node N\n")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    try:
        mesh = init_device_mesh("cuda", (dist.get_world_size(),))
        shape = tuple(map(int, arguments.shape.split(",")))
        rows = []
        for precision in arguments.precisions:
            times = measure(shape, precision, arguments.train, arguments.repeats, mesh)
            ratios = {
                "one GPU / fgn": times["one GPU"] / times["fgn"],
                "torch.compile / fgn": times["torch.compile"] / times["fgn"],
            }
            rows.append({"precision": precision, "gpus": mesh.size()} | times | ratios)
        if dist.get_rank() == 0:
            frame = pd.DataFrame(rows)
            print(f"{shape}, {'step' if arguments.train else 'forward'}, ms\n{frame.to_string(index=False)}")
            if arguments.record:
                frame["shape"], frame["train"] = arguments.shape, arguments.train
                environment = recorded_environment(torch.device("cuda"))
                for name in ("device", "torch", "date", "commit"):
                    frame[name] = environment[name]
                frame.to_csv(arguments.record, index=False)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
