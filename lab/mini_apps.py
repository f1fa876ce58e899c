"""SHOC, Parboil and mini-apps, for programs.py: how each program is built, called, and what it is compared
with.

Their own build systems (autoconf, CMake, scripts) are left out: the sources are named here. Inputs that the
suites keep elsewhere are small ones of our own, with a fixed seed. A program is right by its own words, or
by those of the suite's program for the host, or by the file that both write.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rodinia import graph


@dataclass(frozen=True)
class App:
    """folder: where it is built and run. sources: for nvcc, as patterns. said: what it says when it is right,
    and `silent` what it says only when it is wrong. other: what compiles the suite's program for the host to
    other.exe, whose words have to be the same where `same` finds them, or whose file, called as `call` is.
    code: what it ends with, beside 0, although it is right.
    """

    name: str
    folder: str
    sources: str
    call: str
    flags: str = ""
    said: str = ""
    silent: str = ""
    other: str = ""
    same: str = ""
    file: str = ""
    code: int = 0

    def build(self, compiler: Path, folder: Path) -> list[str]:
        sources = [
            str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
            for pattern in self.sources.split()
            for path in sorted((folder / pattern).parent.glob(Path(pattern).name))
        ]
        return [str(compiler), *self.flags.split(), *sources, "-o", self.call.split()[0]]

    def judged(self, root: Path, said: str) -> tuple[str, str] | None:
        if self.said:
            is_right = re.search(self.said, said)
            return ("passes", "by its own words") if is_right else ("fails", said.strip()[-200:])
        if self.silent:
            wrong = re.search(self.silent, said)
            return ("fails", wrong[0]) if wrong else ("passes", "it says nowhere that it is wrong")
        if not self.other:
            return None
        folder = root / self.folder
        subprocess.run(self.other, shell=True, cwd=folder, check=True, capture_output=True)
        call = [
            "./other.exe",
            *shlex.split(self.call.replace(self.file, "other.out") if self.file else self.call)[1:],
        ]
        theirs = subprocess.run(call, cwd=folder, capture_output=True, text=True).stdout
        if self.file:
            wrong = _differs((folder / self.file).read_bytes(), (folder / "other.out").read_bytes())
        else:
            found = [re.findall(self.same, text) for text in (said, theirs)]
            wrong = (
                "" if found[0] and found[0] == found[1] else f"{found[0][:2]}, and {found[1][:2]} on the host"
            )
        return ("fails", wrong) if wrong else ("passes", "as a program for the host")


def _numbers(data: bytes) -> np.ndarray:
    """Of text, or of floats."""
    try:
        return np.array(data.decode("ascii").split(), float)
    except ValueError:
        return np.frombuffer(data, np.float32)


def _differs(ours: bytes, theirs: bytes) -> str:
    """Parboil's own comparisons allow as much or more. Bytes that are the same need not be numbers."""
    if ours == theirs:
        return ""
    a, b = _numbers(ours), _numbers(theirs)
    if a.shape != b.shape:
        return f"{a.size} numbers, and {b.size} on the host"
    wrong = ~(np.abs(a - b) <= 1e-4 * np.abs(b).max() + 2e-3 * np.abs(b))
    return f"{wrong.sum()} of {a.size} numbers differ" if wrong.any() else ""


def _of_shoc(level: str, name: str, more: str = "", call: str = "-s 1 -n 1", **how: str) -> App:
    """more: its sources, which are others than one of its name."""
    sources = " ".join([more or f"{name}.cu", "@@/main.cpp", *_SHARED_OF_SHOC])
    up = "../.." if level == "level0" else "../../.."
    sources = sources.replace("@@", f"{up}/cuda/common").replace("@", f"{up}/common")
    flags = f"-I{up}/cuda/common -I{up}/common -I. -lcublas"
    return App(name, f"src/cuda/{level}", sources, f"./{name}.exe {call}", flags, **how)


_SHARED_OF_SHOC = [
    f"@/{of}.cpp" for of in ("Option", "OptionParser", "ResultDatabase", "Timer", "CTimer", "ProgressBar")
]
_SHARED_OF_SHOC += ["@/InvalidArgValue.cpp"]
_IS_RIGHT = r"(?i)\bpassed\b"


