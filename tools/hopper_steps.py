"""Records the Hopper ladder (cuda_c/hopper_steps/) for notebook 06:

    python tools/hopper_steps.py

needs a GPU of compute capability 9.0 and nvcc, and writes

    notebooks/06_steps.csv          the chain's time and error at each step, of hopper, and of F.linear
    notebooks/06_step_counters.csv  what ncu counts of each launch at `COUNTED`; left as it is without ncu
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
import torch

from fgn.chains import Shape
from fgn.measure.accuracy import compare
from fgn.measure.benchmark import F_LINEAR, bench
from fgn.measure.software import recorded_environment
from fgn.native.library import ROOT
from fgn.profiling import ncu
from fgn.profiling.profiler import profile
from fgn.simulator.metrics import CYCLES, PIPES, TIME
from fgn.teaching.hopper_steps import COUNTERS, PREDICTIONS, PRODUCTION, RECORDED, STEPS

CHAIN, PRECISION = "matmul_groupnorm_leakyrelu_sum", "bf16"
VERSIONS = [*(step.version for step in STEPS), PRODUCTION]
COUNTED = Shape(1024, 8192, 8192, 256)
L2_BYTES, INSTRUCTIONS = "lts__t_bytes.sum", "smsp__inst_executed.sum"
METRICS = [
    TIME,
    CYCLES,
    PIPES["tensor"],
    INSTRUCTIONS,
    L2_BYTES,
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
]
SIZES = list(Shape._fields)


def predicted_shapes() -> list[Shape]:
    """Those for which a prediction was written down."""
    rows = pd.read_csv(PREDICTIONS)[SIZES].drop_duplicates()
    return [Shape(*row) for row in rows.itertuples(index=False)]


def times_and_errors(shape: Shape, seconds: float) -> pd.DataFrame:
    times = bench(CHAIN, shape, precision=PRECISION, versions=VERSIONS, rivals=(F_LINEAR,), seconds=seconds)
    times = times[(times.part == "chain") | (times.subject == F_LINEAR)]
    errors = compare(CHAIN, shape=shape, precision=PRECISION, versions=VERSIONS).relative_error
    return times.assign(error=times.subject.map(errors))


def main(folder: Path, seconds: float):
    environment = recorded_environment(torch.device("cuda"))
    stamp = {name: environment[name] for name in ("device", "date", "commit")}
    rows = pd.concat([times_and_errors(shape, seconds) for shape in predicted_shapes()])
    columns = ["chain", *SIZES, "precision", "part", "subject", "median_ms", "min_ms", "count", "error"]
    rows[columns].assign(**stamp).to_csv(folder / RECORDED.name, index=False)
    print(rows[columns].to_string(index=False))
    try:
        launches = profile(
            CHAIN, shape=COUNTED, precision=PRECISION, version=VERSIONS, metrics=METRICS, device="cuda"
        )
    except ncu.ProfilerError as error:
        print(f"no counters: {error}")
        return
    columns = ["subject", "launch", "kernel", "operator", *METRICS]
    launches[columns].assign(**COUNTED._asdict(), **stamp).to_csv(folder / COUNTERS.name, index=False)
    print(launches[columns].to_string(index=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "notebooks", help="where the files go")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each subject at each shape")
    options = parser.parse_args()
    main(options.folder, options.seconds)
