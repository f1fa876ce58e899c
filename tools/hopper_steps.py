"""Records the Hopper ladder (cuda_c/hopper_steps/) for notebook 07:

    python tools/hopper_steps.py

needs a GPU of compute capability 9.0 and nvcc, and writes

    notebooks/07_steps.csv          the chain's time and error at each step, of hopper, and of F.linear
    notebooks/07_step_counters.csv  what ncu counts of each launch; left as it is without ncu
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
import torch

from cudasim.counting.metrics import CYCLES, PIPES, TIME
from fgn.chains import Shape
from fgn.measure.software import recorded_environment
from fgn.native.places import ROOT
from fgn.profiling import ncu
from fgn.profiling.profiler import profile
from fgn.teaching import hopper_steps as ladder

METRICS = [
    *(TIME, CYCLES, PIPES["tensor"], ladder.INSTRUCTIONS, ladder.L2_BYTES),
    *("dram__bytes_read.sum", "dram__bytes_write.sum"),
]


def predicted_shapes() -> list[Shape]:
    """Those for which a prediction was written down."""
    rows = pd.read_csv(ladder.PREDICTIONS)[ladder.SIZES].drop_duplicates()
    return [Shape(*row) for row in rows.itertuples(index=False)]


def main(folder: Path, seconds: float):
    environment = recorded_environment(torch.device("cuda"))
    stamp = {name: environment[name] for name in ("device", "date", "commit")}

    def save(rows: pd.DataFrame, file: Path):
        rows.assign(**stamp).to_csv(folder / file.name, index=False)
        print(rows.to_string(index=False), flush=True)

    columns = [
        "chain",
        *ladder.SIZES,
        "precision",
        "part",
        "subject",
        "median_ms",
        "min_ms",
        "count",
        "error",
    ]
    times = [ladder.measure(shape, seconds) for shape in predicted_shapes()]
    save(pd.concat(times)[columns], ladder.RECORDED)
    try:
        launches = profile(
            ladder.CHAIN, shape=ladder.COUNTED, precision=ladder.PRECISION, version=ladder.VERSIONS,
            metrics=METRICS, device="cuda",
        )  # fmt: skip
    except ncu.ProfilerError as error:
        print(f"no counters: {error}")
        return
    if set(launches.subject) != set(ladder.VERSIONS) or launches.reindex(columns=METRICS).isna().any(
        axis=None
    ):
        print(f"no counters: {launches.attrs} has not all of them")
        return
    columns = ["subject", "launch", "kernel", *METRICS]
    save(launches[columns].assign(**ladder.COUNTED._asdict()), ladder.COUNTERS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "notebooks", help="where the files go")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each subject, at each shape")
    options = parser.parse_args()
    main(options.folder, options.seconds)
