"""How many public kernels compile for the simulator, unchanged: `python lab/corpus.py DIR [--aside NAME
...]`.

DIR has a folder for each repository, named owner+name. Every `__global__` function of its `.cu` and `.cuh`
files is compiled as it is there, with the headers that it includes; a template with the arguments of the
first launch or explicit instantiation that has any, or else with the first that fit its parameters. What
stops a kernel is the first error's message. The result goes to lab/records/corpus.csv.xz: names of
repositories, files and kernels, no code.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd

from cudasim.building.library import BuildError
from cudasim.building.places import build_folder
from cudasim.live import cccl, compiling, torch_headers
from cudasim.live.compiling import Instance
from cudasim.live.kernels import Program
from cudasim.live.messages import constructs, explained
from cudasim.live.signature import Signature, signatures
from cudasim.live.text import blanked
from fgn.measure.software import when_recorded
from fgn.native.library import SIMULATOR
from fgn.native.places import ROOT

RESULT = ROOT / "lab" / "records" / "corpus.csv.xz"
MOST_WHOLES = 4  # files that include a file, of those that are tried
_HAS_PTX = re.compile(r"\b(?:asm|__asm__)\b")


_CONSTANT = re.compile(
    r"\b(?:constexpr|const)\s+[\w:<>\s]*?\b(\w+)\s*(?:=\s*([^;,{}]+?)\s*[;,]|\{([^{};]+)\}\s*;)|"
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n]+)$",
    re.M,
)


def _resolved(argument: str, source: str) -> str:
    """A launch's template argument without the names of the host's constants, which kernels do not see."""
    constants = {m[1] or m[4]: m[2] or m[3] or m[5] for m in _CONSTANT.finditer(source)}
    for _ in range(6):
        argument = re.sub(
            r"\b[A-Za-z_]\w*\b(?!\s*(?:::|<))",
            lambda name: f"({constants[name[0]].strip()})" if name[0] in constants else name[0],
            argument,
        )
    kinds = {"stage": "2", "dim": "64", "bool": "false", "pad": "0", "swizzle": "true"}

    def guess(name: re.Match) -> str:
        known = (
            "float",
            "double",
            "int",
            "half",
            "bool",
            "true",
            "false",
            "unsigned",
            "char",
            "short",
            "long",
        )
        if name[0] in known or re.search(rf"\b(?:struct|class|using)\s+{name[0]}\b", source):
            return name[0]
        if re.search(rf"\b(?:typename|class)\s+{name[0]}\b", source):
            return "float"
        return next((value for part, value in kinds.items() if part in name[0].lower()), "16")

    return re.sub(r"(?<![\w:])[A-Za-z_]\w*\b(?!\s*(?:::|<))", guess, argument)


def _guesses(signature: Signature, source: str) -> list[str]:
    """Arguments for a template: those that the source asks for, and then some by what its parameters are."""
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
    launched = re.findall(rf"\b{signature.kernel}\s*<(?!<)([^;{{}}]*?)>\s*(?:<<<|\(|,)", blanked(source))
    resolved = [_resolved(" ".join(instance.split()), source) for instance in launched]
    tried = [*signature.instances, *resolved, *(", ".join(v) for v in (values, types, doubled))]
    return list(dict.fromkeys(tried))


def _compile(program: Program, instances: list[Instance]) -> str:
    """What the compiler says; "" when all is well."""
    folder = build_folder() / "live"
    text = compiling._simulator_text(program.read.text, instances, program.variables, program.structs)
    flags = compiling.simulator_flags(SIMULATOR, program.read.text, True)
    compiler = compiling.find_cpp_compiler()
    header = compiling._precompiled(compiler, flags) / "cuda.hpp"
    place = folder / f"corpus-{os.getpid()}"
    place.mkdir(exist_ok=True)
    (place / program.file).write_text(text)
    headers = (*compiling.HEADER_FOLDERS, compiling.CPP)
    folders = (*torch_headers.flags(text), *(f"-I{of}" for of in headers), *cccl.flags())
    command = [compiler, *flags, "-w", "-include", str(header), *folders]
    # Only in assembly is seen which inline PTX a kernel comes to.
    assembly = place / "kernels.s"
    output = ("-S", "-o", str(assembly)) if _HAS_PTX.search(text) else ("-fsyntax-only",)
    result = subprocess.run(
        [*command, *output, program.file], cwd=place, capture_output=True, text=True, errors="replace"
    )
    if result.returncode != 0:
        said = explained(result.stderr, program.read)
        return _compile(program, instances) if program.forgets(said, instances[0].signature.kernel) else said
    if output[0] == "-fsyntax-only":
        return ""
    try:
        compiling._refuse_inline_ptx(assembly, program.read)
    except BuildError as error:
        return str(error)
    return ""


def _including(path: Path, sources: list[Path]) -> list[Path]:
    """The .cu files of the same repository that include this one, themselves or by another."""
    names, seen, found = [path.name], {path}, []
    sources = sorted(sources, key=lambda other: -len(os.path.commonpath((other, path))))
    for name in names:
        wanted = re.compile(rf'#\s*include\s*[<"](?:[^">]*/)?{re.escape(name)}[">]')
        for other in sources:
            if other not in seen and wanted.search(other.read_text(errors="replace")):
                if other.suffix == ".cu":
                    found.append(other)
                seen.add(other)
                names.append(other.name)
    return found


def _kernel_result(source: str, file: str, folders: tuple[Path, ...], name: str, header: str = "") -> str:
    """What the compiler says of a kernel of a source, or of a header that it includes; "" when it is fine."""
    program = Program(source, file, folders, name)
    if header:
        program.__dict__["kernels"] = signatures(program.read.text)
    if name not in program.kernels:
        return "the kernel was not found: made by a macro"
    said = ""
    for guess in _guesses(program.kernels[name], source):
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


@functools.cache
def _header_folders(repository: Path) -> frozenset[Path]:
    return frozenset(p.parent for ending in ("*.h", "*.cuh") for p in repository.rglob(ending))


def include_folders(path: Path, repository: Path) -> tuple[Path, ...]:
    """Where a file's headers are looked for, as a project's own -I would name the folders."""
    near = sorted(_header_folders(repository), key=lambda p: (-len(os.path.commonpath((p, path))), p))
    shared = [p for p in near if p.name.lower() in ("common", "inc", "include", "utils")]
    return (path.parent, *near[:16], *shared)


def run(folder: Path, aside: set[str], result: Path, files=None) -> pd.DataFrame:
    """The table of all kernels; written to `result` after each repository."""
    rows, when = [], when_recorded()
    for repository in sorted(path for path in folder.iterdir() if path.is_dir()):
        begun = len(rows)
        sources = sorted(p for p in repository.rglob("*") if p.suffix in (".cu", ".cuh") and p.is_file())
        for path in sources:
            source = path.read_text(errors="replace")
            if "__global__" not in source or (
                files and (repository.name, str(path.relative_to(repository))) not in files
            ):
                continue
            folders = include_folders(path, repository)
            name = path.stem + ".cu"
            try:
                program = Program(source, name, folders)
                names = list(program.kernels)
                plain = [Instance(k) for k in program.kernels.values() if not k.template]
                fine = bool(plain) and not _compile(program, plain)
            except RecursionError:
                names, fine = [], False
            wholes = [] if fine else _including(path, sources)[:MOST_WHOLES]
            for kernel in names:
                said = ""
                if not fine or program.kernels[kernel].template:
                    said = _kernel_result(source, name, folders, kernel)
                for whole in wholes if said else ():
                    text = whole.read_text(errors="replace")
                    folders_of_whole = (whole.parent, *folders)
                    if not _kernel_result(text, whole.stem + ".cu", folders_of_whole, kernel, name):
                        said = ""
                        break
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
            table.drop(columns="said").assign(**when).to_csv(result, index=False)
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
