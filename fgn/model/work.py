"""The launches of a call as work: which kernel, how many blocks of how many steps, and the bytes in memory.

A block of a matrix product takes a step for each k tile. `fgn.plans` has the launches of fgn's versions; this
module defines how the model counts them. The tiles of torch's products come from the names of torch's
kernels; a block of any other kernel of torch is `UNIT` elements.
"""

from __future__ import annotations

from typing import NamedTuple

from cudasim.counting.apart import tiles
from fgn.chains import Chain, Shape
from fgn.functional import LIBRARY
from fgn.measure.benchmark import COMPILED, EAGER, F_LINEAR
from fgn.plans import HALVES, NORM, NORMALISE, REPACKED, RESERVE, STATISTICS, Device, Launch, plan
from fgn.precision import PRECISIONS

FLOAT_BYTES = 4
UNIT = 1024
TORCH_KERNELS = ("library", "torch", "triton", "RowwiseMoments")

# torch gives each sample and group a block: of a warp, or, from this many values on, of as many threads
# (RowwiseMomentsCUDAKernel in aten/src/ATen/native/cuda/group_norm_kernel.cu).
LARGE_MOMENTS = 512

# What a thread of hopper's repacking writes (PACK_BYTES in cuda_c/hopper/repack.cu).
PACK_BYTES = 16

# The tile and the k tile, in bytes, of the library's large products, by the names of its kernels on an H200
# (profiles/h200/launches.csv): rows, columns, bytes. The library also has smaller tiles, down to 16 rows, and
# splits k if there are few tiles.
LIBRARY_TILES = {"ieee": (128, 128, 32), "tf32": (128, 256, 128), "bf16": (128, 256, 128)}
LIBRARY_TILES["fp16"] = LIBRARY_TILES["bf16"]
LIBRARY_FEWEST_ROWS = 16
LIBRARY_FEWEST_STEPS = 4  # of a part of k
FEW = " of few tiles"


class Work(NamedTuple):
    """One launch.

    launch: what the launch computes, in words. kernel: the name of its function; for torch's kernels, a word
    for what they do.
    blocks, steps: the number of blocks, and the steps of each. elements: outputs of a block that go through
        `operators`, the names of what is applied to them, with `NORM` for GroupNorm.
    groups: groups of GroupNorm in a block.
    read, written: bytes, each once. kept: those among `read` that an earlier launch of the call has read or
        written. passes: how often the launch reads through the weight. weight: the weight's bytes.
    element_bytes: of the tensors' elements. takes_turns: whether of two blocks on a multiprocessor one
        multiplies while the other does what follows its sums.
    """

    launch: str
    kernel: str
    blocks: float
    steps: float = 0.0
    elements: float = 0.0
    operators: tuple[str, ...] = ()
    groups: float = 0.0
    read: int = 0
    written: int = 0
    kept: int = 0
    passes: int = 1
    weight: int = 0
    element_bytes: int = 4
    takes_turns: bool = False

    @property
    def maker(self) -> str:
        """Whose kernel it is: "fgn" or "torch"."""
        return "torch" if self.kernel.startswith(TORCH_KERNELS) else "fgn"


def words(*parts: str) -> str:
    return " + ".join(part for part in parts if part)


