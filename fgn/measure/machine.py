"""The single description of a machine: the peak of each of a GPU's resources, and its properties from the
driver. Floors, rooflines, predictions and the model of fusion all read it.

The kernels that measure are in `cuda_c/ceilings/ceilings.cu`; the rates of tensor cores are those of large
matrix products. Every rate was measured on the card, with its clocks as they were; no rate comes from a
datasheet.
"""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from cudasim.counting import counted
from fgn.chains import BENCHMARK_FEATURES
from fgn.functional import linear
from fgn.ladder import default_device
from fgn.measure.benchmark import measure, ordinary_versions, product_versions, tensor_core_versions
from fgn.measure.software import recorded_environment
from fgn.native.library import ffi, for_device
from fgn.precision import PRECISIONS, torch_precision

FILE = "machine.json"

THREADS = 256
FLOAT_BYTES = 4
SPAN_BYTES = 32 * 1024
SUMS = 16
LAUNCHES = 20
BLOCKS_A_MULTIPROCESSOR = 4
ROUNDS = 8192

# A multiprocessor's float32 multiply-adds per cycle: 128, except for these two compute capabilities (CUDA
# programming guide, "Arithmetic Instructions").
LANES_BY_CAPABILITY = {"7.5": 64, "8.0": 64}
MOST_LANES = 128


@dataclass(frozen=True)
class Machine:
    """One GPU: its properties, and its measured ceilings. An unknown number is None: for a CPU, only the
    first two rates are known.

    dram_bytes_per_second: a copy far larger than the caches; bytes that are read, and bytes that are written.
    product_operations_per_second: for each precision, the fastest large matrix product that was seen, a
        multiply-add counted as two operations; "ieee" is float32 without tensor cores.
    clock_hz: the highest clock of its multiprocessors.
    l2_bytes_per_second: reads that pass by L1, of 32 KiB by each block, all different, 16 bytes a lane.
    l1_bytes_per_second: the same reads through L1, where they find everything.
    shared_bytes_per_second: the same from shared memory.
    fp32_operations_per_second: multiply-adds of registers, each counted as two.
    launch_seconds: one launch of an empty kernel after another, from one to the next.
    """

    name: str
    dram_bytes_per_second: float
    product_operations_per_second: dict[str, float]
    compute_capability: str | None = None
    multiprocessors: int | None = None
    clock_hz: float | None = None
    l2_bytes: int | None = None
    l2_bytes_per_second: float | None = None
    l1_bytes_per_second: float | None = None
    shared_bytes_per_second: float | None = None
    fp32_operations_per_second: float | None = None
    launch_seconds: float | None = None

    @property
    def has_tensor_cores(self) -> bool:
        """Whether products in tensor cores were measured."""
        return "fp16" in self.product_operations_per_second

    @property
    def lanes(self) -> int:
        """float32 multiply-adds that one multiprocessor does in a cycle."""
        return LANES_BY_CAPABILITY.get(self.compute_capability, MOST_LANES)


def calls(device: torch.device) -> dict[str, tuple]:
    """For each kernel of `cuda_c/ceilings/ceilings.cu`: a call without arguments, and its amount of work:
    bytes read, operations, or launches. On the CPU the sizes are small enough for the simulator."""
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


def _product_seconds(precision: str, device: torch.device, versions: list[str], size: int) -> float:
    """The time of the fastest square product, by torch or one of these versions."""
    dtype = PRECISIONS[precision].dtype
    x, weight = (torch.rand(size, size, device=device).to(dtype) for _ in range(2))
    timed = {"torch": lambda: F.linear(x, weight)}
    for name in product_versions((size, size, size), precision, device):
        if name in versions:
            timed[name] = lambda name=name: linear(x, weight, version=name, precision=precision)
    with torch.no_grad(), torch_precision(precision):
        times = measure(timed, device)
    return min(float(np.median(values)) for values in times.values()) * 1e-3


def measure_machine(device=None, seconds: float = 0.3) -> Machine:
    """Measures a GPU, in some seconds. For a CPU it measures torch's two ceilings: the simulator, which runs
    thread by thread, is far below them.

    device: by default the GPU, if any. seconds: how long each kernel of `cuda_c/ceilings/` is timed.

    The copy is within the device and far larger than any cache. The product is `F.linear`'s or, on a GPU,
    fgn's own, whichever is faster.
    """
    device = torch.device(device) if device is not None else default_device()
    on_gpu = device.type == "cuda"
    # At most 4 GiB, and a sixteenth of the memory, for each of the two buffers of the copy.
    elements = min(2**30, torch.cuda.get_device_properties(device).total_memory // 64) if on_gpu else 2**26
    size = BENCHMARK_FEATURES if on_gpu else 2048
    source, target = (torch.zeros(elements, device=device) for _ in range(2))
    copies = measure({"copy": lambda: target.copy_(source)}, device)["copy"]
    copied = 2 * source.nbytes / (float(np.median(copies)) * 1e-3)
    operations = 2 * size**3
    environment = recorded_environment(device)
    if not on_gpu:
        rates = {"ieee": operations / _product_seconds("ieee", device, [], size)}
        return Machine(environment["device"], copied, rates)

    candidates = {name: tensor_core_versions(device) for name in PRECISIONS} | {
        "ieee": ordinary_versions(device)[-1:]
    }
    rates = {
        name: operations / _product_seconds(name, device, versions, size)
        for name, versions in candidates.items()
    }
    own = calls(device)
    times = measure({name: call for name, (call, _) in own.items()}, device, seconds)
    rate = {name: work / (float(np.median(times[name])) * 1e-3) for name, (_, work) in own.items()}
    clock = environment.get("nvidia-smi", {}).get("clocks.max.sm", "").partition(" MHz")[0]
    return Machine(
        name=environment["device"],
        dram_bytes_per_second=copied,
        product_operations_per_second=rates,
        compute_capability=environment["compute capability"],
        multiprocessors=environment["multiprocessors"],
        clock_hz=float(clock) * 1e6 if clock else None,
        l2_bytes=environment["L2 bytes"],
        l2_bytes_per_second=rate["l2"],
        l1_bytes_per_second=rate["l1"],
        shared_bytes_per_second=rate["shared"],
        fp32_operations_per_second=rate["fp32"],
        launch_seconds=1 / rate["launch"],
    )


@functools.cache
def machine_here() -> Machine:
    """This machine's GPU, measured once in a process."""
    return measure_machine("cuda")


def write(machine: Machine, folder: Path, **recorded):
    """Writes the machine into a folder of recorded results. recorded: date and commit of the measurement."""
    (folder / FILE).write_text(json.dumps(asdict(machine) | {"recorded": recorded}, indent=2) + "\n")


def read(folder: Path) -> Machine:
    """The machine that is recorded in a folder."""
    found = json.loads((folder / FILE).read_text())
    del found["recorded"]
    return Machine(**found)
