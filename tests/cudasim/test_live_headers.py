"""Which parts of cub, cooperative groups, cuda::barrier, cuda::pipeline and cuda::atomic a cell has: a kernel
for each part that cudasim/docs/headers.md lists, and for what it lists as refused."""

import re
from itertools import accumulate

import pytest
import torch

import cudasim
from cudasim.building.library import BuildError
from cudasim.building.places import SOURCES

PAGE = SOURCES / "docs" / "headers.md"
START = {
    "cub": "#include <cub/cub.cuh>\n",
    "cooperative_groups": "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"
    "#include <cooperative_groups/scan.h>\n#include <cooperative_groups/memcpy_async.h>\n"
    "namespace cg = cooperative_groups;\n",
    "cuda::barrier": "#include <cuda/barrier>\n#include <cooperative_groups.h>\n",
    "cuda::pipeline": "#include <cuda/pipeline>\n#include <cooperative_groups.h>\n",
    "cuda::atomic": "#include <cuda/atomic>\n",
    "__nv_atomic": "",
}
WARP_TEMP = "__shared__ typename cub::{0}<int>::TempStorage temp[2]; cub::{0}<int> it(temp[i / 32]); "
BLOCK_TEMP = "typedef cub::{0} B; __shared__ typename B::TempStorage temp; "
BARRIER = (
    "__shared__ cuda::barrier<cuda::thread_scope_block> bar; if (i == 0) init(&bar, 64); __syncthreads(); "
)
PIPE = (
    "__shared__ int kept[2][64]; auto block = cooperative_groups::this_thread_block(); "
    "__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state; "
)


def warps(function):
    """Of each warp's numbers, what its lanes get."""
    return lambda v: function(v[:32]) + function(v[32:])


def tiles(size, function):
    return lambda v: [x for at in range(0, 64, size) for x in function(v[at : at + size])]


def total(v):
    return [sum(v)] * len(v)


def before(v):
    return [0, *accumulate(v)][:-1]


