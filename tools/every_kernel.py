"""Runs every kernel once on the GPU, at sizes that take every path: what compute-sanitizer watches.

compute-sanitizer --tool memcheck python tools/every_kernel.py (`make sanitize-gpu` runs all four tools)
"""

import torch

import fgn
from fgn.chains import CHAINS, Chain, Pointwise, Shape, problem, random_inputs
from fgn.precision import PRECISIONS

# Few tiles and many; sizes that fill no tile; one run of products and several; groups for a team and a block,
# inside a tile and as wide as two.
SHAPES = (
    Shape(5, 33, 70, 7),
    Shape(40, 300, 144, 3),
    Shape(1100, 272, 1104, 138),
    Shape(1153, 16, 1024, 8),
    Shape(300, 72, 1024, 2),
    Shape(3, 8, 4096, 2),
)


WITHOUT_NORM = Chain(
    "without_norm", (Pointwise("gelu"), Pointwise("multiply_channel", channel="scale")), 0, ()
)


def run_all(chain: str | Chain, shape: Shape, precision: str, scale: float = 1.0) -> int:
    """Every version of one problem. scale: of one value of x, so that float16 halves do not hold it."""
    chain, shape = problem(chain, shape)
    x, parameters = random_inputs(chain, shape, "cuda", dtype=PRECISIONS[precision].dtype)
    x[0, 0] *= scale
    table = fgn.versions(chain, shape, "cuda", precision)
    for version in table.name[table.supported]:
        y = fgn.chain_forward(chain, x, parameters, version, precision).cpu()
        assert torch.isfinite(y).all(), (chain.name, shape, precision, version)
    return table.supported.sum()


def main():
    launched = 0
    for shape in SHAPES:
        launched += sum(run_all(WITHOUT_NORM, shape._replace(groups=0), one) for one in PRECISIONS)
        for name in CHAINS:
            # Versions without tensor cores run what "tf32" permits as they run "ieee".
            launched += sum(run_all(name, shape, precision) for precision in PRECISIONS)
    launched += sum(run_all(name, SHAPES[-2], "ieee", scale=1e12) for name in CHAINS)
    torch.cuda.synchronize()
    print(f"{launched} calls: every version, chain and precision")


if __name__ == "__main__":
    main()
