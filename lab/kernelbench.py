"""KernelBench's level 2, the problems with a matrix product, and transformer blocks: fgn beside torch.

    python lab/kernelbench.py time DIR --precision ieee bf16 --out records/kernelbench_h200.csv
    python lab/kernelbench.py show records/kernelbench_h200.csv

DIR has the benchmark's level2/*.py as published; the blocks are here. Parameters and statistics of norms are
drawn anew, because ones and zeros would hide mistakes. Subjects, in evaluation without gradients, in turns:

    eager, compile       the model by torch, and by torch.compile
    fgn, fgn compiled    fgn.fuse(model), and that under torch.compile

device: between two events, the L2 cache flushed before each call. loop: calls one after the other, as a
user's loop makes them. error and torch_error: of fgn and of eager torch against float64. taken: the chains in
the model. A problem whose result does not depend on its input is recorded, and counts nowhere.
"""

from __future__ import annotations

import argparse
import copy
import multiprocessing
import statistics
from functools import partial
from pathlib import Path

import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn

import fgn
from fgn.measure.accuracy import relative_error
from fgn.measure.benchmark import measure
from fgn.measure.software import when_recorded
from fgn.measure.sweep import loop_ms, write_rows
from fgn.precision import PRECISIONS, torch_precision

FGN, COMPILED = "fgn", "fgn compiled"
BUSY_CYCLES = 400_000  # in which the host queues a call
PRODUCTS = ("nn.Linear", "torch.matmul")


class Block(nn.Module):
    """A transformer's block with the norms before, as most are today."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm_1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


BLOCKS = {
    f"block of {width}, {batch * tokens} tokens": (width, width // 64, batch, tokens)
    for width in (1024, 4096)
    for batch, tokens in ((1, 512), (8, 1024))
}


def problems(folder: Path) -> list[str]:
    """The names of what is timed: files of the benchmark, and blocks."""
    files = [path for path in folder.glob("*.py") if any(word in path.read_text() for word in PRODUCTS)]
    return [*BLOCKS, *[path.stem for path in sorted(files, key=lambda path: int(path.stem.split("_")[0]))]]


def made(folder: Path, name: str, dtype: torch.dtype) -> tuple[nn.Module, list]:
    """(model, inputs) of a problem, on the GPU, the same in each run."""
    torch.manual_seed(1)
    if name in BLOCKS:
        width, heads, batch, tokens = BLOCKS[name]
        model, inputs = Block(width, heads), [torch.randn(batch, tokens, width)]
    else:
        space = {"__name__": "problem"}
        exec(compile((folder / f"{name}.py").read_text(), name, "exec"), space)
        model, inputs = space["Model"](*space["get_init_inputs"]()), space["get_inputs"]()
    with torch.no_grad():
        for key, value in (*model.named_parameters(), *model.named_buffers()):
            if value.is_floating_point() and value.dim() <= 1:
                low = 0.5 if "var" in key or "weight" in key or "scale" in key else -0.5
                value.uniform_(low, low + 1.0)
    inputs = [x.cuda().to(dtype) if torch.is_tensor(x) and x.is_floating_point() else x for x in inputs]
    return model.cuda().to(dtype).eval(), inputs


def subjects(model: nn.Module) -> dict[str, nn.Module]:
    compiled = partial(torch.compile, dynamic=False)
    fused = fgn.fuse(copy.deepcopy(model))
    return {
        "eager": model,
        "compile": compiled(copy.deepcopy(model)),
        FGN: fused,
        COMPILED: compiled(fgn.fuse(copy.deepcopy(model))),
    }


def compile_one(folder: Path, task: tuple[str, str]):
    """Fills torch.compile's cache, which other processes on this machine read."""
    name, precision = task
    try:
        with torch.no_grad(), torch_precision(precision):
            torch.compiler.reset()
            model, inputs = made(folder, name, PRECISIONS[precision].dtype)
            for one in subjects(model).values():
                one(*inputs)
    except torch.OutOfMemoryError:  # beside the others: this one is compiled when it is timed
        pass
    model = inputs = one = None
    torch.cuda.empty_cache()


def doubles(inputs):
    return [x.double() if torch.is_tensor(x) and x.is_floating_point() else x for x in inputs]


