"""Times training steps (forward and backward, the gradients of x and of all parameters): fgn beside
torch.compile, at the problems of the sweep's seeds and at 1024 x 8192 -> 8192.

    python tools/training_steps.py --seeds 1 2 3 --count 20 --large --record profiles/h200

fgn's subject is `fgn.fuse()` of the reference module that torch.compile compiles. Each step is timed twice,
as `fgn.measure.sweep` times forwards, the subjects in turns:

device  between two CUDA events around a step, for whose queueing by the host the GPU is kept busy before
loop    steps one after the other, as a user's loop makes them: the larger of the host's time and the GPU's

kept: the bytes that are there between forward and backward, y included. error: the largest relative error of
a gradient against float64, torch_error that of torch's operators.

Compiling takes seconds for each problem, so `--processes` processes compile at the same time, until all
problems are compiled or `--compile-seconds` have passed; then they measure in turns, one process at a time.
The first problems of all seeds come first. `--record FOLDER` writes the rows to training.csv, with date and
commit, in the place of older ones of the same set.
"""

from __future__ import annotations

import argparse
import copy
import math
import multiprocessing
import os
import queue
import time
import traceback
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from threading import BrokenBarrierError

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import fgn
from fgn import reference
from fgn.chains import CHAINS, Shape
from fgn.measure import sweep
from fgn.measure.accuracy import relative_error
from fgn.measure.benchmark import measure
from fgn.measure.records import TRAINING
from fgn.measure.software import when_recorded
from fgn.precision import PRECISIONS, torch_precision
from fgn.problem import Problem

FGN, COMPILED = "fgn", "torch.compile"
REFERENCES = {
    "gemm_groupnorm_hardtanh": lambda n, m, groups: reference.GemmGroupNormHardtanh(n, m, groups, -2.0, 2.0),
    "matmul_groupnorm_leakyrelu_sum": reference.MatmulGroupNormLeakyReluSum,
    "gemm_biasadd_hardtanh_mish_groupnorm": lambda n, m, groups: reference.GemmBiasAddHardtanhMishGroupNorm(
        n, m, (m,), groups
    ),
}
LARGE = "1024x8192->8192"
LARGE_PRECISIONS = ("ieee", "tf32", "bf16")
BUSY_CYCLES = 4_000_000  # about 2 ms, in which the host queues a step
AT_MOST = 40  # times of a step, each of which waits for those cycles
BARRIER_SECONDS = 120.0
PAUSE_SECONDS = 0.01  # in which another process takes its turn
ROUNDS, STEPS = 4, 20  # of the loop: the least time of so many rounds of so many steps


def problems(seeds: list[int], count: int, large: bool) -> list[tuple[str, Problem]]:
    """(set, problem): the large ones, and the first problems of all seeds in turns."""
    found = []
    if large:
        for precision in LARGE_PRECISIONS:
            for chain in CHAINS.values():
                found.append((LARGE, Problem(chain, Shape(1024, 8192, 8192, chain.groups), precision)))
    of_seeds = [[(f"seed {seed}", one) for one in sweep.problems(seed, count)] for seed in seeds]
    found += [one for ones in zip_longest(*of_seeds) for one in ones if one is not None]
    return found


class Steps:
    """A problem's two subjects, and x. They keep no gradients and no x while they wait."""

    def __init__(self, problem: Problem, device: torch.device, compile_rival: bool):
        _, n, m, groups = problem.shape
        self.problem, self.device = problem, device
        torch.manual_seed(problem.seed)
        with torch.device(device):
            self.reference = REFERENCES[problem.chain.name](n, m, groups)
        self.reference.to(PRECISIONS[problem.precision].dtype)
        rival = torch.compile(self.reference, dynamic=False) if compile_rival else self.reference
        self.modules = {FGN: fgn.fuse(self.reference), COMPILED: rival}

    def inputs(self) -> tuple[Tensor, Tensor]:
        """x, which requires grad, and dL/dy."""
        batch, n, m, _ = self.problem.shape
        dtype = PRECISIONS[self.problem.precision].dtype
        generator = torch.Generator(self.device).manual_seed(self.problem.seed)
        x = torch.rand(batch, n, device=self.device, generator=generator).to(dtype).requires_grad_()
        return x, torch.randn(batch, m, device=self.device, generator=generator).to(dtype)

    def calls(self, x: Tensor, dy: Tensor) -> dict:
        return {name: _step(module, x, dy) for name, module in self.modules.items()}

    def warm_up(self):
        with torch_precision(self.problem.precision):
            for call in self.calls(*self.inputs()).values():
                for _ in range(2):
                    call()
        self.forget()

    def forget(self):
        for module in self.modules.values():
            for parameter in module.parameters():
                parameter.grad = None
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

    def measure(self, seconds: float) -> dict:
        """The row of this problem."""
        with torch_precision(self.problem.precision):
            x, dy = self.inputs()
            error, torch_error = _errors(self.modules[FGN], self.reference, x, dy)
            calls = self.calls(x, dy)
            row = {"kind": sweep.kind_of(self.problem), **self.problem.shape._asdict()}
            row |= {"precision": self.problem.precision, "error": error, "torch_error": torch_error}
            row |= {f"kept {name}": _kept(module, x) for name, module in self.modules.items()}
            for name, times in measure(calls, self.device, seconds, AT_MOST, busy_cycles=BUSY_CYCLES).items():
                row[f"device {name}"] = float(np.median(times))
            for name, milliseconds in sweep.loop_ms(calls, self.device, ROUNDS, STEPS).items():
                row[f"loop {name}"] = milliseconds
        self.forget()
        return row


