"""Records ncu's counters of every rung and of the probes, for tests/fgn/test_agreement.py, which holds the
simulator against them:

    python tools/hardware_counters.py profiles/h200

needs a GPU, nvcc and ncu, and writes

    counters.csv         every version that the simulator runs, at `SHAPES`
    shared_accesses.csv  one request to shared memory for each of `patterns()`
    read_twice.csv       how much of what a launch reads twice comes from DRAM twice

Every row says when it was recorded, and of which commit. `--versions tensor_core few_rows` records these
again, and leaves the rest of counters.csv as it is.
"""

from __future__ import annotations

import argparse
import csv
import functools
import io
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from fgn.chains import CHAINS, Shape, problem, random_inputs
from fgn.functional import plan_of, run_chain
from fgn.measure.benchmark import ordinary_versions
from fgn.measure.software import recorded_environment
from fgn.native.library import COUNTED_SIMULATOR, GPU, ffi
from fgn.native.places import ROOT
from fgn.native.prepared import freeze
from fgn.precision import PRECISIONS

PROBES = ROOT / "tests" / "fgn" / "agreement"

# ------------------------------------------------------------------------------------------------------------
# What is run

# One tile and many; sizes that fill none; rows without float4; few rows; groups for a team and for a block.
SHAPES = (
    Shape(64, 512, 512, 16),
    Shape(100, 130, 96, 6),
    Shape(1152, 64, 1152, 9),
    Shape(1100, 40, 1170, 65),
    Shape(16, 512, 512, 32),
    Shape(5, 33, 70, 7),
    Shape(3, 8, 4096, 2),
    Shape(257, 260, 384, 3),
)
ALL_CHAINS_AT = SHAPES[
    :3
]  # of the versions without tensor cores; elsewhere the chain with operators before the norm is enough
LONGEST_CHAIN = "gemm_biasadd_hardtanh_mish_groupnorm"

