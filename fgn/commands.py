"""The commands of `python -m fgn`, except those of puzzles (`fgn.puzzles.commands`)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch

from cudasim.building.compilers import MissingToolError
from fgn.chains import CHAINS, Shape
from fgn.ladder import default_device
from fgn.native.library import COUNTED_SIMULATOR, for_device
from fgn.precision import PRECISIONS
from fgn.profiling.recording import PARTS


def show(frame: pd.DataFrame, arguments, title: str = "", **how):
    """Prints a table: for people, or as JSON or CSV for programs."""
    if arguments.json or arguments.csv:
        if frame.index.name is not None or not isinstance(frame.index, pd.RangeIndex):
            frame = frame.reset_index()
        if title:
            frame.insert(0, "of", title)
        arguments.tables.append(frame)
    else:
        print(f"{title}\n{text_of(frame, **how)}\n" if title else text_of(frame, **how))


def text_of(frame: pd.DataFrame, **how) -> str:
    """The table for people: texts are aligned left, which pandas aligns right."""
    widths = {
        name: max(len(str(name)), column.str.len().max())
        for name, column in frame.items()
        if len(frame) and pd.api.types.is_string_dtype(column)
    }
    frame = frame.rename(columns={name: f"{name:<{width}}" for name, width in widths.items()})
    left = {f"{name:<{width}}": f"{{:<{width}}}".format for name, width in widths.items()}
    return "\n".join(line.rstrip() for line in frame.to_string(formatters=left, **how).splitlines())


def print_tables(arguments):
    """Prints what `show()` has kept: one JSON array of rows, or one CSV file."""
    table = pd.concat(arguments.tables, ignore_index=True)
    if arguments.json:
        print(json.dumps(json.loads(table.to_json(orient="records")), indent=1))
    else:
        print(table.to_csv(index=False), end="")


def device_of(name: str) -> torch.device:
    """The device named on the command line, which has to be present."""
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"expected cpu or cuda, got {name}")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise argparse.ArgumentTypeError("there is no GPU here that torch can use; cpu is the simulator")
    return device


def build(arguments):
    """Build the simulator, and the GPU library where there is a GPU."""
    built, simulator, gpu = 0, for_device("cpu"), for_device("cuda")
    has_use = torch.cuda.is_available() or arguments.gpu
    for library in (simulator, *[COUNTED_SIMULATOR] * arguments.counted, *[gpu] * has_use):
        try:
            print(f"{library.title}: {library.build()}")
            built += 1
        except MissingToolError as error:
            print(f"{library.title}: {error}")
    if not has_use:
        print(f"{gpu.title}: there is no GPU here; python -m fgn build --gpu builds it all the same")
    if not built:
        sys.exit("no library could be built")


def env(arguments):
    """Show what this machine has."""
    from fgn.measure import environment

    show(environment(), arguments, **({} if arguments.json or arguments.csv else {"header": False}))


def doctor(arguments):
    """Say what this machine has, what is missing, and the command that mends it."""
    from fgn.measure.doctor import examine

    findings = examine()
    show(findings, arguments, index=False)
    if (findings["state"] == "broken").any():
        sys.exit(1)


def clean(arguments):
    """Remove what was built into the user's cache."""
    from cudasim.building.places import cache_folder, prune_cache

    print(f"{prune_cache(limit=0) / 1e6:.1f} MB removed from {cache_folder()}")


def install(arguments):
    """Install the C library: header, shared and static libraries, pkg-config and CMake files."""
    from fgn.native.install import install

    for path in install(arguments.prefix, arguments.device and arguments.device.type):
        print(path)


def export(arguments):
    """Write one version of a chain as one Python file that needs PyTorch and nvcc, and not fgn."""
    from fgn.exporting.one_file import export

    text = export(arguments.chain, arguments.version, arguments.precision, arguments.shape)
    if arguments.to is None:
        sys.stdout.write(text)
    else:
        arguments.to.write_text(text)


def versions(arguments):
    """List the versions, from the naive one up."""
    from fgn import versions

    frame = versions(arguments.chain, arguments.shape, arguments.device, arguments.precision)
    show(frame, arguments, index=False, na_rep="-")


def compare(arguments):
    """Show the errors of every version, and torch's, against float64."""
    from fgn import compare

    for chain in [arguments.chain] if arguments.chain else CHAINS:
        frame = compare(chain, shape=arguments.shape, device=arguments.device, precision=arguments.precision)
        show(frame, arguments, title=chain, float_format="{:.3g}".format)


