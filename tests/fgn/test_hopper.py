"""The production kernel `hopper` on the simulator: each of its kernels is right and has no fault, and
mistakes that are planted in it are found."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import fgn
from cudasim.building.compilers import find_c_compiler, version_of
from cudasim.building.library import held
from cudasim.building.places import build_folder
from cudasim.counting import counted
from fgn.chains import Shape, problem, random_inputs
from fgn.functional import plan_of, run_chain
from fgn.measure.accuracy import relative_error
from fgn.native import repeated, tuned
from fgn.native.library import COUNTED_SIMULATOR, SOURCES, ffi
from fgn.precision import PRECISIONS
from fgn.reference import chain_reference64

pytestmark = pytest.mark.simulator
CPU = torch.device("cpu")

# ------------------------------------------------------------------------------------------------------------
# The right kernel

# The chain, and sizes with tiles that are not full.
PROBLEMS = {
    "groups of 32": ("gemm_biasadd_hardtanh_mish_groupnorm", Shape(100, 136, 256, 8)),
    "groups of 12, rows that are copied first": ("gemm_groupnorm_hardtanh", Shape(70, 70, 300, 25)),
    "groups of many strips": ("matmul_groupnorm_leakyrelu_sum", Shape(70, 64, 768, 2)),
}
# The sums are float32: what is left is the rounding of y, or of the factors to tf32.
MOST_ERROR = {"bf16": 2.0e-3, "fp16": 2.5e-4, "tf32": 4e-4, "ieee": 2e-7}


def ways(chain, shape, precision):
    """A candidate for each kernel, with each number of rows in a tile, with one block and with clusters that
    share rows or columns, and with a second launch."""
    found = {}
    candidate = 0
    while plan := plan_of(chain, shape, "hopper", CPU, precision, frozen=False, candidate=candidate):
        kernel, rows, row_blocks, column_blocks, splits = list(plan.choice)[:5]
        found.setdefault((kernel, rows), candidate)
        found.setdefault(("cluster", row_blocks > 1, column_blocks > 1, splits > 1), candidate)
        candidate += 1
    return sorted(set(found.values()))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_kernel_is_right_and_has_no_fault(name, precision):
    chain, shape = problem(*PROBLEMS[name])
    x, parameters = random_inputs(chain, shape, CPU, 5, PRECISIONS[precision].dtype)
    exact = chain_reference64(chain, x, parameters)
    key = tuned.key_of(chain, shape, precision, False)
    candidates = ways(chain, shape, precision)
    assert len(candidates) >= 6
    try:
        for candidate in candidates:
            tuned.choose(CPU, key, tuned.Choice("hopper", candidate))
            repeated.forget()
            y = fgn.check(lambda: run_chain(chain, x, parameters, precision=precision, poison=True))
            assert relative_error(y, exact) <= MOST_ERROR[precision], candidate
    finally:
        tuned.choose(CPU, key, None)


# ------------------------------------------------------------------------------------------------------------
# Mistakes

PLANTED = "planted == NUMBER"


class Case(NamedTuple):
    """How the product is cut, and the sizes."""

    tile_rows: int
    row_blocks: int
    column_blocks: int
    batch: int
    in_features: int
    out_features: int
    groups: int


IN_TURN = Case(64, 1, 1, 200, 768, 128, 8)
CLUSTER = Case(64, 1, 4, 200, 640, 512, 2)
SHORT_CLUSTER = CLUSTER._replace(batch=600, in_features=64)
ONE_GROUP = IN_TURN._replace(groups=2)  # to a strip
WHOLE_GROUPS = CLUSTER._replace(groups=16)  # whose moments no other block needs


class Mistake(NamedTuple):
    """`right` in one of the headers becomes `wrong`, and the checker tells a fault of this kind on a line
    with this text."""

    file: str
    right: str
    wrong: str
    kind: str | tuple[str, ...]
    line: str
    case: Case = IN_TURN


def left_out(file, statement, kind, line, case=IN_TURN) -> Mistake:
    return Mistake(file, statement, f"if (!({PLANTED})) {statement}", kind, line, case)


STAGE, EARLY = "race for a stage", ("uninitialised", "race for a stage")
MULTIPLIED, WAITS = "wgmma_m64n64k16_bf16(", "mbarrier_wait("
MISTAKES = {
    "a stage is filled before it is empty": left_out(
        "producer.h",
        "mbarrier_wait(empty_barrier(ring, ring->stage), ring->phase ^ 1);",
        "mbarrier misuse",
        "mbarrier_arrive_expect_tx(",
    ),
    "the producer waits for the wrong parity": Mistake(
        "producer.h",
        "    uint32_t full = full_barrier(ring, ring->stage);",
        f"    uint32_t full = full_barrier(ring, ring->stage);\n    if ({PLANTED}) ring->phase ^= 1;",
        "deadlock",
        WAITS,
    ),
    "more bytes are announced than come": Mistake(
        "producer.h",
        "mbarrier_arrive_expect_tx(full, ring->stage_bytes);",
        f"mbarrier_arrive_expect_tx(full, ring->stage_bytes + ({PLANTED} ? 16 : 0));",
        "deadlock",
        WAITS,
    ),
    "a block of the cluster gets no x": Mistake(
        "producer.h",
        "return ((1 << tiling->column_blocks) - 1) <<",
        f"return ((1 << (tiling->column_blocks - ({PLANTED}))) - 1) <<",
        "deadlock",
        WAITS,
        CLUSTER,
    ),
    "a stage is multiplied before it is full": left_out(
        "consumer.h",
        "mbarrier_wait(full_barrier(ring, ring->stage), ring->phase);\n        uint64_t",
        EARLY,
        MULTIPLIED,
    ),
    "a stage is released while it is multiplied": left_out(
        "consumer.h", "wgmma_wait_group(1);", STAGE, MULTIPLIED
    ),
    "sums are used while they are added to": left_out(
        "consumer.h", "wgmma_wait_group(0);\n    hold", "sums not waited for", "sum[sum_at("
    ),
    "only the own block is told of an empty stage": Mistake(
        "consumer.h",
        "< (unsigned)cluster)",
        f"< ({PLANTED} ? 1 : (unsigned)cluster))",
        "deadlock",
        WAITS,
        CLUSTER,
    ),
    "a team does not await its turn": left_out(
        "kernel.h", "await_turn(barriers, member.team, tile);", EARLY, MULTIPLIED
    ),
    "a team does not end its turn": left_out(
        "kernel.h", "end_turn(barriers, member.team);", "deadlock", WAITS
    ),
    "the phase never flips": Mistake(
        "ring.h",
        "        ring->phase ^= 1;",
        f"        ring->phase ^= !({PLANTED});",
        ("mbarrier misuse", STAGE),
        "mbarrier_arrive_expect_tx(",
    ),
    "w is taken for where its second atom is": Mistake(
        "ring.h",
        "+ ring->x_bytes;",
        f"+ ring->x_bytes + ({PLANTED} ? 1024 : 0);",
        STAGE,
        "cp_async_bulk_tensor",
    ),
    "fewer readers are counted than there are": Mistake(
        "ring.h",
        "empty[i]), readers);",
        f"empty[i]), readers - ({PLANTED}));",
        STAGE,
        "cp_async_bulk_tensor",
        CLUSTER,
    ),
    "mbarriers are used before they are initialised": left_out(
        "ring.h", "barrier_cluster_relaxed();", ("race", "mbarrier misuse"), "mbarrier"
    ),
    "mbarriers are not fenced": left_out("ring.h", "fence_mbarrier_init();", "race", "mbarrier"),
    "vectors are overwritten": left_out(
        "kernel.h", "bar_sync(1 + warpgroup, WARPGROUP); /* the last", "race", "loaded[i]"
    ),
    "vectors have not come": left_out("kernel.h", "cp_async_wait_all();", "race", "float2 pair"),
    "other threads' vectors have not come": left_out(
        "kernel.h",
        "bar_sync(1 + warpgroup,\n                 WARPGROUP); /* the parts",
        "race",
        "float2 pair",
    ),
    "means are read before they are written": left_out(
        "norm_groups.h", "__syncwarp();\n}\n\n/* Leaves", "race", "of_group(groups, 0, 0)->x", ONE_GROUP
    ),
    "moments are not announced": left_out(
        "epilogue.h", "expect_moments(args, member, tile_number);", "deadlock", WAITS, CLUSTER
    ),
    "moments have not come": left_out(
        "epilogue.h", "mbarrier_wait(group.exchanged, tile_number / 2 & 1);", STAGE, "moments", CLUSTER
    ),
    "moments of the next tile come into those of this one": Mistake(
        "epilogue.h",
        "(tile % 2 * TEAMS + member->team)",
        f"(({PLANTED} ? 0 : tile % 2) * TEAMS + member->team)",
        STAGE,
        "st_async(",
        SHORT_CLUSTER,
    ),
    "a row below the matrix is stored": Mistake(
        "stores.h",
        "8 * row < args->batch;",
        f"8 * row < args->batch + ({PLANTED});",
        "out of bounds",
        "(to + column * 2)",
    ),
}
NUMBERS = {name: number for number, name in enumerate(MISTAKES, 1)}
# Two places: whoever stays for one of the two is there as long as the other blocks send.
LEAVES_EARLY = len(MISTAKES) + 1


def planted_headers() -> dict[str, str]:
    texts = {}

    def replaced(file, right, wrong, number):
        text = texts.get(file) or (SOURCES / "hopper" / file).read_text()
        assert text.count(right) == 1, (file, right)
        texts[file] = text.replace(right, wrong.replace("NUMBER", str(number)))

    for name, mistake in MISTAKES.items():
        replaced(mistake.file, mistake.right, mistake.wrong, NUMBERS[name])
    stays = "barrier_cluster_relaxed();"
    replaced("kernel.h", stays, f"if (!({PLANTED})) {stays}", LEAVES_EARLY)
    empties = "for (int i = 0; i < ring.stages; i++) {"
    replaced("producer.h", empties, empties.replace("= 0", f"= {PLANTED} ? ring.stages : 0"), LEAVES_EARLY)
    return texts


@pytest.fixture(scope="module")
def planted():
    """A library of hopper.cu with the headers that have the mistakes, built once for all processes."""
    folder = build_folder() / "planted"
    with held(folder):
        shutil.rmtree(folder / "hopper", ignore_errors=True)
        (folder / "hopper").mkdir()
        for file, text in planted_headers().items():
            (folder / "hopper" / file).write_text(text)
        shutil.copy(Path(__file__).parent / "faults" / "hopper.cu", folder / "planted.cu")
        return planted_library(folder)


def planted_library(folder: Path):
    library = COUNTED_SIMULATOR.with_kernels(
        "planted", "mistakes", ("planted.cu",), folder, headers=(SOURCES / "hopper",), directory=folder
    )
    ffi().cdef(
        "int launch_planted(int, int, int, int, const void *, const void *, const float *, void *, int64_t,"
        " int64_t, int64_t, int64_t);",
        override=True,
    )
    return library.load()


def run(library, mistake: int, case: Case) -> float:
    """The error of y = GroupNorm(x w^T + bias)."""
    tile_rows, row_blocks, column_blocks, batch, k, columns, groups = case
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, k, generator=generator).bfloat16()
    w = torch.randn(columns, k, generator=generator).bfloat16()
    bias = torch.randn(columns, generator=generator)
    y = torch.full((batch, columns), float("nan"), dtype=torch.bfloat16)
    counted.allow(x=x, w=w, bias=bias, y=y)
    pointers = [ffi().cast("void *", tensor.data_ptr()) for tensor in (x, w, bias, y)]
    pointers[2] = ffi().cast("float *", pointers[2])
    cut = tile_rows, row_blocks, column_blocks
    failed = library.launch_planted(mistake, *cut, *pointers, batch, k, columns, groups)
    assert failed != 1, "hopper does not cut it so"
    if failed:
        raise counted.fault(COUNTED_SIMULATOR.load())
    exact = torch.group_norm(x.double() @ w.double().T + bias.double(), groups)
    return relative_error(y, exact)


@pytest.mark.parametrize("case", [IN_TURN, CLUSTER, SHORT_CLUSTER, ONE_GROUP, WHOLE_GROUPS])
def test_without_a_mistake_it_is_right_and_has_no_fault(planted, case):
    assert fgn.check(lambda: run(planted, 0, case)) <= MOST_ERROR["bf16"]


def fault_of(library, number, case) -> tuple[fgn.KernelFault, str]:
    """What is told, and the line that it is about."""
    with pytest.raises(fgn.KernelFault) as caught:
        fgn.check(lambda: run(library, number, case))
    fault = caught.value
    return fault, Path(fault.file).read_text().splitlines()[fault.line - 1]


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_told(planted, name):
    if name.startswith("sums ") and version_of(find_c_compiler())[0] == "clang":
        pytest.skip("clang does not report accesses to an array of the thread's own (docs/limits.md)")
    mistake = MISTAKES[name]
    fault, line = fault_of(planted, NUMBERS[name], mistake.case)
    kinds = mistake.kind if isinstance(mistake.kind, tuple) else (mistake.kind,)
    assert fault.kind in kinds and mistake.line in line, (str(fault), line)
    assert fault.block is not None and fault.thread is not None


def test_a_block_that_leaves_early_is_told(planted):
    fault, line = fault_of(planted, LEAVES_EARLY, WHOLE_GROUPS)
    assert fault.kind in ("block has exited", "mbarrier misuse"), (str(fault), line)