def _of_parboil(name: str, sources: str, call: str, other: str = "", **how: str) -> App:
    up = "../.."
    shared = f"{up}/common/src/args.c {up}/common/src/"
    named = " ".join(f"src/cuda/{of}" for of in sources.split())
    flags = f"-I{up}/common/include -Isrc/cuda"
    if other:
        named_other = " ".join(f"src/{of}" for of in other.split())
        how["other"] = (
            f"gcc -w -O2 -I{up}/common/include {named_other} {shared}parboil.c -lstdc++ -lm -o other.exe"
        )
    call = f"./{name}.exe {call}"
    return App(name, f"benchmarks/{name}", f"{named} {shared}parboil_cuda.c", call, flags, **how)


def _of_neutrons(name: str, call: str) -> App:
    return App(
        *(name, f"{name}/cuda", "*.cu", f"./{name}.exe {call}", "-std=c++14"),
        other="gcc -O2 -fopenmp -DOPENMP ../openmp-threading/*.c -lm -o other.exe",
        same=r"checksum: (\d+)",
        code=1,  # for a checksum that it does not know, at a size of our own
    )


APPS = {
    "mini_apps": [
        _of_neutrons("XSBench", "-m event -s small -g 100 -l 2000"),
        _of_neutrons("RSBench", "-m event -s small -l 1000"),
        App(
            "BabelStream",
            "BabelStream",
            "src/main.cpp src/cuda/CUDAStream.cu",
            "./BabelStream.exe -s 16384 -n 2",
            "-std=c++17 -DCUDA -DDEFAULT -DGRID_STRIDE -DUNROLL_FACTOR=4 --extended-lambda -Isrc -Isrc/cuda "
            "-lnvidia-ml",
            silent="Validation failed.*",
        ),
        App(
            "miniBUDE",
            "miniBUDE",
            "src/main.cpp",
            "./miniBUDE.exe --deck data/bm1 -n 64 -i 1 -p 1 -w 32",
            "-x cu -std=c++17 --extended-lambda -DCUDA -DMEM=DEFAULT -DUSE_PPWI=1 -Isrc/cuda -Isrc -I.",
            said=r"valid:\s*true",
        ),
        App(
            "CloverLeaf",
            "CloverLeaf",
            "src/cuda/*.cpp driver/*.cpp",
            "./CloverLeaf.exe --file own.in",
            "-x cu -std=c++17 -DNO_MPI --extended-lambda -Idriver -Isrc/cuda",
            other="g++ -O2 -w -std=c++17 -DNO_MPI -Idriver -Isrc/serial "
            "src/serial/*.cpp driver/*.cpp -o other.exe",
            same=r"(?m)^ ?Step \d+ time \S+ control \w+ timestep +\S+",
        ),
    ],
    "shoc": [
        _of_shoc("level0", "BusSpeedDownload"),
        _of_shoc("level0", "BusSpeedReadback"),
        _of_shoc("level0", "DeviceMemory"),
        _of_shoc("level0", "MaxFlops"),
        _of_shoc("level1/bfs", "BFS", "BFS.cu bfs_kernel.cu @/Graph.cpp", said=_IS_RIGHT),
        _of_shoc("level1/fft", "FFT", "FFT.cpp fftlib.cu", said=_IS_RIGHT),
        _of_shoc("level1/gemm", "GEMM", "GEMM.cpp"),
        _of_shoc("level1/md", "MD", said=_IS_RIGHT),
        _of_shoc("level1/md5hash", "MD5Hash", silent="ERROR.*"),
        _of_shoc("level1/neuralnet", "NeuralNet"),
        _of_shoc("level1/reduction", "Reduction", said=_IS_RIGHT),
        _of_shoc("level1/scan", "Scan", call="-s 1 -n 1 --iterations 2", said=_IS_RIGHT),
        _of_shoc("level1/sort", "Sort", "Sort.cu sort_kernel.cu", said=_IS_RIGHT),
        _of_shoc("level1/spmv", "Spmv", call="-s 1 -n 1 --iterations 2", said=_IS_RIGHT),
        _of_shoc(
            "level1/stencil2d",
            "Stencil2D",
            "Stencil2Dmain.cpp CUDAStencil.cpp CUDAStencilFactory.cpp CommonCUDAStencilFactory.cpp "
            "CUDAStencilKernel.cu @/HostStencil.cpp @/HostStencilFactory.cpp @/InitializeMatrix2D.cpp "
            "@/Matrix2D.cpp @/Matrix2DFileSupport.cpp @/Matrix2DStatics.cpp @/SerialStencilUtil.cpp "
            "@/StencilFactory.cpp @/StencilUtil.cpp @/ValidateMatrix2D.cpp",
            call="-s 1 -n 1 --customSize 64,64 --num-iters 4",
        ),
        _of_shoc("level1/triad", "Triad"),
        _of_shoc("level2/qtclustering", "QTC", "QTC.cu comm.cpp libdata.cpp", call="--PointCount 256 -n 1"),
        _of_shoc("level2/s3d", "S3D"),
    ],
    "parboil": [
        _of_parboil("bfs", "main.cu", "-i own.txt -o bfs.out", "base/main.cc", file="bfs.out"),
        _of_parboil("fft", "fft.cu", ""),
        _of_parboil(
            "imghisto",
            "main.cu kernel.cu file.c",
            "-i own.bin -o histo.out -- 0 64 64 256 1",
            "base/main.c base/file.c",
            file="histo.out",
        ),
        _of_parboil(
            "mri-q", "main.cu file.cc", "-i own.bin -o q.out", "cpu/main.c cpu/file.cc", file="q.out"
        ),
        _of_parboil(
            "sgemm",
            "main.cu io.cc",
            "-i a.txt,b.txt,bt.txt -o c.out",
            "base/main.cc base/io.cc",
            file="c.out",
        ),
    ],
}
_OPENCL = """typedef int cl_int;
typedef unsigned cl_uint;
typedef struct {} *cl_command_queue, *cl_kernel, *cl_event, *cl_mem;
"""
_DECK = """*clover
 state 1 density=0.2 energy=1.0
 state 2 density=1.0 energy=2.5 geometry=rectangle xmin=0.0 xmax=5.0 ymin=0.0 ymax=2.0
 x_cells=32
 y_cells=32
 xmin=0.0
 ymin=0.0
 xmax=10.0
 ymax=10.0
 initial_timestep=0.04
 timestep_rise=1.5
 max_timestep=0.04
 end_step=10
*endclover
"""


