"""What TMA stores and combines, in cells: by inline PTX, by cuda::device::experimental and by cuda::ptx; its
rules, each with the mistake that breaks it."""

import warnings

import pytest
import torch

import cudasim
from cudasim.counting.faults import KernelWarning
from cudasim.live import TensorMap

# ------------------------------------------------------------------------------------------------------------
# Boxes in one to five dimensions, in every way that a kernel can write them

HEADERS = r"""
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/ptx>
namespace cde = cuda::device::experimental;
namespace ptx = cuda::ptx;
"""
STORES = {
    "PTX": (
        'asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%0, {{{slots}}}], [%1];" '
        ':: "l"(&map), "r"((unsigned)__cvta_generic_to_shared(box)), {registers} : "memory"); '
        'asm volatile("cp.async.bulk.commit_group;" ::: "memory"); '
        'asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(0) : "memory");'
    ),
    "experimental": (
        "cde::cp_async_bulk_tensor_{rank}d_shared_to_global(&map, {at}, box); "
        "cde::cp_async_bulk_commit_group(); cde::cp_async_bulk_wait_group_read<0>();"
    ),
    "cuda::ptx": (
        "int at[] = {{{at}}}; "
        "ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &map, at, box); "
        "ptx::cp_async_bulk_commit_group(); ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{{}});"
    ),
}


AT = ("4", "1", "1", "2", "1")


def boxes(way: str) -> str:
    """Stores a box of one, two, ... five dimensions by each of its tensor maps."""
    source = HEADERS
    for rank in range(1, 6):
        at = AT[:rank]
        store = STORES[way].format(
            rank=rank,
            at=", ".join(at),
            slots=", ".join(f"%{i + 2}" for i in range(rank)),
            registers=", ".join(f'"r"({place})' for place in at),
        )
        source += f"""
__global__ void fill{rank}(const __grid_constant__ CUtensorMap map, int n) {{
    __shared__ alignas(128) float box[1024];
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        box[i] = i + 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {{
        {store}
    }}
}}"""
    return source


@pytest.mark.parametrize("way", STORES)
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_a_box_is_stored_where_it_is_inside_the_tensor(rank, way):
    shape, box, at = (3, 3, 4, 4, 12)[-rank:], (2, 2, 2, 4, 16)[-rank:], (1, 2, 1, 1, 4)[-rank:]
    x, count = torch.zeros(shape), torch.Size(box).numel()
    cudasim.kernel(boxes(way), name=f"fill{rank}")[1, 64](TensorMap(x, box), count)
    expected = torch.zeros([size + 16 for size in shape])
    inside = tuple(slice(begin, begin + size) for begin, size in zip(at, box, strict=True))
    expected[inside] = torch.arange(1.0, count + 1).reshape(box)
    assert torch.equal(x, expected[tuple(slice(size) for size in shape)])


SWIZZLED = r"""
#include <cuda.h>
__global__ void turn(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to) {
    __shared__ alignas(1024) __nv_bfloat16 box[16 * BYTES / 2];
    __shared__ alignas(8) uint64_t bar;
    uint32_t here = __cvta_generic_to_shared(box), full = __cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(full));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(full), "r"(16 * BYTES));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];" :: "r"(here), "l"(&from), "r"(0), "r"(0), "r"(full));
        asm volatile("{\n.reg .pred p;\nL: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n"
                     "@!p bra L;\n}" :: "r"(full));
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                     :: "l"(&to), "r"(here), "r"(0), "r"(0));
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}"""


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_what_a_copy_swizzled_a_store_puts_back(swizzle):
    width = (swizzle or 64) // 2
    x, y = torch.rand(16, width).bfloat16(), torch.zeros(16, width).bfloat16()
    source = "#include <cuda_bf16.h>\n" + SWIZZLED.replace("BYTES", str(2 * width))
    cudasim.kernel(source)[1, 32](TensorMap(x, (16, width), swizzle), TensorMap(y, (16, width), swizzle))
    assert torch.equal(x, y)


# ------------------------------------------------------------------------------------------------------------
# Reductions

