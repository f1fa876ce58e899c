"""The launches of a call as work: which kernel, how many blocks of how many steps, and the bytes in memory.

A block of a matrix product takes a step for each k tile; the blocks, tiles and k tiles are those of the
kernels' own constants. For torch's kernels, which are not ours to read, the tiles are those that the names of
its kernels say, and a block of anything else is `UNIT` elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fgn.chains import Chain, Shape
from fgn.measure.benchmark import COMPILED, EAGER, F_LINEAR
from fgn.native.source import constants
from fgn.precision import PRECISIONS

NORM, STATISTICS = "norm", "statistics"
FLOAT_BYTES = 4
UNIT = 1024
TORCH_KERNELS = ("library", "torch", "triton", "RowwiseMoments")

# torch gives each sample and group a block: of a warp, or, from this many values on, of as many threads
# (RowwiseMomentsCUDAKernel in aten/src/ATen/native/cuda/group_norm_kernel.cu).
LARGE_MOMENTS = 512

# The tile and the k tile, in bytes, of the library's large products, as the names of its kernels on
# an H200 say (profiles/h200/launches.csv): rows, columns, bytes. It has smaller tiles, down to 16 rows, and
# splits k where there are few.
LIBRARY_TILES = {"ieee": (128, 128, 32), "tf32": (128, 256, 128), "bf16": (128, 256, 128)}
LIBRARY_TILES["fp16"] = LIBRARY_TILES["bf16"]
LIBRARY_FEWEST_ROWS = 16
LIBRARY_FEWEST_STEPS = 4  # of a part of k
FEW = " of few tiles"


class Work(NamedTuple):
    """One launch.

    launch: what it computes, in words. kernel: its function's name; torch's kernels: what they are.
    blocks, steps: how many blocks, and the steps of each. elements: outputs of a block that go through
        `operators`, the names of what is applied to them, with `NORM` for GroupNorm.
    groups: groups of GroupNorm in a block.
    read, written: bytes, each once. kept: those among `read` that an earlier launch of the call has read or
        written. passes: how often the weight is walked through, and weight: its bytes.
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


class FewRowsPlan(NamedTuple):
    """How few_rows cuts a product: the rows and columns of a block, its warps side by side, the parts of k,
    the blocks of a cluster, and whether blocks end the chain."""

    rows: int
    columns: int
    across: int
    splits: int
    cluster: int
    blocks_end: bool


