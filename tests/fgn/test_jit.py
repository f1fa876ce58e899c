"""Kernels that are compiled for one call compute the same bits as the library's own (`fgn.native.jit`)."""

import random
import warnings

import pytest
import torch

from fgn.native import jit
from fgn.native.library import GPU
from fgn.operators import POINTWISE, Pointwise
from fgn.rows import AGAIN, ROW_FUNCTIONS, Rows, rows_forward

pytestmark = pytest.mark.skipif(jit.find_nvcc() is None, reason="needs nvcc")


def random_steps(draw: random.Random, features: int, batch: int, dtype, operands: dict, reads_again: bool):
    """Up to four operators of any kind, and their operands."""
    steps = []
    for _ in range(draw.randrange(5)):
        kind = draw.choice([*POINTWISE])
        name, operator = f"operand{len(operands)}", POINTWISE[kind]
        if operator.operand == "channel":
            steps.append(Pointwise(kind, channel=name))
            operands[name] = torch.rand(features).to(dtype) + 0.5
        elif operator.operand == "tensor":
            again = reads_again and draw.random() < 0.5
            steps.append(Pointwise(kind, tensor=AGAIN if again else name))
            if not again:
                operands[name] = torch.randn(batch, features).to(dtype)
        else:
            constants = (draw.uniform(0.5, 2), draw.uniform(2, 4))[: len(operator.constants)]
            steps.append(Pointwise(kind, *constants))
    return tuple(steps)


def random_rows(seed: int):
    draw, operands = random.Random(seed), {}
    torch.manual_seed(seed)
    function, dtype = (
        draw.choice([*ROW_FUNCTIONS]),
        draw.choice((torch.float32, torch.float16, torch.bfloat16)),
    )
    features, batch = (
        draw.choice((1, 7, 64, 200, 256, 1000, 1536, 4096, 5120, 9000)),
        draw.choice((1, 3, 128, 700)),
    )
    window = draw.choice((2, 4, 5, 16)) if ROW_FUNCTIONS[function].reduces and draw.random() < 0.4 else None
    window = window if window is not None and window <= features else None
    results = Rows(function, window=window).results_of(features)
    before = random_steps(draw, features, batch, dtype, operands, False)
    after = random_steps(
        draw, results, batch, dtype, operands, function == "values" or ROW_FUNCTIONS[function].reduces
    )
    keeps = function != "values" and (window is None or features % window == 0) and draw.random() < 0.3
    return (
        Rows(function, before, after, window, 1e-5, keeps),
        torch.randn(batch, features).to(dtype),
        operands,
    )


@pytest.mark.parametrize("seed", range(40))
def test_functions_of_rows_on_gpu(seed, monkeypatch):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    monkeypatch.delenv("FGN_JIT", raising=False)
    rows, v, operands = random_rows(seed)
    v, operands = v.cuda(), {name: value.cuda() for name, value in operands.items()}
    own = rows_forward(rows, v, operands)
    rows_forward(rows, v, operands)
    before = GPU.load().fgn_jit_launches()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = rows_forward(rows, v, operands)
    assert GPU.load().fgn_jit_launches() == before + 1
    for one, other in zip(*[y if isinstance(y, tuple) else (y,) for y in (own, compiled)], strict=True):
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8)), rows