ADDED = [
    ("add.f32", torch.float32), ("add.noftz.f16", torch.float16), ("add.noftz.bf16", torch.bfloat16),
    ("add.s32", torch.int32), ("add.u64", torch.int64), ("add.f64", torch.float64), ("min.s32", torch.int32),
    ("max.s32", torch.int32), ("min.f16", torch.float16), ("max.bf16", torch.bfloat16),
    ("and.b32", torch.int32), ("or.b32", torch.int32), ("xor.b64", torch.int64),
]  # fmt: skip
OPERATIONS = [operation for operation, _ in ADDED] + ["inc.u32", "dec.u32", "min.f32"]
BULK = HEADERS + "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
TYPES = {"f32": "float", "f16": "__half", "bf16": "__nv_bfloat16", "s32": "int", "u32": "int", "b32": "int"}
TYPES |= {"u64": "long long", "b64": "long long", "f64": "double"}
for number, operation in enumerate(OPERATIONS):
    kind = TYPES[operation.split(".")[-1]]
    BULK += rf"""
__global__ void combine{number}({kind} *to, const {kind} *from) {{
    __shared__ alignas(128) {kind} part[64];
    part[threadIdx.x] = from[64 * blockIdx.x + threadIdx.x];
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {{
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation} [%0], [%1], %2;"
                     :: "l"(to), "r"((unsigned)__cvta_generic_to_shared(part)), "r"((int)sizeof part)
                     : "memory");
        cde::cp_async_bulk_commit_group();
        cde::cp_async_bulk_wait_group_read<0>();
    }}
}}"""


def combine(operation: str, blocks: int, to: torch.Tensor, x: torch.Tensor) -> None:
    cudasim.kernel(BULK, name=f"combine{OPERATIONS.index(operation)}")[blocks, 64](to, x)


@pytest.mark.parametrize("operation, dtype", ADDED)
def test_blocks_combine_what_they_have(operation, dtype):
    torch.manual_seed(0)
    x, to = torch.randint(-40, 40, (4, 64)).to(dtype), torch.randint(-40, 40, (64,)).to(dtype)
    expected = to.clone()
    by = {"add": torch.add, "min": torch.minimum, "max": torch.maximum, "and": torch.bitwise_and,
          "or": torch.bitwise_or, "xor": torch.bitwise_xor}[operation.split(".")[0]]  # fmt: skip
    for row in x:
        expected = by(expected, row)
    combine(operation, 4, to, x)
    assert torch.equal(to, expected)


@pytest.mark.parametrize("operation, expected", [("inc.u32", [1, 2, 0, 0]), ("dec.u32", [2, 0, 1, 2])])
def test_inc_and_dec_wrap_around(operation, expected):
    to, x = torch.tensor([0, 1, 2, 7] * 16, dtype=torch.int32), torch.full((64,), 2, dtype=torch.int32)
    combine(operation, 1, to, x)
    assert to[:4].tolist() == expected


def test_float32_has_no_minimum_there():
    with pytest.raises(cudasim.KernelFault, match=r"combines elements by \.min, which TMA does not have"):
        combine("min.f32", 1, torch.zeros(64), torch.zeros(64))


TENSOR_SUM = (
    HEADERS
    + r"""
__global__ void add(const __grid_constant__ CUtensorMap map) {
    __shared__ alignas(128) float box[4][32];
    for (int i = threadIdx.x; i < 128; i += blockDim.x)
        box[i / 32][i % 32] = i;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        int at[] = {16, -2};
        HOW
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
    }
}"""
)
HOW = {
    "cuda::ptx": (
        "ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_add, &map, at, box);"
    ),
    "PTX": (
        'asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group '
        '[%0, {%2, %3}], [%1];" :: "l"(&map), "r"((unsigned)__cvta_generic_to_shared(box)), '
        '"r"(at[0]), "r"(at[1]) : "memory");'
    ),
}


@pytest.mark.parametrize("how", HOW)
def test_boxes_of_several_blocks_add_up(how):
    x = torch.ones(2, 40)
    cudasim.kernel(TENSOR_SUM.replace("HOW", HOW[how]))[3, 32](TensorMap(x, (4, 32)))
    expected = torch.ones(2, 40)
    expected[:, 16:] += 3 * torch.arange(128.0).reshape(4, 32)[2:, :24]
    assert torch.equal(x, expected)


# ------------------------------------------------------------------------------------------------------------
# Mistakes

