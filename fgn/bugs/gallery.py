"""The gallery of broken kernels: mistakes that people make with these chains, each planted in a right kernel.

`bugs/right/` has right kernels for the three chains: a `.cu` file for each kernel, and beside it its host
side, a `.py` file that decides grid and arguments. Each file in `bugs/` is one of these with one mistake in
it, and a comment on top that tells of the mistake. `BUGS` is the table: the mistake, the data that shows it,
and what finds it.

    fgn.bugs.gallery.run("unbiased_variance")     runs the chain with it on the simulator; prints as a report
    fgn.bugs.gallery.source("unbiased_variance")  the broken one, without the comment that tells
    fgn.bugs.gallery.diff("unbiased_variance")    what was changed in the right one
    fgn.bugs.gallery.quiz(8)                      asks for the line and the kind; its tell() gives the answer
    fgn.bugs.gallery.run_all()                    all of them: a table

A chain runs under the checkers of `fgn.check()`, and its two parts are then compared with float64.
"""

from __future__ import annotations

import difflib
import functools
import html
import importlib.util
import mmap
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pandas as pd
import torch
from torch import Tensor

from cudasim.counting.counted import check, one_block_at_a_time
from cudasim.counting.faults import KernelFault
from cudasim.live.kernels import Kernel, kernel
from cudasim.source import Source
from fgn.bugs.diagnosis import Diagnosis, diagnose_norm, diagnose_product, never_written
from fgn.chains import Chain, Pointwise, Shape, find, problem, random_inputs
from fgn.native.places import ROOT
from fgn.teaching import asking

__all__ = [
    "BUGS",
    "DATA",
    "Bug",
    "Finding",
    "Quiz",
    "changed_lines",
    "diff",
    "find_bug",
    "kinds",
    "memory_of",
    "never_written",
    "parts",
    "quiz",
    "run",
    "run_all",
    "source",
    "story",
    "table",
    "tiles",
]

FOLDER = ROOT / "bugs"
RIGHT = FOLDER / "right"

# ------------------------------------------------------------------------------------------------------------
# What the host sides import, beside `never_written()`