SPACES = ("global", "shared")
GLOBAL = [
    f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
    for op in ("ld", "st", "atom", "red")
    for what in ("requests", "sectors")
]
SHARED = [
    name
    for op in ("ld", "st", "atom")
    for name in (
        f"smsp__inst_executed_op_shared_{op}.sum",
        f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum",
        f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum",
    )
]
BYTES = [f"smsp__sass_data_bytes_mem_{space}_op_{op}.sum" for space in SPACES for op in ("ld", "st")]
DRAM = ["dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_sectors_op_read.sum"]
# Counted from the instructions that were executed and their addresses, so without the cycles that a wavefront
# had to wait for other traffic.
BY_INSTRUCTION = [f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st")]


# Of the versions on tensor cores, those that the simulator runs (mma.sync, ldmatrix, cp.async), in every
# precision, at the shapes that are small enough to count.
ON_TENSOR_CORES = ("tensor_core", "few_rows")
MOST_TENSOR_ROWS = 300
# few_rows cuts a product by the number of multiprocessors. As for one it is cut the same on every machine:
# k is not split, and there are no clusters.
MULTIPROCESSORS = 1


class Run(NamedTuple):
    chain: str
    shape: Shape
    version: str
    precision: str = "ieee"
    multiprocessors: int = MULTIPROCESSORS

    def columns(self) -> dict:
        """What it is a run of, beside its version."""
        return {"chain": self.chain, **self.shape._asdict(), "precision": self.precision}

    def launches(self, device: str) -> int | None:
        """How many kernels it launches; None where the version does not run it there."""
        chain, shape = problem(self.chain, self.shape)
        plan = plan_of(chain, shape, self.version, torch.device(device), self.precision, self.multiprocessors)
        return None if plan is None else plan.launch_count

    def prepare(self, device: str):
        """The call itself, with a frozen weight: its halves are made once, before what is counted. Vectors
        are float32: torch launches nothing to convert them."""
        chain, shape = problem(self.chain, self.shape)
        x, parameters = random_inputs(chain, shape, device)
        dtype = PRECISIONS[self.precision].dtype
        parameters["weight"] = freeze(parameters["weight"].to(dtype))
        return functools.partial(
            run_chain,
            chain,
            x.to(dtype),
            parameters,
            self.version,
            precision=self.precision,
            multiprocessors=self.multiprocessors,
        )


def runs(shape: Shape, versions: tuple[str, ...] = ()) -> list[Run]:
    """Every version that the simulator runs, or the given ones."""
    ordinary = [
        Run(name, shape, version)
        for name in (CHAINS if shape in ALL_CHAINS_AT else [LONGEST_CHAIN])
        for version in ordinary_versions("cpu")
    ]
    on_tensor_cores = [
        Run(LONGEST_CHAIN, shape, version, precision)
        for version in ON_TENSOR_CORES
        for precision in PRECISIONS
        if shape.batch <= MOST_TENSOR_ROWS
    ]
    every = [run for run in ordinary + on_tensor_cores if not versions or run.version in versions]
    return [run for run in every if run.launches("cpu") is not None]


class Pattern(NamedTuple):
    """Where the lanes of one request go: a byte offset for each; negative where a lane makes no access."""

    name: str
    operation: str
    bytes: int
    offsets: tuple[int, ...]


OPERATIONS = ("ld", "st", "atom")
MEMORY_BYTES = 4 * 4096


def _slots(bytes: int) -> dict[str, np.ndarray]:
    """In units of the access's width: where each lane goes."""
    lane = np.arange(32)
    slots = {f"stride {stride}": lane * stride for stride in (0, 1, 2, 3, 4, 5, 8, 16, 17, 31, 32)}
    slots |= {
        "reversed": lane[::-1],
        "pairs share": lane // 2,
        "pairs share, stride 8": lane // 2 * 8,
        "fours share": lane // 4,
        "eights share": lane // 8,
        "eights share, stride 8": lane // 8 * 8,
        "repeats after 2": lane % 2,
        "repeats after 2, stride 32": lane % 2 * 32,
        "repeats after 4": lane % 4,
        "repeats after 8": lane % 8,
        "repeats after 16": lane % 16,
        "rows of 4 by 8, interleaved": lane // 16 * 2 + lane % 2,
        "columns of 4 by 8, interleaved": lane // 2 % 8,
        "every other pair": lane // 4 * 2 + lane % 2,
        "halves share": lane % 16,
    }
    generator = np.random.default_rng(bytes)
    for number in range(3):
        slots[f"permuted {number}"] = generator.permutation(32)
        slots[f"anywhere {number}"] = generator.integers(0, MEMORY_BYTES // 16, 32)
        slots[f"among 8, {number}"] = generator.integers(0, 8, 32)
        slots[f"pairs anywhere {number}"] = np.repeat(generator.integers(0, MEMORY_BYTES // 16, 16), 2)
        pairs = generator.integers(0, MEMORY_BYTES // 16, (8, 1, 2))
        slots[f"lanes 2 apart share {number}"] = np.tile(pairs, (1, 2, 1)).reshape(32)
    return {name: slot % (MEMORY_BYTES // bytes) for name, slot in slots.items()}


def _masks() -> dict[str, np.ndarray]:
    lane = np.arange(32)
    generator = np.random.default_rng(7)
    return {
        "": lane >= 0,
        "one lane": lane == 5,
        "8 lanes": lane < 8,
        "12 lanes": lane < 12,
        "even lanes": lane % 2 == 0,
        "upper half": lane >= 16,
        "half of all": generator.random(32) < 0.5,
    }


def patterns() -> list[Pattern]:
    every = []
    for bytes in (4, 8, 16):
        for name, slot in _slots(bytes).items():
            for mask_name, mask in _masks().items():
                if mask_name and name not in (
                    "stride 1",
                    "stride 2",
                    "pairs share",
                    "permuted 0",
                    "stride 8",
                ):
                    continue
                offsets = tuple(np.where(mask, slot * bytes, -1).tolist())
                title = f"{name}, {mask_name}" if mask_name else name
                for operation in OPERATIONS:
                    distinct = len(set(offsets) - {-1}) == mask.sum()
                    # Two lanes that store to one place race; only 4 bytes are ever added at once.
                    if (operation == "st" and not distinct) or (operation == "atom" and bytes > 4):
                        continue
                    every.append(Pattern(title, operation, bytes, offsets))
    return every


PATTERNS_AT_ONCE = 150
READ_TWICE_CHUNKS = tuple(mib * 16 for mib in (4, 12, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 64, 80, 112))
CHUNK_BYTES = 64 << 10


@functools.cache
def probes(device: str):
    """The library of probes.cu, for the GPU or for the counted simulator."""
    made_of = {"name": f"probes_{device}", "title": "probes", "patterns": ("probes.cu",), "sources": PROBES}
    library = COUNTED_SIMULATOR.with_kernels(**made_of) if device == "cpu" else replace(GPU, **made_of)
    interface = ffi()
    interface.cdef(
        """
        int probe_access(int operation, int bytes, const int *offsets, float *out);
        int probe_global_atomic(int uses_old, const int *offsets, float *out);
        int probe_read_twice(const float *from, int chunks, float *out);
        """,
        override=True,
    )
    return library.load()


def _pointer(kind: str, tensor: torch.Tensor):
    return ffi().cast(kind, tensor.data_ptr())


def run_pattern(library, pattern: Pattern, offsets: torch.Tensor, out: torch.Tensor) -> int:
    operation = OPERATIONS.index(pattern.operation)
    return library.probe_access(
        operation, pattern.bytes, _pointer("const int *", offsets), _pointer("float *", out)
    )


# ------------------------------------------------------------------------------------------------------------
# Under ncu


def target(what: str):
    """What ncu runs; only what comes between the profiler's start and stop is measured."""
    if what.startswith("patterns"):
        begin, end = map(int, what.split(":")[1:])
        library, every = probes("cuda"), patterns()[begin:end]
        offsets = torch.tensor([pattern.offsets for pattern in every], dtype=torch.int32, device="cuda")
        out = torch.zeros(64, device="cuda")
        calls = [
            functools.partial(run_pattern, library, pattern, offsets[i], out)
            for i, pattern in enumerate(every)
        ]
    elif what == "global_atomics":
        library = probes("cuda")
        offsets = torch.arange(0, 128, 4, dtype=torch.int32, device="cuda")
        out = torch.zeros(64, device="cuda")
        calls = [
            functools.partial(
                library.probe_global_atomic, uses, _pointer("const int *", offsets), _pointer("float *", out)
            )
            for uses in (0, 1)
        ]
    elif what == "read_twice":
        library = probes("cuda")
        memory = torch.rand(max(READ_TWICE_CHUNKS) * CHUNK_BYTES // 4, device="cuda")
        out = torch.zeros(64, device="cuda")
        calls = [
            lambda chunks=chunks: library.probe_read_twice(
                _pointer("const float *", memory), chunks, _pointer("float *", out)
            )
            for chunks in READ_TWICE_CHUNKS
        ]
    else:
        sizes, *versions = what.split(":")
        shape = Shape(*map(int, sizes.split(",")))
        calls = [run.prepare("cuda") for run in runs(shape, tuple(versions))]
        for call in calls:
            call()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for call in calls:
        if isinstance(status := call(), int) and status != 0:
            sys.exit(f"{what}: a launch failed")
        torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def available(metrics: list[str], kinds: str) -> list[str]:
    """Those that this GPU has, and whatever counts copies and matrix loads: names with one of `kinds`."""
    output = subprocess.run(["ncu", "--query-metrics"], capture_output=True, text=True).stdout
    known = {line.split()[0] for line in output.splitlines() if line and "__" in line.split()[0]}
    more = [f"{name}.sum" for name in sorted(known) if re.search(kinds, name)]
    return [name for name in dict.fromkeys([*metrics, *more]) if name.partition(".")[0] in known]


def profile(what: str, metrics: list[str], timeout: float, script: str = __file__) -> pd.DataFrame:
    """A row for each launch of `script --target what`, in order: Kernel Name, Grid Size, Block Size and the
    metrics."""
    command = ["ncu", "--profile-from-start", "off", "--clock-control", "none", "--csv", "--page", "raw"]
    command += ["--print-units", "base", "--print-kernel-base", "function", "--metrics", ",".join(metrics)]
    command += [sys.executable, script, "--target", what]
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    lines = [line for line in result.stdout.splitlines() if line.startswith('"')]
    if result.returncode or len(lines) < 3:
        raise RuntimeError(f"ncu: {what}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")
    frame = pd.DataFrame(list(csv.DictReader(io.StringIO("\n".join([lines[0], *lines[2:]])))))
    for name in set(metrics) & set(frame):
        frame[name] = pd.to_numeric(frame[name].str.replace(",", "")).astype("int64")
    return frame


# Copies from global to shared memory that fill no register, and matrices from shared memory.
COPIES = r"^(smsp__inst_executed|smsp__sass_data_bytes|l1tex__t_(requests|sectors)_pipe_lsu)\w*_(ldgsts|ldsm)"
KEYS = ["chain", *Shape._fields, "version", "precision", "launch"]


def _kept_rows(path: Path, versions: tuple[str, ...]) -> pd.DataFrame:
    """The rows of an earlier recording that this one does not replace."""
    if not versions or not path.exists():
        return pd.DataFrame(columns=KEYS)
    rows = pd.read_csv(path)
    return rows[~rows.version.isin(versions)]


def _write(frame: pd.DataFrame, path: Path, when: dict):
    """date and commit stand in every row: parts of a file may be recorded again."""
    frame.assign(
        **{name: frame[name].fillna(when[name]) if name in frame else when[name] for name in when}
    ).to_csv(path, index=False)


def record_counters(folder: Path, timeout: float, versions: tuple[str, ...], metrics: list[str], when: dict):
    path = folder / "counters.csv"
    kept, rows = _kept_rows(path, versions), []
    for shape in SHAPES:
        expected = [
            (run, index) for run in runs(shape, versions) for index in range(run.launches("cuda") or 0)
        ]
        if not expected:
            continue
        try:
            frame = profile(":".join([",".join(map(str, shape)), *versions]), metrics, timeout)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{shape}: {error}", flush=True)
            continue
        print(shape, len(frame), "launches,", len(expected), "expected", flush=True)
        if len(frame) != len(expected):
            frame.to_csv(folder / f"unexpected_{'x'.join(map(str, shape))}.csv", index=False)
            continue
        for (run, index), measured in zip(expected, frame.to_dict("records"), strict=True):
            sizes = {"kernel": measured["Kernel Name"], "grid": measured["Grid Size"]}
            rows.append(
                {"chain": run.chain, **run.shape._asdict(), "version": run.version, "launch": index}
                | {"precision": run.precision}
                | sizes
                | {name: measured.get(name) for name in metrics}
            )
        whole = pd.concat([kept, pd.DataFrame(rows)], ignore_index=True)
        order = [*KEYS, *(name for name in whole if name not in KEYS)]
        _write(whole[order], path, when)


def record(folder: Path, timeout: float, versions: tuple[str, ...]):
    GPU.build()
    folder.mkdir(parents=True, exist_ok=True)
    environment = recorded_environment(torch.device("cuda"))
    when = {name: environment[name] for name in ("date", "commit")}
    wanted = GLOBAL + SHARED + BYTES + DRAM + BY_INSTRUCTION
    known = available(wanted, COPIES)
    print("not on this GPU:", sorted({*wanted} - {*known}), flush=True)
    print("copies:", [name for name in known if name not in wanted], flush=True)
    record_counters(folder, timeout, versions, known, when)
    if versions:
        return
    probes("cuda")

    def attempt(what: str, metrics: list[str]) -> pd.DataFrame:
        try:
            return profile(what, [name for name in metrics if name in known], timeout)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(error, flush=True)
            return pd.DataFrame()

    frame = attempt("read_twice", GLOBAL[:2] + DRAM)
    if len(frame):
        frame.insert(0, "bytes", [chunks * CHUNK_BYTES for chunks in READ_TWICE_CHUNKS])
        frame = frame[["bytes", *(name for name in frame if ".sum" in name)]]
        _write(frame, folder / "read_twice.csv", when)
        print(frame[["bytes", "dram__bytes_read.sum"]].to_string(), flush=True)
    print(attempt("global_atomics", GLOBAL).T.to_string(), flush=True)

    every, frames = patterns(), []
    for begin in range(0, len(every), PATTERNS_AT_ONCE):
        chosen = every[begin : begin + PATTERNS_AT_ONCE]
        frame = attempt(f"patterns:{begin}:{begin + len(chosen)}", SHARED)
        names = pd.DataFrame([p._asdict() | {"offsets": " ".join(map(str, p.offsets))} for p in chosen])
        if len(frame) == len(chosen):
            frames.append(pd.concat([names, frame[[name for name in frame if ".sum" in name]]], axis=1))
            _write(pd.concat(frames), folder / "shared_accesses.csv", when)
        print(begin, len(frame), "patterns", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Record ncu's counters of every rung and of the probes.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("profiles/gpu"))
    parser.add_argument("--timeout", type=float, default=120, help="seconds for each call of ncu")
    parser.add_argument("--versions", nargs="*", default=(), help="record only these again")
    parser.add_argument("--target", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.target:
        target(arguments.target)
    else:
        record(arguments.folder, arguments.timeout, tuple(arguments.versions))
