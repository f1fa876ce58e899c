"""How long launches of public kernels take on a GPU, what limits them, and how near predictions are.

    python lab/speed.py time DIR --out times.csv        on a GPU: device time of each, L2 flushed before
    python lab/speed.py limits DIR --out limits.csv     on a GPU with ncu: its speed-of-light breakdown
    python lab/speed.py record times.csv limits.csv --out recorded.csv     anywhere: both in one table
    python lab/speed.py predict DIR --out predicted.csv.xz [--half aside]     anywhere
    python lab/speed.py compare predicted.csv.xz recorded.csv.xz [--later predicted_later.csv.xz]
    python lab/speed.py draw predicted.csv.xz recorded.csv.xz ... --out predicted.png

DIR has a folder for each repository, named owner+name, as for lab/corpus.py. The launches are those of
lab/speed_calls, or of repositories (--only owner/name ... or --set "blind fourth"). Half of the repositories
are for calibration, the others are kept aside (calls.half()). A table keeps what it has of the others.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import json
import math
import pkgutil
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations, repeat
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import speed_calls
import torch
from corpus import include_folders
from recorded import measured_now
from speed_calls import calls
from speed_calls.calls import Timed, half
from speed_sets import SETS, set_of

from cudasim.live.kernels import BoundLaunch, Kernel, Program

COLOURS = {"seen": "C0", "blind": "C1", "blind anew": "C2", "blind third": "C4", "blind fourth": "C3"}
COLOURS |= {"blind fifth": "C5", "blind sixth": "C6", "blind seventh": "C8", "blind eighth": "C9"}
COLOURS |= {"blind ninth": "C7", "blind tenth": "k", "blind eleventh": "#c51b7d"}
SHORTEST = 10.0  # microseconds: below, a launch's own cost is most of it
REPETITIONS, WARM_UP = 15, 3
FLUSHED_BYTES = 256 << 20
QUEUED_CYCLES = 400_000  # that the GPU sleeps while the host queues the flush and the launch, at first
MOST_CYCLES = 64 * QUEUED_CYCLES
STEADY = 1.5  # a launch's third quartile / its first: above, it is the host that was timed, more or less

METRICS = {
    "compute": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "ns": "gpu__time_duration.sum",
    "instructions": "smsp__inst_executed.sum",
    "registers": "launch__registers_per_thread",
    "dram_read": "dram__bytes_read.sum",
    "dram_written": "dram__bytes_write.sum",
    "l2_sectors": "lts__t_sectors.sum",
    "l1_hits": "l1tex__t_sector_hit_rate.pct",
    "l2_hits": "lts__t_sector_hit_rate.pct",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "lsu": "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
    "fma": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "alu": "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active",
    "xu": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "wavefronts": "l1tex__data_pipe_lsu_wavefronts.sum",
    "wavefronts_shared": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
}


only: list[str] = []  # repositories; all where it is empty


def all_launches() -> list[tuple[str, Timed]]:
    """Repository and launch, in order; of `only` those, if it names any."""
    names = sorted(m.name for m in pkgutil.iter_modules(speed_calls.__path__) if m.name != "calls")
    modules = [importlib.import_module(f"speed_calls.{name}") for name in names]
    wanted = [module for module in modules if not only or module.REPOSITORY in only]
    return [(module.REPOSITORY, launch) for module in wanted for launch in module.LAUNCHES]


def bound(directory: Path, repository: str, launch: Timed) -> BoundLaunch:
    folder = directory / repository.replace("/", "+")
    path = folder / (launch.within or launch.file)
    text, name = path.read_text(errors="replace"), f"{path.stem.replace(' ', '_')}.cu"
    program = Program(text, name, include_folders(path, folder), launch.kernel, has_warned=True)
    return Kernel(program, launch.kernel)[launch.grid, launch.block, launch.shared]


def _row(number: int, repository: str, launch: Timed) -> dict:
    template = "" if launch.template is None else ", ".join(map(str, launch.template))
    sizes = {"grid": str(launch.grid), "block": str(launch.block), "shared": launch.shared}
    names = {"number": number, "repository": repository, "half": half(repository), "kernel": launch.kernel}
    return {**names, "template": template, **sizes, "ladder": launch.ladder}


def _write(table: pd.DataFrame, out: Path):
    """Into a table where the rows of other repositories are kept."""
    if out.exists():
        kept = pd.read_csv(out)
        table = pd.concat([kept[~kept["repository"].isin(table["repository"])], table])
    table.to_csv(out, index=False)


# ------------------------------------------------------------------------------------------------------------
# On a GPU


def _timed(call, flush: bool) -> list[float]:
    """Microseconds of the device, call by call."""
    buffer = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    found, cycles = [], QUEUED_CYCLES
    while len(found) < WARM_UP + REPETITIONS:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(cycles)
        if flush:
            buffer.fill_(1)
        begin.record()
        call()
        end.record()
        if begin.query() and cycles < MOST_CYCLES:  # the host was late: the time between has its work in it
            cycles *= 2
            continue
        torch.cuda.synchronize()
        found.append(1000 * begin.elapsed_time(end))
    return sorted(found[WARM_UP:])


def _choose(names: list[str]):
    only.extend(names)


def _build(directory: Path, number: int) -> tuple[int, str]:
    repository, launch = all_launches()[number]
    try:
        bound(directory, repository, launch).kernel.build("cuda", launch.template)
        return number, ""
    except Exception as error:
        return number, f"{type(error).__name__}: {str(error)[:300]}"


def _build_all(directory: Path) -> dict[int, str]:
    """Compiles what is to be timed, side by side; the errors by number."""
    numbers = range(len(all_launches()))
    with ProcessPoolExecutor(16, get_context("spawn"), _choose, (only,)) as pool:
        return {number: error for number, error in pool.map(_build, repeat(directory), numbers) if error}


def _child(directory: Path, begin: int, is_profiled: bool):
    """Makes the launches from this number on, and prints a line of JSON for each."""
    calls.device = "cuda"
    for number, (repository, launch) in enumerate(all_launches()):
        if number < begin:
            continue
        print(json.dumps({"begins": number}), flush=True)
        row = _row(number, repository, launch)
        try:
            torch.manual_seed(0)
            arguments, kernel = launch.arguments(), bound(directory, repository, launch)
            keywords = {} if launch.template is None else {"template": launch.template}

            def call(kernel=kernel, arguments=arguments, keywords=keywords):
                kernel(*arguments, **keywords)

            if is_profiled:
                torch.cuda.synchronize()
                torch.cuda.profiler.start()
                call()
                torch.cuda.synchronize()
                torch.cuda.profiler.stop()
            else:
                times = _timed(call, flush=True)
                quarter = len(times) // 4
                row |= {"us": statistics.median(times), "q1": times[quarter], "q3": times[-1 - quarter]}
                row["warm_us"] = statistics.median(_timed(call, flush=False))
            row["error"] = ""
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {str(error)[:200]}"
        print(json.dumps(row), flush=True)
        if "CUDA error" in row["error"] or "illegal" in row["error"]:
            sys.exit(1)  # nothing runs in this process any more


def _rows_of(
    directory: Path, errors: dict[int, str], prefix: Callable[[int], list[str]], mode: str
) -> Iterator[dict]:
    """What the child says of each launch, with another child from the next launch on where one has ended."""
    begin, count = 0, len(all_launches())
    while begin < count:
        command = [*prefix(begin), sys.executable, __file__, mode, str(directory), "--from", str(begin)]
        command += ["--only", *only] if only else []
        child = subprocess.run(command, capture_output=True, text=True)
        reached = begin
        for line in child.stdout.splitlines():
            if not line.startswith("{"):
                continue
            row = json.loads(line)
            if "begins" in row:
                reached = row["begins"] + 1
                continue
            if row["number"] in errors:
                row["error"] = errors[row["number"]]
            yield row
        if reached == begin:
            raise RuntimeError(child.stderr[-2000:])
        begin = reached


def time_all(directory: Path, out: Path):
    errors = _build_all(directory)
    rows = list(_rows_of(directory, errors, lambda _: [], "child"))
    table = pd.DataFrame(rows)
    table.insert(0, "gpu", torch.cuda.get_device_name())
    table["date"], table["commit"] = measured_now()
    table.to_csv(out, index=False)
    bad = table[table["error"] != ""]
    print(f"{len(table)} launches, {len(bad)} with an error")
    for _, row in bad.iterrows():
        print(row["repository"], row["kernel"], row["error"][:200])


def limits_all(directory: Path, out: Path):
    metrics, logs = ",".join(METRICS.values()), []
    ncu = ["ncu", "--profile-from-start", "off", "--metrics", metrics, "--csv", "--page", "raw"]
    ncu += ["--print-units", "base", "--target-processes", "all"]

    def prefix(begin: int) -> list[str]:
        logs.append(out.with_suffix(f".{begin}.ncu.csv"))  # a child that ends early leaves its own
        return [*ncu, "--log-file", str(logs[-1])]

    rows = list(_rows_of(directory, {}, prefix, "profiled-child"))
    texts = [log.read_text() for log in logs]
    tables = [csv.DictReader(io.StringIO(text[text.index('"ID"') :])) for text in texts if '"ID"' in text]
    found = [row for table in tables for row in table if row["ID"]]
    for row in rows:
        # torch's own kernels, which make the arguments, may stand between.
        at = next((at for at, one in enumerate(found) if row["kernel"] in one["Kernel Name"]), None)
        if row["error"] or at is None:
            continue
        of_ncu = found[at]
        del found[: at + 1]
        for name, metric in METRICS.items():
            text = of_ncu.get(metric, "").replace(",", "")
            row[name] = float(text) if text else math.nan
    pd.DataFrame(rows).to_csv(out, index=False)


RECORDED = ("gpu", "repository", "half", "kernel", "template", "grid", "block", "ladder", "us", "q1", "q3")
RECORDED += ("warm_us", "compute", "L1", "L2", "DRAM", "instructions", "registers", "dram_read")
RECORDED += ("dram_written", "date", "commit")


def record(times: Path, limits: Path, out: Path):
    """What both runs with the same launches said, into `out`, where other repositories' rows are kept."""
    timed, limited = pd.read_csv(times), pd.read_csv(limits)
    said = limited[["number", *(name for name in METRICS if name in limited)]]
    table = timed[timed["error"].isna()].merge(said, on="number", how="left")
    table["commit"] = table["commit"].fillna(measured_now()[1])
    _write(table[[name for name in RECORDED if name in table]], out)


