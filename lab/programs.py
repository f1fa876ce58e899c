"""Public programs on the simulator: how many of a suite build unchanged, run, and pass their own checks.

    python lab/programs.py hecbench HeCBench/src --half ours --limit 40 --record programs.csv
    python lab/programs.py samples cuda-samples --half aside
    python lab/programs.py pmpp PMPP-Learning/Exercises
    python lab/programs.py course cuda-training-series/exercises
    python lab/programs.py single_files cs344 --called cs344
    python lab/programs.py polybench polybenchGpu/CUDA
    python lab/programs.py rodinia gpu-rodinia

HeCBench has a Makefile for each program, which compiles it, here with cudasim-nvcc in nvcc's place, and so
have the exercises of the book PMPP. Sizes are reduced: every number above one of --sizes becomes it, and a
program that does not pass then has the next one, unless it was too slow with smaller ones. One that is too
slow is built once more with smaller numbers in its source (smaller_sources.py), and counted apart when it
passes. A course's
solutions are files of their own. NVIDIA's samples have a CMakeLists.txt each, that names the sources, and one
list of arguments for all; one passes that ends with code 0 and says nowhere that it failed, as their own
run_tests.py sees it. Of the programs of books and courses each .cu file with a main() is one, and of
PolyBench each Makefile, whose programs count what differs from the host's loops. What is done with Rodinia's
programs is in rodinia.py.

The names are divided by their SHA-1: those that begin with an even digit are `ours`, to be looked at while
the simulator is worked on, the rest are kept `aside`. Each run has --seconds of two cores, whatever else
the machine does, and at most three times as long. --jobs are measured at once, each with one thread of
the simulator.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from program_inputs import write_inputs
from rodinia import KNOWN, Known
from rodinia import write_inputs as write_rodinia_inputs
from smaller_sources import smaller

_REPEATS = (1, 3)  # some leave the first out of what they judge
_IN_PROPORTION = (512, 4096)  # the largest of sizes that keep their proportions
_GOOD = re.compile(r"\b(?:pass(?:ed)?|success\w*|correct|ok|verified)\b|正确|通过", re.I)
_AS_A_NUMBER = r"[^:=.\n]*(?:[:=]|\bis\b)\s*[-+]?\.?\d"
_BAD = re.compile(
    r"\b(?:fail(?:ed|ure)?|mismatch|incorrect|wrong)\b(?![^:=]*[:=]\s*0)"
    rf"|\berror\b(?!{_AS_A_NUMBER})|失败|错误|不正确",
    re.I,
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
_SETTLED = re.compile("passes|needs")  # what need not be measured again
_DIFFERENT = re.compile(r"Non-Matching CPU-GPU Outputs[^\n:]*: (\d+)")  # as PolyBench says it
_WAIVED = 2  # the code of a sample that says that the machine is not one for it
_CORES = 2
_BUILD_SECONDS = 300
_GPUS = 2  # that a sample for several has
_SUITES = ("hecbench", "samples", "pmpp", "course", "single_files", "polybench", "rodinia")
_SECTIONS = ("0_Introduction", "1_Utilities", "2_Concepts_and_Techniques", "3_CUDA_Features")
# Libraries that a sample is linked with, as its CMakeLists.txt has them, that are no part of the runtime.
_LIBRARIES = {
    "NVRTC": r"CUDA::nvrtc",
    "the driver API": r"CUDA::cuda_driver",
    "OpenGL": r"OPENGL_LIBRARIES|GLUT_LIBRARIES",
    "EGL": r"EGL_LIBRARY|\bEGL\b",
    "MPI": r"MPI_CXX_LIBRARIES",
    "NvSci": r"NVSCI\w*",
}

# The same as sources of HeCBench name them.
_NAMED_IN_SOURCES = {
    "cuSPARSE": r"include\s*<cusparse",
    "cublasLt": r"\bcublasLt[A-Z]\w+\s*\(",
    "cuSOLVER": r"include\s*<cusolver",
    "cuFFT": r"\bcufft(?:Exec|Plan)\w*\s*\(",
    "cuDNN": r"include\s*<cudnn",
    "NCCL": r"include\s*<nccl",
    "the driver API": r"\bcu(?:Init|Module|Launch|Ctx|Device|Mem)[A-Z]?\w*\s*\(",
    "MPI": r"include\s*<mpi\.h",
    "PyTorch": r"include\s*<(?:torch|ATen)/",
    "Boost": r"include\s*<boost/",
    "GSL": r"include\s*<gsl/",
    "OpenGL": r"include\s*[<\"](?:GL/|cuda_gl_interop|\.\./common/(?:cpu_bitmap|cpu_anim|gl_helper))",
    "another library": r"include\s*<(?:opencv2|fmt|gdal\w*|parmetis|cutlass|fftw3|cblas|zlib|bzlib|ogr)\b",
}
_SOURCES = {".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".c"}


def is_ours(name: str) -> bool:
    return int(hashlib.sha1(name.encode()).hexdigest()[0], 16) % 2 == 0


@dataclass
class Program:
    """One of a suite. call: the executable. tries: arguments, of which one set has to pass, or `all_pass`."""

    name: str
    folder: Path
    build: list[str]
    needs: tuple[str, ...] = ()
    says_by_code: bool = False  # whether it is right, with 0 for yes

    def called(self, sizes: list[int]) -> tuple[str, list[list[str]], bool]:
        """The executable, sets of arguments, and whether all of them have to pass, or one."""
        raise NotImplementedError

    def judged(self, said: str) -> tuple[str, str] | None:
        """What became of a program that ended with code 0, where that is not to be read from its words."""
        return None


class WithMakefile(Program):
    def called(self, sizes: list[int]) -> tuple[str, list[list[str]], bool]:
        """The program that `make run` would call."""
        said = subprocess.run(["make", "-n", "run"], cwd=self.folder, capture_output=True, text=True).stdout
        for line in said.replace("\\\n", " ").splitlines():
            try:
                words = shlex.split(line)
            except ValueError:
                continue
            if words and words[0].startswith("./"):
                sets = [reduced(words[1:], most, _REPEATS[0], most == sizes[0]) for most in sizes]
                sets += [reduced(words[1:], sizes[0], _REPEATS[1])]
                sets += [reduced(words[1:], most, most) for most in sizes[:2]]  # the last may be a size
                sets += [in_proportion(words[1:], most) for most in _IN_PROPORTION]
                return words[0], [list(of) for of in dict.fromkeys(map(tuple, sets))], False
        return "", [], False


def _with_makefiles(root: Path, compiler: Path, pattern: str) -> Iterator[Program]:
    names = [f"{name}={compiler}" for name in ("CC", "CXX", "NVCC")]
    for path in root.glob(f"{pattern}/Makefile"):
        folder = path.parent
        said = "".join(
            of.read_text(errors="replace")
            for of in folder.rglob("*")
            if of.suffix in _SOURCES and of.is_file()
        )
        needs = tuple(name for name, pattern in _NAMED_IN_SOURCES.items() if re.search(pattern, said))
        yield WithMakefile(str(folder.relative_to(root)), folder, ["make", "-B", *names], needs)


def hecbench(root: Path, compiler: Path) -> Iterator[Program]:
    write_inputs(root)
    for path in root.glob("*/*.tgz"):
        with tarfile.open(path) as packed:
            packed.extractall(path.parent, filter="data")
    for path in root.glob("*/*.bz2"):
        path.with_suffix("").write_bytes(bz2.decompress(path.read_bytes()))
    return _with_makefiles(root, compiler, "*-cuda")


def pmpp(root: Path, compiler: Path) -> Iterator[Program]:
    return _with_makefiles(root, compiler, "*/*")


@dataclass
class Sample(Program):
    runs: tuple[tuple[str, ...], ...] = ((),)

    def called(self, sizes: list[int]) -> tuple[str, list[list[str]], bool]:
        return f"./{self.build[-1]}", [list(of) for of in self.runs], True


def course(root: Path, compiler: Path) -> Iterator[Program]:
    for path in root.rglob("*_solution.cu"):
        name = str(path.relative_to(root).with_suffix(""))
        yield Sample(name, path.parent, [str(compiler), path.name, "-o", path.stem])


def single_files(root: Path, compiler: Path) -> Iterator[Program]:
    libraries = [*("-lcublas", "-lcurand", "-lcufft", "-lcusparse"), "-Xcompiler", "-fopenmp"]
    for path in root.rglob("*.cu"):
        said = path.read_text(errors="replace")
        if re.search(r"\bmain\s*\(", said):
            needs = tuple(name for name, pattern in _NAMED_IN_SOURCES.items() if re.search(pattern, said))
            build = [str(compiler), path.name, "-I.", "-I..", *libraries, "-o", f"{path.stem}.exe"]
            yield Sample(str(path.relative_to(root).with_suffix("")), path.parent, build, needs)


def _use_toolkit(root: Path) -> Path:
    """Writes a folder that stands for CUDA's, and puts its nvcc, headers and libraries where make looks."""
    kit = root / "cudasim_toolkit"
    subprocess.run([sys.executable, "-m", "cudasim", "toolkit", str(kit)], check=True)
    places = {"PATH": "bin", "CPATH": "include", "LIBRARY_PATH": "lib64", "LD_LIBRARY_PATH": "lib64"}
    for variable, folder in places.items():
        before = os.environ.get(variable)
        os.environ[variable] = str(kit / folder) + (f":{before}" if before else "")
    return kit


