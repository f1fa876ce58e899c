"""What a GPU does at its best, one resource at a time, measured: the roofs that plots and the model draw.

The kernels are in `cuda_c/ceilings/ceilings.cu`; the tensor cores' rates are those of torch's own large
products. What is said here was seen on the card, with its clocks as they were; none of it is a datasheet's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from fgn.measure.bench import measure, measure_ceilings
from fgn.native.library import ffi, for_device
from fgn.precision import PRECISIONS
from fgn.simulator import counted

FILE = "ceilings.json"

THREADS = 256
FLOAT_BYTES = 4
SPAN_BYTES = 32 * 1024
SUMS = 16
LAUNCHES = 20
PRODUCT_SIZE = 8192
BLOCKS_A_MULTIPROCESSOR = 4
ROUNDS = 8192


class Roofs(NamedTuple):
    """Measured ceilings of one GPU.

    dram_bytes_per_second: a copy far larger than the caches, bytes read and bytes written.
    l2_bytes_per_second: reads that pass by L1, of 32 KiB by each block, no two of them the same, 16 bytes a
        lane.
    l1_bytes_per_second: the same reads through L1, where they find everything.
    shared_bytes_per_second: the same from shared memory.
    fp32_operations_per_second: multiply-adds of registers, each counted as two.
    product_operations_per_second: for each precision, the fastest large matrix product that was seen.
    launch_seconds: one launch of an empty kernel after another, from one to the next.
    """

    dram_bytes_per_second: float
    l2_bytes_per_second: float
    l1_bytes_per_second: float
    shared_bytes_per_second: float
    fp32_operations_per_second: float
    product_operations_per_second: dict[str, float]
    launch_seconds: float


def calls(device: torch.device) -> dict[str, tuple]:
    """For each kernel of `cuda_c/ceilings/ceilings.cu`: a call without arguments, and how much it does: bytes
    that it reads, operations, or launches. On the CPU the sizes are such that the simulator runs them in a
    moment."""
    library = for_device(device.type).load()
    on_gpu = device.type == "cuda"
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count if on_gpu else 1
    blocks = multiprocessors * (BLOCKS_A_MULTIPROCESSOR if on_gpu else 1)
    rounds = ROUNDS if on_gpu else 2
    data = torch.rand(blocks * SPAN_BYTES // FLOAT_BYTES, device=device)
    out = torch.rand(2 + blocks * THREADS, device=device) * 0.5

    def pointer(tensor):
        return ffi().cast("float *", tensor.data_ptr())

    def stream():
        return ffi().cast("void *", torch.cuda.current_stream(device).cuda_stream) if on_gpu else ffi().NULL

    def call(function, *arguments):
        def run():
            counted.allow(data=data, out=out)
            try:
                status = function(*arguments, stream())
            finally:
                counted.forbid_all()
            if status:
                raise RuntimeError(f"{function}: the CUDA runtime answered {status}")

        return run

    reads = blocks * rounds * SPAN_BYTES
    arrays = pointer(data), pointer(out)
    return {
        "l2": (call(library.ceiling_read, *arrays, True, blocks, rounds), reads),
        "l1": (call(library.ceiling_read, *arrays, False, blocks, rounds), reads),
        "shared": (call(library.ceiling_shared, pointer(out), blocks, rounds), reads),
        "fp32": (
            call(library.ceiling_multiply_add, pointer(out), blocks, rounds),
            2 * blocks * THREADS * SUMS * rounds,
        ),
        "launch": (call(library.ceiling_launches, pointer(out), LAUNCHES), LAUNCHES),
    }


def measure_roofs(device=None, seconds: float = 0.3) -> Roofs:
    """The ceilings of a GPU, measured in a few seconds."""
    device = torch.device("cuda" if device is None else device)
    if device.type != "cuda":
        raise ValueError(f"device: expected a GPU, got {device}")
    own = calls(device)
    timed = {name: call for name, (call, _) in own.items()}
    operands = {}
    for name, precision in PRECISIONS.items():
        if precision.dtype not in operands:
            operands[precision.dtype] = [
                torch.rand(PRODUCT_SIZE, PRODUCT_SIZE, device=device).to(precision.dtype) for _ in range(2)
            ]

        def product(name=name, pair=operands[precision.dtype]):
            torch.backends.cuda.matmul.fp32_precision = "tf32" if name == "tf32" else "ieee"
            F.linear(*pair)

        timed[name] = product
    before = torch.backends.cuda.matmul.fp32_precision
    try:
        with torch.no_grad():
            times = measure(timed, device, seconds)
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    took = {name: float(np.median(values)) * 1e-3 for name, values in times.items()}
    rate = {name: work / took[name] for name, (_, work) in own.items()}
    large = measure_ceilings(device)
    products = {name: 2 * PRODUCT_SIZE**3 / took[name] for name in PRECISIONS}
    products["ieee"] = max(products["ieee"], large.operations_per_second)
    return Roofs(
        dram_bytes_per_second=large.bytes_per_second,
        l2_bytes_per_second=rate["l2"],
        l1_bytes_per_second=rate["l1"],
        shared_bytes_per_second=rate["shared"],
        fp32_operations_per_second=rate["fp32"],
        product_operations_per_second=products,
        launch_seconds=1 / rate["launch"],
    )


def write(roofs: Roofs, folder: Path):
    """Writes the ceilings into a folder of recorded results."""
    (folder / FILE).write_text(json.dumps(roofs._asdict(), indent=2) + "\n")


def read(folder: Path) -> Roofs:
    """The recorded ceilings of a folder."""
    return Roofs(**json.loads((folder / FILE).read_text()))
