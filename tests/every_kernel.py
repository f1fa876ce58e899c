"""Runs every kernel once on the GPU, at sizes that take every path: what compute-sanitizer watches.

compute-sanitizer --tool memcheck python tests/every_kernel.py (`make sanitize-gpu` runs all four tools)
"""

import torch

import fgn
from fgn.chains import CHAINS, Shape, problem, random_inputs

# Few tiles and many; sizes that fill no tile; one run of products and several; groups for a team and a block.
SHAPES = (
    Shape(5, 33, 70, 7),
    Shape(40, 300, 144, 3),
    Shape(1100, 270, 1104, 138),
    Shape(1153, 16, 1024, 8),
    Shape(3, 8, 4096, 2),
)


def main():
    for name in CHAINS:
        for shape in SHAPES:
            chain, shape = problem(name, shape)
            x, parameters = random_inputs(chain, shape, "cuda")
            table = fgn.versions(chain, shape, "cuda")
            for version in table.name[table.supported]:
                y = fgn.chain_forward(chain, x, parameters, version)
                assert torch.isfinite(y).all(), (name, shape, version)
    torch.cuda.synchronize()
    print(f"{len(CHAINS) * len(SHAPES)} problems, every version")


if __name__ == "__main__":
    main()