class OfPolybench(WithMakefile):
    def called(self, sizes: list[int]) -> tuple[str, list[list[str]], bool]:
        named = re.search(r"EXECUTABLE\s*:?=\s*(\S+)|-o (\S+)", (self.folder / "Makefile").read_text())
        return f"./{named[1] or named[2]}" if named else "", [[]], True

    def judged(self, said: str) -> tuple[str, str] | None:
        counts = _DIFFERENT.findall(said)
        if not counts:
            return None
        return "passes" if not any(map(int, counts)) else "fails", f"{', '.join(counts)} numbers differ"


def polybench(root: Path, compiler: Path) -> Iterator[Program]:
    _use_toolkit(root)
    for of in _with_makefiles(root, compiler, "*"):
        yield OfPolybench(of.name, of.folder, of.build, of.needs)


@dataclass
class OfRodinia(Program):
    known: Known | None = None
    root: Path = Path()

    def called(self, sizes: list[int]) -> tuple[str, list[list[str]], bool]:
        program, *arguments = self.known.call.split()
        return program, [arguments], True

    def judged(self, said: str) -> tuple[str, str] | None:
        if self.known.said:
            is_right = re.search(self.known.said, said)
            return ("passes", "by its own words") if is_right else ("fails", said.strip()[-200:])
        if self.known.other is None:
            return None
        wrong = self.known.other.differs(self.root, self.folder)
        return ("fails", wrong) if wrong else ("passes", "as a program for the host")


