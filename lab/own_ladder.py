"""How near cudasim.predict() is to fgn's own ladder: every launch of the recorded profiles of an H200.

    python lab/own_ladder.py predict          anywhere: adds what is missing to records/own_ladder.csv.xz
    python lab/own_ladder.py show             the errors by kernel, and those of the whole table

No constant of the model was fitted to these launches. Large ones are sampled, as a user's are. ncu had
flushed the caches before each launch, as the model takes it. A launch that the version plans otherwise by now
than when it was profiled has no prediction; `why` says so.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pandas as pd
from recorded import measured_now

from cudasim.predicting.of_calls import predict_call
from fgn.calls import run_chain
from fgn.problem import PROBLEM, find_problem

HERE = Path(__file__).parent
PROFILE = HERE.parent / "profiles" / "h200" / "launches.csv"
RECORD = HERE / "records" / "own_ladder.csv.xz"
TORCHS = ("torch eager", "torch.compile", "F.linear")
MULTIPROCESSORS = 132  # of an H200, for which the versions plan
UNITS = {"compute": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
         "L1": "l1tex__throughput.avg.pct_of_peak_sustained_active",
         "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
         "DRAM": "dram__throughput.avg.pct_of_peak_sustained_elapsed"}  # fmt: skip
CALL = [*PROBLEM, "subject"]


def profiled() -> pd.DataFrame:
    table = pd.read_csv(PROFILE)
    table = table[~table["subject"].isin(TORCHS)]
    rows = table[[*CALL, "launch", "kernel", "grid", "block"]].copy()
    rows["us"] = table["gpu__time_duration.sum"] / 1000
    rows["ncu"] = table[list(UNITS.values())].set_axis(list(UNITS), axis=1).idxmax(axis=1)
    return rows


def _size(of: tuple[int, int, int]) -> str:
    return "x".join(map(str, of))


def predicted_call(rows: pd.DataFrame, known: dict[tuple, dict]) -> list[dict]:
    """A row for each profiled launch of one call. known: what was predicted of the same launch in another
    chain: products alone are the same in all three."""
    first = rows.iloc[0]
    problem = find_problem(
        first["chain"], tuple(int(first[name]) for name in PROBLEM[1:5]), first["precision"]
    )
    x, parameters = problem.inputs("cpu")
    left, by_number = list(rows.itertuples()), {}  # by the number in the call as it is now
    found: dict[int, dict] = {}

    def key(row) -> tuple:
        own = (
            () if row.kernel.endswith("_gemm_kernel") and row.kernel != "fused_gemm_kernel" else (row.chain,)
        )
        return (*own, row.batch, row.in_features, row.out_features, row.precision, row.kernel, row.grid)

    def wanted(number, launch) -> bool:
        asked = launch.kernel, _size(launch.grid), _size(launch.block)
        # A weight that is not frozen is prepared in launches that were not profiled.
        row = next((of for of in left if (of.kernel, of.grid, of.block) == asked), None)
        if row is None:
            return False
        left.remove(row)
        by_number[number] = row
        if row.kernel != "pointwise_kernel" and key(row) in known:  # one of these for each operator
            found[row.launch] = known[key(row)]
        return row.launch not in found

    def call():
        run_chain(
            *(problem.chain, x, parameters, first["subject"]),
            precision=first["precision"],
            multiprocessors=MULTIPROCESSORS,
        )

    try:
        for number, one in predict_call(call, gpu="H200", wanted=wanted).items():
            on = one.on[0]
            found[by_number[number].launch] = {
                "predicted us": 1e6 * on.seconds,
                "limiter": on.limiter,
                "blocks": len(one.sample.blocks),
            }
            known[key(by_number[number])] = found[by_number[number].launch]
        why = "has other launches by now"
    except Exception as error:
        why = f"{type(error).__name__}: {str(error)[:200]}"
    return [{**row._asdict(), **found.get(row.launch, {"why": why})} for row in rows.itertuples(index=False)]


def predict():
    every = profiled()
    done = pd.read_csv(RECORD) if RECORD.exists() else pd.DataFrame(columns=CALL)
    calls = set(map(tuple, done[CALL].astype(str).to_numpy()))
    known: dict[tuple, dict] = {}
    for call, rows in every.groupby(CALL, sort=False):
        if tuple(map(str, call)) in calls:
            continue
        began = time.perf_counter()
        new = pd.DataFrame(predicted_call(rows, known))
        new["date"], new["commit"] = measured_now()
        done = pd.concat([done, new]) if len(done) else new
        done.to_csv(RECORD, index=False)
        print(*call, f"{time.perf_counter() - began:.0f} s", flush=True)


def figures(part: pd.DataFrame) -> dict[str, object]:
    ratio = part["predicted us"] / part["us"]
    return {
        "launches": len(part),
        "measured, µs": f"{part['us'].min():.0f} to {part['us'].max():.0f}",
        "predicted / measured": f"{ratio.min():.2f} to {ratio.max():.2f}",
        "mean error": f"{(ratio - 1).abs().mean():.0%}",
        "within 1.5": f"{((ratio < 1.5) & (ratio > 1 / 1.5)).mean():.0%}",
        "limiter as ncu's": f"{(part['limiter'] == part['ncu']).mean():.0%}",
    }


def show():
    every = pd.read_csv(RECORD)
    table = every.dropna(subset=["predicted us"])
    rows = [{"kernel": kernel, **figures(part)} for kernel, part in table.groupby("kernel", sort=False)]
    rows.append({"kernel": "all", **figures(table)})
    long = table[table["us"] >= 10]
    rows.append({"kernel": "all of 10 µs or more", **figures(long)})
    for row in [list(rows[0]), ["---"] * len(rows[0]), *(row.values() for row in rows)]:
        print("|", " | ".join(map(str, row)), "|")
    if "why" in every:
        print(every[every["predicted us"].isna()].groupby("why", sort=False).size().to_string())
    print(f"{len(every)} of {len(profiled())} profiled launches")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("mode", choices=("predict", "show"))
    predict() if parser.parse_args().mode == "predict" else show()


if __name__ == "__main__":
    main()
