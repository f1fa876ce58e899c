/* Matrix instructions: ldmatrix and mma, which the lanes of a warp execute together. The last lane to arrive
 * computes the results of all. */
#include "machine.h"

enum { ROWS = 16, COLUMNS = 8, REGISTERS = 4, MOST_K = 16, MATRICES = 4 };

struct matrix_rows {
    const void *mine;
    const void **row;
};

struct matrix_words {
    uint32_t *word;
    int count;
};

struct matrix_product {
    float *sum;
    const uint32_t *a;
    const uint32_t *b;
    enum sim_factors factors;
};

void sim_matrix_rows(const struct sim_site *site, const void *mine, const void **row) {
    struct matrix_rows rows = {mine, row};
    sim_meet_for_matrix(site, SIM_MATRIX_ROWS, (uintptr_t)&rows);
}

void sim_transpose(const struct sim_site *site, uint32_t *words, int matrices) {
    struct matrix_words mine = {words, matrices};
    sim_meet_for_matrix(site, SIM_TRANSPOSE, (uintptr_t)&mine);
}

void sim_mma(const struct sim_site *site, float *sum, const uint32_t *a, const uint32_t *b,
             enum sim_factors factors) {
    struct matrix_product product = {sum, a, b, factors};
    sim_meet_for_matrix(site, SIM_MMA, (uintptr_t)&product);
}

void sim_tell_matrix_rows(const struct sim_thread *warp) {
    for (int lane = 0; lane < SIM_WARP_THREADS; lane++) {
        const struct matrix_rows *rows = (const struct matrix_rows *)(uintptr_t)warp[lane].exchange.value;
        for (int matrix = 0; matrix < MATRICES; matrix++) {
            const struct sim_thread *other = &warp[8 * matrix + lane / 4];
            rows->row[matrix] = ((const struct matrix_rows *)(uintptr_t)other->exchange.value)->mine;
        }
    }
}

void sim_transpose_matrices(const struct sim_thread *warp) {
    enum { SIDE = 8 };
    const struct matrix_words *of_lane[SIM_WARP_THREADS];
    for (int lane = 0; lane < SIM_WARP_THREADS; lane++)
        of_lane[lane] = (const struct matrix_words *)(uintptr_t)warp[lane].exchange.value;
    for (int matrix = 0; matrix < of_lane[0]->count; matrix++) {
        uint16_t element[SIDE][SIDE];
        for (int lane = 0; lane < SIM_WARP_THREADS; lane++)
            memcpy(&element[lane / 4][lane % 4 * 2], &of_lane[lane]->word[matrix], sizeof(uint32_t));
        for (int lane = 0; lane < SIM_WARP_THREADS; lane++) {
            int row = lane / 4, column = lane % 4 * 2;
            of_lane[lane]->word[matrix] = element[column][row] | (uint32_t)element[column + 1][row] << 16;
        }
    }
}

/* The factors in one register: two of 16 bits, or one of 32. */
static void unpack(uint32_t word, enum sim_factors factors, float *value) {
    uint16_t bits[2] = {(uint16_t)word, (uint16_t)(word >> 16)};
    switch (factors) {
    case SIM_FLOAT16_FACTORS:
        for (int i = 0; i < 2; i++) {
            _Float16 half;
            memcpy(&half, &bits[i], sizeof half);
            value[i] = (float)half;
        }
        break;
    case SIM_BFLOAT16_FACTORS:
        for (int i = 0; i < 2; i++)
            value[i] = __uint_as_float((uint32_t)bits[i] << 16);
        break;
    case SIM_TF32_FACTORS:
        value[0] = __uint_as_float(word & 0xffffe000u);
        break;
    case SIM_E4M3_FACTORS:
    case SIM_E5M2_FACTORS:
        break; /* which mma.sync has not here */
    }
}

float sim_cut_off(double v) {
    float nearest = (float)v;
    if (fabs((double)nearest) > fabs(v) && !isinf(nearest))
        nearest = nextafterf(nearest, 0.0f);
    return nearest;
}

void sim_multiply_matrices(const struct sim_thread *warp) {
    const struct matrix_product *of_lane[SIM_WARP_THREADS];
    for (int lane = 0; lane < SIM_WARP_THREADS; lane++)
        of_lane[lane] = (const struct matrix_product *)(uintptr_t)warp[lane].exchange.value;
    enum sim_factors factors = of_lane[0]->factors;
    int in_word = factors == SIM_TF32_FACTORS ? 1 : 2, depth = 8 * in_word;

    float a[ROWS][MOST_K], b[MOST_K][COLUMNS];
    for (int lane = 0; lane < SIM_WARP_THREADS; lane++) {
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < REGISTERS; i++)
            unpack(of_lane[lane]->a[i], factors, &a[g + i % 2 * 8][t * in_word + i / 2 * 4 * in_word]);
        for (int i = 0; i < REGISTERS / 2; i++) {
            float value[2];
            unpack(of_lane[lane]->b[i], factors, value);
            for (int j = 0; j < in_word; j++)
                b[t * in_word + i * 4 * in_word + j][g] = value[j];
        }
    }
    for (int row = 0; row < ROWS; row++) {
        double sum[COLUMNS];
        for (int column = 0; column < COLUMNS; column++)
            sum[column] = of_lane[row % 8 * 4 + column / 2]->sum[row / 8 * 2 + column % 2];
        for (int k = 0; k < depth; k++)
            for (int column = 0; column < COLUMNS; column++)
                sum[column] += (double)a[row][k] * b[k][column];
        for (int column = 0; column < COLUMNS; column++)
            of_lane[row % 8 * 4 + column / 2]->sum[row / 8 * 2 + column % 2] = sim_cut_off(sum[column]);
    }
}
