"""wgmma by inline PTX beyond test_live_hopper.py: x in registers, transposed and negated factors,
factors of 8 bits, and the rules of its registers, each with the mistake that breaks it."""

import warnings

import pytest
import torch

import cudasim
from cudasim.building.compilers import find_cpp_compiler, version_of
from cudasim.counting.faults import KernelWarning
from cudasim.live import TensorMap

# One product of 64 rows and 16 columns by one wgmma. Both factors come by ordinary stores, the one in shared
# memory without a swizzle: matrices of eight rows of 16 bytes.
PRODUCT = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
__device__ uint64_t descriptor(const void *tile, uint64_t leading, uint64_t stride) {
    return (uint64_t)((unsigned)__cvta_generic_to_shared(tile) & 0x3ffff) >> 4 | leading / 16 << 16 |
           stride / 16 << 32;
}
// x: 64 rows of 32 bytes. w: 16 rows of 32 bytes.
__global__ void product(float *c, const uint32_t *x, const unsigned char *w) {
    __shared__ alignas(128) unsigned char tile[512];
    for (int i = threadIdx.x; i < 512; i += 128) {
        int row = i / 32, byte = i % 32;
        tile[row / 8 * 256 + byte / 16 * 128 + row % 8 * 16 + byte % 16] = w[i];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    uint32_t a[4];
    float d[8];
    for (int i = 0; i < 8; i++)
        d[i] = 1;
    for (int i = 0; i < 4; i++)
        a[i] = x[(row + i % 2 * 8) * 8 + lane % 4 + i / 2 * 4];
    FENCE
    uint64_t of_w = descriptor(tile, LEADING, STRIDE);
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n16KIND "
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, p, MORE;\n}\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(of_w), "r"(ADDS));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    IN_FLIGHT
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    AFTER
    for (int i = 0; i < 8; i++)
        c[(row + i / 2 % 2 * 8) * 16 + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}"""
RIGHT = {
    "FENCE": 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");',
    "KIND": "k16.f32.bf16.bf16",
    "MORE": "1, 1, 0",
    "ADDS": "1",
    "IN_FLIGHT": "",
    "AFTER": "",
    "LEADING": "128",
    "STRIDE": "256",
}


def run(changes: dict, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    source = PRODUCT
    for name, text in (RIGHT | changes).items():
        source = source.replace(name, text)
    c = torch.zeros(64, 16)
    words = x.contiguous().view(torch.uint8).view(torch.uint32)
    cudasim.kernel(source)[1, 128](c, words, w.contiguous().view(torch.uint8))
    return c


def factors(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    k = 32 // dtype.itemsize
    return torch.randn(64, k).to(dtype), torch.randn(16, k).to(dtype)


KINDS = {
    "k16.f32.f16.f16": torch.float16,
    "k16.f32.bf16.bf16": torch.bfloat16,
    "k8.f32.tf32.tf32": torch.float32,
    "k32.f32.e4m3.e4m3": torch.float8_e4m3fn,
    "k32.f32.e5m2.e5m2": torch.float8_e5m2,
}


@pytest.mark.parametrize("kind", KINDS)
def test_x_in_registers(kind):
    x, w = factors(KINDS[kind])
    more = "1, 1, 0" if KINDS[kind].itemsize == 2 else "1, 1"
    c = run({"KIND": kind, "MORE": more}, x, w)
    tolerance = 2e-2 if kind.startswith("k8") else 1e-5
    torch.testing.assert_close(
        c, 1 + x.double().float() @ w.double().float().T, rtol=tolerance, atol=tolerance
    )


def test_factors_of_two_types_of_eight_bits():
    x, w = factors(torch.float8_e4m3fn)[0], factors(torch.float8_e5m2)[1]
    c = run({"KIND": "k32.f32.e4m3.e5m2", "MORE": "1, 1", "ADDS": "0"}, x, w)
    torch.testing.assert_close(c, x.float() @ w.float().T, rtol=1e-5, atol=1e-4)


def test_negated_and_transposed():
    x, w = factors(torch.bfloat16)
    across = w.T.contiguous()  # a row for each k; without a swizzle the strides change their parts
    c = run({"MORE": "-1, 1, 1", "LEADING": "256", "STRIDE": "128"}, x, across)
    torch.testing.assert_close(c, 1 - x.float() @ w.float().T, rtol=1e-5, atol=1e-5)


FOUND = {
    "no fence": ({"FENCE": ""}, "missing register fence", "wgmma.fence"),
    "sums read in flight": ({"IN_FLIGHT": "if (d[3] == 7) c[0] = 1;"}, "sums not waited for", "reads sum 3"),
    "sums written in flight": ({"IN_FLIGHT": "d[2] = 0;"}, "sums not waited for", "writes sum 2"),
    "x read in flight": (
        {"IN_FLIGHT": "if (a[1] == 7) c[0] = 1;"}, "sums not waited for", "reads register of x number 1"),
    "no proxy fence": (
        {'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");': ""},
        "missing proxy fence", "fence.proxy"),
}  # fmt: skip


@pytest.mark.parametrize("planted", FOUND)
def test_a_planted_mistake_is_found(planted):
    if planted.startswith("sums ") and version_of(find_cpp_compiler())[0] == "clang":
        pytest.skip("clang does not report accesses to an array of the thread's own (docs/limits.md)")
    changes, kind, words = FOUND[planted]
    with pytest.raises(cudasim.KernelFault, match=words) as caught:
        run(changes, *factors(torch.bfloat16))
    assert caught.value.kind == kind


def test_x_written_in_flight_is_questionable():
    """A loop that is unrolled has other registers in each turn, so it is no fault."""
    with pytest.warns(KernelWarning, match="writes register of x number 2"):
        run({"IN_FLIGHT": "a[2] = 0;"}, *factors(torch.bfloat16))


# The sums are scaled between two products.
SCALED = r"""
    d[0] = d[0] * 2;
    FENCE_AGAIN
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, 1, 1, 1, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(of_w));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");"""


