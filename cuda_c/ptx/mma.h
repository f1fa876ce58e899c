/* ldmatrix and mma.sync: the tensor cores of compute capability 8.0 and up, for both machines. The functions
 * are named after the instructions. All lanes of a warp execute them together; the next instruction can use
 * their results.
 *
 * PTX ISA, sections "ldmatrix", "mma" and "cvt". */
#pragma once

#include "shared/rung.h"
#include "shared/element.h"

#ifdef __CUDACC__

/* Four 8x8 matrices of 16-bit elements from shared memory; `row` of lane 8 i + j is row j of matrix i: 16
 * bytes, aligned. With g = lane / 4 and t = lane % 4 a lane gets word t of row g of matrix i in to[i]. */
static __device__ __forceinline__ void ldmatrix_x4(uint32_t *to, const void *row) {
#if __CUDA_ARCH__ >= 750
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
#else
    (void)to, (void)row;
    __trap();
#endif
}

/* The float in `bits`, rounded to tf32: to the nearest of 11 significant bits, ties away from zero, the only
 * rounding to nearest of compute capability 8.0. mma itself would truncate. */
static __device__ __forceinline__ uint32_t cvt_rna_tf32(uint32_t bits) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(__uint_as_float(bits)));
#endif
    return bits;
}

/* sum += a b for 16 rows of a, 8 columns of b and 16 k, of float16 or bfloat16. With g = lane / 4 and
 * t = lane % 4 a lane has
 *     a: rows g, g + 8, g, g + 8, each two neighbouring k from 2 t, 2 t, 2 t + 8, 2 t + 8 on
 *     b: column g, two neighbouring k from 2 t and 2 t + 8 on
 *     sum: row g, columns 2 t and 2 t + 1, then row g + 8, the same columns. */
static __device__ __forceinline__ void mma_m16n8k16(float *sum, const uint32_t *a, const uint32_t *b,
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

/* The same for 8 k of tf32: a float of a or b takes the place of two neighbouring k of mma_m16n8k16, so a
 * lane's k are t in the first registers and t + 4 in the others. The lower 13 bits of a factor are ignored.
 */
static __device__ __forceinline__ void mma_m16n8k8_tf32(float *sum, const uint32_t *a, const uint32_t *b) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    (void)sum, (void)a, (void)b;
    __trap();
#endif
}

#else

#include "sim/ptx/mma.h"

static inline void mma_m16n8k16(float *sum, const uint32_t *a, const uint32_t *b, fgn_type type) {
    if (type == FGN_FLOAT16)
        mma_m16n8k16_f16(sum, a, b);
    else
        mma_m16n8k16_bf16(sum, a, b);
}

#endif
