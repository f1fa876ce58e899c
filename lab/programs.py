"""Public programs on the simulator: how many of a suite build unchanged, run, and pass their own checks.

    python lab/programs.py HeCBench/src --half ours --limit 40 --record programs.csv

The suite is HeCBench's: a folder for each program, whose Makefile compiles it, here with cudasim-nvcc in
nvcc's place. The names are divided by their SHA-1: those that begin with an even digit are `ours`, to be
looked at while the simulator is worked on, the rest are kept `aside`. Sizes are reduced: every number above
one of --sizes becomes it, and a program that does not pass then has the next one; each time it has --seconds.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

_REPEATS = 3
_GOOD = re.compile(r"\b(?:pass(?:ed)?|success\w*|correct|ok|verified)\b", re.I)
_BAD = re.compile(r"\b(?:fail(?:ed|ure)?|mismatch|incorrect|wrong|error)\b(?![^:=]*[:=]\s*0)", re.I)
# What a program says that was not given its data, which the suite keeps elsewhere or makes with other tools.
_NO_DATA = re.compile(
    r"(?:open|read|stat|find|no such)\w*\b.*(?:file|data|path|directory|db)|usage:|assert", re.I
)


def is_ours(name: str) -> bool:
    return int(hashlib.sha1(name.encode()).hexdigest()[0], 16) % 2 == 0


def built(folder: Path, compiler: Path) -> subprocess.CompletedProcess:
    """What make says, with cudasim-nvcc for each compiler that the Makefile names."""
    names = [f"{name}={compiler}" for name in ("CC", "CXX", "NVCC")]
    return subprocess.run(
        ["make", "-B", *names], cwd=folder, capture_output=True, text=True, errors="replace"
    )


def called(folder: Path) -> tuple[str, list[str]]:
    """The program that `make run` would call, and its arguments."""
    said = subprocess.run(["make", "-n", "run"], cwd=folder, capture_output=True, text=True).stdout
    for line in said.replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line)
        except ValueError:
            continue
        if words and words[0].startswith("./"):
            return words[0], words[1:]
    return "", []


def reduced(arguments: list[str], most: int) -> list[str]:
    """Numbers above `most` become it, and how often a benchmark repeats becomes small: that is its last
    number, or a round one such as 1000 in front of others."""
    numbers = [index for index, argument in enumerate(arguments) if argument.isdigit()]
    smaller = []
    for index, argument in enumerate(arguments):
        if argument.isdigit():
            repeats = index == numbers[-1] or (index == numbers[0] and re.fullmatch(r"10+", argument))
            argument = str(min(int(argument), _REPEATS if repeats else most))
        smaller.append(re.sub(r"(?<==)\d+$", lambda found: str(min(int(found[0]), most)), argument))
    return smaller


def outcome(folder: Path, compiler: Path, seconds: int, sizes: list[int]) -> tuple[str, str]:
    """What becomes of a program: builds, runs, passes; and the first line of what was said. It passes if it
    does at one of the sizes."""
    made = built(folder, compiler)
    program, arguments = called(folder)
    said = made.stdout + made.stderr
    if made.returncode != 0 or not (folder / program).is_file():
        wrong = re.findall(r"^.*\berror: .*", said, re.M) or said.strip().splitlines()[-1:] or [""]
        return "does not build", wrong[0]
    best = None
    for given in dict.fromkeys(tuple(reduced(arguments, most)) for most in sizes):
        result, why = _result(folder, [program, *given], seconds)
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
    wrong = next((of for of in said.splitlines() if of.startswith("cudasim:") and "warning" not in of), "")
    if not wrong and ran.returncode and (missing := _NO_DATA.search(said)):
        return "has no data", missing[0]
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
    parser.add_argument("--nvcc", type=Path, default=Path(sys.executable).with_name("cudasim-nvcc"))
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
        result, why = outcome(folder, given.nvcc, given.seconds, given.sizes)
        rows.append((folder.name, result, why[:200]))
        print(f"{folder.name:28} {time.monotonic() - began:5.1f} s  {result:24} {why[:150]}", flush=True)
    totals = {kind: sum(row[1] == kind for row in rows) for kind in dict.fromkeys(row[1] for row in rows)}
    print(totals)
    if given.record:
        with given.record.open("w", newline="") as file:
            csv.writer(file).writerows([("program", "outcome", "why"), *rows])


if __name__ == "__main__":
    main()
