"""The suites that programs.py measures: what is a program of each, how it is built, called and judged."""

from __future__ import annotations

import bz2
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from drawn import drawn as drawn_programs
from drawn import headers_of
from mini_apps import APPS, App
from mini_apps import write_inputs as write_app_inputs
from program_inputs import write_inputs
from program_options import named_arguments, offered, options, reduced_by_name
from rodinia import KNOWN, Known
from rodinia import write_inputs as write_rodinia_inputs

_REPEATS = (1, 3)  # some leave the first out of what they judge
_SIZED = 4  # so many of the sizes are told to a program whose `make run` names none
_IN_PROPORTION = (512, 4096)  # the largest of sizes that keep their proportions
_DIFFERENT = re.compile(r"Non-Matching CPU-GPU Outputs[^\n:]*: (\d+)")  # as PolyBench says it
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
SOURCES = {".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".c"}


@dataclass
class Program:
    """One of a suite. call: the executable. tries: arguments, of which one set has to pass, or `all_pass`."""

    name: str
    folder: Path
    build: list[str]
    needs: tuple[str, ...] = ()
    says_by_code: bool = False  # whether it is right, with 0 for yes
    code: int = 0  # what it may end with as well

    def called(self, sizes: list[int]) -> tuple[str, list[list[str]], bool]:
        """The executable, sets of arguments, and whether all of them have to pass, or one."""
        raise NotImplementedError

    @property
    def divided_by(self) -> str:
        """The name whose SHA-1 says which half it is of."""
        return self.name

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
                sources = [of for of in self.folder.rglob("*") if of.suffix in SOURCES and of.is_file()]
                told, names = options(sources), named_arguments(sources)
                named = [one for of in sizes[:_SIZED] for one in reduced_by_name(words[1:], names, of)]
                sized = [told.added_to(of, most) for of, most in zip(sets, sizes[:_SIZED], strict=False)]
                sets = [*offered(self.name), *named, *sized, *map(told.added_to, sets)]
                return words[0], [list(of) for of in dict.fromkeys(map(tuple, sets))], False
        return "", [], False


def _with_makefiles(root: Path, compiler: Path, pattern: str) -> Iterator[Program]:
    names = [*(f"{name}={compiler}" for name in ("CC", "CXX", "NVCC")), "VERIFY=yes"]
    for path in root.glob(f"{pattern}/Makefile"):
        folder = path.parent
        said = "".join(
            of.read_text(errors="replace")
            for of in folder.rglob("*")
            if of.suffix in SOURCES and of.is_file()
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


_MORE_LIBRARIES = [*("-lcublas", "-lcurand", "-lcufft", "-lcusparse"), "-Xcompiler", "-fopenmp"]
_HAS_MAIN = re.compile(r"\bmain\s*\(")


def _beside(path: Path) -> list[str]:
    """The other sources of a program that has a makefile, and its folder for itself."""
    others = [of for of in path.parent.glob("*.cu") if of != path]
    if any(_HAS_MAIN.search(of.read_text(errors="replace")) for of in others):
        return []
    return [of.name for of in others] if any(path.parent.glob("[Mm]akefile")) else []


def single_files(root: Path, compiler: Path) -> Iterator[Program]:
    for path in root.rglob("*.cu"):
        said = path.read_text(errors="replace")
        if _HAS_MAIN.search(said):
            needs = tuple(name for name, pattern in _NAMED_IN_SOURCES.items() if re.search(pattern, said))
            sources = [path.name, *_beside(path)]
            build = [str(compiler), *sources, "-I.", "-I..", *_MORE_LIBRARIES, "-o", f"{path.stem}.exe"]
            yield Sample(str(path.relative_to(root).with_suffix("")), path.parent, build, needs)


@dataclass
class OfDrawn(Sample):
    repository: str = ""

    @property
    def divided_by(self) -> str:
        return self.repository


def drawn(root: Path, compiler: Path) -> Iterator[Program]:
    for repository, main, sources in drawn_programs(root):
        folder = main.parent
        whole = root / repository.replace("/", "+", 1)
        headers = [f"-I{of}" for of in headers_of(whole, sources)]
        files = [str(of.relative_to(folder)) for of in sources]
        build = [str(compiler), *files, "-I.", *headers, *_MORE_LIBRARIES]
        name = f"{repository}/{main.relative_to(whole)}"
        yield OfDrawn(name, folder, [*build, "-o", f"{main.stem}.exe"], repository=repository)


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


@dataclass
class OfApps(Program):
    app: App | None = None
    root: Path = Path()

    def called(self, sizes: list[int]) -> tuple[str, list[list[str]], bool]:
        program, *arguments = self.app.call.split()
        return program, [arguments], True

    def judged(self, said: str) -> tuple[str, str] | None:
        return self.app.judged(self.root, said)


def _apps(suite: str, root: Path, compiler: Path) -> Iterator[Program]:
    write_app_inputs(suite, root)
    for app in APPS[suite]:
        folder = root / app.folder
        yield OfApps(app.name, folder, app.build(compiler, folder), code=app.code, app=app, root=root)


def mini_apps(root: Path, compiler: Path) -> Iterator[Program]:
    return _apps("mini_apps", root, compiler)


def shoc(root: Path, compiler: Path) -> Iterator[Program]:
    return _apps("shoc", root, compiler)


def parboil(root: Path, compiler: Path) -> Iterator[Program]:
    return _apps("parboil", root, compiler)


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
