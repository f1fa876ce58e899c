/* ldmatrix and mma.sync on the simulator (sim/matrix.c), under the names of the instructions. */
#pragma once

#include "sim/portable.h"

static inline void ldmatrix_x4(uint32_t *to, const void *row) {
    static const struct sim_site here = {__FILE__, __LINE__};
    const void *row_of_matrix[4];
    sim_matrix_rows(&here, row, row_of_matrix);
    for (int i = 0; i < 4; i++)
        to[i] = ((const uint32_t *)row_of_matrix[i])[threadIdx.x % 4];
}

static inline uint32_t cvt_rna_tf32(uint32_t bits) {
    bool is_number = (bits & 0x7f800000u) != 0x7f800000u;
    return is_number ? (bits + 0x1000u) & 0xffffe000u : bits;
}

static inline void mma_m16n8k16_f16(float *sum, const uint32_t *a, const uint32_t *b) {
    static const struct sim_site here = {__FILE__, __LINE__};
    sim_mma(&here, sum, a, b, SIM_FLOAT16_FACTORS);
}

static inline void mma_m16n8k16_bf16(float *sum, const uint32_t *a, const uint32_t *b) {
    static const struct sim_site here = {__FILE__, __LINE__};
    sim_mma(&here, sum, a, b, SIM_BFLOAT16_FACTORS);
}

static inline void mma_m16n8k8_tf32(float *sum, const uint32_t *a, const uint32_t *b) {
    static const struct sim_site here = {__FILE__, __LINE__};
    sim_mma(&here, sum, a, b, SIM_TF32_FACTORS);
}
