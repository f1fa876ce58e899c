"""Public programs on the simulator: how many of a suite build unchanged, run, and pass their own checks.

    python lab/programs.py hecbench HeCBench/src --half ours --limit 40 --record programs.csv.xz
    python lab/programs.py samples cuda-samples --half aside
    python lab/programs.py pmpp PMPP-Learning/Exercises
    python lab/programs.py course cuda-training-series/exercises
    python lab/programs.py single_files cs344 --called cs344
    python lab/programs.py polybench polybenchGpu/CUDA
    python lab/programs.py rodinia gpu-rodinia
    python lab/programs.py shoc shoc
    python lab/programs.py mini_apps FOLDER    (of XSBench, BabelStream, CloverLeaf, …)
    python lab/programs.py drawn FOLDER        (of the repositories in records/drawn.csv)

HeCBench has a Makefile for each program, which compiles it, here with cudasim-nvcc in nvcc's place, and so
have the exercises of the book PMPP. Sizes are reduced: every number above one of --sizes becomes it, and a
program that does not pass then has the next one, unless it was too slow with smaller ones. Options that its
sources read, and `make run` does not name, say few repeats and small sizes too, and that it is to verify
itself (program_options.py), as VERIFY=yes says to its Makefile. One that is too slow is built once more
with smaller numbers in its source (smaller_sources.py), and counted apart when it passes. So is one that
says nothing of what it verifies, and complains of wrong results, by words, an assertion or a code, when it
runs again with kernels that do nothing ("passes silently"). A course's solutions are files of their own.
NVIDIA's samples have a CMakeLists.txt each, that names the sources, and one list of arguments for all; one
passes that ends with code 0 and says nowhere that it failed, as their own run_tests.py sees it. Of the
programs of books and courses each .cu file with a main() is one, and of PolyBench each Makefile, whose
programs count what differs from the host's loops. What is done with Rodinia's programs is in rodinia.py,
with those of SHOC, Parboil and mini-apps in mini_apps.py; drawn.py says how programs are drawn that nobody
here had seen.

The names are divided by their SHA-1: those that begin with an even digit are `ours`, to be looked at while
the simulator is worked on, the rest are kept `aside`. Each run has --seconds of two cores, whatever else
the machine does, and at most three times as long. --jobs are measured at once, each with one thread of
the simulator.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

import pandas as pd
import program_suites
from program_suites import SOURCES, Program, WithMakefile
from recorded import is_ours, measured_now, sha_of
from smaller_sources import smaller

_GOOD = re.compile(
    r"\b(?:pass(?:ed)?|success\w*|correct|ok|verified|results match|matches previously)\b|"
    r"\(valid\)|正确|通过",
    re.I,
)
_AS_A_NUMBER = r"[^:=.\n]*(?:[:=]|\bis\b)\s*[-+]?\.?\d"
_BAD = re.compile(
    r"^(?!.*\bas expected\b).*(?:"
    r"\b(?:fail(?:ed|ure)?|mismatch|incorrect|wrong|invalid checksum)\b(?![^:=]*[:=]\s*0)|"
    rf"\berror\b(?!{_AS_A_NUMBER})|失败|错误|不正确)",
    re.I | re.M,
)
# An error that is printed, and not judged.
_NUMBER = re.compile(rf"^.*\berror\b{_AS_A_NUMBER}.*", re.I | re.M)
_ZERO = re.compile(r"[-+]?(?:0+\.?0*|\.0+)(?:e[-+]?0+)?\s*$", re.I)
_FAILED = re.compile(r"\bFAIL(?:ED|URE)?\b|test failed", re.I)
# What a program says that was not given its data, which the suite keeps elsewhere or makes with other tools.
_NO_DATA = re.compile(
    r"(?:open|read|stat|find|no such)\w*\b.*(?:file|data|path|directory|db)|"
    r"file.*\b(?:open|read)|usage:",
    re.I,
)
# A header that neither the program's repository nor CUDA has.
_NO_HEADER = re.compile(r"error: (?!cu|thrust/|cub/|nv|npp)(\S+): No such file or directory")
_SETTLED = re.compile("passes|needs")  # what need not be measured again
_WAIVED = 2  # the code of a sample that says that the machine is not one for it
_CORES = 2
_BUILD_SECONDS = 300
_GPUS = 2  # that a sample for several has
_SUITES = (
    *("hecbench", "samples", "pmpp", "course", "single_files"),
    *("polybench", "rodinia", "shoc", "parboil", "mini_apps", "drawn"),
)


def outcome(of: Program, seconds: int, sizes: list[int]) -> tuple[str, str]:
    """What becomes of a program: builds, runs, passes; and the first line of what was said. One that is too
    slow is tried with smaller sizes in its source."""
    result, why = _outcome(of, seconds, sizes)
    if result == "too slow" and isinstance(of, WithMakefile) and (folder := smaller(of.folder, SOURCES)):
        again, _ = _outcome(replace(of, folder=folder), seconds, sizes)
        shutil.rmtree(folder)
        if again == "passes":
            return "passes, smaller in its source", why
    return result, why


def _is_elsewhere(folder: Path) -> bool:
    """Whether the suite keeps files of the program in a store of its own."""
    name = folder.name.rpartition("-")[0]
    return any(any(of.glob("*.dvc")) for of in folder.parent.glob(f"{name}-*"))


def _outcome(of: Program, seconds: int, sizes: list[int]) -> tuple[str, str]:
    built = subprocess.Popen(
        of.build,
        cwd=of.folder,
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        said = "".join(built.communicate(timeout=_BUILD_SECONDS))
    except subprocess.TimeoutExpired:
        os.killpg(built.pid, signal.SIGKILL)
        built.communicate()
        return "does not build", f"more than {_BUILD_SECONDS} s"
    program, arguments, all_pass = of.called(sizes)
    if built.returncode != 0 or not (of.folder / program).is_file():
        wrong = re.findall(r"^.*\berror: .*", said, re.M) or said.strip().splitlines()[-1:] or [""]
        if of.needs:
            return f"needs {of.needs[0]}", wrong[0]
        if re.search(r"unrecognized arguments:.* -(?:stdpar|mp)=", said):
            return "needs another compiler", wrong[0]
        if re.search("No such file or directory|No rule to make target", said) and _is_elsewhere(of.folder):
            return "has no data", wrong[0]
        if absent := _NO_HEADER.search(said):
            return f"needs {absent[1]}", wrong[0]
        return "does not build", wrong[0]
    tried, slow = [], []
    for given in arguments:
        if any(_is_larger(given, than) for than in slow):
            continue
        result, why = _result(of, [program, *given], seconds)
        if result.startswith("passes") != all_pass:
            return result, why
        slow += [given] if result == "too slow" and not all_pass else []
        tried.append((result, " ".join(given), why))
    # Too small a size is wrong for many a program, so the largest counts, which may be too slow. But what
    # verifies nothing of a small one verifies nothing of a large one.
    results = [result for result, *_ in tried]
    counted = "too slow" if "too slow" in results else results[-1]
    if counted == "too slow" and "runs, verifies nothing" in results:
        counted = "runs, verifies nothing"
    return counted, "; ".join(f"{given}: {result} {why}" for result, given, why in tried if why)


def _is_larger(arguments: list[str], than: list[str]) -> bool:
    """A program that is told no sizes has its own, which are larger."""
    if len(arguments) != len(than):
        return len(arguments) < len(than)
    numbers = [(int(a), int(b)) for a, b in zip(arguments, than, strict=True) if a.isdigit() and b.isdigit()]
    return all(a >= b for a, b in numbers)


# What a program says is read as one text.
_HEARD = {
    **{"text": True, "errors": "replace", "stdin": subprocess.DEVNULL},
    **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT},
}


def _result(of: Program, call: list[str], seconds: int) -> tuple[str, str]:
    ran = subprocess.Popen(
        call,
        cwd=of.folder,
        **_HEARD,
        start_new_session=True,  # a program may have processes of its own
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (_CORES * seconds, _CORES * seconds + 5)),
        env={"CUDASIM_GPUS": str(_GPUS), **os.environ},
    )
    try:
        said, _ = ran.communicate(timeout=3 * seconds)
    except subprocess.TimeoutExpired:
        os.killpg(ran.pid, signal.SIGKILL)
        ran.communicate()
        return "too slow", f"more than {3 * seconds} s"
    if -ran.returncode in (signal.SIGXCPU, signal.SIGKILL):
        return "too slow", f"more than {seconds} s of {_CORES} cores"
    told = [
        of
        for of in said.splitlines()
        if of.startswith("cudasim:") and "warning" not in of and "is not done after" not in of
    ]
    # A GPU says of an assertion that it fails as well, and a program may mean it to.
    wrong = next((of for of in told if ran.returncode or "cudasim: assertion" not in of), "")
    files = [name for name in call[1:] if re.search(r"[/.][A-Za-z]", name)]
    absent = next((name for name in files if not (of.folder / name).exists()), "")
    if not wrong and ran.returncode and (absent or (missing := _NO_DATA.search(said))):
        return "has no data", absent or missing[0]
    if ran.returncode < 0:
        return "crashes", wrong or f"signal {-ran.returncode}"
    if wrong:
        return "fault", wrong
    if ran.returncode not in (0, of.code):
        kind = "waives" if ran.returncode == _WAIVED else "ends with a code"
        return kind, f"{ran.returncode}: {said.strip().splitlines()[-1:]}"
    if judged := of.judged(said):
        return judged
    bad = _FAILED if of.says_by_code else _BAD
    if bad.search(said) and absent:
        return "has no data", absent
    if bad.search(said):
        return "fails", next(line for line in said.splitlines() if bad.search(line))
    if of.says_by_code or _GOOD.search(said):
        return "passes", ""
    number = _NUMBER.search(said)
    if number and _ZERO.search(number[0]):
        return "passes", number[0]
    if complaint := _complaint_of_idle_kernels(of, call, seconds):
        return "passes silently", f"with kernels that do nothing: {complaint}"
    return "runs, verifies nothing", number[0] if number else ""


@functools.cache
def _idle_kernels() -> Path:
    """A library under which each launch of a program succeeds and does nothing."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    source, library = folder / "idle.c", folder / "idle.so"
    source.write_text("int sim_program_launches(const void *launch) { return launch == 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
    return library


def _complaint_of_idle_kernels(of: Program, call: list[str], seconds: int) -> str:
    """What a program then says that is right in silence: words, an assertion or a code; nothing where it
    verifies nothing. Any other signal may come of what nobody has computed."""
    try:
        ran = subprocess.run(
            call,
            cwd=of.folder,
            **_HEARD,
            timeout=seconds,
            env={**os.environ, "LD_PRELOAD": str(_idle_kernels())},
        )
    except subprocess.TimeoutExpired:
        return ""
    complaint = next((line for line in ran.stdout.splitlines() if _BAD.search(line)), "")
    if ran.returncode < 0:
        return complaint if ran.returncode == -signal.SIGABRT and "ssertion" in complaint else ""
    return complaint or (f"ends with {ran.returncode}" if ran.returncode not in (0, of.code) else "")


def _row(suite: str, of: Program, root: Path, seconds: int, sizes: list[int]) -> tuple:
    """What is recorded of a program."""
    began = time.monotonic()
    result, why = outcome(of, seconds, sizes)
    why = why.replace(str(root), "").strip()[:200]  # no path of this machine
    half = "ours" if is_ours(of.divided_by) else "aside"
    print(f"{of.name:28} {time.monotonic() - began:5.1f} s  {result:24} {why[:150]}", flush=True)
    return suite, of.name, half, result, why, *measured_now()


def _record(path: Path, rows: dict[tuple[str, str], tuple]):
    """Writes the rows, and keeps those of other programs that are there."""
    if path.is_file():
        there = pd.read_csv(path, keep_default_na=False)
        rows = {tuple(row[:2]): tuple(row) for row in there.itertuples(index=False)} | rows
    names = ("suite", "program", "half", "outcome", "why", "date", "commit")
    pd.DataFrame([rows[key] for key in sorted(rows)], columns=names).to_csv(path, index=False)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", choices=_SUITES)
    parser.add_argument("root", type=Path)
    parser.add_argument("--called", help="the suite's name in the record")
    parser.add_argument("--half", choices=("ours", "aside"), default="ours")
    parser.add_argument("--limit", type=int, default=0, help="programs, drawn by their names' SHA-1")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 512, 16, 4096, 65536, 1 << 30])
    parser.add_argument("--nvcc", type=Path, default=Path(sys.executable).with_name("cudasim-nvcc"))
    parser.add_argument("--record", type=Path, help="rows of other programs that are there stay")
    parser.add_argument("--again", type=Path, help="only programs that do not pass in this record")
    parser.add_argument("names", nargs="*")
    given = parser.parse_intermixed_args()
    root, nvcc = given.root.resolve(), given.nvcc.resolve()
    programs = list(getattr(program_suites, given.suite)(root, nvcc))
    programs.sort(key=lambda of: sha_of(of.name))
    chosen = [of for of in programs if is_ours(of.divided_by) == (given.half == "ours")][
        : given.limit or None
    ]
    if given.again:
        there = pd.read_csv(given.again, keep_default_na=False)
        settled = set(there.program[there.outcome.str.match(_SETTLED)])
        chosen = [of for of in chosen if of.name not in settled]
    if given.names:
        chosen = [of for of in programs if of.name in given.names]
    rows = {}
    if given.jobs > 1:
        os.environ.setdefault("CUDASIM_THREADS", "1")
    with ProcessPoolExecutor(given.jobs) as pool:
        made = [
            pool.submit(_row, given.called or given.suite, of, root, given.seconds, given.sizes)
            for of in chosen
        ]
        for row in (of.result() for of in as_completed(made)):
            rows[row[:2]] = row
            if given.record:
                _record(given.record, rows)
    totals = {
        kind: sum(row[3] == kind for row in rows.values()) for kind in {row[3] for row in rows.values()}
    }
    print(totals)


if __name__ == "__main__":
    main()