def rodinia(root: Path, compiler: Path) -> Iterator[Program]:
    kit = _use_toolkit(root)
    write_rodinia_inputs(root)
    places = [f"CUDA_DIR={kit}", f"CUDA_INSTALL_PATH={kit}", f"CUDA_LIB_DIR={kit}/lib64"]
    for name, known in KNOWN.items():
        build = ["make", "-B", *places, *known.make.split()]
        yield OfRodinia(name, root / "cuda" / (known.folder or name), build, known=known, root=root)


def samples(root: Path, compiler: Path) -> Iterator[Program]:
    settings = json.loads((root / "test_args.json").read_text())
    for folder in (path for section in _SECTIONS for path in (root / "Samples" / section).iterdir()):
        if not (folder / "CMakeLists.txt").is_file():
            continue
        said = re.sub(r"#.*", "", (folder / "CMakeLists.txt").read_text())
        made = re.search(r"add_executable\(\s*(\S+)\s+([^)]*)\)", said)
        if not made:
            continue
        headers = [root / "Common", folder, *(of for of in [folder / "inc"] if of.is_dir())]
        openmp = ["-Xcompiler", "-fopenmp"] if "OpenMP" in said else []
        build = [str(compiler), *(f"-I{of}" for of in headers), *openmp, *made[2].split(), "-o", folder.name]
        needs = tuple(name for name, pattern in _LIBRARIES.items() if re.search(pattern, said))
        of = settings.get(folder.name, {})
        runs = tuple(tuple(run["args"]) for run in of.get("runs", ({"args": of.get("args", ())},)))
        yield Sample(folder.name, folder, build, needs, True, runs)


