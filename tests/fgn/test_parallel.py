"""Tensor and data parallelism, against the module in one process: on the simulator processes that speak gloo,
on GPUs processes that speak NCCL."""

import time

import parallel_worker
import pytest
import torch
import torch.distributed as dist

# A machine may be loaded: the processes are given up only after this many seconds.
PATIENCE = 400


@pytest.mark.simulator
def test_a_parallel_module_is_the_module(tmp_path):
    """By four processes, and by pairs of them."""
    if not (dist.is_available() and dist.is_gloo_available()):
        pytest.skip("needs torch.distributed with gloo")
    run(4, tmp_path, "cpu")


@pytest.mark.parametrize("processes", [2, 4])
def test_a_parallel_module_is_the_module_on_gpus(processes, tmp_path):
    if torch.cuda.device_count() < processes or not dist.is_nccl_available():
        pytest.skip(f"needs {processes} GPUs and NCCL")
    run(processes, tmp_path, "cuda")


def run(processes: int, folder, kind: str):
    # A file and no port: ports may be taken.
    context = torch.multiprocessing.spawn(
        parallel_worker.run, (processes, str(folder / "store"), kind), processes, join=False
    )
    end = time.monotonic() + PATIENCE
    try:
        # join() raises what a process has raised.
        while not context.join(timeout=5):
            assert time.monotonic() < end, f"the processes have not ended in {PATIENCE} s"
    finally:
        for process in context.processes:
            if process.is_alive():
                process.kill()
            process.join()
