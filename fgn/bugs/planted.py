"""The planted mistakes: the file of each, the data that show it, and what finds it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fgn.native.places import ROOT

FOLDER = ROOT / "bugs"
RIGHT = FOLDER / "right"

# The kernels of each chain's parts: the product with the operators before, the norm with those after.
KERNELS = {
    "gemm_biasadd_hardtanh_mish_groupnorm": ("gemm_tile", "norm_tree"),
    "gemm_groupnorm_hardtanh": ("gemm_float4", "norm_atomic"),
    "matmul_groupnorm_leakyrelu_sum": ("gemm_float4", "norm_warp"),
}

COMPARISON = "comparison"


@dataclass(frozen=True)
class Bug:
    """A planted mistake.

    file: in `bugs/`; if it needs its own host side, that is beside it. right: the changed file in
    `bugs/right/`. mistake: in a few words.
    found_by: "comparison" with float64, or the kind of the KernelFault. data: the data that shows the
    mistake, a key of `DATA`. at: for a fault, a line of source that the fault names: the wrong line, or the
    line where something is missing. says: for a comparison, words of its report.
    """

    file: str
    right: str
    mistake: str
    found_by: str
    data: str = "ordinary"
    at: str | None = None
    says: str | None = None

    @property
    def name(self) -> str:
        return Path(self.file).stem

    @property
    def chain(self) -> str:
        """The chain in which the mistake is planted."""
        return next(chain for chain, kernels in KERNELS.items() if Path(self.right).stem in kernels)

    @property
    def files(self) -> dict[Path, Path]:
        """The broken file, by the right file that it replaces."""
        pairs = {}
        for suffix in (".cu", ".py"):
            broken = FOLDER / f"{self.name}{suffix}"
            if broken.exists():
                pairs[(RIGHT / self.right).with_suffix(suffix)] = broken
        return pairs


BUGS = {
    bug.name: bug
    for bug in (
        # Statistics
        Bug(
            "statistics_across_batch.cu",
            "norm_warp.cu",
            "statistics across the batch instead of per sample",
            COMPARISON,
            says="statistics were taken across the batch",
        ),
        Bug(
            "variance_from_squares.cu",
            "norm_atomic.cu",
            "E[x²] − E[x]² on data with a large mean",
            COMPARISON,
            "large_mean",
            says="E[x²] − E[x]²",
        ),
        Bug(
            "unbiased_variance.cu",
            "norm_tree.cu",
            "the unbiased variance",
            COMPARISON,
            says="the variance were divided by n − 1 = 23",
        ),
        Bug(
            "eps_outside_root.cu",
            "norm_warp.cu",
            "eps outside the root",
            COMPARISON,
            "nearly_constant",
            says="eps were added to the deviation",
        ),
        Bug(
            "integer_reciprocal.cu",
            "norm_tree.cu",
            "1 / n in integers",
            COMPARISON,
            says="mean and variance were 0",
        ),
        Bug(
            "affine_by_group.cu",
            "norm_tree.cu",
            "affine weight and bias per group instead of per channel",
            COMPARISON,
            says="indexed by group",
        ),
        # Reductions
        Bug(
            "reduction_overwrites_values.cu",
            "norm_tree.cu",
            "a reduction that overwrites the values still needed",
            COMPARISON,
            says="wrong norm",
        ),
        Bug(
            "first_element_zeroed.cu",
            "norm_tree.cu",
            "element 0 zeroed before the reduction",
            COMPARISON,
            says="normalised, but with wrong statistics",
        ),
        Bug(
            "tree_needs_power_of_two.cu",
            "norm_tree.cu",
            "a tree reduction with a block size that is no power of two",
            COMPARISON,
            says="normalised, but with wrong statistics",
        ),
        Bug(
            "sum_not_broadcast.cu",
            "norm_warp.cu",
            "a sum that only lane 0 has",
            COMPARISON,
            says="wrong norm",
        ),
        Bug(
            "accumulators_not_initialised.cu",
            "norm_atomic.cu",
            "shared accumulators never initialised before atomicAdd",
            "uninitialised",
            at="atomicAdd(&total_sum, sum);",
        ),
        # Barriers, races and warps
        Bug(
            "no_barrier_after_load.cu",
            "gemm_tile.cu",
            "no barrier between tile loads and use",
            "race",
            at="sum += x_tile[down][i] * weight_tile[across][i];",
        ),
        Bug(
            "no_barrier_after_use.cu",
            "gemm_tile.cu",
            "no barrier between use and the next tile loads",
            "race",
            at="sum += x_tile[down][i] * weight_tile[across][i];",
        ),
        Bug(
            "partial_reused_too_early.cu",
            "norm_tree.cu",
            "no barrier between two reductions in the same memory",
            "race",
            at="return partial[0];",
        ),
        Bug(
            "total_read_too_early.cu",
            "norm_atomic.cu",
            "no barrier between atomicAdd and the use of the total",
            "race",
            at="atomicAdd(&total_sum, sum);",
        ),
        Bug(
            "zero_races_with_add.cu",
            "norm_atomic.cu",
            "no barrier between the accumulator's zero and atomicAdd",
            "race",
            at="atomicAdd(&total_sum, sum);",
        ),
        Bug(
            "no_syncwarp.cu",
            "norm_warp.cu",
            "lanes taken to run in step: no __syncwarp",
            "race",
            at="mine[0] += mine[distance];",
        ),
        Bug(
            "barrier_in_branch.cu",
            "gemm_tile.cu",
            "__syncthreads inside a divergent branch",
            "uninitialised",
            at="sum += x_tile[down][i] * weight_tile[across][i];",
        ),
        Bug(
            "barrier_in_tree.cu",
            "norm_tree.cu",
            "__syncthreads only for the threads that add",
            "race",
            at="float sum = partial[0];",
        ),
        Bug(
            "return_before_barrier.cu",
            "gemm_tile.cu",
            "threads that return before a barrier",
            "uninitialised",
            at="sum += x_tile[down][i] * weight_tile[across][i];",
        ),
        Bug(
            "shuffle_mask_too_small.cu",
            "norm_warp.cu",
            "a shuffle with a mask that leaves out active lanes",
            "shuffle source",
            "small_groups",
            at="__shfl_xor_sync(ALL_LANES, share, distance)",
        ),
        Bug(
            "lanes_return_before_shuffle.cu",
            "norm_warp.cu",
            "lanes that return before a shuffle that names them",
            "missing lane",
            at="__shfl_xor_sync(ALL_LANES, share, distance)",
        ),
        Bug(
            "result_in_place.py",
            "gemm_tile.py",
            "a result written over what other blocks still read",
            "race between blocks",
            "square",
            at="mish(hardtanh(value, low, high));",
        ),
        # Memory
        Bug(
            "no_guard_for_columns.cu",
            "gemm_tile.cu",
            "no guard for the last partial tile",
            "out of bounds",
            at="weight_inside ? weight[weight_row * in_features + k] : 0.0f;",
        ),
        Bug(
            "tail_not_zeroed.cu",
            "gemm_tile.cu",
            "no zeros where a tile ends beyond the matrix",
            "uninitialised",
            at="sum += x_tile[down][i] * weight_tile[across][i];",
        ),
        Bug(
            "index_overflows_32_bits.cu",
            "gemm_tile.cu",
            "an index that overflows 32 bits",
            "out of bounds",
            "far_rows",
            at="inside ? x[row * x_stride + k] : 0.0f;",
        ),
        Bug(
            "rows_not_aligned.cu",
            "gemm_float4.cu",
            "16-byte loads from rows that are not aligned",
            "misaligned",
            "odd_features",
            at="((const float4 *)x_row)[i];",
        ),
        Bug(
            "shared_array_too_small.py",
            "norm_tree.py",
            "more threads than the shared array has room for",
            "out of bounds",
            "large_groups",
            at="partial[thread] = share;",
        ),
        Bug(
            "no_dynamic_shared_memory.py",
            "norm_tree.py",
            "dynamic shared memory left out of the launch",
            "out of bounds",
            at="value[i] = v[first + i];",
        ),
        # Launches and arguments
        Bug(
            "last_tile_missing.py",
            "gemm_tile.py",
            "a grid that misses the last partial tile",
            COMPARISON,
            says="never written: columns 64 to 71, the last 8",
        ),
        Bug(
            "block_too_large.py",
            "norm_tree.py",
            "more than 1024 threads in a block",
            "invalid launch",
            "large_groups",
        ),
        Bug(
            "batch_in_grid_y.cu",
            "gemm_float4.cu",
            "more than 65535 blocks in y of the grid",
            "invalid launch",
            "many_rows",
        ),
        Bug(
            "weight_by_columns.py",
            "gemm_tile.py",
            "row-major operands passed as column-major",
            COMPARISON,
            says="weight.T were passed",
        ),
        Bug(
            "second_bias_forgotten.cu",
            "gemm_tile.cu",
            "one of the two biases forgotten",
            COMPARISON,
            says="channel_bias were left out",
        ),
        Bug(
            "hardtanh_limits.py",
            "gemm_tile.py",
            "hardtanh with limits 0 and 20 instead of −1 and 1",
            COMPARISON,
            "large_values",
            says="hardtanh had the limits 0 and 20 instead of -1 and 1",
        ),
        Bug(
            "operators_swapped.cu",
            "gemm_tile.cu",
            "hardtanh and mish swapped",
            COMPARISON,
            says="hardtanh and mish were swapped",
        ),
        Bug(
            "mish_overflows.cu",
            "gemm_tile.cu",
            "mish through exp(x) that overflows",
            COMPARISON,
            "wide_limits",
            says="something overflows",
        ),
        Bug(
            "hardtanh_drops_nan.cu",
            "gemm_tile.cu",
            "hardtanh that turns NaN into a limit",
            COMPARISON,
            "one_nan",
            says="NaN or infinity is lost",
        ),
    )
}


def find_bug(bug: str | int | Bug) -> Bug:
    """The bug with this name or number. Numbers are rows of `table()`, from 0; unlike the name, a number does
    not reveal the mistake."""
    if isinstance(bug, Bug):
        return bug
    if isinstance(bug, int):
        if not 0 <= bug < len(BUGS):
            raise IndexError(f"bug: expected 0 to {len(BUGS) - 1}, got {bug}")
        return list(BUGS.values())[bug]
    if bug not in BUGS:
        raise ValueError(f"bug: expected one of {', '.join(BUGS)}, got {bug!r}")
    return BUGS[bug]


def table() -> pd.DataFrame:
    """The table of bugs, without running them."""
    columns = ("file", "right", "mistake", "data", "found_by")
    return pd.DataFrame([{name: getattr(bug, name) for name in columns} for bug in BUGS.values()])


def kinds() -> tuple[str, ...]:
    """What may find a mistake of the gallery: a kind of KernelFault, or comparison with float64."""
    return tuple(sorted({bug.found_by for bug in BUGS.values()}))