def _sweep(arguments, device: torch.device):
    from fgn.measure import sweep
    from fgn.measure.software import recorded_environment

    subjects = sweep.SUBJECTS if device.type == "cuda" else ("fgn", "torch eager", "F.linear")
    rival = "torch.compile" if device.type == "cuda" else "torch eager"
    if arguments.compile_first and device.type == "cuda":
        sweep.warm_up(arguments.sweep, arguments.count, arguments.compile_first)

    for_programs = arguments.json or arguments.csv

    def tell(row: dict):
        sizes = "{batch}x{in_features}->{out_features} g{groups}".format(**row)
        times = " ".join(
            f"{where} {row[f'{where} {rival}'] / row[f'{where} fgn']:5.2f}" for where in ("device", "loop")
        )
        errors = f"error {row['error']:.1e} torch {row['torch_error']:.1e}"
        print(f"{row['kind']} {sizes:26} {row['precision']:4} {times} | {errors}", flush=True)

    frame = sweep.sweep(
        arguments.sweep,
        arguments.count,
        device,
        subjects,
        show=None if for_programs else tell,
        **_timed(arguments),
    )
    if arguments.record:
        sweep.record(frame, arguments.sweep, arguments.record, recorded_environment(device))
    if for_programs:
        show(frame, arguments)
    else:
        show(sweep.summary(frame, rival), arguments, title=f"{rival} / fgn", float_format="{:.3f}".format)


def _timed(arguments) -> dict:
    """How long each subject is timed, if the user sets it."""
    return {} if arguments.seconds is None else {"seconds": arguments.seconds}


def bench(arguments):
    """Time every version and torch."""
    from fgn import bench
    from fgn.measure.benchmark import bench_all, bench_precisions, precision_problems
    from fgn.measure.records import write, write_precisions

    device = arguments.device or default_device()
    problem = ("chain", "shape", "precision")
    fixed = {"sweep": problem, "record": problem, "all": problem, "precisions": ("precision",)}
    for kind, own in fixed.items():
        given = [name for name in own if getattr(arguments, name) is not None]
        if getattr(arguments, kind) not in (None, False) and given:
            sys.exit(f"--{given[0]}: not together with --{kind}, which has its own")
    if arguments.sweep is not None:
        _sweep(arguments, device)
        return
    if arguments.record:
        if not (arguments.all or arguments.precisions):
            sys.exit("--record: expected together with --all or --precisions")
        if arguments.all:
            write(arguments.record, device, **_timed(arguments))
        if arguments.precisions:
            write_precisions(arguments.record, device, **_timed(arguments))
        print(f"recorded in {arguments.record}")
        return
    frames = []
    if arguments.all:
        frames.append(bench_all(device, **_timed(arguments)))
    if arguments.precisions:
        problems = precision_problems(device, arguments.chain, arguments.shape)
        frames.append(bench_precisions(device, problems=problems, **_timed(arguments)))
    if not frames:
        chains = [arguments.chain] if arguments.chain else list(CHAINS)
        options = {"device": device, "precision": arguments.precision or "ieee", **_timed(arguments)}
        frames = [bench(chain, arguments.shape, **options) for chain in chains]
    frame = pd.concat(frames, ignore_index=True)
    show(frame, arguments, index=False, float_format="{:.4g}".format, na_rep="")


def source_view(arguments):
    """Show kernels' text with what each line asks of memory, counted on the simulator."""
    from cudasim.counting.view import source_view
    from fgn import chain_forward
    from fgn.chains import problem, random_inputs

    device = torch.device("cpu")
    chain, shape = problem(arguments.chain or next(iter(CHAINS)), arguments.shape, device)
    x, parameters = random_inputs(chain, shape, device, 0)
    print(source_view(lambda: chain_forward(chain, x, parameters, arguments.version)))


