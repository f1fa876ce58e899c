"""Inline PTX in cells: the instructions that public kernels use most, each held against torch or Python."""

import pytest
import torch

import cudasim
from cudasim.building.library import BuildError
from cudasim.live.ptx import with_ptx

PRODUCT = r"""
#include <cuda_fp16.h>
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                  \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"      \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                  \
                 : "r"(addr))
__device__ uint32_t shared_address_of(const void *pointer) {
    uint32_t address;
    asm volatile("{.reg .u64 wide;\n\t cvta.to.shared.u64 wide, %1;\n\t cvt.u32.u64 %0, wide;}\n"
                 : "=r"(address) : "l"(pointer));
    return address;
}
__global__ void product(float *c, const half *a, const half *b, int in_half) {
    __shared__ half of_a[16 * 16], of_b[16 * 8];
    int lane = threadIdx.x, row = lane / 4, column = lane % 4 * 2;
    uint32_t to = __cvta_generic_to_shared(of_a + lane * 8);
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(to),
                 "l"(a + lane * 8), "n"(16));
    asm volatile("cp.async.commit_group;\n" ::);
    if (lane < 16)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(shared_address_of(of_b + lane * 8)),
                     "l"(b + lane * 8));
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    uint32_t x[4], y[2];
    LDMATRIX_X4(x[0], x[1], x[2], x[3], shared_address_of(&of_a[lane % 16 * 16 + lane / 16 * 8]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(y[0]), "=r"(y[1]) : "r"(shared_address_of(&of_b[lane % 16 * 8])));
    if (in_half) {
        uint32_t sum[2] = {0, 0};
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
                     "{%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                     : "+r"(sum[0]), "+r"(sum[1])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
        half *pair = (half *)sum;
        for (int i = 0; i < 4; i++)
            c[(row + i / 2 * 8) * 8 + column + i % 2] = __half2float(pair[i]);
        return;
    }
    float sum[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(c + row * 8 + column), "f"(sum[0]), "f"(sum[1]));
    asm volatile("st.global.v2.f32 [%0+256], {%1, %2};" ::"l"(c + row * 8 + column),
                 "f"(sum[2]), "f"(sum[3]));
}
"""


@pytest.mark.parametrize("in_half", (0, 1))
def test_a_product_by_ldmatrix_and_mma(in_half):
    a, b, c = torch.randn(16, 16).half(), torch.randn(16, 8).half(), torch.zeros(16, 8)
    cudasim.kernel(PRODUCT)[1, 32](c, a, b, in_half)
    torch.testing.assert_close(c, a.float() @ b.float(), atol=2e-2 if in_half else 1e-5, rtol=0)


M = (1 << 32) - 1


def _signed(v: int) -> int:
    return v - (1 << 32) if v >> 31 else v


# An instruction of %1 and %2, and what it is of the two numbers x and y.
INSTRUCTIONS = {
    "lop3.b32 %0, %1, %2, 7, 0x96;": lambda x, y: x ^ y ^ 7,
    "prmt.b32 %0, %1, %2, 0x0415;": lambda x, y: (
        (y >> 8 & 255) | (x >> 8 & 255) << 8 | (y & 255) << 16 | (x & 255) << 24
    ),
    "{ .reg .pred p; setp.ge.u32 p, %1, %2; @p add.u32 %0, %1, 1; @!p sub.u32 %0, %2, 1; }": lambda x, y: (
        x + 1 if x >= y else y - 1
    ),
    "bfe.u32 %0, %1, 4, 8;": lambda x, y: x >> 4 & 255,
    "bfe.s32 %0, %1, 4, 8;": lambda x, y: ((x >> 4 & 255) ^ 128) - 128,
    "bfi.b32 %0, %1, %2, 8, 4;": lambda x, y: (y & ~0xF00) | (x & 15) << 8,
    "bfind.u32 %0, %1;": lambda x, y: x.bit_length() - 1,
    "mul.hi.u32 %0, %1, %2;": lambda x, y: x * y >> 32,
    "mad.lo.s32 %0, %1, %2, -3;": lambda x, y: x * y - 3,
    "{ .reg .u64 w; mul.wide.u32 w, %1, %2; shr.u64 w, w, 16; cvt.u32.u64 %0, w; }": lambda x, y: x * y >> 16,
    "shl.b32 %0, %1, 40;": lambda x, y: 0,
    "shr.s32 %0, %1, 40;": lambda x, y: M if x >> 31 else 0,
    "min.s32 %0, %1, %2;": lambda x, y: min(_signed(x), _signed(y)),
    "{ .reg .b64 w; mov.b64 w, {%1, %2}; shr.u64 w, w, 4; cvt.u32.u64 %0, w; }": lambda x, y: (
        (x | y << 32) >> 4
    ),
    "popc.b32 %0, %1;": lambda x, y: x.bit_count(),
    "vabsdiff4.u32.u32.u32.add %0, %1, %2, 5;": lambda x, y: (
        5 + sum(abs((x >> i & 255) - (y >> i & 255)) for i in (0, 8, 16, 24))
    ),
}