def tiles(count: int, size: int) -> int:
    """How many tiles of `size` cover `count`."""
    return -(-count // size)


def memory_of(x: Tensor) -> Tensor:
    """The memory of x (rows, columns) from first to last element, for a kernel that is told its stride."""
    return x.as_strided(((x.shape[0] - 1) * x.stride(0) + x.shape[1],), (1,))


# ------------------------------------------------------------------------------------------------------------
# Data

Inputs = tuple[Chain, Tensor, dict[str, Tensor]]

# The last tile is partial in every direction, and groups of 24 channels are no power of two.
ORDINARY = Shape(20, 40, 72, 3)


def _random(chain: str, shape: Shape = ORDINARY) -> Inputs:
    described, shape = problem(chain, shape)
    return described, *random_inputs(described, shape)


def _large_mean(chain: str) -> Inputs:
    described, x, parameters = _random(chain)
    parameters["bias"] += 1e4
    return described, 3 * x, parameters


def _nearly_constant(chain: str) -> Inputs:
    described, x, parameters = _random(chain)
    return described, 1e-3 * x, parameters | {"bias": torch.zeros_like(parameters["bias"])}


def _large_values(chain: str) -> Inputs:
    """The channel vectors reach 20 and more."""
    described, x, parameters = _random(chain)
    return described, x, parameters | {name: 10 * parameters[name] for name in described.channels}


def _wide_limits(chain: str) -> Inputs:
    """mish gets values up to 100; the chain's own hardtanh would keep them below 1."""
    described, x, parameters = _random(chain)
    wide = Pointwise("hardtanh", -100.0, 100.0)
    before = tuple(wide if step.kind == "hardtanh" else step for step in described.before)
    parameters |= {name: 50 * parameters[name] for name in described.channels}
    return replace(described, before=before), x, parameters


def _one_nan(chain: str) -> Inputs:
    described, x, parameters = _random(chain)
    x[3, 5] = torch.nan
    return described, x, parameters


def _far_rows(chain: str) -> Inputs:
    """Rows of x that lie 2 GiB apart, in memory of which only these rows are ever touched."""
    described, x, parameters = _random(chain, ORDINARY._replace(batch=5))
    stride = 1 << 29
    # MAP_NORESERVE: otherwise the machine must have all of that memory free. Python has the flag from 3.13
    # on.
    sparse = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    memory = torch.frombuffer(mmap.mmap(-1, 4 * x.shape[0] * stride, flags=sparse), dtype=torch.float32)
    rows = memory.as_strided(x.shape, (stride, 1))
    rows.copy_(x)
    return described, rows, parameters


DATA: dict[str, Callable[[str], Inputs]] = {
    "ordinary": _random,
    "odd_features": lambda chain: _random(chain, ORDINARY._replace(in_features=42)),
    "small_groups": lambda chain: _random(chain, Shape(20, 40, 64, 4)),
    "large_groups": lambda chain: _random(chain, Shape(3, 8, 3072, 2)),
    "square": lambda chain: _random(chain, Shape(40, 48, 48, 2)),
    "many_rows": lambda chain: _random(chain, Shape(65600, 4, 8, 2)),
    "large_mean": _large_mean,
    "nearly_constant": _nearly_constant,
    "large_values": _large_values,
    "wide_limits": _wide_limits,
    "one_nan": _one_nan,
    "far_rows": _far_rows,
}


def _for_hosts(chain: Chain, x: Tensor, parameters: dict[str, Tensor]) -> SimpleNamespace:
    """The values from which a host side takes its arguments: parameters by name, sizes, and the operators'
    constants."""
    constants = {"low": None, "high": None, "slope": None}
    for step in chain.before + chain.after:
        if step.kind == "hardtanh":
            constants |= {"low": step.a, "high": step.b}
        if step.kind == "leaky_relu":
            constants |= {"slope": step.a}
    shape = (*x.shape, parameters["weight"].shape[0])
    return SimpleNamespace(**parameters, **constants, shape=shape, groups=chain.groups, eps=chain.eps)


# ------------------------------------------------------------------------------------------------------------
# Kernels

# The kernels of each chain's parts: the product with the operators before, the norm with those after.
KERNELS = {
    "gemm_biasadd_hardtanh_mish_groupnorm": ("gemm_tile", "norm_tree"),
    "gemm_groupnorm_hardtanh": ("gemm_float4", "norm_atomic"),
    "matmul_groupnorm_leakyrelu_sum": ("gemm_float4", "norm_warp"),
}


# Both caches have the text in their key, so that an edited file counts at once.


@functools.cache
def _kernel(path: Path, text: str) -> Kernel:
    return kernel(text, file=path.name)


@functools.cache
def _host(path: Path, text: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


# ------------------------------------------------------------------------------------------------------------
# The table

COMPARISON = "comparison"


@dataclass(frozen=True)
class Bug:
    """A planted mistake.

    file: in `bugs/`; a host side of its own, if it needs one, is beside it. right: the file in `bugs/right/`
    of which it is a change. mistake: in a few words.
    found_by: "comparison" with float64, or the kind of the KernelFault. data: the data that shows the
    mistake, a key of `DATA`. at: for a fault, a line of source that the fault names: the wrong line, or the
    line that misses what was left out. says: for a comparison, words of its report.
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

    def at_line(self) -> int | None:
        """The number of the line `at`, in the kernel that runs."""
        if self.at is None:
            return None
        path = FOLDER / self.file if self.file.endswith(".cu") else (RIGHT / self.right).with_suffix(".cu")
        lines = [n for n, text in enumerate(path.read_text().splitlines(), 1) if self.at in text]
        if len(lines) != 1:
            raise ValueError(f"at: expected words of one line of {path.name}, got {self.at!r} of {lines}")
        return lines[0]


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
    """The bug with this name or number. Numbers are rows of `table()`, from 0; a number does not tell the
    mistake."""
    if isinstance(bug, Bug):
        return bug
    if isinstance(bug, int):
        if not 0 <= bug < len(BUGS):
            raise IndexError(f"bug: expected 0 to {len(BUGS) - 1}, got {bug}")
        return list(BUGS.values())[bug]
    if bug not in BUGS:
        raise ValueError(f"bug: expected one of {', '.join(BUGS)}, got {bug!r}")
    return BUGS[bug]


# ------------------------------------------------------------------------------------------------------------
# Running


@dataclass(frozen=True)
class Finding:
    """What was found in a chain. found_by: as in `Bug`; None where nothing was found."""

    found_by: str | None = None
    fault: KernelFault | None = None
    diagnosis: Diagnosis | None = None

    def __str__(self) -> str:
        return str(self.fault or self.diagnosis or "nothing was found")

    def __repr__(self) -> str:
        return str(self)


def run(bug: str | int | Bug | None, chain: str | None = None, data: str | None = None) -> Finding:
    """Runs a chain of right kernels, one of which has the bug, on the simulator; returns the first finding.

    bug: a name in `BUGS`; None for a chain without a bug. chain, data: by default the bug's own.
    """
    planted = find_bug(bug) if bug is not None else None
    chain = chain or (planted.chain if planted else next(iter(KERNELS)))
    described, x, parameters = DATA[data or (planted.data if planted else "ordinary")](find(chain).name)

    def launch(name: str, given: Tensor) -> Tensor:
        kernel_file, host_file = (RIGHT / f"{name}{suffix}" for suffix in (".cu", ".py"))
        if planted and Path(planted.right).stem == name:
            broken = planted.files
            kernel_file, host_file = broken.get(kernel_file, kernel_file), broken.get(host_file, host_file)
        p = _for_hosts(described, x, parameters)
        host = _host(host_file, host_file.read_text())
        return host.launch(_kernel(kernel_file, kernel_file.read_text()), given, p)

    product, norm = KERNELS[chain]
    # A kernel that writes where it reads must not change what the comparison starts from. Rows far apart, of
    # which a copy would have other strides, are only read.
    mine = x.clone() if x.is_contiguous() else x
    try:
        with torch.no_grad(), one_block_at_a_time():
            v = check(lambda: launch(product, mine))
            diagnosis = diagnose_product(v, described, x, parameters)
            if diagnosis is None:
                y = check(lambda: launch(norm, v))
                diagnosis = diagnose_norm(y, described, v, parameters)
    except KernelFault as fault:
        return Finding(fault.kind, fault=fault)
    return Finding(COMPARISON, diagnosis=diagnosis) if diagnosis else Finding()


def run_all() -> pd.DataFrame:
    """Runs every bug. One row each: file, mistake, data; found_by, as it happened; where, a line or words."""
    rows = []
    for bug in BUGS.values():
        finding = run(bug)
        fault, diagnosis = finding.fault, finding.diagnosis
        where = None
        if fault:
            where = f"{fault.file}:{fault.line}" if fault.line else fault.kernel
        elif diagnosis:
            where = f"as if {diagnosis.as_if}" if diagnosis.as_if else diagnosis.findings[-1]
        row = {name: getattr(bug, name) for name in ("file", "mistake", "data")}
        rows.append(row | {"found_by": finding.found_by, "where": where})
    return pd.DataFrame(rows)


def table() -> pd.DataFrame:
    """The table of bugs, without running them."""
    columns = ("file", "right", "mistake", "data", "found_by")
    return pd.DataFrame([{name: getattr(bug, name) for name in columns} for bug in BUGS.values()])


# ------------------------------------------------------------------------------------------------------------
# Looking


def parts(path: Path) -> tuple[str, str, int]:
    """A file's comment on top, its text after that, and the number of that text's first line."""
    text = path.read_text()
    top = re.match(r'(?:/\*|""")(.*?)(?:\*/|""")\s*', text, re.S)
    comment = re.sub(r"^ \* ?", "", top[1], flags=re.M)
    return comment.strip(), text[top.end() :], 1 + text.count("\n", 0, top.end())


def story(bug: str | int | Bug) -> str:
    """The comment on top of a bug's file: the mistake, why people make it, what they see and how it is
    found."""
    return parts(FOLDER / find_bug(bug).file)[0]


class _Code(Source):
    """Python or a diff that a notebook shows highlighted."""

    language = "python"


class _Diff(_Code):
    language = "diff"


def source(bug: str | int | Bug) -> Source:
    """The broken file as reports number its lines, without the comment that tells what is wrong."""
    path = FOLDER / find_bug(bug).file
    _, text, first = parts(path)
    numbered = "".join(f"{n:3}  {line}" for n, line in enumerate(text.splitlines(keepends=True), first))
    return (Source if path.suffix == ".cu" else _Code)(numbered)


def diff(bug: str | int | Bug, context: int = 2) -> Source:
    """What the mistake changes in the right file."""
    text = ""
    for right, broken in find_bug(bug).files.items():
        lines = (parts(path)[1].splitlines() for path in (right, broken))
        names = f"right/{right.name}", broken.name
        head, *pieces = "\n".join(difflib.unified_diff(*lines, *names, "", "", context, "")).split("\n@@")
        text += head + "\n  …".join(piece.partition("@@")[2] for piece in pieces) + "\n"
    return _Diff(text)


# ------------------------------------------------------------------------------------------------------------
# The quiz: a broken kernel asks for the line and the kind before it tells

NEAR = 2  # lines that an answer may be off


def kinds() -> tuple[str, ...]:
    """What a mistake of the gallery may be found by: a kind of KernelFault, or comparison with float64."""
    return tuple(sorted({bug.found_by for bug in BUGS.values()}))


def changed_lines(bug: Bug) -> set[int]:
    """The lines of the broken file, by its own numbers, that the mistake is in.

    Where the mistake leaves lines out, these are the lines that stand in their place.
    """
    lines: set[int] = set()
    for right, broken in bug.files.items():
        if broken.suffix == ".py" and bug.file.endswith(".cu"):
            continue
        (_, before, _), (_, after, first) = (parts(path) for path in (right, broken))
        matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
        for kind, _, _, begin, end in matcher.get_opcodes():
            if kind != "equal":
                lines |= set(range(first + begin, first + max(end, begin + 1)))
    return lines


class Quiz(asking.Question):
    """One broken kernel. A notebook shows it with two fields; `answer(line, kind)` is the same in code."""

    def __init__(self, bug: Bug):
        words = "Which line is wrong, and what will find it?"
        super().__init__(f"bug {bug.name}", words, {"line": int, "kind": kinds()})
        self.bug = bug

    def answer(self, line: int, kind: str) -> None:
        """line: as the source numbers them. kind: one of `kinds()`. ValueError for another."""
        super().answer(line=line, kind=kind)

    def is_right(self) -> tuple[bool, bool]:
        """Whether the answer's line is at most two from a changed one, and whether its kind is right."""
        near = any(abs(self.given["line"] - line) <= NEAR for line in changed_lines(self.bug))
        return near, self.given["kind"] == self.bug.found_by

    def _repr_html_(self) -> str:
        return source(self.bug)._repr_html_() + super()._repr_html_()

    def tell(self) -> asking.Told:
        """What is wrong: the finding, the mistake as a difference from the right file, and its story."""

        def verdict() -> str:
            line, kind = ("right" if right else "not the one" for right in self.is_right())
            return f"line {self.given['line']}: {line}; {self.given['kind']}: {kind}"

        def tell() -> str:
            finding = run(self.bug)
            pieces = (
                f"<p><b>{html.escape(verdict())}</b></p>",
                f"<pre style='white-space:pre-wrap'>{html.escape(str(finding))}</pre>",
                asking.as_html(diff(self.bug)),
                f"<pre style='white-space:pre-wrap'>{html.escape(story(self.bug))}</pre>",
            )
            return "".join(pieces)

        return asking.Told(self, tell, verdict)


def quiz(bug: str | int | Bug) -> Quiz:
    """A broken kernel of the gallery, by name or number, as a question: the answer comes from `tell()`."""
    return Quiz(find_bug(bug))
