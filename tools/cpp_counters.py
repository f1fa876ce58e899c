"""Records ncu's counters of kernels in CUDA C++ and of hopper, for tests/fgn/test_agreement.py to hold the
simulator against:

    python tools/cpp_counters.py profiles/h200

needs a GPU, nvcc and ncu, and writes cpp_counters.csv: a row for each launch of `launches()`, the kernels of
tests/fgn/agreement/cpp_kernels.cu. `--hopper` records the launches of `HOPPER_RUNS` instead, by TMA and
wgmma, in hopper_counters.csv; it needs the GPU library, and a GPU with `MULTIPROCESSORS` of them.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch
from hardware_counters import (
    BY_INSTRUCTION,
    BYTES,
    COPIES,
    DRAM,
    GLOBAL,
    PROBES,
    SHARED,
    Run,
    available,
    profile,
)

from cudasim.live.kernels import Kernel, Program
from fgn.chains import Shape
from fgn.measure.software import recorded_environment

FILE = PROBES / "cpp_kernels.cu"
TENSOR = r"gmma|tma|utma"
MULTIPROCESSORS = 132  # hopper cuts a product by their number


# Each precision, each way of the norm, clusters that share x and that share w, sorted columns and others,
# tiles that are not full, rows that are copied first, and k that is split.
HOPPER_RUNS = (
    Run("gemm_groupnorm_hardtanh", Shape(256, 512, 512, 16), "hopper", "bf16", MULTIPROCESSORS),
    Run("gemm_biasadd_hardtanh_mish_groupnorm", Shape(140, 256, 768, 2), "hopper", "bf16", MULTIPROCESSORS),
    Run("gemm_biasadd_hardtanh_mish_groupnorm", Shape(1024, 64, 2048, 1), "hopper", "bf16", MULTIPROCESSORS),
    Run("gemm_biasadd_hardtanh_mish_groupnorm", Shape(100, 130, 96, 8), "hopper", "fp16", MULTIPROCESSORS),
    Run("matmul_groupnorm_leakyrelu_sum", Shape(512, 256, 640, 1), "hopper", "fp16", MULTIPROCESSORS),
    Run("gemm_groupnorm_hardtanh", Shape(256, 256, 512, 16), "hopper", "tf32", MULTIPROCESSORS),
    Run("gemm_groupnorm_hardtanh", Shape(4096, 64, 384, 2), "hopper", "tf32", MULTIPROCESSORS),
    Run("gemm_biasadd_hardtanh_mish_groupnorm", Shape(256, 256, 512, 16), "hopper", "ieee", MULTIPROCESSORS),
    Run("matmul_groupnorm_leakyrelu_sum", Shape(4096, 64, 1024, 8), "hopper", "ieee", MULTIPROCESSORS),
)


@functools.cache
def program() -> Program:
    return Program(FILE.read_text(), FILE.name, (), has_warned=True)


def launches(device: str) -> dict[str, Callable[[], None]]:
    """The calls by the kernels' names, with arguments on the device."""
    generator = torch.Generator().manual_seed(0)

    def floats(*size: int, dtype=torch.float32) -> torch.Tensor:
        return torch.rand(*size, generator=generator).to(dtype).to(device)

    def zeros(*size: int, dtype=torch.float32) -> torch.Tensor:
        return torch.zeros(*size, dtype=dtype, device=device)

    integers = torch.randint(0, 1000, (1000,), generator=generator).int().to(device)
    half, bfloat16 = torch.float16, torch.bfloat16
    arguments = {
        "transpose_float": ((3, 3), (32, 8), zeros(9000), floats(9000), 90),
        "transpose_float_conflicts": ((3, 3), (32, 8), zeros(9000), floats(9000), 90),
        "transpose_half": ((3, 3), (32, 8), zeros(9000, dtype=half), floats(9000, dtype=half), 90),
        "transpose_bfloat16": (
            (3, 3),
            (32, 8),
            zeros(9000, dtype=bfloat16),
            floats(9000, dtype=bfloat16),
            90,
        ),
        "half2_axpy": (4, 128, zeros(1000, dtype=half), floats(1000, dtype=half), 2.0, 1000),
        "bfloat16_row_sums": (4, 128, zeros(16), floats(16, 200, dtype=bfloat16), 200),
        "vectors_of_four": (2, 128, zeros(1000), floats(1000), 1000),
        "points": (4, 128, zeros(1500), floats(1500), 500),
        "shared_histogram": (3, 128, zeros(64, dtype=torch.int32), integers, 1000),
        "scattered_bytes": (8, 128, zeros(1000, dtype=torch.uint8), integers, 1000),
        "two_stages_by_cp_async": (1, 128, zeros(128), floats(5 * 512), 5),
        "wmma_products": (1, 32, zeros(256), floats(16, 64, dtype=half), floats(16, 64, dtype=half), 64),
        "ldmatrix_and_mma": (1, 32, zeros(128), floats(256, dtype=half)),
        "ring_by_tma": (1, 160, zeros(128), floats(7 * 256), 7),
    }
    return {
        name: functools.partial(Kernel(program(), name)[grid, block], *given)
        for name, (grid, block, *given) in arguments.items()
    }


def target(what: str):
    """What ncu runs; only what comes between the profiler's start and stop is measured."""
    if what == "hopper":
        calls = [run.prepare("cuda") for run in HOPPER_RUNS]
    else:
        calls = list(launches("cuda").values())
    for call in calls:
        call()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for call in calls:
        call()
        torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def record(what: str, path: Path, metrics: list[str], timeout: float):
    frame = profile(what, metrics, timeout, __file__)
    environment = recorded_environment(torch.device("cuda"))
    kept = ["Kernel Name", "Grid Size", "Block Size", *(name for name in metrics if name in frame)]
    frame = frame[kept].rename(columns={"Kernel Name": "kernel", "Grid Size": "grid", "Block Size": "block"})
    if what == "hopper":
        runs = [run.columns() for run in HOPPER_RUNS for _ in range(run.launches("cpu"))]
        if len(runs) != len(frame):
            raise RuntimeError(f"{len(runs)} launches are planned, and ncu saw {len(frame)}")
        frame = pd.concat([pd.DataFrame(runs), frame], axis=1)
    frame.assign(date=environment["date"], commit=environment["commit"]).to_csv(path, index=False)
    print(frame.T.to_string(), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("profiles/gpu"))
    parser.add_argument("--timeout", type=float, default=120, help="seconds for each call of ncu")
    parser.add_argument("--hopper", action="store_true", help="record hopper instead")
    parser.add_argument("--target", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.target:
        target(arguments.target)
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    metrics = available(GLOBAL + SHARED + BYTES + BY_INSTRUCTION, f"{COPIES}|{TENSOR}")
    cpp = [name for name in metrics if not name.startswith("dram")]
    if arguments.hopper:
        record("hopper", arguments.folder / "hopper_counters.csv", [*cpp, *DRAM], arguments.timeout)
    else:
        record("cpp", arguments.folder / "cpp_counters.csv", cpp, arguments.timeout)


if __name__ == "__main__":
    main()
