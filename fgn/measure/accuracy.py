"""Correctness: the errors of every version against float64, beside those of torch's float32 on the same
input."""

from __future__ import annotations

import pandas as pd
import torch
from torch import Tensor

from fgn.chains import Shape, problem, random_inputs
from fgn.functional import check_input, run_chain
from fgn.ladder import default_device
from fgn.ladder import versions as version_frame
from fgn.modules import ChainModule
from fgn.precision import OF_CALLS, resolve, torch_precision
from fgn.reference import chain_reference, chain_reference64

TORCH = "torch.nn"


def relative_error(y: Tensor, exact: Tensor) -> float:
    """||y - exact|| / ||exact||, in float64, over the elements where `exact` is finite."""
    finite = exact.isfinite()
    difference = torch.where(finite, y.double() - exact, 0.0)
    norm = torch.where(finite, exact, 0.0).norm()
    return (difference.norm() / norm).item() if norm > 0 else difference.norm().item()


def max_error(y: Tensor, exact: Tensor) -> float:
    """max |y - exact|, in float64, over the elements where `exact` is finite."""
    if exact.numel() == 0:
        return 0.0
    return torch.where(exact.isfinite(), y.double() - exact, 0.0).abs().max().item()


def misplaced(y: Tensor, expected: Tensor) -> int:
    """The number of elements that are NaN or infinite but not in `expected`, or the reverse."""
    special, expected_special = (torch.where(v.isfinite(), 0.0, v) for v in (y, expected))
    return int((~torch.isclose(special, expected_special, equal_nan=True)).sum())


def compare(
    chain,
    x: Tensor | None = None,
    *,
    shape=None,
    versions=None,
    device=None,
    seed: int = 0,
    precision: str | None = None,
) -> pd.DataFrame:
    """The errors of the versions of a chain, and torch's own in the same precision, against float64.

    chain: a name in `CHAINS`, a `Chain`, or one of fgn's modules, whose parameters are then used.
    x: (batch, in_features), of the precision's dtype; by default random, from `seed`.
    shape: (batch, in_features, out_features[, groups]) of the random input and parameters.
    versions: names of versions; by default all that run. device: where to run, unless x or the module decides
    it.
    precision: one of `fgn.precision.OF_CALLS`; by default that of x or the module, "ieee" for float32.

    One row per version and one for torch.nn, indexed by name:
        relative_error  ||y - y64|| / ||y64||
        max_error       max |y - y64|
        ratio           relative_error over torch's (1 when neither has one)
        misplaced       elements that are NaN or infinite where torch's are not, or the reverse; the result's
                        memory is NaN beforehand, so that elements which are never written count as well
    """
    if x is not None:
        check_input(x)
    given = chain.chain_parameters()["weight"] if isinstance(chain, ChainModule) else x
    if precision is None:
        precision = "ieee" if given is None or given.dtype == torch.float32 else resolve(None, given.dtype)
    elif given is not None:
        resolve(precision, given.dtype)
    dtype = OF_CALLS[precision].dtype
    if isinstance(chain, ChainModule):
        module = chain
        chain, parameters = module.chain, {name: p.detach() for name, p in module.chain_parameters().items()}
        out_features, in_features = parameters["weight"].shape
        device = parameters["weight"].device
        batch = shape[0] if shape is not None else problem(chain, None, device)[1].batch
        shape = Shape(batch, in_features, out_features, chain.groups)
        x = random_inputs(chain, shape, device, seed, dtype)[0] if x is None else x
    else:
        if device is None:
            device = default_device() if x is None else x.device
        device = torch.device(device)
        chain, shape = problem(chain, shape, device)
        if x is not None:
            shape = shape._replace(batch=x.shape[0], in_features=x.shape[1])
        random_x, parameters = random_inputs(chain, shape, device, seed, dtype)
        x = random_x if x is None else x.to(device)
    if versions is None:
        table = version_frame(chain, shape, device, precision)
        versions = table.name[table.supported]

    with torch.no_grad(), torch_precision(precision):
        exact = chain_reference64(chain, x, parameters)
        expected = chain_reference(chain, x, parameters)
        torch_error = relative_error(expected, exact)

        def row(y: Tensor) -> dict:
            error = relative_error(y, exact)
            return {
                "relative_error": error,
                "max_error": max_error(y, exact),
                "ratio": error / torch_error if torch_error > 0 else 1.0 if error == 0 else float("inf"),
                "misplaced": misplaced(y, expected),
            }

        rows = {TORCH: row(expected)}
        for name in versions:
            rows[name] = row(run_chain(chain, x, parameters, name, poison=True, precision=precision))
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("version")