def test_sums_that_a_thread_used_are_fenced_before_the_next_product():
    x, w = factors(torch.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        once = 1 + x.float() @ w.float().T
        right = {"AFTER": SCALED, "FENCE_AGAIN": RIGHT["FENCE"]}
        c = run(right, x, w)
        doubled = once.clone()  # of each thread the first sum
        for row in range(64):
            doubled[row, 0:8:2] *= 2 if row % 16 < 8 else 1
        torch.testing.assert_close(c, doubled + once - 1, rtol=1e-5, atol=1e-4)
    with pytest.raises(cudasim.KernelFault, match=r"no wgmma\.fence is between") as caught:
        run(right | {"FENCE_AGAIN": ""}, x, w)
    assert caught.value.kind == "missing register fence"


SUMS = ", ".join(f"%{i}" for i in range(32))
TRANSPOSED = rf"""
#include <cuda.h>
#include <cuda_bf16.h>
__global__ void across(float *c, const __grid_constant__ CUtensorMap of_x,
                       const __grid_constant__ CUtensorMap of_w) {{
    __shared__ alignas(1024) __nv_bfloat16 x[64 * 16], w[16 * 64];
    __shared__ uint64_t bar;
    uint32_t full = __cvta_generic_to_shared(&bar), at_x = __cvta_generic_to_shared(x);
    uint32_t at_w = __cvta_generic_to_shared(w);
    if (threadIdx.x == 0) {{
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(full));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(full), "r"(4096));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {{0, 0}}], [%2];" :: "r"(at_x), "l"(&of_x), "r"(full));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {{0, 0}}], [%2];" :: "r"(at_w), "l"(&of_w), "r"(full));
    }}
    __syncthreads();
    asm volatile("{{\n.reg .pred p;\nL: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra L;\n}}"
                 :: "r"(full));
    uint64_t rows = 256ull / 16 << 32 | 3ull << 62, columns = 1024ull / 16 << 32 | 1ull << 16 | 1ull << 62;
    float d[32];
    asm volatile("wgmma.fence.sync.aligned;");
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{SUMS}}}, %32, %33, 0, 1, 1, 0, 1;"
                 : {", ".join(f'"+f"(d[{i}])' for i in range(32))}
                 : "l"(rows | at_x >> 4), "l"(columns | at_w >> 4));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;");
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    for (int i = 0; i < 32; i++)
        c[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}}"""


def test_a_swizzled_factor_with_its_rows_across_k():
    torch.manual_seed(0)
    x, w, c = torch.randn(64, 16).bfloat16(), torch.randn(16, 64).bfloat16(), torch.zeros(64, 64)
    maps = TensorMap(x, (64, 16), 32), TensorMap(w, (16, 64), 128)
    cudasim.kernel(TRANSPOSED)[1, 128](c, *maps)
    torch.testing.assert_close(c, x.float() @ w.float(), rtol=1e-5, atol=1e-5)
