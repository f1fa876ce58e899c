"""Rodinia's CUDA programs (yuhc/gpu-rodinia), for programs.py: how each is built and called, inputs of our
own, and what its results are compared with.

That repository has no data. The inputs here are small and of a fixed seed, and what a program makes of them
is compared with the suite's own OpenMP version, or the program judges itself; one without either verifies
nothing. The Makefiles name a CUDA folder: `cudasim toolkit` writes one.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from program_inputs import bitmap

_NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?")
_DATA = "../../data/own"


def _numbers(count: int, low: float, high: float) -> Callable[[random.Random], str]:
    return lambda of: "\n".join(f"{of.uniform(low, high):.6f}" for _ in range(count)) + "\n"


def graph(of: random.Random | None = None, longest: int = 10) -> str:
    of = of or random.Random("graph")
    degrees = [of.randint(2, 6) for _ in range(4096)]
    starts = [sum(degrees[:node]) for node in range(len(degrees))]
    nodes = [f"{start} {degree}" for start, degree in zip(starts, degrees, strict=True)]
    edges = [f"{of.randrange(len(degrees))} {of.randint(1, longest)}" for _ in range(sum(degrees))]
    return "\n".join([str(len(degrees)), *nodes, "", "0", "", str(len(edges)), *edges]) + "\n"


def _points(of: random.Random) -> str:
    rows = (" ".join(f"{of.uniform(0, 100):.3f}" for _ in range(34)) for _ in range(2000))
    return "".join(f"{number} {row}\n" for number, row in enumerate(rows))


def _mesh(of: random.Random) -> str:
    """A block of elements with four faces each, and two kinds of border."""
    side, rows = 6, []
    faces = (((1, 0), "0.1 0 0"), ((-1, 0), "-0.1 0 0"), ((0, 1), "0 0.1 0"), ((0, -1), "0 -0.1 0"))
    for number in range(side**3):
        x, y, z = number % side, number // side % side, number // side**2
        row = [f"{1 + 0.01 * of.random():.6f}"]
        for (right, up), normal in faces:
            inside = 0 <= x + right < side and 0 <= y + up < side
            border = "-2" if up else "-1"
            row += [str(x + right + side * (y + up + side * z) + 1) if inside else border, normal]
        rows.append(" ".join(row))
    return "\n".join([str(len(rows)), *rows]) + "\n"


def _storms(of: random.Random) -> str:
    def one() -> str:
        day = f"{of.randint(1950, 2004):4d} {of.randint(1, 12):2d} {of.randint(1, 28):2d}"
        hour = f"{of.choice((0, 6, 12)):2d} {of.randint(1, 28):2d}"
        where = f"{of.uniform(7, 70):5.1f} {of.uniform(0, 358):5.1f}"
        return f"{day} {hour} {'BERYL':9} {where} {of.randint(10, 164):4d} {of.randint(0, 899):4d}\n"

    return "".join(one() for _ in range(2000))


def _image(of: random.Random) -> str:
    rows = (" ".join(str(of.randint(1, 255)) for _ in range(64)) for _ in range(64))
    return "P2\n# own\n64 64\n255\n" + "\n".join(rows) + "\n"


def _bases(of: random.Random) -> str:
    return ">own\n" + "".join("".join(of.choices("ACGT", k=70)) + "\n" for _ in range(300))


def _reads(of: random.Random) -> str:
    text = "".join(_bases(random.Random("bases")).split("\n")[1:])
    starts = (of.randrange(len(text) - 100) for _ in range(50))
    return "".join(f">read{number}\n{text[start : start + 100]}\n" for number, start in enumerate(starts))


def _matrix(of: random.Random) -> str:
    size = 4
    rows = "\n".join(
        " ".join(f"{of.uniform(-1, 1) + 4 * (i == j):.2f}" for j in range(size)) for i in range(size)
    )
    return f"{size}\n\n{rows}\n\n{' '.join(['1.5'] * size)}\n\n{' '.join(['0.5'] * size)}\n"


_INPUTS: dict[str, Callable[[random.Random], str | bytes]] = {
    "graph": graph,
    "temperature": _numbers(128 * 128, 320, 340),
    "power": _numbers(128 * 128, 0, 1e-3),
    "temperature3": _numbers(64 * 64 * 8, 320, 340),
    "power3": _numbers(64 * 64 * 8, 0, 1e-3),
    "points": _points,
    "mesh": _mesh,
    "storms": _storms,
    "tree": lambda of: "20000\n" + "".join(f"{number}\n" for number in range(20000)),
    "queries": lambda of: "j 600 100\nk 1000\n",
    "bases": lambda of: _bases(random.Random("bases")),
    "reads": _reads,
    "matrix": _matrix,
    "bytes": lambda of: bytes(of.choices(range(256), weights=range(256, 0, -1), k=1 << 16)),
}
# Where a program wants its input at a place of its own.
_PLACES = {"srad/image.pgm": _image, "myocyte/y.txt": _numbers(91, 0.01, 0.5)}
_PLACES["myocyte/params.txt"] = _numbers(18, 0.01, 0.5)


@dataclass(frozen=True)
class Other:
    """The suite's program for the host that does the same: how it is compiled and called, and the file that
    both write. most: the largest difference of two numbers, beside a thousandth of them."""

    folder: str
    build: str
    call: str
    file: str
    most: float = 0.0

    def differs(self, root: Path, mine: Path) -> str:
        """What is wrong, or nothing."""
        folder = root / "openmp" / self.folder
        for command in (self.build, self.call):
            subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, timeout=300)
        both = [list(map(float, _NUMBER.findall((of / self.file).read_text()))) for of in (folder, mine)]
        if len(both[0]) != len(both[1]) or not both[0]:
            return f"{len(both[1])} numbers, where the OpenMP version has {len(both[0])}"
        largest = max(abs(a - b) - 1e-3 * abs(a) for a, b in zip(*both, strict=True))
        return "" if largest <= self.most else f"differs from the OpenMP version by {largest:g}"


@dataclass(frozen=True)
class Heat:
    """Four steps of hotspot's heat equation in float64, with the constants of its source. The suite's OpenMP
    version has other values, by up to 0.7 of 330."""

    file: str
    most: float

    def differs(self, root: Path, mine: Path) -> str:
        size, own = 128, root / "data" / "own"
        heat, power = (np.loadtxt(own / name).reshape(size, size) for name in ("temperature", "power"))
        side, thick, conducts = 0.016 / size, 0.0005, 100.0
        capacity = 0.5 * 1.75e6 * thick * side * side
        along, up = side / (2 * conducts * thick * side), thick / (conducts * side * side)
        step = 0.001 / (3e6 / (0.5 * thick * 1.75e6))
        for _ in range(4):
            near = np.pad(heat, 1, mode="edge")
            rows = (near[2:, 1:-1] + near[:-2, 1:-1] - 2 * heat) / along
            columns = (near[1:-1, 2:] + near[1:-1, :-2] - 2 * heat) / along
            heat = heat + step / capacity * (power + rows + columns + (80 - heat) / up)
        largest = abs(np.loadtxt(mine / self.file)[:, 1].reshape(size, size) - heat).max()
        return "" if largest <= self.most else f"differs from float64 by {largest:g}"


@dataclass(frozen=True)
class Known:
    """One program. said: what it must say, if it judges itself."""

    call: str
    folder: str = ""
    make: str = ""
    other: Other | Heat | None = None
    said: str = ""


_OPENMP = "g++ -O2 -fopenmp -Wno-write-strings"
KNOWN = {
    "b+tree": Known(f"./b+tree.out file {_DATA}/tree command {_DATA}/queries"),
    "backprop": Known("./backprop 4096"),
    "bfs": Known(
        f"./bfs.out {_DATA}/graph",
        other=Other("bfs", f"{_OPENMP} bfs.cpp -o bfs", f"./bfs 1 {_DATA}/graph", "result.txt"),
    ),
    "cfd": Known(f"./euler3d {_DATA}/mesh"),
    "dwt2d": Known("./dwt2d rgb.bmp -d 64x64 -f -5 -l 3"),
    "gaussian": Known(f"./gaussian -f {_DATA}/matrix"),
    "heartwall": Known("./heartwall ../../data/heartwall/test.avi 2"),
    "hotspot": Known(
        f"./hotspot 128 2 4 {_DATA}/temperature {_DATA}/power output.out", other=Heat("output.out", 1e-2)
    ),
    "hotspot3D": Known(
        f"./3D 64 8 20 {_DATA}/power3 {_DATA}/temperature3 output.out", said=r"Accuracy: \d\.\d+e-0[4-9]"
    ),
    "huffman": Known(f"./pavle {_DATA}/bytes"),
    "hybridsort": Known("./hybridsort r", make="VERIFY=1"),
    "kmeans": Known(f"./kmeans -o -i {_DATA}/points"),
    "lavaMD": Known("./lavaMD -boxes1d 3"),
    "leukocyte": Known("./CUDA/leukocyte ../../data/leukocyte/testfile.avi 2"),
    "lud": Known("cuda/lud_cuda -s 64 -v", said=r">>>Verify<<<<(?![\s\S]*dismatch)"),
    "mummergpu": Known(f"bin/mummergpu {_DATA}/bases {_DATA}/reads"),
    "myocyte": Known("./myocyte.out 2 1 0"),
    "nn": Known("./nn filelist_4 -r 5 -lat 30 -lng 90"),
    "nw": Known(
        "./needle 256 10",
        make="KERNEL_DIM=-DTRACEBACK",
        other=Other("nw", f"{_OPENMP} -DTRACEBACK needle.cpp -o needle", "./needle 256 10 1", "result.txt"),
    ),
    "particlefilter": Known("./particlefilter_naive -x 32 -y 32 -z 4 -np 256"),
    "pathfinder": Known("./pathfinder 2000 50 20"),
    "srad_v1": Known(
        "./srad 5 0.5 64 64",
        "srad/srad_v1",
        # The mean is summed in another order, and a pixel may be rounded to the next of 255 levels.
        other=Other(
            "srad/srad_v1",
            "gcc -O2 -fopenmp main.c -lm -o srad",
            "./srad 5 0.5 64 64 1",
            "image_out.pgm",
            1.0,
        ),
    ),
    "srad_v2": Known("./srad 128 128 0 127 0 127 0.5 2", "srad/srad_v2"),
    "streamcluster": Known("./sc_gpu 5 10 16 1024 1024 100 none output.txt 1"),
}


def write_inputs(root: Path):
    for name, make in ({f"own/{name}": make for name, make in _INPUTS.items()} | _PLACES).items():
        path = root / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        made = make(random.Random(name))
        path.write_bytes(made if isinstance(made, bytes) else made.encode())
    of_dwt = root / "data" / "dwt2d"
    of_dwt.mkdir(exist_ok=True)
    bitmap(of_dwt / "rgb.bmp", random.Random("dwt2d/rgb.bmp"))
    storms = (root / "data" / "own" / "storms").read_text()
    (root / "data" / "nn").mkdir(exist_ok=True)
    for number in range(4):
        (root / "data" / "nn" / f"cane4_{number}.db").write_text(storms)
