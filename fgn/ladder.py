"""The versions: ways to divide a chain into launches, from the naive one up. The C library has the table."""

from __future__ import annotations

import pandas as pd
import torch

from cudasim import arrays
from fgn.chains import CHAINS, problem
from fgn.functional import launch_count
from fgn.native.library import version_table


def default_device() -> torch.device:
    """The GPU if there is one, else the CPU, which is the simulator."""
    return torch.device(arrays.default_device())


def versions(chain=None, shape=None, device=None, precision: str = "ieee") -> pd.DataFrame:
    """The versions of a chain, or of every chain in `CHAINS`, at one shape on one device.

    chain, shape: as in `fgn.compare()`. precision: one of `fgn.precision.PRECISIONS`.

    Columns: chain, name, launches (kernels of fgn that one call launches;
    missing if the version does not run), supported, gemm and norm (the files in `cuda_c/` that hold its
    matrix product and its GroupNorm), needs (what it asks of the chain or the device), summary.
    """
    device = torch.device(device) if device is not None else default_device()
    rows = []
    for described in CHAINS.values() if chain is None else [chain]:
        described, sizes = problem(described, shape, device)
        for row in version_table(device.type):
            launches = launch_count(described, sizes, row["name"], device, precision)
            rows.append(
                {"chain": described.name, "launches": launches, "supported": launches is not None} | row
            )
    columns = ["chain", "name", "launches", "supported", "gemm", "norm", "needs", "summary"]
    return pd.DataFrame(rows, columns=columns).astype({"launches": "Int64"})