def time_one(folder: Path, name: str, precision: str) -> dict:
    """One row: times in ms, errors, and the chains that were taken."""
    torch.compiler.reset()
    with torch.no_grad(), torch_precision(precision):
        model, inputs = made(folder, name, PRECISIONS[precision].dtype)
        exact = copy.deepcopy(model).double()
        right = exact(*doubles(inputs))
        other = exact(*[torch.randn_like(x) for x in doubles(inputs)])
        models = subjects(model)
        row = {"problem": name, "precision": precision, "taken": len(fgn.explain(models[FGN]).fused)}
        row["depends"] = bool((right - other).abs().max() > 1e-6 * (1 + right.abs().max()))
        row |= {
            key: relative_error(models[of](*inputs), right)
            for key, of in (("error", FGN), ("torch_error", "eager"))
        }
        del exact, right, other
        calls = {subject: partial(one, *inputs) for subject, one in models.items()}
        for call in calls.values():
            call(), call()
        device = torch.device("cuda")
        for subject, times in measure(calls, device, 0.1, busy_cycles=BUSY_CYCLES).items():
            row[f"device {subject}"] = statistics.median(times)
        for subject, milliseconds in loop_ms(calls, device, 3, 10).items():
            row[f"loop {subject}"] = milliseconds
    torch.cuda.empty_cache()
    return row


def time_all(folder: Path, precisions: list[str], out: Path, only: list[str], processes: int, resume: bool):
    done = set(pd.read_csv(out).task) if resume and out.exists() else ()
    tasks = [(name, kind) for name in problems(folder) for kind in precisions if not only or name in only]
    tasks = [task for task in tasks if ", ".join(task) not in done]
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=12) as pool:
        pool.map(partial(compile_one, folder), tasks, chunksize=1)
    recorded, gpu = when_recorded(), torch.cuda.get_device_name()
    for task in tasks:
        row = {"task": ", ".join(task), "gpu": gpu} | time_one(folder, *task)
        best = min(row["device eager"], row["device compile"])
        print(*task, f"best of torch / fgn {best / row['device fgn']:.2f}", flush=True)
        write_rows(pd.DataFrame([row]), out, "task", recorded)


def ratios(frame: pd.DataFrame, where: str, subject: str) -> pd.Series:
    """The better time of torch over that of the subject."""
    return frame[[f"{where} eager", f"{where} compile"]].min(axis=1) / frame[f"{where} {subject}"]


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """A row for each set and precision: how many problems, how many with a chain, and the geometric mean and
    the least of the ratios."""
    blocks, rows = frame.problem.isin(list(BLOCKS)), []
    for what, part in (("KernelBench", frame[~blocks & frame.depends]), ("blocks", frame[blocks])):
        for precision, some in part.groupby("precision", sort=False):
            row = {
                "problems": f"{what}, {precision}",
                "count": len(some),
                "taken": int((some.taken > 0).sum()),
            }
            for where in ("device", "loop"):
                for subject in (FGN, COMPILED):
                    found = ratios(some, where, subject)
                    mean = statistics.geometric_mean(found)
                    row[f"{where}, {subject}"] = f"{mean:.2f}, {found.min():.2f}, {(found < 1).sum()}"
            rows.append(row)
    return pd.DataFrame(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    timing = commands.add_parser("time", help="time the problems here, on a GPU")
    timing.add_argument("folder", type=Path)
    timing.add_argument("--precision", nargs="+", choices=PRECISIONS, default=["ieee", "bf16"])
    timing.add_argument("--only", nargs="*", default=[], help="names of problems")
    timing.add_argument("--resume", action="store_true", help="leave out what the record has")
    timing.add_argument("--processes", type=int, default=4, help="that compile at a time")
    timing.add_argument("--out", type=Path, required=True)
    commands.add_parser("show", help="a table of a record").add_argument("record", type=Path)
    options = parser.parse_args()
    if options.command == "time":
        time_all(
            options.folder, options.precision, options.out, options.only, options.processes, options.resume
        )
    else:
        table = summary(pd.read_csv(options.record)).astype(str)
        for row in (table.columns, ["---"] * len(table.columns), *table.to_numpy()):
            print("|", " | ".join(row), "|")


if __name__ == "__main__":
    main()