def reduced(arguments: list[str], most: int, repeats: int, first_repeats: bool = True) -> list[str]:
    """Numbers above `most` become it, and how often a benchmark repeats becomes `repeats`: that is its last
    number, or, if first_repeats, a round one such as 1000 in front of others."""
    numbers = [index for index, argument in enumerate(arguments) if argument.isdigit()]
    smaller = []
    for index, argument in enumerate(arguments):
        if argument.isdigit():
            is_first = first_repeats and index == numbers[0]
            is_repeat = index == numbers[-1] or (is_first and re.fullmatch(r"10+", argument))
            argument = str(min(int(argument), repeats if is_repeat else most))
        smaller.append(re.sub(r"(?<==)\d+$", lambda found: str(min(int(found[0]), most)), argument))
    return smaller


def in_proportion(arguments: list[str], most: int) -> list[str]:
    """All numbers but the last, divided so that the largest of them is `most`: one may have to be larger than
    another."""
    places = [index for index, argument in enumerate(arguments) if argument.isdigit()]
    by = max([int(arguments[index]) for index in places[:-1]], default=most) / most
    smaller = reduced(arguments, 1 << 62, _REPEATS[0], False)
    for index in places[:-1] if by > 1 else ():
        smaller[index] = str(max(1, round(int(arguments[index]) / by)))
    return smaller


def outcome(of: Program, seconds: int, sizes: list[int]) -> tuple[str, str]:
    """What becomes of a program: builds, runs, passes; and the first line of what was said. One that is too
    slow is tried with smaller sizes in its source."""
    result, why = _outcome(of, seconds, sizes)
    if result == "too slow" and isinstance(of, WithMakefile) and (folder := smaller(of.folder, _SOURCES)):
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
        return "does not build", wrong[0]
    tried, slow = [], []
    for given in arguments:
        if any(_is_larger(given, than) for than in slow):
            continue
        result, why = _result(of, [program, *given], seconds)
        if (result == "passes") != all_pass:
            return result, why
        slow += [given] if result == "too slow" and not all_pass else []
        tried.append((result, " ".join(given), why))
    # Too small a size is wrong for many a program, so the largest counts, which may be too slow.
    counted = next((result for result, *_ in tried if result == "too slow"), tried[-1][0])
    return counted, "; ".join(f"{given}: {result} {why}" for result, given, why in tried if why)


def _is_larger(arguments: list[str], than: list[str]) -> bool:
    numbers = [(int(a), int(b)) for a, b in zip(arguments, than, strict=True) if a.isdigit() and b.isdigit()]
    return all(a >= b for a, b in numbers)


def _result(of: Program, call: list[str], seconds: int) -> tuple[str, str]:
    ran = subprocess.Popen(
        call,
        cwd=of.folder,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
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
    told = [of for of in said.splitlines() if of.startswith("cudasim:") and "warning" not in of]
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
    if ran.returncode != 0:
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
    return "runs, verifies nothing", number[0] if number else ""


def _row(suite: str, of: Program, root: Path, seconds: int, sizes: list[int]) -> tuple:
    """What is recorded of a program."""
    began = time.monotonic()
    result, why = outcome(of, seconds, sizes)
    why = why.replace(str(root), "").strip()[:200]  # no path of this machine
    half = "ours" if is_ours(of.name) else "aside"
    print(f"{of.name:28} {time.monotonic() - began:5.1f} s  {result:24} {why[:150]}", flush=True)
    return suite, of.name, half, result, why, *_measured()


def _measured() -> tuple[str, str]:
    """When, and of which commit."""
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    return datetime.now(UTC).isoformat(timespec="seconds"), asked.stdout.strip()


def _record(path: Path, rows: dict[tuple[str, str], tuple]):
    """Writes the rows, and keeps those of other programs that are there."""
    if path.is_file():
        with path.open(newline="") as file:
            rows = {tuple(row[:2]): tuple(row) for row in list(csv.reader(file))[1:]} | rows
    with path.open("w", newline="") as file:
        names = ("suite", "program", "half", "outcome", "why", "date", "commit")
        csv.writer(file, lineterminator="\n").writerows([names, *(rows[key] for key in sorted(rows))])


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
    programs = list(globals()[given.suite](root, nvcc))
    programs.sort(key=lambda of: hashlib.sha1(of.name.encode()).hexdigest())
    chosen = [of for of in programs if is_ours(of.name) == (given.half == "ours")][: given.limit or None]
    if given.again:
        with given.again.open(newline="") as file:
            settled = {row["program"] for row in csv.DictReader(file) if _SETTLED.match(row["outcome"])}
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