# ------------------------------------------------------------------------------------------------------------
# Without one


def predict_all(directory: Path, out: Path, gpus: list[str]):
    """Into `out`, where what it says of other repositories is kept."""
    from cudasim.predicting.prediction import predict

    rows = []
    for number, (repository, launch) in enumerate(all_launches()):
        row = _row(number, repository, launch)
        torch.manual_seed(0)
        began = time.perf_counter()
        try:
            arguments = launch.arguments()
            began = time.perf_counter()
            found = predict(
                bound(directory, repository, launch), *arguments, gpu=gpus, template=launch.template
            )
            for one in found.on:
                name = one.card.name
                row |= {f"{name} us": 1e6 * one.seconds, f"{name} limiter": one.limiter}
            row["error"] = ""
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        row["took"] = time.perf_counter() - began
        rows.append(row)
        print(f"{number} {repository} {launch.kernel} {row.get(f'{gpus[0]} us', row['error'])}", flush=True)
    table = pd.DataFrame(rows).drop(columns="number")
    table["date"], table["commit"] = measured_now()
    _write(table, out)


def kendall(quartiles: list[tuple[float, float]], predicted: list[float], apart: float = 1.0) -> float:
    """Kendall's tau-b of measured and predicted times; NaN where no two of them tell an order.

    quartiles: the first and third of each measured time. Two whose quartiles overlap are equal as far as was
    measured, and so no pair; two whose predictions are equal are in neither order. apart: by which factor
    one's first quartile has to be above the other's third.
    """
    pairs = [
        (1 if first[0] > second[1] else -1, (a > b) - (a < b))
        for (first, a), (second, b) in combinations(zip(quartiles, predicted, strict=True), 2)
        if first[0] > apart * second[1] or second[0] > apart * first[1]
    ]
    told = sum(order != 0 for _, order in pairs)
    return sum(order * said for order, said in pairs) / math.sqrt(len(pairs) * told) if told else math.nan