def tiles(count: int, size: int) -> int:
    """How many tiles of `size` cover `count`."""
    return -(-count // size)


def power_of_two_above(count: int, limit: int) -> int:
    """The least power of two that is not below `count`, or `limit`."""
    power = 1
    while power < count and power < limit:
        power *= 2
    return power


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
        self.size = shape.out_features // shape.groups
        self.tensor = self.element * self.outputs
        self.vector = FLOAT_BYTES * shape.out_features
        self.weight = self.element * shape.in_features * shape.out_features
        self.product_read = self.element * shape.batch * shape.in_features + self.weight + self.vector

    def channels(self, steps) -> int:
        return self.vector * sum(step.channel is not None for step in steps)

    # ---- The ladder ----

    def product(self, version: str) -> Work:
        """The matrix product of a rung without tensor cores."""
        batch, in_features, out_features, _ = self.shape
        size = self.product_size()
        if version == "naive":
            blocks = tiles(self.outputs, constants("gemm_1_naive.cu").THREADS)
            return Work("product", "naive_gemm_kernel", blocks, in_features, passes=batch, **size)
        if version == "coalesced":
            warps, lanes = constants("gemm_2_coalesced.cu").WARPS, constants("gemm_2_coalesced.cu").LANES
            steps = tiles(in_features, lanes)
            blocks = tiles(self.outputs, warps)
            return Work("product", "coalesced_gemm_kernel", blocks, steps, passes=batch, **size)
        if version in TILED:
            kernel, file = TILED[version]
            tile = constants(file).TILE
            steps = tiles(in_features, getattr(constants(file), "TILE_K", tile))
            return Work("product", kernel, tiles(batch, tile) * tiles(out_features, tile), steps, **size)
        return self.pipelined("product", "pipelined_gemm_kernel", (), size)

    def pipelined(self, launch: str, kernel: str, operators: tuple[str, ...], size: dict) -> Work:
        """The product of rungs 6, 7 and 8, and of the one for few rows."""
        batch, in_features, out_features, groups = self.shape
        at = constants("pipelined_tile.h")
        row_tiles = tiles(batch, at.TILE)
        whole_groups = kernel == "one_kernel_kernel"
        if kernel == "few_rows_gemm_kernel":
            few = constants("gemm_few_rows.cu")
            columns = few.WARPS * few.WARP_COLUMNS
            blocks = tiles(batch, few.ROWS) * tiles(out_features, columns)
            steps = tiles(in_features, 4 * constants("gemm_2_coalesced.cu").LANES)
            inside = {"elements": few.ROWS * columns, "operators": operators}
            return Work(launch, "few_rows_gemm_kernel", blocks, steps, **inside, **size)
        across = at.TILE // self.size if whole_groups else 0
        column_tiles = tiles(groups, across) if whole_groups else tiles(out_features, at.TILE)
        inside = {"elements": at.TILE**2, "operators": operators, "groups": at.TILE * across}
        return Work(launch, kernel, row_tiles * column_tiles, tiles(in_features, at.TILE_K), **inside, **size)

    def norm_alone(self, operators: tuple[str, ...], steps) -> Work:
        """GroupNorm in one launch, with the operators after it."""
        at = constants("group_norm_2_block.cu")
        width = 4 if self.size % 4 == 0 else 1
        lanes = constants("gemm_2_coalesced.cu").LANES
        if self.size > at.LARGEST_TEAM_GROUP:
            team, kernel = at.THREADS, "group_norm_block"
        else:
            team, kernel = power_of_two_above(tiles(self.size, width), lanes), "group_norm_team"
        to_half = "" if self.element == FLOAT_BYTES else f"_to_{KERNEL_TYPES[self.precision]}"
        values = tiles(self.size, team * width) * width
        blocks = self.shape.batch * self.shape.groups * team / at.THREADS
        # The product's sums are float32 until here, whatever the tensors are.
        tensor = FLOAT_BYTES * self.outputs
        return Work(
            words(NORM, *self.after) if operators else NORM,
            f"{kernel}{to_half}_kernel",
            blocks,
            values,
            elements=values * at.THREADS,
            operators=operators,
            read=tensor + 2 * self.vector + self.channels(steps),
            written=self.tensor,
            kept=tensor,
        )

    def pointwise(self, steps) -> list[Work]:
        """A launch for each operator."""
        blocks = tiles(self.outputs, constants("pointwise.cu").THREADS)
        return [
            Work(
                step.kind,
                "pointwise_kernel",
                blocks,
                elements=constants("pointwise.cu").THREADS,
                operators=(step.kind,),
                read=self.tensor + self.channels([step]),
                written=self.tensor,
                kept=self.tensor,
            )
            for step in steps
        ]

    def naive_norm(self) -> list[Work]:
        threads = constants("group_norm_1_naive.cu").THREADS
        pairs = self.shape.batch * self.shape.groups
        moments = 3 * FLOAT_BYTES * pairs
        # A load of a warp's 32 groups touches as many lines of 128 bytes; each is walked twice.
        lines = 32 * min(1, FLOAT_BYTES * self.size / 128)
        statistics = Work(
            "statistics",
            "naive_moments_kernel",
            tiles(pairs, threads),
            self.size * lines,
            read=2 * self.tensor,
            written=moments,
            kept=2 * self.tensor,
        )
        normalise = Work(
            "normalise",
            "naive_normalise_kernel",
            tiles(self.outputs, threads),
            read=self.tensor + moments + 2 * self.vector,
            written=self.tensor,
            kept=self.tensor + moments,
        )
        return [statistics, normalise]

    def separate(self, version: str, norm: list[Work]) -> list[Work]:
        return [
            self.product(version),
            *self.pointwise(self.chain.before),
            *norm,
            *self.pointwise(self.chain.after),
        ]

    def few_rows_float32(self) -> list[Work]:
        return self.fused("few_rows_gemm_kernel")

    def fused(self, kernel: str = "fused_gemm_kernel") -> list[Work]:
        size = self.product_size(self.chain.before)
        product = self.pipelined(words("product", *self.before), kernel, self.before, size)
        return [product, self.norm_alone(self.after, self.chain.after)]

    def product_size(self, steps=()) -> dict:
        """The bytes of a product with some operators in it."""
        read = self.product_read + self.channels(steps)
        return {"read": read, "written": self.tensor, "weight": self.weight}

    def whole_size(self) -> dict:
        """The bytes of a launch that does everything."""
        size = self.product_size(self.chain.before + self.chain.after)
        return size | {"read": size["read"] + 2 * self.vector}

    def whole_launch(self) -> str:
        return words("product", *self.before, NORM, *self.after)

    def one_kernel(self) -> list[Work]:
        if self.size > constants("pipelined_tile.h").TILE:
            raise ValueError("version: one_kernel needs groups of at most 128 channels")
        operators = (*self.before, NORM, *self.after)
        return [self.pipelined(self.whole_launch(), "one_kernel_kernel", operators, self.whole_size())]

    # ---- Tensor cores ----

    @property
    def split(self) -> bool:
        return self.precision == "ieee"

    def halves(self) -> list[Work]:
        """The two halves of x, a launch before the product of split factors: a warp or a block for a row."""
        at, lanes = constants("halves.cu"), constants("gemm_2_coalesced.cu").LANES
        batch, in_features = self.shape.batch, self.shape.in_features
        team = lanes if in_features <= 4 * at.KEPT * lanes else at.THREADS
        x = FLOAT_BYTES * batch * in_features
        blocks, quads = tiles(batch, at.THREADS // team), tiles(in_features, 4 * team)
        return [Work("halves", "halves_kernel", blocks, quads, read=x, written=x)]

    def stand_by(self) -> list[Work]:
        """What float32 rungs would do if halves did not hold the factors: launches that return at once."""
        fits = self.size <= constants("pipelined_tile.h").TILE
        return [Work("stands by", STANDS_BY, 0)] * (1 if fits else 2)

    def around_split(self, launches: list[Work]) -> list[Work]:
        return self.halves() + launches + self.stand_by() if self.split else launches

    def tensor_tiles(
        self, kernel: str, elements: int, steps: int, blocks: int, in_tile: bool, **more
    ) -> Work:
        operators = (*self.before, NORM, *self.after) if in_tile else self.before
        return Work(
            self.whole_launch() if in_tile else words("product", *self.before),
            f"{kernel}_{KERNEL_TYPES[self.precision]}_kernel",
            blocks,
            steps,
            elements=elements,
            operators=operators,
            groups=elements / self.size if in_tile else 0,
            kept=FLOAT_BYTES * self.shape.batch * self.shape.in_features if self.split else 0,
            **(self.whole_size() if in_tile else self.product_size(self.chain.before)),
            **more,
        )

    def groups_fit(self, columns: int) -> bool:
        """Whether a tensor core rung normalises groups in tiles of so many columns."""
        return 8 <= self.size <= columns and self.size & (self.size - 1) == 0

    def tensor_steps(self, step_bytes: int) -> int:
        """Steps along k, of so many bytes of a row of one of the factors' matrices."""
        return tiles(self.shape.in_features * (2 if self.split else self.element), step_bytes)

    def tensor_core(self) -> list[Work]:
        at = constants("gemm_9_tensor_core.cu")
        column_tiles = at.SPLIT_COLUMN_TILES if self.split else at.MOST_COLUMN_TILES
        rows, columns = at.TILE_ROWS, at.WARPS_ACROSS * column_tiles * at.MMA_COLUMNS
        blocks = tiles(self.shape.batch, rows) * tiles(self.shape.out_features, columns)
        in_tile = self.groups_fit(columns)
        steps = self.tensor_steps(at.STEP_BYTES)
        product = self.tensor_tiles("tensor_core", rows * columns, steps, blocks, in_tile)
        if in_tile:
            return self.around_split([product])
        product = product._replace(written=FLOAT_BYTES * self.outputs)
        return self.around_split([product, self.norm_alone(self.after, self.chain.after)])

    def hopper(self) -> list[Work]:
        """A tile is the two teams' of a block, or one's own; all is counted for one team and wide
        tiles: a step of a narrow one is half a step."""
        at = constants("hopper/sizes.h")
        if not self.groups_fit(at.PAIR * at.TILE_COLUMNS):
            raise ValueError("version: hopper needs groups of 8, 16, ..., 512 channels")
        batch, out_features = self.shape.batch, self.shape.out_features

        def are_few(rows: int) -> bool:
            units = tiles(tiles(batch, rows) * tiles(out_features, at.TILE_COLUMNS), at.PAIR)
            return 2 * units <= self.multiprocessors // at.PAIR

        steps = self.tensor_steps(at.STEP_BYTES)
        short = steps <= constants("hopper/plan.h").MOST_OWN_STEPS
        own_tiles = not self.split and (short or are_few(at.TEAMS * at.WARPGROUP_ROWS))
        together = 1 if own_tiles else at.TEAMS
        narrow = are_few(together * at.WARPGROUP_ROWS) and self.size <= at.PAIR * at.NARROW_COLUMNS
        columns = at.NARROW_COLUMNS if narrow else at.TILE_COLUMNS
        row_tiles = tiles(batch, together * at.WARPGROUP_ROWS)
        column_tiles = tiles(out_features, columns)
        if self.size == at.PAIR * columns or row_tiles % at.PAIR:
            column_tiles = tiles(column_tiles, at.PAIR) * at.PAIR
        product = self.tensor_tiles(
            "hopper",
            at.WARPGROUP_ROWS * columns,
            steps * together * columns // at.TILE_COLUMNS,
            row_tiles * column_tiles,
            True,
            takes_turns=own_tiles,
        )
        if narrow:
            product = product._replace(kernel=product.kernel.replace("_kernel", "_narrow_kernel"))
        return self.around_split([product])

    def few_rows(self) -> list[Work]:
        at, ending = constants("few_rows/arguments.h"), constants("few_rows/ending.h")
        batch, _, out_features, groups = self.shape
        if batch > at.MOST_ROWS:
            raise ValueError(f"version: few_rows needs a batch of at most {at.MOST_ROWS}")
        plan = min(self.few_rows_plans(), key=self.few_rows_nanoseconds)
        operators = (*self.before, NORM, *self.after)
        product = Work(
            self.whole_launch() if plan.blocks_end else "product",
            f"few_rows_{plan.rows}_kernel {self.precision}",
            tiles(batch, plan.rows) * tiles(out_features, plan.columns) * plan.splits,
            tiles(tiles(self.few_rows_steps, plan.splits), at.WARPS // plan.across),
            **(self.whole_size() if plan.blocks_end else self.product_size()),
        )
        if plan.blocks_end:
            return [product]
        sums = FLOAT_BYTES * plan.splits * self.outputs
        vectors = self.whole_size()["read"] - self.product_read
        threads = constants("gemm_few_rows_tensor.cu").END_THREADS
        team = threads
        if self.size <= ending.LARGEST_WARP_GROUP:
            lanes = constants("gemm_2_coalesced.cu").LANES
            team = power_of_two_above(tiles(self.size, ending.FOUR), lanes)
        end = Work(
            words(*operators),
            "few_rows_end_kernel",
            tiles(batch * groups, threads // team),
            tiles(self.size, team),
            elements=threads // team * self.size,
            operators=operators,
            read=sums + vectors,
            written=self.tensor,
            kept=sums,
        )
        return [product._replace(written=sums), end]

    @property
    def few_rows_steps(self) -> int:
        """Along k: few_rows reads float32 as it is, whatever it makes of it."""
        return tiles(self.shape.in_features * self.element, constants("few_rows/arguments.h").STEP_BYTES)

    def few_rows_plans(self) -> Iterator[FewRowsPlan]:
        """All ways in which few_rows can cut a product, as plan_of() in few_rows/plan.h goes through them;
        with clusters, as Hopper has them."""
        at, plans = constants("few_rows/arguments.h"), constants("few_rows/plan.h")
        most_tiles = at.WARPS * constants("few_rows/queue.h").X_SHARE // 2
        fours = self.size % constants("few_rows/ending.h").FOUR == 0
        in_registers = fours and self.size <= constants("few_rows/ending.h").LARGEST_WARP_GROUP
        powers = [power for power in (1, 2, 4, 8) if power <= at.WARPS]
        for row_tiles in (power for power in powers if power <= at.MOST_ROW_TILES):
            for across in powers:
                if at.WARPS // across * row_tiles > most_tiles:
                    continue
                rows, columns = row_tiles * at.TILE_ROWS, across * at.WARP_COLUMNS
                whole_groups = columns % self.size == 0
                rounds = tiles(self.few_rows_steps, at.WARPS // across)
                blocks = tiles(self.shape.batch, rows) * tiles(self.shape.out_features, columns)
                fill = tiles(self.multiprocessors, blocks)
                most_splits = max(1, min(rounds // plans.FEWEST_ROUNDS, fill, plans.MOST_SPLITS))
                for splits in range(1, most_splits + 1):
                    pair = splits == at.MOST_CLUSTER and whole_groups and in_registers
                    cluster = splits if pair else 1
                    ends = whole_groups and cluster == splits
                    yield FewRowsPlan(rows, columns, across, splits, cluster, ends)

    def few_rows_nanoseconds(self, plan: FewRowsPlan) -> float:
        """What few_rows expects of a plan: nanoseconds_of() in few_rows/plan.h."""
        at = constants("few_rows/plan.h")
        step_bytes = constants("few_rows/arguments.h").STEP_BYTES
        batch, in_features, out_features, _ = self.shape
        blocks = tiles(batch, plan.rows) * tiles(out_features, plan.columns) * plan.splits
        waves = tiles(blocks, self.multiprocessors)
        rows_read = min(batch, plan.rows)
        k_bytes = tiles(self.few_rows_steps, plan.splits) * step_bytes
        k_bytes *= waves * self.multiprocessors
        multiplying = k_bytes * plan.rows * plan.columns / at.TENSOR_RATE
        if self.precision == "ieee":
            multiplying = 3 * multiplying + k_bytes * (plan.columns + rows_read / 2) / at.SPLIT_RATE
        time = max(
            (out_features + batch) * in_features * self.element / at.MEMORY_RATE,
            k_bytes * (rows_read + plan.columns) / at.L2_RATE,
            multiplying,
        )
        ending = rows_read * plan.columns / plan.cluster / 1000 * at.OUTPUTS_TIME
        time += at.LAUNCH_TIME + waves * (at.WAVE_TIME + ending)
        if plan.cluster > 1:
            time += at.CLUSTER_TIME
        if not plan.blocks_end:
            sums = FLOAT_BYTES * plan.splits * self.outputs
            time += at.SECOND_LAUNCH_TIME + 2 * sums / at.MEMORY_RATE
        return time

    # ---- torch ----

    def library_product(self) -> Work:
        """torch's product. The library has smaller tiles for few rows, and splits k among idle
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
        """The product, the statistics with the operators before them, and all of it once more with the
        operators after."""
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


TILED = {
    "shared_tile": ("shared_tile_gemm_kernel", "gemm_3_shared_tile.cu"),
    "register_tile": ("register_tile_gemm_kernel", "gemm_4_register_tile.cu"),
    "vectorized": ("vectorized_gemm_kernel", "gemm_5_vectorized.cu"),
}
STANDS_BY = "stands by"
KERNEL_TYPES = {"ieee": "split_float32", "tf32": "tf32", "bf16": "bfloat16", "fp16": "float16"}

NAIVE_NORMS = ("naive", "coalesced", "shared_tile", "register_tile")
BLOCK_NORMS = ("vectorized", "tiled")
ORDINARY = (*NAIVE_NORMS, *BLOCK_NORMS, "fused", "one_kernel", "few_rows_float32")
ON_TENSOR_CORES = ("tensor_core", "hopper", "few_rows")
SUBJECTS = (*ORDINARY, *ON_TENSOR_CORES, EAGER, COMPILED, F_LINEAR)


def works(
    chain: Chain, shape: Shape, subject: str, precision: str = "ieee", multiprocessors: int = 132
) -> list[Work]:
    """The launches of one call, in order.

    chain, shape: with the shape's groups, as `fgn.chains.problem()` returns them. subject: a version or one
    of `fgn.measure.RIVALS`. multiprocessors: of the GPU; the split of some products depends on it. ValueError
    where the version does not run that.
    """
    call = _Call(chain, shape, precision, multiprocessors)
    if subject in ORDINARY and PRECISIONS[precision].dtype != PRECISIONS["ieee"].dtype:
        raise ValueError(f"version: {subject} knows no {precision}")
    if subject in NAIVE_NORMS:
        return call.separate(subject, call.naive_norm())
    if subject in BLOCK_NORMS:
        return call.separate(subject, [call.norm_alone((), ())])
    if subject == F_LINEAR:
        return [call.library_product()]
    others = {
        "fused": call.fused,
        "one_kernel": call.one_kernel,
        "few_rows_float32": call.few_rows_float32,
        "tensor_core": call.tensor_core,
        "hopper": call.hopper,
        "few_rows": call.few_rows,
        EAGER: call.eager,
        COMPILED: call.compiled,
    }
    if subject not in others:
        raise ValueError(f"subject: expected one of {', '.join(SUBJECTS)}, got {subject!r}")
    return others[subject]()