RING = (
    HEADERS
    + r"""
__global__ void steps(float *to, const __grid_constant__ CUtensorMap map, int n) {
    __shared__ alignas(128) float box[4][32];
    for (int step = 0; step < n; step++) {
        BEFORE
        for (int i = threadIdx.x; i < FILLED; i += blockDim.x)
            box[i / 32][i % 32] = 1000 * step + i;
        FENCE
        BARRIER
        if (threadIdx.x == 0) {
            cde::cp_async_bulk_tensor_2d_shared_to_global(&map, 0, 4 * step, box);
            COMMIT
            WAIT
        }
        AFTER
    }
    END
}"""
)
RIGHT = {
    "BEFORE": "",
    "FILLED": "128",
    "FENCE": "cde::fence_proxy_async_shared_cta();",
    "BARRIER": "__syncthreads();",
    "COMMIT": "cde::cp_async_bulk_commit_group();",
    "WAIT": "cde::cp_async_bulk_wait_group_read<0>();",
    "AFTER": "__syncthreads();",
    "END": "",
}
ELSE = {"WAIT": "", "AFTER": "cde::cp_async_bulk_wait_group_read<0>(); __syncthreads();"}
READ_BACK = "if (threadIdx.x == 0) to[0] = to[32 * 4 * (n - 1)];"
SILENT = {
    "the pattern of the programming guide": {},
    "every thread waits": ELSE,
    "the fence follows the barrier": {
        "FENCE": "",
        "BARRIER": "__syncthreads(); cde::fence_proxy_async_shared_cta();",
    },
    "a wait for the whole": {"WAIT": "cde::cp_async_bulk_wait_group<0>();"},
    "what is stored is read back": {
        "WAIT": "cde::cp_async_bulk_wait_group<0>();",
        "END": "if (threadIdx.x == 33) to[0] = to[32 * 4 * (n - 1)] + 0;",
    },
    "the wait is in the next step": {
        "BEFORE": "if (threadIdx.x == 0) cde::cp_async_bulk_wait_group_read<0>(); __syncthreads();",
        "WAIT": "",
        "AFTER": "",
        "END": "if (threadIdx.x == 0) cde::cp_async_bulk_wait_group_read<0>();",
    },
}
FOUND = {
    "nobody waits": ({"WAIT": ""}, "race for a stage", "has not waited for its group"),
    "a group is not committed": ({"COMMIT": ""}, "race for a stage", "has not waited for its group"),
    "another thread waits": (
        {"WAIT": "",
         "AFTER": "if (threadIdx.x == 64) cde::cp_async_bulk_wait_group_read<0>(); __syncthreads();"},
        "race for a stage", "has not waited for its group"),
    "one group too many in flight": (
        {"WAIT": "cde::cp_async_bulk_wait_group_read<1>();"}, "race for a stage", "has not waited"),
    "no barrier after the wait": ({"AFTER": ""}, "race for a stage", "no barrier is between"),
    "no fence": ({"FENCE": ""}, "missing proxy fence", "fence.proxy.async"),
    "the fence comes before the writes": (
        {"FENCE": "", "BEFORE": "cde::fence_proxy_async_shared_cta();"},
        "missing proxy fence", "fence.proxy"),
    "no barrier before the store": ({"BARRIER": ""}, "race for a stage|uninitialised", "byte"),
    "a part is not written": ({"FILLED": "100"}, "uninitialised", "nobody has written"),
    "what is stored is read too early": (
        {"END": READ_BACK}, "race", "asynchronous copy"),
    "another thread reads it without a barrier": (
        {"WAIT": "cde::cp_async_bulk_wait_group<0>();", "AFTER": "if (step + 1 < n) __syncthreads();",
         "END": "if (threadIdx.x == 64) to[0] = to[32 * 4 * (n - 1)];"}, "race", "asynchronous copy"),
}  # fmt: skip


def run(changes: dict, blocks: int = 1, **options) -> torch.Tensor:
    source = RING
    for name, text in (RIGHT | changes).items():
        source = source.replace(name, text)
    to = torch.zeros(16, 32)
    cudasim.kernel(source)[blocks, 96](to, TensorMap(to, (4, 32)), 4, **options)
    return to