def _matrix(of: np.ndarray) -> str:
    """As sgemm reads it: its size, and then column by column."""
    return f"{of.shape[0]} {of.shape[1]} " + " ".join(f"{value:.6f}" for value in of.T.reshape(-1)) + " "


def write_inputs(suite: str, root: Path):
    random = np.random.default_rng(5)
    if suite == "mini_apps":
        (root / "CloverLeaf" / "own.in").write_text(_DECK)
        (root / "miniBUDE" / "meta_build.h").write_text(
            '#pragma once\n#define MINIBUDE_VERSION "2.0"\n#define MINIBUDE_COMPILE_COMMANDS {}\n'
        )
        (root / "miniBUDE" / "meta_vcs.h").write_text("#pragma once\n")
    elif suite == "shoc":
        (root / "src/common/config.h").write_text("#define HAVE_GETTIMEOFDAY 1\n")
        with zipfile.ZipFile(root / "src/cuda/level1/neuralnet/nn_data.zip") as packed:
            packed.extractall(root / "src/cuda/level1/neuralnet")
    elif suite == "parboil":
        of = root / "benchmarks"
        (root / "common/include/CL").mkdir(exist_ok=True)  # OpenCL, of which its header names types
        (root / "common/include/CL/cl.h").write_text(_OPENCL)
        (of / "bfs/own.txt").write_text(graph(longest=1))
        (of / "imghisto/own.bin").write_bytes(random.integers(0, 256, 64 * 64).astype(">u2").tobytes())
        k, x = 64, 512
        sizes = np.array([k, x], np.int32).tobytes()
        (of / "mri-q/own.bin").write_bytes(sizes + random.random(3 * k + 3 * x + 2 * k, np.float32).tobytes())
        a, b = random.random((128, 64)), random.random((64, 96))
        for name, matrix in (("a", a), ("b", b), ("bt", b.T)):
            (of / f"sgemm/{name}.txt").write_text(_matrix(matrix))
