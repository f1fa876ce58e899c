/* The instructions of compute capability 8.0 and up that gemm_few_rows_tensor.cu uses, as functions named
 * after them, for both machines.
 *
 *   - cp.async copies beside the thread's own instructions; copy_async_wait() waits for it.
 *   - mma.sync is waited for like any instruction; all lanes of a warp execute it together.
 *   - griddepcontrol (9.0) lets a launch begin while the one before it ends.
 * PTX ISA, sections "cp.async", "mma" and "griddepcontrol". */
#pragma once

#include "ladder.h"
#include "element.h"

#ifdef __CUDACC__

/* Copies 16 bytes to shared memory, or writes zeros there. They are read once: past the L1 cache, and the
 * first to leave the L2 cache, which fetches the whole 128 bytes that they are part of. */
static __forceinline__ __device__ void copy_async_once_16_or_zero(void *shared, const void *global,
                                                                  bool valid) {
#if __CUDA_ARCH__ >= 800
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(shared)),
                 "l"(global), "r"(valid ? 16 : 0), "l"(policy)
                 : "memory");
#else
    (void)shared, (void)global, (void)valid;
    __trap();
#endif
}

/* Closes a group of copies. */
static __forceinline__ __device__ void copy_async_commit(void) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until at most `groups_in_flight` of this thread's groups have not landed; the instruction wants a
 * constant, so these are the numbers that it comes with. */
static __forceinline__ __device__ void copy_async_wait(int groups_in_flight) {
#if __CUDA_ARCH__ >= 800
    switch (groups_in_flight) {
    case 0:
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        break;
    case 1:
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        break;
    case 2:
        asm volatile("cp.async.wait_group 2;" ::: "memory");
        break;
    case 3:
        asm volatile("cp.async.wait_group 3;" ::: "memory");
        break;
    case 4:
        asm volatile("cp.async.wait_group 4;" ::: "memory");
        break;
    default:
        asm volatile("cp.async.wait_group 5;" ::: "memory");
        break;
    }
#else
    (void)groups_in_flight;
#endif
}

/* Two floats as bfloat16, the first in the lower half. */
static __forceinline__ __device__ uint32_t bfloat16_pair(float low, float high) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&pair;
}

/* sum += a b for 16 rows of a, 8 columns of b and 16 k, of float16 or bfloat16. With g = lane / 4 and
 * t = lane % 4 a lane has
 *     a: rows g, g + 8, g, g + 8, each two neighbouring k from 2 t, 2 t, 2 t + 8, 2 t + 8 on
 *     b: column g, two neighbouring k from 2 t and 2 t + 8 on
 *     sum: row g, columns 2 t and 2 t + 1, then row g + 8, the same columns. */
static __forceinline__ __device__ void mma_16x8x16(float *sum, const uint32_t *a, const uint32_t *b,
                                                   fgn_type type) {
#if __CUDA_ARCH__ >= 800
    if (type == FGN_FLOAT16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
            "{%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    (void)sum, (void)a, (void)b, (void)type;
    __trap();
#endif
}

/* The next launch may begin as soon as every block has come here; it still has to wait for what this one
 * writes. */
static __forceinline__ __device__ void griddepcontrol_launch_dependents(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Waits until the launch before has ended, and what it wrote can be read. */
static __forceinline__ __device__ void griddepcontrol_wait(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Like LAUNCHER, for a kernel that calls griddepcontrol_wait() before anything else: `early`, it may begin
 * before the launch before it has ended. */
#define EARLY_LAUNCHER(kernel, args_type)                                                                    \
    static cudaError_t launch_##kernel(dim3 grid, dim3 block, size_t dynamic_shared_bytes,                   \
                                       cudaStream_t stream, bool early, args_type args) {                    \
        cudaLaunchAttribute attribute = {};                                                                  \
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;                                   \
        attribute.val.programmaticStreamSerializationAllowed = 1;                                            \
        cudaLaunchConfig_t config = {};                                                                      \
        config.gridDim = grid;                                                                               \
        config.blockDim = block;                                                                             \
        config.dynamicSmemBytes = dynamic_shared_bytes;                                                      \
        config.stream = stream;                                                                              \
        config.attrs = &attribute;                                                                           \
        config.numAttrs = early ? 1 : 0;                                                                     \
        return cudaLaunchKernelEx(&config, kernel, args);                                                    \
    }

#else

static inline uint32_t bfloat16_pair(float low, float high) {
    return bfloat16_bits(low) | (uint32_t)bfloat16_bits(high) << 16;
}

static inline float float_of_bits(uint16_t bits, fgn_type type) {
    return type == FGN_FLOAT16 ? float_of_float16(bits) : float_of_bfloat16(bits);
}

#define copy_async_once_16_or_zero(shared, global, valid) copy_async_16_or_zero(shared, global, valid)

/* The operands that a lane shows to the others. */
struct mma_operands {
    uint32_t a[4];
    uint32_t b[2];
};

static inline void mma_16x8x16(float *sum, const uint32_t *a, const uint32_t *b, fgn_type type) {
    static _Thread_local struct mma_operands of_thread[1024];
    int lane = threadIdx.x % 32;
    struct mma_operands *of_lane = &of_thread[threadIdx.x - lane];
    memcpy(of_lane[lane].a, a, sizeof of_lane[lane].a);
    memcpy(of_lane[lane].b, b, sizeof of_lane[lane].b);
    __syncwarp();
    for (int i = 0; i < 4; i++) {
        int row = lane / 4, upper = i / 2, column = lane % 4 * 2 + i % 2;
        for (int quarter = 0; quarter < 4; quarter++) {
            const struct mma_operands *of_a = &of_lane[row * 4 + quarter];
            const struct mma_operands *of_b = &of_lane[column * 4 + quarter];
            for (int half = 0; half < 2; half++) {
                uint32_t a_pair = of_a->a[2 * half + upper], b_pair = of_b->b[half];
                sum[i] += float_of_bits((uint16_t)a_pair, type) * float_of_bits((uint16_t)b_pair, type);
                sum[i] += float_of_bits(a_pair >> 16, type) * float_of_bits(b_pair >> 16, type);
            }
        }
    }
    __syncwarp(); /* everyone has read */
}

/* One launch after the other. */
static inline void griddepcontrol_launch_dependents(void) {}

static inline void griddepcontrol_wait(void) {}

#define EARLY_LAUNCHER(kernel, args_type)                                                                    \
    static void enter_##kernel(const void *args) {                                                           \
        kernel(*(const args_type *)args);                                                                    \
    }                                                                                                        \
    static cudaError_t launch_##kernel(dim3 grid, dim3 block, size_t dynamic_shared_bytes,                   \
                                       cudaStream_t stream, bool early, args_type args) {                    \
        (void)stream, (void)early;                                                                           \
        return sim_launch(#kernel, __FILE__, enter_##kernel, &args, grid, block, dynamic_shared_bytes);      \
    }

#endif