@pytest.mark.parametrize("unchecked", [False, True])
@pytest.mark.parametrize("changes", SILENT)
def test_right_programs_are_silent(changes, unchecked):
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        to = run(SILENT[changes], unchecked=unchecked)
    expected = torch.cat([1000.0 * step + torch.arange(128.0).reshape(4, 32) for step in range(4)])
    assert torch.equal(to[1:], expected[1:])


@pytest.mark.parametrize("planted", FOUND)
def test_a_planted_mistake_is_found(planted):
    changes, kind, words = FOUND[planted]
    with pytest.raises(cudasim.KernelFault, match=words) as caught:
        run(changes)
    assert caught.value.kind in kind.split("|")


def test_blocks_that_store_to_one_place_race():
    with pytest.raises(cudasim.KernelFault) as caught:
        run({}, blocks=2)
    assert caught.value.kind == "race between blocks"


def test_a_thread_that_returns_before_its_store_has_read_is_warned():
    with pytest.warns(KernelWarning, match="returns without waiting"):
        run({"WAIT": "if (step + 1 < n) cde::cp_async_bulk_wait_group_read<0>();"})


def test_stores_are_counted():
    counts = cudasim.count(lambda: run({})).iloc[0]
    assert (counts.tensor_stores, counts.tensor_stored_bytes, counts.tensor_copies) == (4, 4 * 512, 0)
    assert counts["unique_sectors_written"] != counts["unique_sectors_written"]  # not modelled: NaN


# ------------------------------------------------------------------------------------------------------------
# From one block's shared memory to another's

BETWEEN = r"""
#include <cuda.h>
__device__ uint32_t there(const void *shared, uint32_t rank) {
    uint32_t place;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(place) : "r"((uint32_t)__cvta_generic_to_shared(shared)), "r"(rank));
    return place;
}
__global__ void __cluster_dims__(2, 1, 1) swap(float *to) {
    __shared__ alignas(128) float own[64], others[64];
    __shared__ float2 pair;
    __shared__ uint64_t bar;
    uint32_t rank, full = __cvta_generic_to_shared(&bar);
    asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                     "fence.mbarrier_init.release.cluster;" :: "r"(full));
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(full), "r"(256 + 8));
    }
    own[threadIdx.x] = 100 * rank + threadIdx.x;
    FENCE
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;");
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                     "[%0], [%1], %2, [%3];"
                     :: "r"(there(others, rank ^ 1)), "r"((uint32_t)__cvta_generic_to_shared(own)), "r"(256),
                        "r"(there(&bar, rank ^ 1)));
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];"
                     :: "r"(there(&pair, rank ^ 1)), "f"(1.0f + rank), "f"(2.0f), "r"(there(&bar, rank ^ 1)));
        uint64_t state;
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(full));
        asm volatile("{\n.reg .pred p;\nL: mbarrier.try_wait.shared::cta.b64 p, [%0], %1;\n@!p bra L;\n}"
                     :: "r"(full), "l"(state));
    }
    BARRIER
    to[64 * rank + threadIdx.x] = others[threadIdx.x] * pair.y + pair.x;
    WRITES
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;");
}"""
SWAPPED = {"FENCE": 'asm volatile("fence.proxy.async;");', "BARRIER": "__syncthreads();", "WRITES": ""}
SWAP_FOUND = {
    "no fence": ({"FENCE": ""}, "missing proxy fence"),
    "no barrier after the wait": ({"BARRIER": ""}, "race for a stage"),
    "the source is overwritten": ({"WRITES": "own[threadIdx.x] = 0;"}, "race for a stage"),
}


def swap(changes: dict) -> torch.Tensor:
    source, to = BETWEEN, torch.zeros(128)
    for name, text in (SWAPPED | changes).items():
        source = source.replace(name, text)
    cudasim.kernel(source)[2, 64](to)
    return to


def test_blocks_of_a_cluster_copy_to_each_other():
    expected = torch.cat([2 * torch.arange(100.0, 164.0) + 2, 2 * torch.arange(64.0) + 1])
    assert torch.equal(swap({}), expected)


@pytest.mark.parametrize("planted", SWAP_FOUND)
def test_a_mistake_in_a_copy_between_blocks_is_found(planted):
    changes, kind = SWAP_FOUND[planted]
    with pytest.raises(cudasim.KernelFault) as caught:
        swap(changes)
    assert caught.value.kind == kind