def profile(arguments):
    """Show what each launch takes and moves: by ncu on a GPU, else as recorded, else as counted."""
    from fgn.plot import launches as launch_plots
    from fgn.profiling import recording
    from fgn.profiling.session import open_session

    chains = [arguments.chain] if arguments.chain else list(CHAINS)
    if arguments.record is not None:
        parts = arguments.part or recording.PARTS
        shapes = [arguments.shape] if arguments.shape else recording.PROFILED_SHAPES
        folder = None if arguments.record is True else arguments.record
        subjects = [arguments.version] if arguments.version else None
        folder = recording.record(folder, "cuda", parts, chains, shapes, subjects)
        print(f"recorded in {folder}")
        return
    if arguments.part:
        sys.exit("--part: expected together with --record")
    for chain in chains:
        where = {"device": arguments.device, "recorded": arguments.gpu}
        session = open_session(chain, arguments.shape, arguments.precision, arguments.version, **where)
        print(f"{session}\n{session.summary().to_string(index=False, float_format='{:.4g}'.format)}\n")
        if arguments.plots:
            figures, reasons = launch_plots.draw(session.launches, session.machine)
            save(
                {f"{chain}_{name}": figure for name, figure in figures.items()},
                arguments.plots,
                arguments.format,
            )
            for name, reason in reasons.items():
                print(f"{name} is not drawn: {reason}")


def save(figures: dict, folder: Path, kind: str):
    from fgn.plot.style import with_palette

    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        path = folder / f"{name}.{kind}"
        figure.savefig(path, dpi=150)
        if kind == "png":
            path.write_bytes(with_palette(path.read_bytes()))
        print(path)


def plot(arguments):
    """Draw recorded results into PNG or SVG files."""
    from fgn.measure import records
    from fgn.model import predictions as model
    from fgn.plot import fusion_maps as model_plots
    from fgn.plot import results as plot
    from fgn.profiling import records as profile_records

    record = records.read(arguments.gpu)
    figures = {"gemm": plot.gemm_ladder(record.benchmark)}
    for sizes, rows in record.benchmark.groupby(["batch", "in_features", "out_features"], sort=False):
        figures[f"times_{'x'.join(map(str, sizes))}"] = plot.times(rows, record.machine)
    if arguments.gpu in profile_records.recorded():
        figures["predicted"] = model_plots.checked(model.check(arguments.gpu), record.environment["device"])
        for chain in CHAINS:
            maps = [model.fusion_map(chain, name, of=arguments.gpu) for name in PRECISIONS]
            ratios = [model.recorded_ratios(chain, name, name=arguments.gpu) for name in PRECISIONS]
            figures[f"fusion_{chain}"] = model_plots.fusion_maps(maps, ratios, chain)
    if record.sweeps is not None:
        figures["sweeps"] = plot.sweeps(record.sweeps, record.precisions)
    save(figures, arguments.to, arguments.format)


def model(arguments):
    """Predict the time of every version from recorded profiles: no GPU is needed."""
    from fgn.model import predictions as model

    for chain in [arguments.chain] if arguments.chain else CHAINS:
        frame = model.versions(chain, arguments.shape, arguments.precision, arguments.gpu)
        show(frame, arguments, title=chain, float_format="{:.4g}".format)


def bugs(arguments):
    """Run the gallery's planted bugs: all, or one with its story and its change."""
    from fgn.bugs import gallery

    if arguments.name is None:
        table = gallery.run_all()
        if arguments.json or arguments.csv:
            show(table, arguments)
            return
        for row in table.itertuples():
            print(f"{row.file}\n    {row.found_by}: {row.where}")
        return
    print(f"{gallery.story(arguments.name)}\n\n{gallery.diff(arguments.name)}\n{gallery.run(arguments.name)}")


def _shape(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size) for size in text.split(","))
    except ValueError:
        sizes = ()
    if any(not 0 <= size < 1 << 63 for size in sizes):
        raise argparse.ArgumentTypeError(f"expected sizes from 0 to 2**63 - 1, got {text}")
    if len(sizes) not in (3, len(Shape._fields)):
        raise argparse.ArgumentTypeError(f"expected batch,in_features,out_features[,groups], got {text}")
    return sizes


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {text}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds, got {text}")
    return seconds


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("expected a folder, got nothing")
    return Path(text)


def device_of_library(name: str) -> torch.device:
    """A library's device, which need not be present."""
    if name not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"expected cpu or cuda, got {name}")
    return torch.device(name)


# The commands that print tables.
TABLES = (env, doctor, versions, compare, bench, profile, model, bugs)


