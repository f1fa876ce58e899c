"""The floor: the time below which no program can compute a chain on a machine."""

from __future__ import annotations

from typing import NamedTuple

from fgn.chains import problem
from fgn.measure.machine import Machine
from fgn.precision import PRECISIONS


class Work(NamedTuple):
    """The bytes that a chain must move and the operations that it must do, however it is written."""

    bytes: int
    operations: int


class Floor(NamedTuple):
    """The minimum cost of a chain on a machine. Times are in ms."""

    bytes: int
    operations: int
    memory_ms: float
    compute_ms: float

    @property
    def ms(self) -> float:
        return max(self.memory_ms, self.compute_ms)


# GroupNorm, per element: an addition for the mean; a subtraction, a multiplication and an addition for the
# variance; a subtraction and a multiplication to normalise; a multiplication and an addition, by channel.
GROUP_NORM_OPERATIONS = 8


def least_work(chain, shape, precision: str | None = None) -> Work:
    """The bytes and the operations that every program for the chain needs.

    chain, shape: as in `fgn.compare()`. precision: one of `fgn.precision.PRECISIONS`; None is float32.

    Bytes: x, the weight and the vectors of parameters are read once, y is written once, and nothing else has
    to touch memory: batch in_features + out_features (in_features + vectors) + batch out_features elements.

    Operations: for each of the batch out_features outputs, 2 in_features for its product, 1 for its bias,
    `GROUP_NORM_OPERATIONS`, and 1 for each pointwise operator (an exponential counts as one).
    """
    chain, shape = problem(chain, shape)
    batch, in_features, out_features, _ = shape
    vectors = 3 + len(chain.channels)
    elements = batch * in_features + out_features * (in_features + vectors) + batch * out_features
    per_output = 2 * in_features + 1 + GROUP_NORM_OPERATIONS + len(chain.before) + len(chain.after)
    element = 4 if precision is None else PRECISIONS[precision].dtype.itemsize
    return Work(element * elements, batch * out_features * per_output)


def floor(chain, shape, machine: Machine, precision: str | None = None) -> Floor:
    """The time below which no program for the chain can go on this machine.

    precision: None is float32 without tensor cores. Otherwise one of `fgn.precision.PRECISIONS`, with tensor
    cores; "ieee" then takes three products of 16-bit halves, or ordinary float32, whichever is faster.

    Memory and arithmetic can overlap fully, so the floor is the larger of two times: the bytes of
    `least_work()` over the copy bandwidth, and its operations over the rate of the fastest large product.
    """
    work = least_work(chain, shape, precision)
    rates = machine.product_operations_per_second
    rate = rates["ieee"]
    if precision is not None and machine.has_tensor_cores:
        rate = max(rate, rates["fp16"] / 3) if precision == "ieee" else rates[precision]
    memory, compute = work.bytes / machine.dram_bytes_per_second, work.operations / rate
    return Floor(*work, memory * 1e3, compute * 1e3)
