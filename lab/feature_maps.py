"""GroupNorm of feature maps on a GPU, beside torch eager and torch.compile.

    python lab/feature_maps.py --record FOLDER
    python lab/feature_maps.py --show lab/records/feature_maps.csv

Norms alone: silu(GroupNorm(v + t)) with a vector t of each sample, at shapes of diffusion networks, their
decoders and classifiers. Levels: three residual blocks of a U-Net, whose convolutions are torch's in all
three. Each in bfloat16, contiguous and channels_last, checked against float64; every rival in one run on the
same inputs. device: a CUDA graph, which has no host in it, between two events behind a flush of the L2; loop:
calls one after the other. Medians, in microseconds.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import statistics
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import fgn
from fgn.feature_maps import FeatureMaps, feature_maps_forward
from fgn.measure.software import when_recorded
from fgn.operators import Pointwise

# (batch, channels, height, width, groups)
NORMS = (
    *((2, 320, 64, 64, 32), (2, 640, 32, 32, 32), (2, 1280, 16, 16, 32), (2, 1280, 8, 8, 32)),
    *((8, 320, 64, 64, 32), (16, 128, 32, 32, 32), (1, 128, 512, 512, 32), (1, 256, 256, 256, 32)),
    *((32, 256, 56, 56, 32), (64, 512, 14, 14, 32), (64, 2048, 7, 7, 32), (1, 512, 64, 64, 32)),
    *((4, 64, 128, 128, 8), (32, 64, 112, 112, 16)),
)
# (batch, channels, height and width)
LEVELS = ((2, 320, 64), (8, 320, 64), (16, 320, 64), (2, 640, 32), (8, 1280, 16))
OF_TIME = 1280
RIVALS = ("eager", "compile", "fgn")
COLUMNS = ("what", "layout", "shape", *[f"device_{one}_us" for one in RIVALS])
COLUMNS += (*[f"loop_{one}_us" for one in RIVALS], "error", "error_of_torch", "gpu", "date", "commit")


def medians(calls: dict, turns: int, timed) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(3):
            call()
    for _ in range(turns):
        for name, call in calls.items():
            times[name].append(timed(call))
    return {name: statistics.median(values) for name, values in times.items()}


@functools.cache
def more_than_l2() -> torch.Tensor:
    return torch.empty(128 << 20, dtype=torch.uint8, device="cuda")


def behind_flush(call) -> float:
    for _ in range(3):  # which takes longer than the host needs for the call
        more_than_l2().zero_()
    begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3


def in_a_loop(call, calls: int = 10) -> float:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / calls * 1e6


def graph_of(call):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def error(y, exact) -> float:
    return ((y.double() - exact).norm() / exact.norm()).item()


def row(what, layout, shape, calls, device, exact) -> dict:
    result = {"what": what, "layout": layout, "shape": "x".join(map(str, shape))}
    result |= {f"device_{name}_us": f"{value:.1f}" for name, value in device.items()}
    result |= {f"loop_{name}_us": f"{value:.1f}" for name, value in medians(calls, 7, in_a_loop).items()}
    result["error"] = f"{error(calls['fgn'](), exact):.1e}"
    result["error_of_torch"] = f"{error(calls['eager'](), exact):.1e}"
    print(result, flush=True)
    return result


def norm_by_torch(v, t, scale, shift, groups: int):
    return F.silu(F.group_norm(v + t[:, :, None, None], groups, scale, shift))


def norms(layout: str):
    compiled = torch.compile(norm_by_torch, dynamic=False)
    for batch, channels, height, width, groups in NORMS:
        v = torch.randn(batch, channels, height, width, device="cuda", dtype=torch.bfloat16)
        v = v.to(memory_format=torch.channels_last) if layout == "channels_last" else v
        given = {
            "t": torch.randn(batch, channels, device="cuda", dtype=v.dtype),
            "scale": torch.rand(channels, device="cuda", dtype=v.dtype) + 0.5,
            "shift": torch.randn(channels, device="cuda", dtype=v.dtype),
        }
        steps = (Pointwise("add_channel", channel="t"),), (Pointwise("silu"),)
        maps = FeatureMaps(groups, *steps, 1e-5, True, True)
        arguments = v, *given.values(), groups
        calls = {
            "eager": lambda arguments=arguments: norm_by_torch(*arguments),
            "compile": lambda arguments=arguments: compiled(*arguments),
            "fgn": lambda maps=maps, v=v, given=given: feature_maps_forward(maps, v, given),
        }
        exact = norm_by_torch(*[one.double() for one in arguments[:-1]], groups)
        device = medians({name: graph_of(call) for name, call in calls.items()}, 12, behind_flush)
        yield row("norm", layout, (batch, channels, height, width, groups), calls, device, exact)


class Block(nn.Module):
    """Of a U-Net, as diffusion networks have it."""

    def __init__(self, channels: int, groups: int = 32):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, channels), nn.GroupNorm(groups, channels)
        self.conv1, self.conv2 = [nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2)]
        self.of_time = nn.Linear(OF_TIME, channels)

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.of_time(F.silu(t))[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(h)))


class Level(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.a, self.b, self.c = [Block(channels) for _ in range(3)]

    def forward(self, x, t):
        return self.c(self.b(self.a(x, t), t), t)


def levels(layout: str):
    for batch, channels, size in LEVELS:
        torch.manual_seed(0)
        model = Level(channels).eval().cuda().bfloat16()
        x = torch.randn(batch, channels, size, size, device="cuda", dtype=torch.bfloat16)
        t = torch.randn(batch, OF_TIME, device="cuda", dtype=torch.bfloat16)
        if layout == "channels_last":
            model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        exact = model.double()(x.double(), t.double())
        model = model.bfloat16()
        rivals = {"eager": model, "compile": torch.compile(model, dynamic=False), "fgn": fgn.fuse(model)}
        calls = {name: lambda one=one, x=x, t=t: one(x, t) for name, one in rivals.items()}
        for call in calls.values():
            call()
        graphs = {name: graph_of(call) for name, call in calls.items()}
        device = medians(graphs, 7, behind_flush)
        yield row("level", layout, (batch, channels, size, size), calls, device, exact)


def show(path: Path):
    """Prints the table of lab/README.md."""
    print("| what | shape | layout | device: eager | compile | fgn | in a loop: eager | compile | fgn |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows = list(csv.DictReader(path.open()))
    for one in rows:
        times = [f"{float(one[f'{kind}_{name}_us']):.0f}" for kind in ("device", "loop") for name in RIVALS]
        print("|", " | ".join([one["what"], one["shape"], one["layout"], *times]), "|")
    for what, kind, rival in itertools.product(("norm", "level"), ("device", "loop"), RIVALS[:2]):
        of = [one for one in rows if one["what"] == what]
        ratios = [float(one[f"{kind}_{rival}_us"]) / float(one[f"{kind}_fgn_us"]) for one in of]
        mean = statistics.geometric_mean(ratios)
        print(f"{what}s, {kind}: {rival} / fgn {mean:.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--record", type=Path, metavar="FOLDER")
    parser.add_argument("--show", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.show:
        show(given.show)
        return
    folder = given.record
    torch.set_grad_enabled(False)
    torch._dynamo.config.cache_size_limit = 1000
    rows = [
        one for kind in (norms, levels) for layout in ("contiguous", "channels_last") for one in kind(layout)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    recorded = {"gpu": torch.cuda.get_device_name()} | when_recorded()
    with (folder / "feature_maps.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(one | recorded for one in rows)


if __name__ == "__main__":
    main()
