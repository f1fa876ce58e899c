"""The command line: `python -m cudasim run | check | count | predict | build`, for whole programs, and
`card`, for GPUs."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from pathlib import Path

from cudasim.building.compilers import MissingToolError
from cudasim.building.library import BuildError
from cudasim.building.own_files import NotOwnError
from cudasim.predicting.cards import card, cards_command
from cudasim.programs.building import CHECK, COUNT, PREDICT, RUN, Program, command, wrapped_object
from cudasim.programs.in_step import warnings_of
from cudasim.programs.nvcc_options import spelled
from cudasim.programs.toolkit import for_any_linker, write_archive, write_empty_object, write_toolkit

_MODES = {
    RUN: "compiles a program and runs it on the CPU",
    CHECK: "runs it under every check: races, bounds, barriers, unwritten memory, leaks, the host's mistakes",
    COUNT: "runs it and prints a row for each launch, with ncu's metrics",
    PREDICT: "runs it and prints how long each launch takes on the GPUs that --gpu names",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cudasim", description="CUDA programs on a CPU.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (*_MODES.items(), ("build", "writes an executable, or with -c objects")):
        command = commands.add_parser(name, help=what, description=what)
        command.add_argument("sources", nargs="+", type=Path, help="files of CUDA C++, C or C++, and objects")
        command.add_argument(
            "-I", dest="folders", action="append", default=[], type=Path, help="a folder of headers"
        )
        command.add_argument("-D", dest="defines", action="append", default=[], help="a macro, as N=3")
        command.add_argument(
            "-U", dest="undefines", action="append", default=[], help="no macro of this name"
        )
        command.add_argument(
            "-include",
            dest="included",
            action="append",
            default=[],
            type=Path,
            help="a header that comes first",
        )
        command.add_argument(
            "-x", dest="language", choices=("cu", "c++", "c"), help="of every source, whatever its name"
        )
        command.add_argument("-std", dest="standard", help="the version of C++")
        command.add_argument(
            "-Xcompiler", dest="of_compiler", action="append", default=[], help="a flag for the C++ compiler"
        )
        command.add_argument(
            "-l", dest="libraries", action="append", default=[], help="a library of the host's"
        )
        command.add_argument("-L", dest="library_folders", action="append", default=[], help="where they are")
        command.add_argument(
            "-Xlinker", dest="of_linker", action="append", default=[], help="a flag for the linker"
        )
        if name == PREDICT:
            command.add_argument("--gpu", nargs="+", default=["H200"], help="names of cudasim.cards()")
        else:
            command.add_argument("--gpu", help="the GPU that the program is told of, by a part of its name")
        command.add_argument("--gpus", type=int, help="how many there are")
        if name in (COUNT, PREDICT):
            command.add_argument("--csv", default="", help="a file for the table")
        if name == "build":
            command.add_argument("-o", dest="output", type=Path, help="what is written")
            command.add_argument("-c", "-dc", dest="only_compiles", action="store_true", help="no linking")
            command.add_argument("-shared", dest="is_shared", action="store_true", help="a shared library")
            command.add_argument("-lib", dest="is_archive", action="store_true", help="a static library")
            command.add_argument(
                "-dlink", dest="links_kernels", action="store_true", help="an object with nothing in it"
            )
            command.add_argument(
                "-MF", dest="listed", type=Path, help="a file for the names of headers, for make"
            )
            command.add_argument("-MT", dest="made", help="what that file calls the output")
    what = "writes a folder that stands for CUDA's in a Makefile: bin/nvcc, lib64/libcudart.so"
    command = commands.add_parser("toolkit", help=what, description=what)
    command.add_argument("folder", type=Path)
    what = "lists the GPUs of predict, prints the card of one, or measures the GPU that is there"
    command = commands.add_parser("card", help=what, description=what)
    command.add_argument("name", nargs="*", help="a part of a GPU's name")
    command.add_argument("--measure", nargs="?", const="", metavar="FILE", help="where a card is written")
    return parser


_FORWARDS = re.compile("-?-forward-unknown-(?:to-host-(?:compiler|linker)|opts)")


def nvcc() -> int:
    """`cudasim-nvcc`, which replaces nvcc in a Makefile."""
    for variable in ("CC", "CXX"):
        # `make CC=cudasim-nvcc` puts it into the environment, as the name of the host compiler.
        if Path(os.environ.get(variable, "").partition(" ")[0]).name in ("nvcc", "cudasim-nvcc"):
            del os.environ[variable]
    return main(["build", *sys.argv[1:]])


def main(arguments: list[str] | None = None) -> int:
    """The exit code, when what cannot be built is told."""
    try:
        return _main(arguments)
    except (BuildError, MissingToolError, NotOwnError) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:  # what is written has no folder, or not one of the user's
        print(f"cudasim: {error}", file=sys.stderr)
        return 1


def _main(arguments: list[str] | None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    of_program = []
    if "--" in given:
        given, of_program = given[: given.index("--")], given[given.index("--") + 1 :]
    parser = _parser()
    asked, more = parser.parse_known_args(list(spelled(given)))
    unknown = [word for word in more if word.startswith("-")]
    if any(_FORWARDS.fullmatch(word) for word in unknown):
        asked.of_compiler += [word for word in unknown if not _FORWARDS.fullmatch(word)]
        more = [word for word in more if not word.startswith("-")]
    if unknown := [word for word in more if word.startswith("-")]:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if asked.command == "card":
        if asked.measure is not None and asked.name:
            parser.error("card --measure takes one file, and no name")
        return cards_command(asked.name) if asked.measure is None else _measure(asked.measure or None)
    if asked.command == "toolkit":
        write_toolkit(asked.folder, wrapped_object())
        return 0
    asked.sources += map(Path, more)  # those behind a flag, as `-o app more.a`
    missing = [source for source in asked.sources if not source.is_file()]
    if missing:
        print(f"cudasim: {missing[0]}: expected a file, found none", file=sys.stderr)
        return 2
    program = _program(asked)
    if asked.gpu and asked.command != PREDICT:
        os.environ["CUDASIM_GPU"] = asked.gpu
    if asked.gpus is not None:
        os.environ["CUDASIM_GPUS"] = str(asked.gpus)
    if asked.command == PREDICT:
        try:
            for name in asked.gpu:
                card(name)
        except ValueError as error:
            print(f"cudasim: {error}", file=sys.stderr)
            return 2
    table = getattr(asked, "csv", "")
    for option, written in (("--csv", table), ("-o", getattr(asked, "output", None))):
        if written and (Path(written).is_dir() or not Path(written).absolute().parent.is_dir()):
            # Said before anything is compiled or runs.
            expected = "expected a file in a folder that is there"
            print(f"cudasim: {option}: {expected}, got {written}", file=sys.stderr)
            return 2
    if asked.command == "build":
        _build(program, asked)
        _warn(program)
        return 0
    path = program.library(asked.command)
    if asked.command != CHECK:  # which finds the race itself
        _warn(program)
    if asked.command == PREDICT:
        table = _asked_for(asked)
    sys.stdout.flush()
    name = str(asked.sources[0].with_suffix(""))
    os.execv(sys.executable, command(asked.command, path, name, of_program, table))


def _program(asked) -> Program:
    libraries = (
        *(f"-L{of}" for of in asked.library_folders),
        *(f"-l{of}" for of in asked.libraries),
        *(f"-Wl,{of}" for of in asked.of_linker),
    )
    of_compiler = [flag for flags in asked.of_compiler for of in shlex.split(flags) for flag in of.split(",")]
    headers = [of.resolve() if of.is_file() else of for of in asked.included]
    more = (
        *of_compiler,
        *(f"-U{name}" for name in asked.undefines),
        *(word for header in headers for word in ("-include", str(header))),
        *((f"-std={asked.standard}",) if asked.standard else ()),
    )
    return Program(
        tuple(asked.sources),
        tuple(asked.folders),
        tuple(asked.defines),
        more,
        libraries,
        are_cuda=asked.language == "cu",
    )


def _measure(file: str | None) -> int:
    """`card --measure [FILE]`: measures this machine's GPU, and writes its card."""
    from cudasim.predicting.measuring import measured_card  # pandas takes half of a program's start

    try:
        print(measured_card(file))
    except (BuildError, MissingToolError, RuntimeError) as error:
        print(f"cudasim: {error}", file=sys.stderr)
        return 1
    return 0