def describe(add: Callable[[Callable], argparse.ArgumentParser]) -> None:
    """Adds the commands. add: makes a command's parser from its function."""

    def command(function, problem: bool = False):
        added = add(function)
        if function in TABLES:
            kind = added.add_mutually_exclusive_group()
            kind.add_argument("--json", action="store_true", help="an array of rows, for programs")
            kind.add_argument("--csv", action="store_true", help="for programs")
        if problem:
            added.add_argument("--chain", choices=CHAINS, help="all of them by default")
            added.add_argument("--shape", type=_shape, help="batch,in_features,out_features[,groups]")
            added.add_argument("--precision", choices=PRECISIONS, default="ieee")
            added.add_argument(
                "--device", type=device_of, help="cpu (the simulator) or cuda; by default the GPU, if any"
            )
        return added

    builds = command(build)
    builds.add_argument("--counted", action="store_true", help="the simulator that counts and checks, too")
    builds.add_argument("--gpu", action="store_true", help="build the GPU library without a GPU too")
    command(env)
    command(doctor)
    command(clean)
    install_parser = command(install)
    install_parser.add_argument("prefix", type=_folder, help="the folder below which include/ and lib/ are")
    install_parser.add_argument(
        "--device", type=device_of_library, help="cpu or cuda for one of the two libraries"
    )
    export_parser = command(export)
    export_parser.add_argument("--chain", choices=CHAINS, required=True)
    export_parser.add_argument("--version", required=True, help="of the ladder")
    export_parser.add_argument("--precision", choices=PRECISIONS, default="ieee")
    export_parser.add_argument("--shape", type=_shape, help="of its get_inputs(); by default the benchmark's")
    export_parser.add_argument("--to", type=Path, metavar="FILE", help="by default standard output")
    command(versions, problem=True)
    command(compare, problem=True)
    bench_parser = command(bench, problem=True)
    bench_parser.set_defaults(precision=None)  # so that one that was named is told from none
    bench_parser.add_argument(
        "--all", action="store_true", help="every chain at every recorded shape, without tensor cores"
    )
    bench_parser.add_argument(
        "--precisions", action="store_true", help="the versions on tensor cores in every precision"
    )
    bench_parser.add_argument(
        "--record", type=Path, metavar="FOLDER", help="write results here, e.g. profiles/h200"
    )
    bench_parser.add_argument(
        "--sweep", type=int, metavar="SEED", help="modules at random shapes, which the seed says"
    )
    bench_parser.add_argument(
        "--seconds", type=_seconds, help="how long each version and each rival is timed"
    )
    bench_parser.add_argument("--count", type=_count, default=60, help="of a sweep: how many problems")
    bench_parser.add_argument(
        "--compile-first", type=int, default=0, metavar="PROCESSES",
        help="of a sweep: compile torch's rivals in so many processes beforehand",
    )  # fmt: skip
    view_parser = command(source_view)
    view_parser.add_argument("--chain", choices=CHAINS, help="by default the first")
    view_parser.add_argument("--shape", type=_shape, help="batch,in_features,out_features[,groups]")
    view_parser.add_argument("--version", help="of the ladder; by default what a call would take")
    plot_parser = command(plot)
    plot_parser.add_argument("--gpu", default="h200", help="whose recorded results (default: %(default)s)")
    plot_parser.add_argument(
        "--to", type=Path, default=Path("build/plots"), help="folder (default: %(default)s)"
    )
    plot_parser.add_argument("--format", choices=("png", "svg"), default="png")
    model_parser = command(model)
    model_parser.add_argument("--chain", choices=CHAINS, help="all of them by default")
    model_parser.add_argument("--shape", type=_shape, help="batch,in_features,out_features[,groups]")
    model_parser.add_argument("--precision", choices=PRECISIONS, default="ieee")
    model_parser.add_argument("--gpu", default="h200", help="whose profiles (default: %(default)s)")
    profile_parser = command(profile, problem=True)
    profile_parser.add_argument("--version", help="of the ladder; by default all that run")
    profile_parser.add_argument("--gpu", help="what is recorded of this GPU, a folder of profiles/")
    profile_parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw into files there")
    profile_parser.add_argument("--format", choices=("png", "svg"), default="png")
    profile_parser.add_argument(
        "--record", type=Path, nargs="?", const=True, metavar="FOLDER",
        help="write profiles/CARD, or FOLDER; all, or only --part, --chain, --shape, --version of it",
    )  # fmt: skip
    profile_parser.add_argument("--part", action="append", choices=PARTS)
    command(bugs).add_argument("name", nargs="?", help="one of them; by default a table of all")