def test_instructions_on_integers():
    lines = [
        f'asm volatile("{text}" : "=r"(r) : "r"(x), "r"(y)); to[{i} * 64 + threadIdx.x] = (int)r;'
        for i, text in enumerate(INSTRUCTIONS)
    ]
    source = (
        "__global__ void bits(int *to, const int *from) {\n"
        "    unsigned x = from[threadIdx.x], y = from[threadIdx.x + 64], r = 0;\n" + "\n".join(lines) + "\n}"
    )
    numbers = torch.randint(-(2**31), 2**31 - 1, (128,)).int()
    to = torch.zeros(len(INSTRUCTIONS), 64, dtype=torch.int32)
    cudasim.kernel(source)[1, 64](to, numbers)
    for row, (text, meaning) in zip(to.tolist(), INSTRUCTIONS.items(), strict=True):
        for i, got in enumerate(row):
            x, y = int(numbers[i]) & M, int(numbers[64 + i]) & M
            assert got & M == meaning(x, y) & M, (text, hex(x), hex(y))


def test_memory_barriers_and_a_warps_instructions():
    source = r"""
__global__ void warps(int *to, const float *from, int *count) {
    __shared__ float kept[64];
    int lane, value; float v; unsigned long long wide;
    asm("mov.u32 %0, %laneid;" : "=r"(lane));
    asm("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(from + threadIdx.x));
    asm volatile("st.shared.f32 [%0], %1;" ::"r"((unsigned)__cvta_generic_to_shared(kept + threadIdx.x)),
                 "f"(v));
    asm volatile("membar.gl; bar.sync 0;" ::: "memory");
    asm("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=r"(value) : "r"((int)kept[63 - threadIdx.x]));
    asm volatile("vote.sync.ballot.b32 %0, p, %1;" : "=r"(lane) : "r"(0xffffffff)); // p is no register
}"""
    with pytest.raises(BuildError, match="inline PTX"):
        cudasim.kernel(source).build()
    source = "\n".join(line for line in source.splitlines() if "vote.sync" not in line)
    last = "    to[threadIdx.x] = value * 100 + lane;\n"
    last += '    asm volatile("red.global.add.u32 [%0], %1;" ::"l"(count), "r"(2));\n}'
    to, count = torch.zeros(64, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    cudasim.kernel(source[:-1] + last)[1, 64](to, torch.arange(64.0), count)
    assert to.tolist() == [((63 - i) ^ 1) * 100 + i % 32 for i in range(64)] and count.item() == 128


def test_a_shuffle_tells_whether_it_was_in_range():
    source = r"""
__global__ void shuffled(int *to) {
    int lane = threadIdx.x, down, up, is_down, is_up, pair = 0xffff0001, odd;
    asm volatile("{ .reg .pred p; .reg .u32 r; shfl.sync.down.b32 r|p, %2, 3, 0x1009, 0xffffffff;\n"
                 "selp.s32 %1, 1, 0, p; mov.b32 %0, r; }" : "=r"(down), "=r"(is_down) : "r"(lane));
    asm volatile( // in eights, from the third lane on
        "{ .reg .pred p; shfl.sync.up.b32 %0|p, %2, 3, 0x1802, 0xffffffff; selp.s32 %1, 1, 0, p; }"
        : "=r"(up), "=r"(is_up) : "r"(lane));
    asm("add.u16x2 %0, %0, %1;" : "+r"(pair) : "r"(0x00010002));
    asm volatile("{ .reg .pred p; and.b32 %0, %1, 1; setp.ne.u32 p, %0, 0;"
                 "vote.ballot.sync.b32 %0, p, 0xffffffff; }" : "=r"(odd) : "r"(lane));
    to[lane] = down + 100 * is_down + 1000 * up + 100000 * is_up;
    to[32 + lane] = pair == 3 && odd == (int)0xaaaaaaaa;
}"""
    to = torch.zeros(64, dtype=torch.int32)
    cudasim.kernel(source)[1, 32](to)

    def read(lane, source, is_in_range, each):
        return (source if is_in_range else lane) * each + is_in_range * each * 100

    downs = [read(lane, lane + 3, lane + 3 <= (lane & 16) + 9, 1) for lane in range(32)]
    ups = [read(lane, lane - 3, lane - 3 >= (lane & 24) + 2, 1000) for lane in range(32)]
    assert to.tolist() == [down + up for down, up in zip(downs, ups, strict=True)] + [1] * 32


def test_shared_memory_is_named_by_32_bits_and_checked():
    source = r"""
__global__ void beyond(int *to) {
    __shared__ int kept[32];
    unsigned place = __cvta_generic_to_shared(kept), v = 7;
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(place + 4 * (threadIdx.x + 1)), "r"(v));
}"""
    with pytest.raises(cudasim.KernelFault, match=r"beyond\.cu:5"):
        cudasim.kernel(source)[1, 32](torch.zeros(1, dtype=torch.int32))


def test_arrays_of_halves_in_shared_memory_are_no_race():
    source = """#include <cuda_fp16.h>
__global__ void turned(half *x) {
    __shared__ half kept[64], more[32];
    kept[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < 32)
        more[threadIdx.x] = x[0];
    __syncthreads();
    x[threadIdx.x] = kept[63 - threadIdx.x] + more[0] - more[31];
}"""
    x = torch.arange(64).half()
    cudasim.kernel(source)[1, 64](x)
    assert x.tolist() == list(range(63, -1, -1))


def test_what_is_not_known_stays_as_it_is():
    for text in ('asm("sured.b.1d.add.trap.u32 [%0], %1;" :: "r"(a));', "#define P asm(TEXT)"):
        assert with_ptx(text) == text
    two = 'asm volatile("mov.u32 %0, %1;\\n"\n    "add.u32 %0, %0, 1;"\n : "=r"(a) : "r"(b));\nint c;'
    assert with_ptx(two).count("\n") == two.count("\n") and "asm" not in with_ptx(two)


GUARDED = r"""
__device__ __forceinline__ void load(float &to, const void *from, bool guard) {
    asm volatile (
        "{.reg .pred p;\n"
        " setp.ne.b32 p, %2, 0;\n"
        " @!p mov.b32 %0, 0;\n"
#if __CUDACC_VER_MAJOR__ >= 11 && \
    __CUDA_ARCH__ >= OLDEST
        " @p ld.global.nc.L2::128B.f32 %0, [%1];}\n"
#else
        " @p ld.global.nc.f32 %0, [%1];}\n"
#endif
        : "=f"(to)
        : "l"(from), "r"((int)guard)
    );
}
__global__ void k(float *y, const float *x, int n) {
    float v;
    load(v, x + threadIdx.x, threadIdx.x < n);
    y[threadIdx.x] = v;
    if (threadIdx.x == 0) y[32] = __LINE__;
}
"""


@pytest.mark.parametrize("oldest", [750, 9990])
def test_a_statement_whose_text_depends_on_an_if(oldest):
    y, x = torch.zeros(33), torch.arange(20.0)
    kernel = cudasim.kernel(f"#define OLDEST {oldest}" + GUARDED)
    kernel[1, 32](y, x, 20)
    assert y.tolist() == [*range(20), *[0] * 12, GUARDED[: GUARDED.index("__LINE__")].count("\n") + 1]
    with pytest.raises(cudasim.KernelFault, match=r"out of bounds in k \(k.cu:\d+\).* x\[10\]"):
        cudasim.check(lambda: kernel[1, 32](y, x[:10].clone(), 20))


STAGES = r"""
__global__ void k(int *y, const int *x) {
    extern __shared__ int dynamic[];
    __shared__ int first[5];
    __shared__ __align__(16 * 1024) char stages[16 * 1024];
    if (threadIdx.x < 5)
        first[threadIdx.x] = dynamic[threadIdx.x] = 0;
    unsigned at = (unsigned)__cvta_generic_to_shared(stages) + 4 * threadIdx.x;
    for (int i = 0; i < 4; i++, at ^= 0x2000) {
        asm volatile("st.shared.b32 [%0], %1;" : : "r"(at), "r"(x[32 * i + threadIdx.x]) : "memory");
        __syncthreads();
        int v;
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(at ^ 124));
        y[32 * i + threadIdx.x] = v + (at & 0x1fff) - 4 * threadIdx.x;
        __syncthreads();
    }
}
"""


def test_stages_that_an_exclusive_or_switches():
    x, y = torch.arange(128, dtype=torch.int32), torch.zeros(128, dtype=torch.int32)
    kernel = cudasim.kernel(STAGES)
    kernel[1, 32, 5000](y, x)
    assert torch.equal(y.view(4, 32), x.view(4, 32).flip(1))
    cudasim.check(lambda: kernel[1, 32, 5000](y, x))


def test_a_macro_makes_the_text_of_its_arguments(tmp_path):
    """By `#` and by a literal, through another macro, in a header, and for whole functions; lines stay."""
    (tmp_path / "warp.h").write_text(
        '#define SHUFFLE(way, r, x, n) asm volatile("shfl.sync." #way ".b32 %0, %1, %2, 31, -1;" \\\n'
        '    : "=r"(r) : "r"(x), "r"(n))\n'
    )
    source = """
#include "warp.h"
#define DOWN(r, x) SHUFFLE(down, r, x, 1)
#define LOAD(kind, r, p) asm("ld.global." kind ".u32 %0, [%1];" : "=r"(r) : "l"(p))
#define FUNCTION(name, ...) __device__ int name##_of(int a, int b) { int r; \\
    asm(#name "." __VA_ARGS__ " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
FUNCTION(add, "s32")
FUNCTION(sub, "s32")
__global__ void k(int *y, const int *x) {
    int r, z;
    LOAD("ca", z,
         x);
    DOWN(r, z + (int)threadIdx.x);
    y[threadIdx.x] = add_of(r, 100) - sub_of(__LINE__, 1);
}
"""
    x, y = torch.tensor([5], dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
    cudasim.kernel(source, include=[tmp_path])[1, 32](y, x)
    lane = torch.arange(32)
    assert torch.equal(y.long(), 5 + torch.clamp(lane + 1, max=31) + 100 - (14 - 1))