class _Call:
    """What the launches of one call have in common."""

    def __init__(self, chain: Chain, shape: Shape, precision: str, multiprocessors: int):
        self.chain, self.shape, self.precision = chain, shape, precision
        self.multiprocessors = multiprocessors
        self.element = PRECISIONS[precision].dtype.itemsize
        self.before = tuple(step.kind for step in chain.before)
        self.after = tuple(step.kind for step in chain.after)
        self.outputs = shape.batch * shape.out_features
        self.size = shape.out_features // max(shape.groups, 1)
        self.tensor = self.element * self.outputs
        self.vector = FLOAT_BYTES * shape.out_features
        self.weight = self.element * shape.in_features * shape.out_features
        self.product_read = self.element * shape.batch * shape.in_features + self.weight + self.vector

    def channels(self, steps) -> int:
        return self.vector * sum(step.channel is not None for step in steps)

    def product_size(self) -> dict:
        """The bytes of a product."""
        return {"read": self.product_read, "written": self.tensor, "weight": self.weight}

    # ---- torch ----

    def library_product(self) -> Work:
        """torch's product: cuBLAS uses smaller tiles for few rows, and splits k among idle
        multiprocessors."""
        batch, in_features, out_features, _ = self.shape
        rows, columns, step_bytes = LIBRARY_TILES[self.precision]
        steps = tiles(in_features * self.element, step_bytes)
        blocks = tiles(batch, rows) * tiles(out_features, columns)
        used = min(1.0, tiles(batch, LIBRARY_FEWEST_ROWS) * LIBRARY_FEWEST_ROWS / rows)
        splits = max(1, min(self.multiprocessors // blocks, int(steps * used) // LIBRARY_FEWEST_STEPS))
        return Work(
            "product",
            f"library product {self.precision}{FEW if splits > 1 or used < 1 else ''}",
            blocks * splits,
            steps * used / splits,
            **self.product_size(),
        )

    def torch_elementwise(
        self, launch: str, kernel: str, operators: tuple[str, ...], steps=(), read=0
    ) -> Work:
        return Work(
            launch,
            f"{kernel}, {self.element} bytes",
            self.outputs / UNIT,
            elements=UNIT,
            operators=operators,
            groups=UNIT / self.size if NORM in operators or STATISTICS in operators else 0,
            read=self.tensor + self.channels(steps) + read,
            written=self.tensor,
            kept=self.tensor,
            element_bytes=self.element,
        )

    def eager_pointwise(self, steps) -> list[Work]:
        return [
            self.torch_elementwise(
                step.kind,
                "torch elementwise" if step.channel is None else "torch elementwise with a vector",
                (step.kind,),
                [step],
            )
            for step in steps
        ]

    def eager(self) -> list[Work]:
        pairs = self.shape.batch * self.shape.groups
        large = self.size >= LARGE_MOMENTS
        moments = Work(
            "statistics",
            f"RowwiseMomentsCUDAKernel of {LARGE_MOMENTS if large else 32} threads",
            pairs,
            read=self.tensor,
            written=2 * self.element * pairs,
            kept=self.tensor,
        )
        normalise = self.torch_elementwise(
            "normalise", "torch normalise", (NORM,), read=2 * self.element * pairs + 2 * self.vector
        )
        return [
            self.library_product(),
            *self.eager_pointwise(self.chain.before),
            moments,
            normalise,
            *self.eager_pointwise(self.chain.after),
        ]

    def compiled(self) -> list[Work]:
        """torch.compile's three launches: the product; the operators before the norm and its statistics; the
        same operators again, the norm and the operators after it."""
        statistics = self.torch_elementwise(
            words(*self.before, STATISTICS),
            "triton statistics",
            (*self.before, STATISTICS),
            self.chain.before,
        )
        normalise = self.torch_elementwise(
            words(*self.before, "normalise", *self.after),
            "triton normalise",
            (*self.before, NORM, *self.after),
            self.chain.before + self.chain.after,
        )
        pairs = 2 * FLOAT_BYTES * self.shape.batch * self.shape.groups
        return [self.library_product(), statistics._replace(written=pairs), normalise]


STANDS_BY = "stands by"
KERNEL_TYPES = {"ieee": "split_float32", "tf32": "tf32", "bf16": "bfloat16", "fp16": "float16"}

# The fused versions among those without tensor cores.
FUSED_ORDINARY = ("fused", "one_kernel", "few_rows_float32")
ORDINARY = (
    *("naive", "coalesced", "shared_tile", "register_tile", "vectorized"),
    *("tiled", *FUSED_ORDINARY),
)
ON_TENSOR_CORES = ("tensor_core", "hopper", "few_rows")
SUBJECTS = (*ORDINARY, *ON_TENSOR_CORES, LIBRARY, EAGER, COMPILED, F_LINEAR)

# If a warp's lanes are 128 bytes apart or more, its load touches a line of 128 bytes for each lane.
LINE_BYTES, LANES = 128, 32
# hopper's costs are those of one step of one team of warpgroups with a wide tile: 64 rows, 256 columns. Two
# teams multiply parts of a larger tile at the same time; a step of a narrow tile counts as half a step.
TEAM_ROWS, TEAM_COLUMNS = 64, 256


def _of_plan(launch: Launch, call: _Call) -> Work:
    """A launch of a plan, as the model counts it."""
    if launch.stands_by:
        return Work(RESERVE, STANDS_BY, 0)
    bytes_ = {"read": launch.bytes_read, "written": launch.bytes_written, "kept": launch.bytes_kept}
    if not launch.is_product:
        return _around_product(launch, call, bytes_)
    elements = launch.tile_rows * launch.tile_columns
    work = Work(
        launch.text,
        launch.kernel,
        launch.tiles,
        launch.steps,
        elements=elements if launch.operators else 0,
        operators=launch.operators,
        groups=elements / call.size if NORM in launch.operators else 0,
        passes=call.shape.batch if launch.tile_rows == 1 else 1,
        weight=call.weight,
        **bytes_,
    )
    if launch.kernel.startswith("few_rows") and launch.kernel != "few_rows_gemm_kernel":
        # One kernel for all types.
        return work._replace(kernel=f"{launch.kernel} {call.precision}")
    if launch.kernel.startswith("hopper"):
        teams = launch.tile_rows // TEAM_ROWS
        steps = launch.steps * teams * launch.tile_columns // TEAM_COLUMNS
        in_team = {"elements": elements / teams, "groups": elements / teams / call.size}
        return work._replace(steps=steps, takes_turns=teams == 1, **in_team)
    return work


def _around_product(launch: Launch, call: _Call, bytes_: dict) -> Work:
    """A launch without a product: its steps are the elements of a thread."""
    all_elements = call.shape.batch * call.shape.in_features if HALVES in launch.words else call.outputs
    elements = all_elements / launch.blocks
    steps = elements / launch.threads
    if HALVES in launch.words:
        return Work(launch.text, launch.kernel, launch.blocks, steps / 4, **bytes_)
    if REPACKED in launch.words:
        packs = launch.bytes_written / PACK_BYTES / launch.blocks
        return Work(launch.text, launch.kernel, launch.blocks, packs / launch.threads, **bytes_)
    if STATISTICS in launch.words:
        # Each thread reads through one group, so neighbouring lanes are a group apart.
        steps = call.size * LANES * min(1, FLOAT_BYTES * call.size / LINE_BYTES)
        return Work(launch.text, launch.kernel, launch.blocks, steps, **bytes_)
    if launch.operators[-1] == NORMALISE:
        return Work(launch.text, launch.kernel, launch.blocks, **bytes_)
    steps = steps if NORM in launch.operators else 0.0
    return Work(
        launch.text, launch.kernel, launch.blocks, steps, elements, operators=launch.operators, **bytes_
    )


def works(
    chain: Chain,
    shape: Shape,
    subject: str,
    precision: str = "ieee",
    multiprocessors: int = 132,
    device: Device | str | None = None,
) -> list[Work]:
    """The launches of one call, in order.

    chain, shape: with the shape's groups, as `fgn.chains.problem()` returns them. subject: a version or one
    of `fgn.measure.RIVALS`. device: for a version's plan, as for `fgn.plans.plan()`; by default a GPU of
    compute capability 9.0 with `multiprocessors`. ValueError if the version does not run the chain there.
    """
    call = _Call(chain, shape, precision, multiprocessors)
    if subject in (*ORDINARY, *ON_TENSOR_CORES, LIBRARY):
        device = Device(9, 0, multiprocessors) if device is None else device
        planned = plan(chain, shape, subject, precision, device)
        launches = [_of_plan(launch, call) for launch in planned.launches]
        return [call.library_product(), *launches] if planned.product_bytes > 0 else launches
    if subject == F_LINEAR:
        return [call.library_product()]
    if subject == EAGER:
        return call.eager()
    if subject == COMPILED:
        return call.compiled()
    raise ValueError(f"subject: expected one of {', '.join(SUBJECTS)}, got {subject!r}")