def _asked_for(asked) -> str:
    """What the program's process has to predict."""
    return json.dumps(
        {
            "sources": [str(source.resolve()) for source in asked.sources],
            "folders": [str(folder.resolve()) for folder in asked.folders],
            "defines": asked.defines,
            "gpus": asked.gpu,
            "csv": asked.csv and str(Path(asked.csv).resolve()),
        }
    )


def _warn(program: Program):
    for source in program.sources:
        if source.suffix == ".cu":
            for warning in warnings_of(source):
                print(warning, file=sys.stderr)


def _build(program: Program, asked):
    if asked.links_kernels:  # of several objects, which are linked as all else is
        write_empty_object(asked.output or Path("a_dlink.o"))
    elif asked.is_archive:
        write_archive([program.object_of(source) for source in program.sources], asked.output or Path("a.a"))
    elif asked.only_compiles:
        for source in program.sources:
            output = asked.output or Path(f"{source.stem}.o")
            for_any_linker(program.object_of(source), output)
            if asked.listed:
                headers = " ".join(re.sub(r"([ #])", r"\\\1", str(of)) for of in program.headers_of(source))
                asked.listed.write_text(f"{asked.made or output}: {source} {headers}\n")
    else:
        program.executable(asked.output or Path("a.out"), ("-shared",) if asked.is_shared else ())


if __name__ == "__main__":
    sys.exit(main())
