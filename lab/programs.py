"""Public programs on the simulator: how many of a suite build unchanged, run, and pass their own checks.

    python lab/programs.py HeCBench/src --half ours --limit 40 --record programs.csv

The suite is HeCBench's: a folder for each program, whose Makefile says how it is compiled and run. The names
are divided by their SHA-1: those that begin with an even digit are `ours`, to be looked at while the
simulator is worked on, the rest are kept `aside`. Sizes are reduced: every number above one of --sizes
becomes it, and a program that does not pass then has the next one; each time it has --seconds.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
import shlex
import subprocess
import time
from pathlib import Path

from cudasim.building.compilers import MissingToolError
from cudasim.building.library import BuildError
from cudasim.programs.building import Program, command

_REPEATS = 3
_SOURCES = (".cu", ".cpp", ".cc", ".c")
_GOOD = re.compile(r"\b(?:pass(?:ed)?|success\w*|correct|ok|verified)\b", re.I)
_BAD = re.compile(r"\b(?:fail(?:ed|ure)?|mismatch|incorrect|wrong|error)\b(?!\s*[:=]\s*0)", re.I)


def is_ours(name: str) -> bool:
    return int(hashlib.sha1(name.encode()).hexdigest()[0], 16) % 2 == 0


def made(folder: Path, target: str) -> list[list[str]]:
    """The commands by which make would make the target."""
    command = ["make", "-n", "-B", "CC=NVCC", "CXX=NVCC", "NVCC=NVCC", target]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout
    lines = said.replace("\\\n", " ").splitlines()
    found = []
    for line in lines:
        try:
            found.append(shlex.split(line))
        except ValueError:
            continue
    return [words for words in found if words]


def program_of(folder: Path) -> tuple[Program, list[str]]:
    """The program in a folder, and the arguments with which it is run."""
    sources, folders, defines, libraries, arguments = [], [], [], [], []
    for words in made(folder, "run"):
        if words[0] == "NVCC":
            for index, word in enumerate(words):
                after = words[index + 1] if index + 1 < len(words) else ""
                if word.endswith(_SOURCES) and (folder / word).is_file():
                    sources.append((folder / word).resolve())
                elif word.startswith("-I"):
                    folders.append(folder / (word[2:] or after))
                elif word.startswith("-D"):
                    defines.append(word[2:] or after)
                elif word.startswith("-l"):
                    libraries.append(word)
        elif words[0].startswith("./") and not arguments:
            arguments = words[1:]
    unique = [tuple(dict.fromkeys(of)) for of in (sources, folders, defines)]
    return Program(*unique), arguments


def reduced(arguments: list[str], most: int) -> list[str]:
    """Numbers above `most` become it. The last number of a benchmark is how often it repeats."""
    count = sum(map(str.isdigit, arguments))
    smaller = []
    for argument in arguments:
        count -= argument.isdigit()
        if argument.isdigit():
            argument = str(min(int(argument), most if count else _REPEATS))
        smaller.append(re.sub(r"(?<==)\d+$", lambda found: str(min(int(found[0]), most)), argument))
    return smaller


def outcome(folder: Path, seconds: int, sizes: list[int]) -> tuple[str, str]:
    """What becomes of a program: builds, runs, passes; and the first line of what was said. It passes if it
    does at one of the sizes."""
    try:
        program, arguments = program_of(folder)
        if not program.sources:
            return "no sources", ""
        path = program.library("run")
    except (BuildError, MissingToolError) as error:
        return "does not build", next(iter(str(error).splitlines()), "")
    except Exception as error:  # a defect of the translation, to be looked at
        return "translation fails", f"{type(error).__name__}: {error}"
    best = None
    for given in dict.fromkeys(tuple(reduced(arguments, most)) for most in sizes):
        result, why = _result(folder, command("run", path, "main", list(given)), seconds)
        if result == "passes":
            return result, why
        best = best or (result, f"{' '.join(given)}: {why}")
    return best


def _result(folder: Path, call: list[str], seconds: int) -> tuple[str, str]:
    try:
        ran = subprocess.run(
            call,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return "too slow", ""
    said = ran.stdout + ran.stderr
    wrong = next((line for line in said.splitlines() if line.startswith("cudasim:")), "")
    if ran.returncode < 0:
        return "crashes", wrong or f"signal {-ran.returncode}"
    if wrong:
        return "fault", wrong
    if ran.returncode != 0:
        return "ends with a code", f"{ran.returncode}: {said.strip().splitlines()[-1:]}"
    if _BAD.search(said):
        return "fails", next(line for line in said.splitlines() if _BAD.search(line))
    return ("passes", "") if _GOOD.search(said) else ("runs, verifies nothing", "")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", type=Path)
    parser.add_argument("--half", choices=("ours", "aside"), default="ours")
    parser.add_argument("--limit", type=int, default=0, help="programs, drawn by their names' SHA-1")
    parser.add_argument(
        "--part", default="0/1", help="as 0/2: the first of two processes that divide the work"
    )
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 64, 1 << 30])
    parser.add_argument("--record", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    folders = [f for f in given.suite.iterdir() if f.name.endswith("-cuda") and (f / "Makefile").is_file()]
    chosen = [f for f in folders if is_ours(f.name) == (given.half == "ours")]
    chosen.sort(key=lambda f: hashlib.sha1(f.name.encode()).hexdigest())
    chosen = [f for f in folders if f.name in given.names] if given.names else chosen[: given.limit or None]
    number, of = map(int, given.part.split("/"))
    rows = []
    for folder in chosen[number::of]:
        began = time.monotonic()
        result, why = outcome(folder, given.seconds, given.sizes)
        rows.append((folder.name, result, why[:200]))
        print(f"{folder.name:28} {time.monotonic() - began:5.1f} s  {result:24} {why[:150]}", flush=True)
    totals = {kind: sum(row[1] == kind for row in rows) for kind in dict.fromkeys(row[1] for row in rows)}
    print(totals)
    if given.record:
        with given.record.open("w", newline="") as file:
            csv.writer(file).writerows([("program", "outcome", "why"), *rows])


if __name__ == "__main__":
    main()
