/* The arithmetic of a wgmma: 64 rows of x by up to 256 rows of w, 32 bytes of each along k.
 *
 * As for mma.sync (../matrix.c) products and their sum with what was there are exact and are then cut off to
 * float32, towards zero; a GPU cuts off a little more, where a product is small beside the others. */
#include "async.h"

enum { ROWS = 64, MOST_COLUMNS = 256, STEP_BYTES = 32, MOST_K = 16, CHUNK_BYTES = 16, SLAB = 8 };

/* One row of a tile: 32 bytes from shared memory as floats. */
static void read_row(const struct sim_product *product, const struct sim_matrix_descriptor *tile,
                     unsigned row, float *value) {
    unsigned char bytes[STEP_BYTES];
    for (unsigned chunk = 0; chunk < STEP_BYTES / CHUNK_BYTES; chunk++) {
        uint32_t address = sim_chunk_address(tile, row, chunk);
        memcpy(bytes + chunk * CHUNK_BYTES, sim_place_of(product->site, address, CHUNK_BYTES).pointer,
               CHUNK_BYTES);
    }
    for (unsigned i = 0; i < MOST_K; i++) {
        uint16_t bits;
        memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
        if (product->factors == SIM_FLOAT16_FACTORS) {
            _Float16 half;
            memcpy(&half, &bits, sizeof half);
            value[i] = (float)half;
        } else if (product->factors == SIM_BFLOAT16_FACTORS) {
            value[i] = __uint_as_float((uint32_t)bits << 16);
        } else if (i < MOST_K / 2) {
            uint32_t word;
            memcpy(&word, bytes + i * sizeof word, sizeof word);
            value[i] = __uint_as_float(word & 0xffffe000u);
        }
    }
}

/* Eight columns at a time, which the compiler makes of whatever vectors the processor has. */
typedef double eight_doubles __attribute__((vector_size(64)));
typedef int64_t eight_longs __attribute__((vector_size(64)));
typedef float eight_floats __attribute__((vector_size(32)));
typedef int32_t eight_ints __attribute__((vector_size(32)));

/* The floats next to *v towards zero: *v, where they are floats. (By pointers: how vectors are passed and
 * returned depends on the processor.) */
static inline void cut_off(const eight_doubles *v, eight_floats *result) {
    eight_floats nearest = __builtin_convertvector(*v, eight_floats);
    eight_longs size = (eight_longs) __builtin_convertvector(nearest, eight_doubles) & INT64_MAX;
    eight_longs exact = (eight_longs)*v & INT64_MAX;
    eight_longs too_far =
        ((eight_doubles)size > (eight_doubles)exact) & ((eight_doubles)size < HUGE_VAL); /* -1: yes */
    *result = (eight_floats)((eight_ints)nearest + __builtin_convertvector(too_far, eight_ints));
}

void sim_multiply_tiles(const struct sim_product *product, const struct sim_thread *warpgroup,
                        unsigned number) {
    struct sim_matrix_descriptor x = sim_read_descriptor(product->x), w = sim_read_descriptor(product->w);
    unsigned columns = product->columns, depth = product->factors == SIM_TF32_FACTORS ? MOST_K / 2 : MOST_K;
    static _Thread_local eight_doubles b[MOST_COLUMNS / SLAB][MOST_K];
    for (unsigned column = 0; column < columns; column++) {
        float value[MOST_K];
        read_row(product, &w, column, value);
        for (unsigned k = 0; k < depth; k++)
            b[column / SLAB][k][column % SLAB] = value[k];
    }
    for (unsigned row = 0; row < ROWS; row++) {
        float a[MOST_K];
        read_row(product, &x, row, a);
        /* the four threads of the row, and where its values are in their sums */
        const struct sim_thread *quad = &warpgroup[row / 16 * SIM_WARP_THREADS + row % 8 * 4];
        float *own[4];
        for (unsigned t = 0; t < 4; t++)
            own[t] = quad[t].products.pending[number].sum + row % 16 / 8 * 2;
        for (unsigned slab = 0; slab < columns / SLAB; slab++) {
            eight_doubles sum = {0.0};
            for (unsigned i = 0; product->accumulate && i < SLAB; i++)
                sum[i] = own[i / 2][slab * 4 + i % 2];
            for (unsigned k = 0; k < depth; k++)
                sum += (double)a[k] * b[slab][k];
            eight_floats result;
            cut_off(&sum, &result);
            for (unsigned i = 0; i < SLAB; i++)
                own[i / 2][slab * 4 + i % 2] = result[i];
        }
    }
}
