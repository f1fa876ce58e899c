"""Inputs of our own for programs of HeCBench whose data its authors keep in a store elsewhere (.dvc).

Each program verifies what it makes of its input against its own host code, so any input of the right form
will do; those here are small, and of a fixed seed. A program whose result is known for one input alone has
none.
"""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Callable
from pathlib import Path

_NODES = 1000
_SIDE = 512


def bitmap(path: Path, of: random.Random):
    """24 bits a pixel."""
    side = 64
    pixels = of.randbytes(3 * side * side)
    head = struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54)
    info = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 24, 0, len(pixels), 0, 0, 0, 0)
    path.write_bytes(head + info + pixels)


def _text(path: Path, of: random.Random):
    words = ("a", "kernel", "queue", "clEnqueue", "NDRange", "clEnqueueNDRangeKernel", "waits")
    path.write_text(" ".join(of.choices(words, k=4000)))


def _image(path: Path, of: random.Random):
    """Its size, and four numbers a pixel."""
    side = 64
    lines = (" ".join(f"{of.random():.4f}" for _ in range(4)) for _ in range(side * side))
    path.write_text(f"{side} {side}\n" + "\n".join(lines) + "\n")


def _graph(path: Path, of: random.Random):
    """Of Rodinia: where each node's edges begin and how many they are, the source, the edges."""
    degrees = [of.randrange(1, 8) for _ in range(_NODES)]
    starts = [sum(degrees[:node]) for node in range(_NODES)]
    nodes = "\n".join(f"{start} {degree}" for start, degree in zip(starts, degrees, strict=True))
    edges = "\n".join(f"{of.randrange(_NODES)} 1" for _ in range(sum(degrees)))
    path.write_text(f"{_NODES}\n{nodes}\n\n0\n\n{sum(degrees)}\n{edges}\n")


def _weighted_graph(path: Path, of: random.Random):
    """Of ECL: nodes, edges, where each node's neighbours begin, neighbours, weights."""
    nodes = 200
    neighbours = [sorted(of.sample([to for to in range(nodes) if to != node], 5)) for node in range(nodes)]
    flat = [to for each in neighbours for to in each]
    starts = [5 * node for node in range(nodes + 1)]
    weights = [of.randrange(1, 100) for _ in flat]
    path.write_bytes(array("i", [nodes, len(flat), *starts, *flat, *weights]).tobytes())


def _matrix(path: Path, of: random.Random):
    """Of Matrix Market, square."""
    entries = sorted({(of.randrange(1, _NODES), of.randrange(1, _NODES)) for _ in range(8 * _NODES)})
    head = f"%%MatrixMarket matrix coordinate real general\n{_NODES} {_NODES} {len(entries)}\n"
    path.write_text(head + "".join(f"{row} {column} {of.random():.4f}\n" for row, column in entries))


def _numbers(low: float, high: float) -> Callable[[Path, random.Random], None]:
    """One a line, of a square."""

    def write(path: Path, of: random.Random):
        path.write_text("".join(f"{of.uniform(low, high):.4f}\n" for _ in range(_SIDE * _SIDE)))

    return write


def _peak(path: Path, of: random.Random):
    """An image as floats, with one peak in its middle: a point as a telescope sees it."""
    side, middle = 256, 128
    values = (
        1.0 / (1.0 + (x - middle) ** 2 + (y - middle) ** 2) + 0.001 * of.random()
        for y in range(side)
        for x in range(side)
    )
    path.write_bytes(array("f", values).tobytes())


_INPUTS = {
    "urng-sycl/URNG_Input.bmp": bitmap,
    "ss-sycl/StringSearch_Input.txt": _text,
    "tonemapping-sycl/input.hdr": _image,
    "data/bfs/graph1MW_6.txt": _graph,
    "floydwarshall2-cuda/CollegeMsg.egr": _weighted_graph,
    "ge-spmm-cuda/data/snap/amazon0302/amazon0302.mtx": _matrix,
    "data/hotspot/temp_512": _numbers(320, 345),
    "data/hotspot/power_512": _numbers(0, 0.01),
    "hogbom-cuda/data/dirty_4096.img": _peak,
    "hogbom-cuda/data/psf_4096.img": _peak,
}


def write_inputs(root: Path):
    for name, write in _INPUTS.items():
        path = root / name
        if not path.exists() and (root / Path(name).parts[0]).is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, random.Random(name))
