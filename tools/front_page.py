"""What README.md shows first, from real runs: a picture that moves, and a race with its line.

python tools/front_page.py        writes docs/coalescing.svg, and README.md between its marks
"""

from __future__ import annotations

import textwrap

import torch

import fgn
from fgn.native.places import ROOT

README, PICTURE = ROOT / "README.md", ROOT / "docs" / "coalescing.svg"
BEGIN, END = "<!-- race: begin -->", "<!-- race: end -->"
SECONDS = 0.8  # for a step of the picture

IN_CHUNKS = """__global__ void in_chunks(float *y, const float *x) {
    for (int step = 0; step < 8; step++) {
        int i = 8 * threadIdx.x + step;
        y[i] = 2 * x[i];
    }
}
"""
SIDE_BY_SIDE = """__global__ void side_by_side(float *y, const float *x) {
    for (int step = 0; step < 8; step++) {
        int i = 32 * step + threadIdx.x;
        y[i] = 2 * x[i];
    }
}
"""
RACE = '''import fgn, torch

smooth = fgn.kernel("""__global__ void smooth(float *y, const float *x) {
    __shared__ float tile[128];
    int i = threadIdx.x;
    tile[i] = x[i];
    y[i] = (tile[i] + tile[(i + 1) % 128]) / 2;
}""")
fgn.check(lambda: smooth[1, 128](torch.empty(128), torch.rand(128)))
'''


def picture() -> str:
    """The player on a load that is not coalesced, and on one that is."""
    x, y = torch.arange(256.0), torch.empty(256)
    chunks, side = fgn.kernel(IN_CHUNKS), fgn.kernel(SIDE_BY_SIDE)
    return fgn.play(lambda: chunks[1, 32](y, x), lambda: side[1, 32](y, x)).scene.animated(SECONDS)


def race() -> str:
    """A kernel without a barrier, and what the checker says."""
    try:
        exec(RACE, {})
    except fgn.KernelFault as fault:
        told = textwrap.fill(f"KernelFault: {fault}", 110)
        return f"```python\n{RACE}```\n\n```\n{told}\n```"
    raise AssertionError("the kernel of README.md has a race that was not told")


def main():
    PICTURE.write_text(picture() + "\n")
    before, _, rest = README.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n\n{race()}\n\n{END}{after}")


if __name__ == "__main__":
    main()
