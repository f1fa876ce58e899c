"""Random calls of every version under the checkers: no crash of the process, no false alarm, right results.

python tests/fgn/random_launches.py 1000 [seed [version ...]]

makes that many calls of each version. Sizes are mostly small, and often those at which kernels take another
way (tiles, warps, float4); parameters are left out now and then, and memory that is not written is NaN.
tests/fgn/test_counters.py makes a few of them.
"""

from __future__ import annotations

import random
import sys
import time

import torch

from cudasim.counting import counted
from fgn.chains import CHAINS, Chain, Shape, problem, random_inputs
from fgn.functional import launch_count, run_chain
from fgn.native.library import version_names
from fgn.reference import chain_reference64

TURNS = (1, 4, 8, 16, 31, 32, 33, 64, 127, 128, 129, 256)
MOST_PRODUCTS = 500_000
MOST_OUTPUTS = 20_000


def random_size(generator: random.Random) -> int:
    if generator.random() < 0.4:
        return generator.choice(TURNS)
    return int(2 ** generator.uniform(0, 9))


def random_problem(generator: random.Random) -> tuple[Chain, Shape]:
    while True:
        batch, in_features = random_size(generator), random_size(generator)
        groups, group_size = random_size(generator), random_size(generator)
        outputs = batch * groups * group_size
        if outputs <= MOST_OUTPUTS and outputs * in_features <= MOST_PRODUCTS:
            break
    shape = Shape(batch, in_features, groups * group_size, groups)
    return problem(generator.choice(list(CHAINS)), shape)


def random_call(generator: random.Random, version: str):
    """Draws calls until one is made that `version` runs. Raises KernelFault or AssertionError."""
    while True:
        chain, shape = random_problem(generator)
        if launch_count(chain, shape, version, torch.device("cpu")) is not None:
            break
    x, parameters = random_inputs(chain, shape, seed=generator.randrange(1 << 30))
    for name in ("bias", "norm_weight", "norm_bias"):
        if generator.random() < 0.2:
            del parameters[name]
    y = counted.check(lambda: run_chain(chain, x, parameters, version, poison=True))
    expected = chain_reference64(chain, x, parameters)
    torch.testing.assert_close(
        y.double(), expected.double(), rtol=1e-3, atol=1e-3, msg=lambda text: f"{version} {shape}: {text}"
    )


def simulated_versions() -> list[str]:
    """Those that run on the CPU at all."""
    chain, shape = problem("gemm_groupnorm_hardtanh")
    return [
        name for name in version_names() if launch_count(chain, shape, name, torch.device("cpu")) is not None
    ]


def main(calls: int, seed: int, versions: list[str]):
    for version in versions or simulated_versions():
        generator, begin = random.Random(f"{seed} {version}"), time.perf_counter()
        for _ in range(calls):
            random_call(generator, version)
        print(f"{version:14} {calls} calls, no fault, {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, sys.argv[3:])
