"""What fusing a model's chains saves: launches, bytes, and their time on a named GPU.

The fused model is called once, and each of its chains is planned (`fgn.plans`). torch's operators run one
after the other: each reads and writes the whole tensor, in its own launch. The saved bytes and launches are
computed, and the GPU's card (`cudasim.cards()`) gives their time; the product takes as long either way. On a
GPU both ways are also measured.
"""

from __future__ import annotations

import statistics
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn

from cudasim.predicting.cards import Card
from fgn.chains import Chain, Shape
from fgn.functional import PRODUCT, chain_forward
from fgn.measure.benchmark import measure
from fgn.native import repeated, tuned
from fgn.plans import Device, plan
from fgn.precision import OF_CALLS, torch_multiplies_as
from fgn.reference import chain_reference

SECONDS = 0.05  # for which each chain is timed on a GPU


class Cost(NamedTuple):
    """launches, and the bytes that they read and write, each once."""

    launches: int
    bytes: float


def cost_by_torch(chain: Chain, shape: Shape, precision: str) -> Cost:
    """The minimum for torch's operators one after the other: each is a launch that reads and writes the
    (batch, out_features) tensor, and reads its operand."""
    batch, in_features, out_features, _ = shape
    element = OF_CALLS[precision].dtype.itemsize
    tensor, vector = element * batch * out_features, element * out_features
    total = element * in_features * (batch + out_features) + vector + tensor
    steps = chain.before + chain.after
    for step in steps:
        total += 2 * tensor + (vector if step.channel else tensor if step.tensor else 0)
    if chain.has_norm:
        total += 2 * tensor + 2 * vector
    return Cost(1 + len(steps) + chain.has_norm, total)


def cost_fused(chain: Chain, shape: Shape, precision: str, card: Card, frozen: bool) -> Cost:
    """For the plan of a call on such a GPU: what its launches read and write, and torch's product if the plan
    asks for it."""
    device = Device(*card.capability, card.multiprocessors, int(card.l2_bytes))
    planned = plan(chain, shape, None, precision, device, frozen)
    launches = [one for one in planned.launches if not one.stands_by]
    total = sum(one.bytes_read + one.bytes_written for one in launches)
    if planned.product_bytes:
        product = cost_by_torch(PRODUCT, shape, precision)
        return Cost(1 + len(launches), product.bytes + total)
    return Cost(len(launches), total)


def _measured(one: tuned.Noted) -> tuple[float, float]:
    """The medians, in ms, of torch's operators and of the chain as one call."""
    calls = {
        "torch": lambda: chain_reference(one.chain, one.x, one.parameters),
        "fgn": lambda: chain_forward(one.chain, one.x, one.parameters, precision=one.precision),
    }
    with torch.no_grad(), torch_multiplies_as(one.precision):
        times = measure(calls, one.x.device, SECONDS)
    return statistics.median(times["torch"]), statistics.median(times["fgn"])


def gains(model: nn.Module, inputs: tuple[Tensor, ...], card: Card, parts: dict) -> pd.DataFrame:
    """A row for each kind of chain that the fused model calls, in order.

    card: of the GPU for the times. parts: the model's `ChainPart`s by their paths. Columns: linear, the first
    of its kind, and times, their number; steps, batch, in_features, out_features, groups, precision;
    torch_launches and launches, torch_bytes and bytes; saved_us, by bytes and launches alone; on a GPU
    torch_ms and fgn_ms, measured here.
    """
    repeated.forget()  # a repeated call would not be seen
    with torch.no_grad(), tuned.noting() as calls:
        model(*inputs)
    repeated.forget()
    paths = {id(chain): path for path, part in parts.items() for chain in part.chains.values()}
    rows = []
    for key, one in calls.items():
        chain, shape, device = one.chain, one.shape, one.x.device
        by_torch = cost_by_torch(chain, shape, one.precision)
        fused = cost_fused(chain, shape, one.precision, card, one.frozen)
        norm = ["norm"] if chain.has_norm else []
        steps = [*[step.kind for step in chain.before], *norm, *[step.kind for step in chain.after]]
        saved = (by_torch.bytes - fused.bytes) / card.dram_bandwidth
        saved += (by_torch.launches - fused.launches) * card.launch_seconds
        row = {"linear": paths.get(id(chain), chain.name), "times": calls.times[key]}
        row["steps"] = " + ".join(["product", *steps])
        row |= shape._asdict() | {"precision": one.precision}
        row |= {"torch_launches": by_torch.launches, "launches": fused.launches}
        row |= {"torch_bytes": by_torch.bytes, "bytes": fused.bytes, "saved_us": saved * 1e6}
        if device.type == "cuda":
            row["torch_ms"], row["fgn_ms"] = _measured(one)
        rows.append(row)
    return pd.DataFrame(rows)
