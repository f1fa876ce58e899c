"""How many public kernels compile for the simulator, unchanged: `python tools/corpus.py DIR [--aside NAME
...]`.

DIR has a folder for each repository, named owner+name. Every `__global__` function of its `.cu` and `.cuh`
files is compiled as it is there, with the headers that it includes; a template with the arguments of the
first launch or explicit instantiation that has any, or else with the first that fit its parameters. What
stops a kernel is the first error's message. The result goes to tests/data/corpus.csv: names of repositories,
files and kernels, no code.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd

from fgn.live import compiling
from fgn.live.compiling import Instance
from fgn.live.kernels import Program
from fgn.live.messages import constructs, explained
from fgn.live.signature import Signature
from fgn.native.library import SIMULATOR
from fgn.native.places import ROOT, SOURCES, build_folder

RESULT = ROOT / "tests" / "data" / "corpus.csv"


def _guesses(signature: Signature) -> list[str]:
    """Arguments for a template, by what its parameters are."""
    if not signature.template:
        return [""]
    values = []
    for declared in signature.template:
        if "=" in declared:
            break
        values.append(
            "float" if re.match(r"(?:typename|class)\b", declared) else "true" if "bool" in declared else "16"
        )
    types = [("half" if value == "float" else value) for value in values]
    doubled = [("4" if value == "16" else value) for value in values]
    tried = [*signature.instances, *(", ".join(v) for v in (values, types, doubled))]
    return list(dict.fromkeys(tried))


def _compile(program: Program, instances: list[Instance]) -> str:
    """What the compiler says; "" when all is well."""
    folder = build_folder() / "live"
    text = compiling._simulator_text(program.read.text, instances, program.variables, program.structs)
    flags = compiling._simulator_flags(SIMULATOR, program.read.text)
    compiler = compiling.find_cpp_compiler()
    header = compiling._precompiled(compiler, flags) / "cuda.hpp"
    place = folder / "corpus"
    place.mkdir(exist_ok=True)
    (place / program.file).write_text(text)
    command = [compiler, *flags, "-w", "-include", str(header), f"-I{SOURCES}", f"-I{compiling.CPP}"]
    result = subprocess.run(
        [*command, "-fsyntax-only", program.file], cwd=place, capture_output=True, text=True, errors="replace"
    )
    return "" if result.returncode == 0 else explained(result.stderr, program.read)


def _kernel_result(source: str, file: str, folders: tuple[Path, ...], name: str) -> str:
    program = Program(source, file, folders, name)
    if name not in program.kernels:
        return "the kernel was not found: made by a macro"
    said = ""
    for guess in _guesses(program.kernels[name]):
        answer = _compile(program, [Instance(program.kernels[name], guess)])
        if not answer:
            return ""
        said = said or answer
    return said


def _construct(said: str, source: str) -> str:
    """What stops a kernel, in a few words: the hint, if there is one, or the compiler's first error."""
    lines = said.splitlines()
    hints = [line.strip() for line in lines if line.startswith("      ") and not line.startswith("      |")]
    if hints:
        return hints[0]
    first = re.sub(r"^[^ ]*: error: ", "", lines[0]) if lines else said
    found = constructs(source)
    return first if "error" in said or not found else found[0][0]


def run(folder: Path, aside: set[str], result: Path) -> pd.DataFrame:
    """The table of all kernels; written to `result` after each repository."""
    rows = []
    for repository in sorted(path for path in folder.iterdir() if path.is_dir()):
        begun = len(rows)
        files = sorted(p for p in repository.rglob("*") if p.suffix in (".cu", ".cuh") and p.is_file())
        includes = {p.parent for p in repository.rglob("*.h")} | {p.parent for p in repository.rglob("*.cuh")}
        for path in files:
            source = path.read_text(errors="replace")
            if "__global__" not in source:
                continue
            near = sorted(includes, key=lambda p: (not str(path).startswith(str(p)), len(p.parts)))
            folders = (
                path.parent,
                *near[:12],
                *(p for p in includes if p.name.lower() in ("common", "inc", "include")),
            )
            name = path.stem + ".cu"
            try:
                program = Program(source, name, folders)
                names = list(program.kernels)
                plain = [Instance(k) for k in program.kernels.values() if not k.template]
                fine = bool(plain) and not _compile(program, plain)
            except RecursionError:
                names, fine = [], False
            for kernel in names:
                said = ""
                if not fine or program.kernels[kernel].template:
                    said = _kernel_result(source, name, folders, kernel)
                rows.append(
                    {
                        "repository": repository.name.replace("+", "/"),
                        "set": "aside" if repository.name in aside else "tuned",
                        "file": str(path.relative_to(repository)),
                        "kernel": kernel,
                        "compiles": not said,
                        "stopped_by": _construct(said, source)[:160] if said else "",
                        "said": said,
                    }
                )
        own = [row["compiles"] for row in rows[begun:]]
        print(f"{sum(own):5} of {len(own):5}  {repository.name}", flush=True)
        table = pd.DataFrame(rows)
        if rows:
            table.drop(columns="said").to_csv(result, index=False)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--aside", nargs="*", default=[], help="repositories that nothing was tuned on")
    parser.add_argument("--only", nargs="*", default=[], help="only these repositories; nothing is recorded")
    arguments = parser.parse_args()
    folder = arguments.directory
    if arguments.only:
        chosen = build_folder() / "corpus"
        chosen.mkdir(exist_ok=True)
        for link in chosen.iterdir():
            link.unlink()
        for name in arguments.only:
            (chosen / name).symlink_to((folder / name).resolve())
        folder = chosen
    start = time.time()
    table = run(folder, set(arguments.aside), build_folder() / "corpus.csv" if arguments.only else RESULT)
    print(table.groupby(["set", "repository"])["compiles"].agg(["sum", "count"]).to_string())
    print(table.groupby("set")["compiles"].agg(["sum", "count"]).to_string(), f"{time.time() - start:.0f} s")
    for reason, count in Counter(table[~table["compiles"]]["stopped_by"]).most_common(60):
        print(f"{count:5}  {reason}")
    (build_folder() / "corpus.txt").write_text(
        "\n\n".join(
            f"{row.repository} {row.file} {row.kernel}\n{row.said}" for row in table.itertuples() if row.said
        )
    )


if __name__ == "__main__":
    sys.exit(main())