# Header and part, the kernel's statements (i: the thread, v: its number), and what 64 threads write to `to`.
PARTS = {
    "cub": {
        "WarpReduce": (WARP_TEMP.format("WarpReduce") + "int s = it.Sum(v); to[i] = i % 32 ? 0 : s;",
                       warps(lambda v: [sum(v)] + [0] * 31)),
        "WarpScan": (WARP_TEMP.format("WarpScan") + "it.InclusiveSum(v, to[i]);",
                     warps(lambda v: list(accumulate(v)))),
        "BlockReduce": (BLOCK_TEMP.format("BlockReduce<int, 64>") + "int s = B(temp).Reduce(v, cub::Max()); "
                        "to[i] = i ? 0 : s;", lambda v: [max(v)] + [0] * 63),
        "BlockScan": (BLOCK_TEMP.format("BlockScan<int, 64>") + "B(temp).ExclusiveSum(v, to[i]);", before),
        "BlockScan with a prefix": (
            BLOCK_TEMP.format("BlockScan<int, 32>")
            + "if (i >= 32) return; struct Before { int sum; __device__ int operator()(int total) { "
            "int was = sum; sum += total; return was; } } before = {0}; "
            "for (int at = 0; at < 64; at += 32) { B(temp).InclusiveSum(from[at + i], to[at + i], before); "
            "__syncthreads(); }",
            lambda v: list(accumulate(v))),
        "BlockLoad, BlockStore": (
            BLOCK_TEMP.format("BlockLoad<int, 32, 2>")
            + "typedef cub::BlockStore<int, 32, 2> S; __shared__ typename S::TempStorage more; "
            "int x[2]; if (i < 32) { B(temp).Load(from, x); x[0]++; "
            "S(more).Store(to, x); }",
            lambda v: [x + 1 - i % 2 for i, x in enumerate(v)]),
        "BlockAdjacentDifference": (
            BLOCK_TEMP.format("BlockAdjacentDifference<int, 16>") + "if (i >= 16) return; int x[4]; "
            "for (int k = 0; k < 4; k++) x[k] = from[4 * i + k]; auto minus = [](int &a, int &b) { "
            "return a - b; }; B(temp).SubtractLeft(x, x, minus); for (int k = 0; k < 4; k++) "
            "to[4 * i + k] = x[k]; int y[2] = {from[2 * i], from[2 * i + 1]}; __syncthreads(); "
            "B(temp).SubtractRight(y, y, minus, 7); to[2 * i] += y[0]; to[2 * i + 1] += y[1];",
            lambda v: [x - (v[i - 1] if i else 0) + (x - [*v[1:32], 7][i] if i < 32 else 0)
                       for i, x in enumerate(v)]),
        "BlockRadixSort": (BLOCK_TEMP.format("BlockRadixSort<int, 64, 1>")
                           + "int x[1] = {v}; B(temp).Sort(x); to[i] = x[0];", sorted),
        "BlockReduce of every algorithm": (
            "int s = 0; "
            + " ".join(
                f"{{ typedef cub::BlockReduce<{T}, 64, cub::BLOCK_REDUCE_{name}> B; "
                "__shared__ typename B::TempStorage temp; s += (int)B(temp).Sum(v); "
                "s += (int)B(temp).Reduce(v, cuda::minimum<>(), 40); }"
                for T, name in (("int", "RAKING_COMMUTATIVE_ONLY"), ("double", "RAKING"),
                                ("float", "WARP_REDUCTIONS"), ("long long", "WARP_REDUCTIONS"))).replace(
                "); s +=", "); __syncthreads(); s +=")
            + "to[i] = i ? 0 : s;",
            lambda v: [4 * (sum(v) + min(v[:40]))] + [0] * 63),
        "BlockScan of every algorithm": (
            "int s, sums = 0; "
            + " ".join(f"{{ typedef cub::BlockScan<int, 64, cub::BLOCK_SCAN_{name}> B; "
                       "__shared__ typename B::TempStorage temp; "
                       "B(temp).ExclusiveScan(v, s, 0, cub::Max()); sums += s; }"
                       for name in ("RAKING", "RAKING_MEMOIZE", "WARP_SCANS"))
            + "to[i] = sums;",
            lambda v: [3 * x for x in [0, *accumulate(v, lambda a, b: max(a, b, 0))][:-1]]),
        "BlockExchange": (
            BLOCK_TEMP.format("BlockExchange<int, 32, 2>")
            + "if (i >= 32) return; int x[2] = {from[i], from[i + 32]}; B(temp).StripedToBlocked(x); "
            "to[2 * i] = x[0]; to[2 * i + 1] = x[1];",
            lambda v: v),
        "BlockHistogram": (
            BLOCK_TEMP.format("BlockHistogram<unsigned char, 64, 1, 64>")
            + "__shared__ int bins[64]; unsigned char x[1] = {(unsigned char)(v & 7)}; "
            "B(temp).Histogram(x, bins); __syncthreads(); to[i] = bins[i];",
            lambda v: [sum(x & 7 == i for x in v) for i in range(64)]),
        "BlockMergeSort": (
            BLOCK_TEMP.format("BlockMergeSort<int, 32, 2>")
            + "if (i >= 32) return; int x[2] = {from[2 * i], from[2 * i + 1]}; "
            "B(temp).Sort(x, [](int a, int b) { return a > b; }); to[2 * i] = x[0]; to[2 * i + 1] = x[1];",
            lambda v: sorted(v, reverse=True)),
        "BlockRunLengthDecode": (
            BLOCK_TEMP.format("BlockRunLengthDecode<int, 32, 1, 2>")
            + "if (i >= 32) return; int x[1] = {from[i]}, length[1] = {2}, total, out[2]; "
            "B decode(temp, x, length, total); decode.RunLengthDecode(out, 0); "
            "to[2 * i] = out[0]; to[2 * i + 1] = out[1];",
            lambda v: [v[i // 2] for i in range(64)]),
        "BlockShuffle": (
            BLOCK_TEMP.format("BlockShuffle<int, 64>") + "int x = 0; B(temp).Offset(v, x, 1); to[i] = x;",
            lambda v: [*v[1:], 0]),
        "BlockDiscontinuity": (
            BLOCK_TEMP.format("BlockDiscontinuity<int, 64>")
            + "int x[1] = {v / 8}, y[1]; B(temp).FlagHeads(y, x, cub::Inequality()); to[i] = y[0];",
            lambda v: [int(i == 0 or x // 8 != v[i - 1] // 8) for i, x in enumerate(v)]),
        "BlockLoad, BlockStore, transposed": (
            BLOCK_TEMP.format("BlockLoad<int, 32, 2, cub::BLOCK_LOAD_WARP_TRANSPOSE>")
            + "typedef cub::BlockStore<int, 32, 2, cub::BLOCK_STORE_TRANSPOSE> S; "
            "__shared__ typename S::TempStorage more; if (i >= 32) return; int x[2]; "
            "B(temp).Load(from, x); x[0]++; S(more).Store(to, x);",
            lambda v: [x + 1 - i % 2 for i, x in enumerate(v)]),
        "BlockRadixSort of pairs, descending": (
            BLOCK_TEMP.format("BlockRadixSort<float, 64, 1, int>")
            + "float x[1] = {(float)v}; int y[1] = {i}; B(temp).SortDescending(x, y); to[i] = from[y[0]];",
            lambda v: sorted(v, reverse=True)),
        "BlockRadixRank": (
            "typedef cub::BlockRadixRank<64, 4, false> B; __shared__ typename B::TempStorage temp; "
            "unsigned x[1] = {(unsigned)v & 15}; int rank[1]; "
            "B(temp).RankKeys(x, rank, cub::BFEDigitExtractor<unsigned>(0, 4)); to[rank[0]] = x[0];",
            lambda v: sorted(x & 15 for x in v)),
        "WarpExchange": (
            "typedef cub::WarpExchange<int, 2> W; __shared__ typename W::TempStorage temp; "
            "if (i >= 32) return; int x[2] = {from[i], from[i + 32]}; W(temp).StripedToBlocked(x, x); "
            "to[2 * i] = x[0]; to[2 * i + 1] = x[1];",
            lambda v: v),
        "WarpLoad, WarpStore": (
            "typedef cub::WarpLoad<int, 2, cub::WARP_LOAD_TRANSPOSE> L; "
            "typedef cub::WarpStore<int, 2, cub::WARP_STORE_TRANSPOSE> S; "
            "__shared__ typename L::TempStorage temp; __shared__ typename S::TempStorage more; "
            "if (i >= 32) return; int x[2]; L(temp).Load(from, x); x[0]++; S(more).Store(to, x);",
            lambda v: [x + 1 - i % 2 for i, x in enumerate(v)]),
        "WarpMergeSort": (
            "typedef cub::WarpMergeSort<int, 2> W; __shared__ typename W::TempStorage temp; "
            "if (i >= 32) return; int x[2] = {from[2 * i], from[2 * i + 1]}; "
            "W(temp).Sort(x, cuda::std::less<>()); to[2 * i] = x[0]; to[2 * i + 1] = x[1];",
            sorted),
        "WarpReduce, WarpScan of 8 lanes": (
            "typedef cub::WarpReduce<double, 8> R; typedef cub::WarpScan<long long, 8> S; "
            "__shared__ typename R::TempStorage temp[8]; __shared__ typename S::TempStorage more[8]; "
            "long long s; S(more[i / 8]).ExclusiveSum((long long)v, s); "
            "double all = R(temp[i / 8]).Sum((double)v); to[i] = (int)s + (i % 8 ? 0 : (int)all);",
            tiles(8, lambda v: [x + (sum(v) if i == 0 else 0) for i, x in enumerate(before(v))])),
        "ThreadLoad, ThreadStore": (
            "int x = cub::ThreadLoad<cub::LOAD_CG>(from + i) + cub::ThreadLoad<cub::LOAD_LDG>(from + i); "
            "cub::ThreadStore<cub::STORE_CS>(to + i, x);",
            lambda v: [2 * x for x in v]),
    },
    "cooperative_groups": {
        "this_thread_block(), sync(), thread_rank(), size()": (
            "auto g = cg::this_thread_block(); __shared__ int k[64]; k[i] = v; g.sync(); "
            "to[i] = k[g.size() - 1 - g.thread_rank()];", lambda v: v[::-1]),
        "tiled_partition<N>(), shfl(), ballot()": (
            "auto t = cg::tiled_partition<8>(cg::this_thread_block()); "
            "to[i] = t.shfl(v, 0) + (t.ballot(true) == 255);",
            tiles(8, lambda v: [v[0] + 1] * 8)),
        "coalesced_threads()": (
            "if (i % 2) { auto g = cg::coalesced_threads(); to[i] = g.size() * 100 + g.thread_rank(); }",
            lambda v: [1600 + i % 32 // 2 if i % 2 else 0 for i in range(64)]),
        "labeled_partition(), binary_partition()": (
            "auto t = cg::tiled_partition<32>(cg::this_thread_block()); "
            "to[i] = cg::labeled_partition(t, i % 4).size() + cg::binary_partition(t, i % 32 < 10).size();",
            lambda v: [8 + (10 if i % 32 < 10 else 22) for i in range(64)]),
        "reduce()": ("auto t = cg::tiled_partition<16>(cg::this_thread_block()); "
                     "to[i] = cg::reduce(t, v, cg::plus<int>());", tiles(16, total)),
        "inclusive_scan(), exclusive_scan()": (
            "auto t = cg::tiled_partition<32>(cg::this_thread_block()); "
            "to[i] = cg::exclusive_scan(t, v) + cg::inclusive_scan(t, 1);",
            warps(lambda v: [x + i + 1 for i, x in enumerate(before(v))])),
        "memcpy_async(), wait()": (
            "auto g = cg::this_thread_block(); __shared__ int k[64]; cg::memcpy_async(g, k, from, sizeof k); "
            "cg::wait(g); to[i] = k[63 - i];", lambda v: v[::-1]),
        "this_grid(), grid sync()": ("cg::this_grid().sync(); to[i] = cg::this_grid().thread_rank();",
                                     lambda v: list(range(64))),
        "this_cluster(), map_shared_rank()": (
            "__shared__ int k[64]; auto c = cg::this_cluster(); k[i] = v; c.sync(); "
            "to[i] = c.map_shared_rank(k, 0)[i ^ 1]; c.sync();", lambda v: [v[i ^ 1] for i in range(64)]),
    },
    "cuda::barrier": {
        "init(), arrive_and_wait()": (
            BARRIER + "__shared__ int k[64]; k[i] = v; bar.arrive_and_wait(); to[i] = k[63 - i];",
            lambda v: v[::-1]),
        "arrive(), wait()": (
            BARRIER + "__shared__ int k[64]; k[i] = v; auto token = bar.arrive(); "
            "bar.wait(std::move(token)); to[i] = k[63 - i];", lambda v: v[::-1]),
        "memcpy_async()": (
            BARRIER + "__shared__ int k[64]; auto g = cooperative_groups::this_thread_block(); "
            "cuda::memcpy_async(g, k, from, sizeof k, bar); bar.arrive_and_wait(); to[i] = k[63 - i];",
            lambda v: v[::-1]),
        "memcpy_async_tx(), barrier_arrive_tx()": (
            BARRIER + "__shared__ alignas(16) int k[64]; "
            "if (i == 0) cuda::device::memcpy_async_tx(k, from, cuda::aligned_size_t<16>(sizeof k), bar); "
            "auto token = i ? bar.arrive() : cuda::device::barrier_arrive_tx(bar, 1, sizeof k); "
            "bar.wait(std::move(token)); to[i] = k[63 - i];", lambda v: v[::-1]),
    },
    "cuda::pipeline": {
        "make_pipeline() of a thread": (
            "__shared__ int k[64]; auto pipe = cuda::make_pipeline(); pipe.producer_acquire(); "
            "cuda::memcpy_async(&k[i], &from[i], sizeof(int), pipe); pipe.producer_commit(); "
            "cuda::pipeline_consumer_wait_prior<0>(pipe); __syncthreads(); to[i] = k[63 - i];",
            lambda v: v[::-1]),
        "make_pipeline(group, state), two stages": (
            PIPE + "auto pipe = cuda::make_pipeline(block, &state); for (int s = 0; s < 2; s++) { "
            "pipe.producer_acquire(); cuda::memcpy_async(block, kept[s], from, sizeof kept[s], pipe); "
            "pipe.producer_commit(); } for (int s = 0; s < 2; s++) { pipe.consumer_wait(); "
            "to[i] += kept[s][63 - i]; pipe.consumer_release(); }", lambda v: [2 * x for x in v[::-1]]),
        "producers and consumers": (
            PIPE + "auto role = i < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer; "
            "auto pipe = cuda::make_pipeline(block, &state, role); if (i < 32) { pipe.producer_acquire(); "
            "cuda::memcpy_async(&kept[0][i], &from[i], sizeof(int), pipe); pipe.producer_commit(); } else { "
            "pipe.consumer_wait(); to[i] = kept[0][63 - i]; pipe.consumer_release(); }",
            lambda v: [0] * 32 + v[:32][::-1]),
    },
    "cuda::atomic": {
        "atomic_ref, fetch_add()": (
            "cuda::atomic_ref<int, cuda::thread_scope_device> a(to[0]); "
            "a.fetch_add(v, cuda::std::memory_order_relaxed);",
            lambda v: [sum(v)] + [0] * 63),
        "atomic, compare_exchange_strong()": (
            "__shared__ cuda::atomic<int, cuda::thread_scope_block> a; if (i == 0) a.store(0); "
            "__syncthreads(); int seen = i; "
            "if (a.compare_exchange_strong(seen, 7) && i == 0) to[0] = a.load();",
            lambda v: [7] + [0] * 63),
    },
    "__nv_atomic": {
        "load(), store(), and their _n; thread_fence()": (
            "__shared__ float x; __shared__ unsigned ready; if (i == 0) ready = 0; __syncthreads(); "
            "if (i == 40) { x = v; __nv_atomic_store_n(&ready, 1u, __NV_ATOMIC_RELEASE); } "
            "const volatile unsigned *looked = &ready; "
            "while (!__nv_atomic_load_n(looked, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_BLOCK)); "
            "__nv_atomic_thread_fence(__NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_BLOCK); to[i] = x;",
            lambda v: [v[40]] * 64),
        "fetch_add(), and, or, xor, sub, min, max": (
            "__nv_atomic_fetch_add(to, v, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE); "
            "__nv_atomic_fetch_max(to + 1, v, __NV_ATOMIC_SEQ_CST); "
            "__nv_atomic_fetch_sub(to + 2, 1, __NV_ATOMIC_ACQ_REL);",
            lambda v: [sum(v), max(v), -64] + [0] * 61),
        "exchange(), compare_exchange(), and their _n": (
            "int seen = 0; if (__nv_atomic_compare_exchange_n(to, &seen, v + 1, false, __NV_ATOMIC_ACQ_REL, "
            "__NV_ATOMIC_RELAXED)) seen = v + 1; else __nv_atomic_fetch_add(to + 1, 1, __NV_ATOMIC_RELAXED); "
            "__syncthreads(); if (i == 63) { int one = __nv_atomic_exchange_n(to, 9, __NV_ATOMIC_RELAXED); "
            "to[2] = one == seen; }",
            lambda v: [9, 63, 1] + [0] * 61),
    },
}  # fmt: skip
REFUSED = {
    "cub": {
        "cub::DeviceReduce": "size_t bytes = 0; cub::DeviceReduce::Sum(nullptr, bytes, from, to, 64);",
    },
    "cooperative_groups": {
        "this_multi_grid()": "cg::this_multi_grid().sync();",
    },
}


def kernel(header: str, statements: str):
    source = (
        START[header]
        + "__global__ void part(int *to, const int *from) {\n    int i = threadIdx.x, v = from[i];\n"
    )
    return cudasim.kernel(f"{source}    {statements}\n}}\n")


@pytest.mark.parametrize(("header", "part"), [(h, part) for h, parts in PARTS.items() for part in parts])
def test_part(header, part):
    statements, meaning = PARTS[header][part]
    from_, to = torch.randint(0, 50, (64,), dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    cudasim.check(lambda: kernel(header, statements)[1, 64](to, from_))
    assert to.tolist() == meaning(from_.tolist())


@pytest.mark.parametrize(("header", "part"), [(h, part) for h, parts in REFUSED.items() for part in parts])
def test_what_is_not_there_is_refused_by_its_name(header, part):
    name = re.search(r"\w+$", part.removesuffix("()"))[0]
    with pytest.raises(BuildError, match=rf"part\.cu:\d+:\d+: error: .*{name}"):
        kernel(header, REFUSED[header][part]).build()


def test_cub_is_beside_the_simulators_own_headers():
    own = "#include <cuda/ptx>\n#include <cuda/barrier>\n#include <cuda/pipeline>\n#include <cuda/atomic>\n"
    source = f"""#include <cub/warp/warp_reduce.cuh>
{own}
__global__ void both(int *y) {{
    typedef cub::WarpReduce<int> W;
    __shared__ typename W::TempStorage temp;
    int sum = W(temp).Sum((int)threadIdx.x);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    cuda::atomic_ref<int, cuda::thread_scope_device>(*y).fetch_add(threadIdx.x ? 1 : sum);
}}"""
    y = torch.zeros(1, dtype=torch.int32)
    cudasim.check(lambda: cudasim.kernel(source)[1, 32](y))
    assert y.item() == sum(range(32)) + 31


def test_the_page_lists_these_parts():
    text = PAGE.read_text()
    listed = {match[1]: match[2] for match in re.finditer(r"^\| `([^`]+)` \| (.*) \|", text, re.M)}
    for header, parts in PARTS.items():
        there, refused = listed[header].split(" | ")
        assert there == "; ".join(parts)
        assert refused == "; ".join(REFUSED.get(header, ()))