def joined(predicted: Path, recorded: Path) -> tuple[str, pd.DataFrame]:
    """The GPU, and a row for each launch that is in both: its time, its prediction, ncu's limiter."""
    said, timed = pd.read_csv(predicted), pd.read_csv(recorded)
    gpu = next(name for name in ("H200", "H100") if name in timed["gpu"][0])
    keys = ["repository", "kernel", "template", "grid", "block"]
    said, timed = said.fillna({"template": ""}), timed.fillna({"template": ""})
    # Two launches may have the same name and sizes: they are in the same order in both.
    said["nth"], timed["nth"] = (table.groupby(keys).cumcount() for table in (said, timed))
    units = ["compute", "L1", "L2", "DRAM"]
    table = said.merge(timed[[*keys, "nth", "us", "q1", "q3", "warm_us", *units]], on=[*keys, "nth"])
    table = table.dropna(subset=["us", f"{gpu} us"])
    table = table[table["us"] >= SHORTEST]
    table["ratio"] = table[f"{gpu} us"] / table["us"]
    table["ncu"] = table[units].idxmax(axis=1)
    table["set"] = table["repository"].map(set_of)
    return gpu, table


def _figures(gpu: str, part: pd.DataFrame) -> dict[str, object]:
    error = (part["ratio"] - 1).abs()
    with_ladder = part[part["ladder"].notna() & (part["ladder"] != "")]
    ladders = [of for _, of in with_ladder.groupby(["repository", "ladder"]) if len(of) >= 3]

    def tau(apart: float) -> str:
        """The mean of those of the ladders that have an order."""
        quartiles = [list(zip(of["q1"], of["q3"], strict=True)) for of in ladders]
        every = [
            kendall(own, list(of[f"{gpu} us"]), apart) for own, of in zip(quartiles, ladders, strict=True)
        ]
        found = [one for one in every if not math.isnan(one)]
        return f"{statistics.mean(found):.2f} of {len(found)}" if found else ""

    return {
        "launches": len(part),
        "repositories": part["repository"].nunique(),
        "mean error": f"{error.mean():.1%}",
        "median": f"{error.median():.1%}",
        "within 1.5": f"{((part['ratio'] < 1.5) & (part['ratio'] > 1 / 1.5)).mean():.0%}",
        "Kendall's tau": tau(1.0),
        "beyond 5 %": tau(1.05),
        "limiter as ncu's": f"{(part['ncu'] == part[f'{gpu} limiter']).mean():.0%}",
    }


