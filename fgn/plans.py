"""The plan of a call: its launches by the C library (cuda_c/fgn.h), for any GPU on any machine.

A plan is arithmetic, so `plan()` for a named card needs no GPU: the simulator's library has the arithmetic of
every version. Only the C code defines a version's launches, tiles, splits of k and memory traffic; the model,
the plots and the profiles read them here.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from fgn.chains import Chain, Shape
from fgn.functional import plan_of
from fgn.native.library import ffi, for_device, version_names

NORM, STATISTICS, NORMALISE = "norm", "statistics", "normalise"
HALVES, RESERVE = "halves of x", "float32 in reserve"
FINGERPRINT, WEIGHT_HALVES = "fingerprint of the weight", "halves of the weight"
REPACKED, QUANTISED = "repacked rows", "8-bit factors"
PRODUCT, SUMS, PARTIAL_SUMS = "product", "sums", "product, partial sums"


class Device(NamedTuple):
    """The properties of a GPU on which a plan depends. Compute capability 0.0 is the simulator."""

    major: int
    minor: int
    multiprocessors: int
    l2_bytes: int = 0


# NVIDIA's data sheets and white papers.
DEVICES = {
    "H200": Device(9, 0, 132, 60 << 20),
    "A100": Device(8, 0, 108, 40 << 20),
    "RTX 4090": Device(8, 9, 128, 72 << 20),
}


class Launch(NamedTuple):
    """One launch, with the fields of the struct fgn_launch.

    words: what it computes, in order: "product", the operators' names, "norm", ... operators: the operators
    and the norm among the words, in order. writes_y: False if it writes the workspace. bytes_read,
    bytes_written: each byte once; bytes_kept: those of bytes_read that an earlier launch of the call has read
    or written.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: int
    shared_bytes: int
    words: tuple[str, ...]
    operators: tuple[str, ...]
    writes_y: bool
    stands_by: bool
    operations: float
    bytes_read: int
    bytes_kept: int
    bytes_written: int
    tile_rows: int
    tile_columns: int
    steps: int
    step_k: int
    stages: int
    thread_rows: int
    thread_columns: int
    tiles: int

    @property
    def text(self) -> str:
        """What it computes: "product + hardtanh"."""
        return " + ".join(self.words)

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def is_product(self) -> bool:
        return not self.stands_by and self.words[0] in (PRODUCT, PARTIAL_SUMS)


class Plan(NamedTuple):
    """How a version runs a chain. product_bytes: the size of the product, if the caller computes it with
    torch at the beginning of the workspace; else 0. nanoseconds: the version's own estimate; None without a
    model."""

    version: str
    device: Device
    workspace_bytes: int
    product_bytes: int
    prepared_bytes: int
    nanoseconds: float | None
    launches: tuple[Launch, ...]

    @property
    def product(self) -> Launch | None:
        """The launch with the matrix product; None if the product is torch's (`product_bytes`)."""
        return next((launch for launch in self.launches if launch.is_product), None)


def _words(library, c_launch, chain: Chain) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a launch computes, and which words are operators or the norm."""
    computes = c_launch.computes
    first, count = c_launch.before_first, c_launch.before_count
    before = tuple(step.kind for step in chain.before[first : first + count])
    first, count = c_launch.after_first, c_launch.after_count
    after = tuple(step.kind for step in chain.after[first : first + count])
    statistics, normalise = computes & library.FGN_STATISTICS, computes & library.FGN_NORMALISE
    norm = (NORM,) if statistics and normalise else (STATISTICS,) * bool(statistics)
    norm += (NORMALISE,) * bool(normalise and not statistics)
    if c_launch.stands_by:
        return (RESERVE,), ()
    for flag, word in (
        (library.FGN_HALVES, HALVES),
        (library.FGN_FINGERPRINT, FINGERPRINT),
        (library.FGN_WEIGHT_HALVES, WEIGHT_HALVES),
        (library.FGN_REPACKED, REPACKED),
        (library.FGN_QUANTISED, QUANTISED),
    ):
        if computes & flag:
            return (word,), ()
    head = ()
    if computes & library.FGN_PRODUCT:
        head = (PARTIAL_SUMS if computes & library.FGN_PARTIAL_SUMS else PRODUCT,)
    elif computes & library.FGN_ADD_SUMS:
        head = (SUMS,)
    operators = (*before, *norm, *after)
    return head + operators, operators


def _launch(library, c_launch, chain: Chain) -> Launch:
    words, operators = _words(library, c_launch, chain)
    same = {
        name: getattr(c_launch, name)
        for name in Launch._fields
        if name not in ("kernel", "grid", "block", "words", "operators", "writes_y", "stands_by")
    }
    return Launch(
        kernel=ffi().string(c_launch.kernel).decode(),
        grid=tuple(c_launch.grid),
        block=tuple(c_launch.block),
        words=words,
        operators=operators,
        writes_y=c_launch.writes == library.FGN_WRITES_Y,
        stands_by=bool(c_launch.stands_by),
        **same,
    )


def plan(
    chain: Chain,
    shape: Shape,
    version: str | None = None,
    precision: str = "ieee",
    device: str | torch.device | Device | None = None,
    frozen: bool = True,
) -> Plan:
    """The plan of a call, without a call.

    chain, shape: with the shape's groups, as `fgn.chains.problem()` returns them. version: None for the
    default version of such a chain. device: a present torch device (by default the CPU, which is the
    simulator); a name in `DEVICES`; or a `Device`. frozen: whether the weight is frozen (`fgn.freeze()`);
    otherwise a version that splits it also checks whether it has changed. ValueError if the version does not
    run this chain there, with the reason.
    """
    planned = DEVICES.get(device, device) if isinstance(device, str) else device
    here = torch.device("cpu" if planned is None or isinstance(planned, Device) else planned)
    as_device = planned if isinstance(planned, Device) else None
    c_plan = plan_of(chain, shape, version, here, precision, as_device, frozen)
    library = for_device(here.type).load()
    if c_plan is None:
        raise ValueError(f"version: {ffi().string(library.fgn_last_error()).decode()}")
    return Plan(
        version=version_names(here.type)[c_plan.version],
        device=Device(*(getattr(c_plan.device, name) for name in Device._fields)),
        workspace_bytes=c_plan.workspace_bytes,
        product_bytes=c_plan.product_bytes,
        prepared_bytes=c_plan.prepared_bytes,
        nanoseconds=c_plan.nanoseconds or None,
        launches=tuple(_launch(library, c_plan.launch[index], chain) for index in range(c_plan.launch_count)),
    )
