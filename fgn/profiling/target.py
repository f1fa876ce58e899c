"""What `fgn.profile()` runs under ncu: `python -m fgn.profiling.target JOB`.

A job is a list of `Task`s in a file. Each task is called twice first, so that modules are loaded, weights
prepared and torch.compile done before anything is profiled; then once inside two NVTX ranges:
`fgn.profiling.ncu.RANGE`, which ncu watches, and the task's number.
"""

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import torch

from fgn.functional import PRODUCT, run_chain
from fgn.measure.benchmark import COMPILED, EAGER, F_LINEAR
from fgn.problem import Problem
from fgn.profiling.ncu import RANGE
from fgn.reference import chain_reference


@dataclass(frozen=True)
class Task:
    """One thing to profile: a version or one of torch's with a problem, or any call."""

    problem: Problem | None = None
    subject: str | None = None
    call: Callable[[], object] | None = None


def save(tasks: list[Task], file: Path):
    """Writes a job. TypeError for a call that cannot go to another process."""
    try:
        torch.save(tasks, file, pickle_module=cloudpickle)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        message = "model_or_kernel: expected a call that can be sent to another process (by cloudpickle)"
        raise TypeError(f"{message}, got: {error}") from error


# Tasks with the same problem share its inputs. Only the last problem's inputs are kept, because they may be
# large.
@functools.lru_cache(maxsize=1)
def _inputs(problem: Problem):
    return problem.inputs("cuda")


def _call_of(task: Task) -> Callable[[], object]:
    if task.call is not None:
        return task.call
    chain, precision = task.problem.chain, task.problem.precision
    given = task.problem.given
    x, parameters = _inputs(task.problem) if given is None else given
    # run_chain() recognises `PRODUCT` by identity, which a copy from another process loses.
    chain = PRODUCT if chain == PRODUCT else chain
    if task.subject == EAGER:
        return lambda: chain_reference(chain, x, parameters)
    if task.subject == COMPILED:
        torch.compiler.reset()
        compiled = torch.compile(lambda x, parameters: chain_reference(chain, x, parameters), dynamic=False)
        return lambda: compiled(x, parameters)
    if task.subject == F_LINEAR:
        weight, bias = parameters["weight"], parameters.get("bias")
        return lambda: torch.nn.functional.linear(x, weight, bias)
    return lambda: run_chain(chain, x, parameters, task.subject, precision=precision)


@contextmanager
def _range(name: str):
    torch.cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()


def main(job: str):
    tasks = torch.load(job, weights_only=False)
    with torch.no_grad():
        for number, task in enumerate(tasks):
            allowed = task.problem is not None and task.problem.precision == "tf32"
            torch.backends.cuda.matmul.fp32_precision = "tf32" if allowed else "ieee"
            call = _call_of(task)
            call()
            call()
            torch.cuda.synchronize()
            # torch puts an NVTX range around each of its operators, which identifies its kernels.
            operators = torch.autograd.profiler.emit_nvtx(enabled=task.subject == EAGER)
            with operators, _range(RANGE), _range(str(number)):
                call()
                torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1])