def _step(module: nn.Module, x: Tensor, dy: Tensor):
    parameters = list(module.parameters())

    def step():
        x.grad = None
        for parameter in parameters:
            parameter.grad = None
        module(x).backward(dy)

    return step


def _gradients(module: nn.Module, x: Tensor, dy: Tensor) -> list[Tensor]:
    return torch.autograd.grad(module(x), [x, *module.parameters()], dy)


def _errors(ours: nn.Module, theirs: nn.Module, x: Tensor, dy: Tensor) -> list[float]:
    """The largest relative error of a gradient against float64, of each module."""
    found = [_gradients(module, x, dy) for module in (ours, theirs)]
    exact = _gradients(copy.deepcopy(theirs).double(), x.detach().double().requires_grad_(), dy.double())
    return [max(map(relative_error, gradients, exact)) for gradients in found]


def _kept(module: nn.Module, x: Tensor) -> int:
    """The bytes that are there after a forward and were not before it; 0 without a GPU."""
    if x.device.type != "cuda":
        return 0
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    y = module(x)
    torch.cuda.synchronize()
    kept = torch.cuda.memory_allocated() - before
    del y
    return kept


def _worker(todo, deadline: float, together, turn, results, device: str, seconds: float):
    """Compiles problems of the queue until none is left or the deadline has passed; then measures its own."""
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10000
    device, steps = torch.device(device), []
    while time.time() < deadline:
        try:
            name, problem = todo.get(timeout=0.5)
        except queue.Empty:
            break
        try:
            one = Steps(problem, device, device.type == "cuda")
            one.warm_up()
            steps.append((name, one))
        except Exception:
            results.put((f"{problem}: {traceback.format_exc()}", None))
    with suppress(BrokenBarrierError):  # another process has ended: what is compiled is measured
        together.wait(BARRIER_SECONDS)
    for name, one in steps:
        try:
            with turn:
                results.put((None, {"set": name, **one.measure(seconds)}))
        except Exception:
            results.put((f"{one.problem}: {traceback.format_exc()}", None))
        time.sleep(PAUSE_SECONDS)
    results.put(None)


def measured(
    chosen: list,
    processes: int,
    compile_seconds: float,
    seconds: float,
    device: str,
    at_most: float = math.inf,
    show=print,
) -> pd.DataFrame:
    """The rows of the problems that were compiled in time, and measured in at most `at_most` s in all."""
    end = time.time() + at_most
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # the processes are enough
    context = multiprocessing.get_context("spawn")
    todo, results = context.Queue(), context.Queue()
    for one in chosen:
        todo.put(one)
    processes = min(processes, len(chosen))
    together, turn, deadline = context.Barrier(processes), context.Lock(), time.time() + compile_seconds
    arguments = (todo, deadline, together, turn, results, device, seconds)
    workers = [context.Process(target=_worker, args=arguments, daemon=True) for _ in range(processes)]
    for worker in workers:
        worker.start()
    rows, working = [], processes
    while working and time.time() < end and any(worker.is_alive() for worker in workers):
        try:
            found = results.get(timeout=1.0)
        except queue.Empty:
            continue
        if found is None:
            working -= 1
        elif found[0] is not None:
            show(found[0])
        else:
            rows.append(found[1])
            show(_line(rows[-1]))
    for worker in workers:
        worker.kill()
    todo.cancel_join_thread()
    return pd.DataFrame(rows)


def _line(row: dict) -> str:
    sizes = "{set} {kind} {batch}x{in_features}->{out_features} g{groups} {precision}".format(**row)
    times = " ".join(
        f"{where} {row[f'{where} {COMPILED}'] / row[f'{where} {FGN}']:.2f} ({row[f'{where} {FGN}']:.3f} ms)"
        for where in ("device", "loop")
    )
    kept = row[f"kept {FGN}"] / max(row[f"kept {COMPILED}"], 1)
    errors = f"error {row['error']:.1e} torch {row['torch_error']:.1e}"
    return f"{sizes:48} {times}, kept {kept:.2f}, {errors}"


def record(frame: pd.DataFrame, folder: Path):
    """Writes the rows to the folder, in the place of older ones of the same sets."""
    sweep.write_rows(frame, folder / TRAINING, "set", when_recorded())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--count", type=int, default=20, help="problems of each seed")
    parser.add_argument("--large", action="store_true", help=f"also {LARGE}")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--compile-seconds", type=float, default=600.0)
    parser.add_argument("--seconds", type=float, default=0.15, help="of timing, for each subject")
    parser.add_argument("--at-most", type=float, default=math.inf, help="end after so many seconds in all")
    parser.add_argument("--record", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(2, "expected a GPU\n")
    chosen = problems(arguments.seeds, arguments.count, arguments.large)
    limits = arguments.compile_seconds, arguments.seconds
    frame = measured(chosen, arguments.processes, *limits, "cuda", arguments.at_most)
    if arguments.record:
        record(frame, arguments.record)
    for name, rows in [*frame.groupby(["set"]), (("all",), frame)]:
        print(f"\n{name[0]}, {COMPILED} / {FGN}\n{sweep.summary(rows).to_string()}")


if __name__ == "__main__":
    main()
