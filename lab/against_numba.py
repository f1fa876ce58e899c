"""How long the naive matrix product takes under the checkers here, and in Numba's CUDA simulator.

    NUMBA_ENABLE_CUDASIM=1 python lab/against_numba.py [folder]

needs numba (pip install numba), which is no dependency of fgn. Numba's simulator runs each CUDA thread as a
thread of Python's, so it gets a smaller product, and the ratio is that of the times for each multiply-add.
With a folder, e.g. lab/records, the result is written to numba.json there.
"""

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

HERE = (64, 512, 512)  # batch, in_features, out_features
IN_NUMBA = (8, 64, 64)
TIMES = 10


def seconds(call) -> float:
    """The shortest of a few, after one that builds and compiles."""
    call()
    times = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def in_numba() -> float:
    global cuda  # Numba's simulator finds it only there
    import numpy as np
    from numba import cuda

    @cuda.jit
    def naive(x, weight, y):
        index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if index >= y.shape[0] * y.shape[1]:
            return
        row = index // y.shape[1]
        column = index % y.shape[1]
        total = np.float32(0)
        for k in range(x.shape[1]):
            total += x[row, k] * weight[column, k]
        y[row, column] = total

    batch, in_features, out_features = IN_NUMBA
    generator = np.random.default_rng(0)
    x, weight = generator.random((batch, in_features)), generator.random((out_features, in_features))
    y = np.zeros((batch, out_features))
    threads = 256
    result = seconds(lambda: naive[-(-y.size // threads), threads](x, weight, y))
    np.testing.assert_allclose(y, x @ weight.T)
    return result


def here() -> float:
    import torch

    import fgn

    batch, in_features, out_features = HERE
    x, weight = torch.rand(batch, in_features), torch.rand(out_features, in_features)
    with torch.no_grad():
        return seconds(lambda: fgn.count(lambda: fgn.functional.linear(x, weight, version="naive")))


def multiply_adds(sizes) -> int:
    return sizes[0] * sizes[1] * sizes[2]


def main():
    if sys.argv[1:2] == ["numba"]:
        print(in_numba())
        return
    # NUMBA_PYTHON: a Python that has numba, where the one that has fgn does not.
    python = os.environ.get("NUMBA_PYTHON", sys.executable)
    numba = subprocess.run([python, __file__, "numba"], capture_output=True, text=True, check=True)
    version = [python, "-c", "import numba; print(numba.__version__)"]
    ours, theirs = here(), float(numba.stdout)
    from fgn.measure.software import when_recorded

    result = when_recorded() | {
        "counted_shape": HERE,
        "counted_seconds": round(ours, 3),
        "numba_shape": IN_NUMBA,
        "numba_seconds": round(theirs, 3),
        "numba": subprocess.run(version, capture_output=True, text=True, check=True).stdout.strip(),
        "cpus": len(os.sched_getaffinity(0)),
        "processor": platform.machine(),
        "ratio_for_each_multiply_add": round(theirs / multiply_adds(IN_NUMBA) / (ours / multiply_adds(HERE))),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "numba.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