def compare(predicted: Path, recorded: Path, later: Path | None):
    """Prints the errors of both sets, with and without launches whose own times are far apart, and the ten
    worst launches. later: predictions of some repositories after their times were seen, in place of the
    first ones."""
    gpu, table = joined(predicted, recorded)
    steady = table[table["q3"] <= STEADY * table["q1"]]
    sets = [*table.groupby("set"), *((f"{name}, steady", part) for name, part in steady.groupby("set"))]
    if later:
        new = joined(later, recorded)[1]
        table = pd.concat([table[~table["repository"].isin(new["repository"])], new])
        blind = table[table["set"] != "seen"]
        sets += [(f"{name}, seen after", part) for name, part in blind.groupby("set")]
    rows = [{"GPU": gpu, "set": name, **_figures(gpu, part)} for name, part in sets]
    print(pd.DataFrame(rows).to_string(index=False))
    worst = table.assign(off=table["ratio"].map(lambda r: max(r, 1 / r))).sort_values("off", ascending=False)
    columns = ["repository", "kernel", "set", "q1", "us", "q3", f"{gpu} us", "ratio", f"{gpu} limiter", "ncu"]
    print(worst[columns].head(10).round(2).to_string(index=False))


def draw(predicted: Path, records: list[Path], out: Path):
    """Predicted against measured, both sets, one picture for each GPU."""
    from matplotlib.figure import Figure

    from fgn.plot.style import with_palette

    figure = Figure(figsize=(5 * len(records), 4.6), layout="constrained")
    for axis, recorded in zip(figure.subplots(1, len(records), squeeze=False)[0], records, strict=True):
        gpu, table = joined(predicted, recorded)
        ends = [table["us"].min() / 1.5, table["us"].max() * 1.5]
        axis.loglog(ends, ends, color="#9aa0a6", lw=1)
        axis.fill_between(ends, [e / 1.5 for e in ends], [e * 1.5 for e in ends], color="#9aa0a6", alpha=0.2)
        for name, part in table.groupby("set", sort=False):
            axis.plot(part["us"], part[f"{gpu} us"], "o", ms=4, alpha=0.8, color=COLOURS[name], label=name)
        axis.set(xlabel="measured, µs", ylabel="predicted, µs")
        axis.set_title(f"{gpu}: {len(table)} launches; grey: within a factor of 1.5", fontsize=10, loc="left")
        axis.legend(frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=110)
    out.write_bytes(with_palette(out.read_bytes()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "mode",
        choices=("time", "limits", "record", "predict", "compare", "draw", "child", "profiled-child"),
    )
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--later", type=Path, help="predictions after the times were seen")
    parser.add_argument("--from", dest="begin", type=int, default=0)
    parser.add_argument("--half", choices=("calibration", "aside"))
    parser.add_argument("--only", nargs="+", default=[], help="repositories")
    parser.add_argument("--set", choices=SETS, help="the repositories of a set of speed_sets.py")
    parser.add_argument("--gpu", nargs="+", default=["H200", "H100"])
    given = parser.parse_args()
    only.extend(SETS[given.set] if given.set else given.only)
    if given.half:
        only.extend({name for name, _ in all_launches() if half(name) == given.half})
    warnings.simplefilter("ignore")
    if given.mode in ("child", "profiled-child"):
        _child(given.paths[0], given.begin, given.mode == "profiled-child")
    elif given.mode == "time":
        time_all(given.paths[0], given.out)
    elif given.mode == "limits":
        limits_all(given.paths[0], given.out)
    elif given.mode == "record":
        record(*given.paths, given.out)
    elif given.mode == "predict":
        predict_all(given.paths[0], given.out, given.gpu)
    elif given.mode == "draw":
        draw(given.paths[0], given.paths[1:], given.out)
    else:
        compare(*given.paths, given.later)


if __name__ == "__main__":
    main()
