/* The arithmetic of a wgmma: 64 rows of x by up to 256 rows of w, 32 bytes of each along k.
 *
 * As for mma.sync (../matrix.c), products and their sum with the old value are exact and are then truncated
 * to float32. A GPU truncates a little more if a product is small beside the others. */
#include "async.h"

enum { ROWS = 64, MOST_COLUMNS = 256, STEP_BYTES = 32, MOST_K = 32, CHUNK_BYTES = 16, SLAB = 8 };

static unsigned bytes_of(enum sim_factors factors) {
    return factors == SIM_TF32_FACTORS                                  ? 4
           : factors == SIM_E4M3_FACTORS || factors == SIM_E5M2_FACTORS ? 1
                                                                        : 2;
}

/* E5M2 is the upper half of a binary16; E4M3 has one NaN and no infinity. */
static float float_of_byte(uint8_t bits, bool is_e5m2) {
    if (is_e5m2)
        return sim_float_of_half((uint16_t)(bits << 8));
    unsigned exponent = bits >> 3 & 15, mantissa = bits & 7;
    float size = (bits & 0x7f) == 0x7f ? NAN
                 : exponent == 0       ? ldexpf((float)mantissa, -9)
                                       : ldexpf((float)(8 + mantissa), (int)exponent - 10);
    return bits & 0x80 ? -size : size;
}

static float value_of(const unsigned char *bytes, enum sim_factors factors) {
    _Float16 half;
    uint16_t upper;
    uint32_t word;
    switch (factors) {
    case SIM_FLOAT16_FACTORS:
        memcpy(&half, bytes, sizeof half);
        return (float)half;
    case SIM_BFLOAT16_FACTORS:
        memcpy(&upper, bytes, sizeof upper);
        return __uint_as_float((uint32_t)upper << 16);
    case SIM_TF32_FACTORS:
        memcpy(&word, bytes, sizeof word);
        return __uint_as_float(word & 0xffffe000u);
    default:
        return float_of_byte(*bytes, factors == SIM_E5M2_FACTORS);
    }
}

struct factor {
    const struct sim_site *site;
    enum sim_factors type;
    bool is_negated;
    struct sim_matrix_descriptor tile;
};

static const unsigned char *chunk_of(const struct factor *factor, unsigned row, unsigned chunk) {
    uint32_t address = sim_chunk_address(&factor->tile, row, chunk);
    return sim_place_of(factor->site, address, CHUNK_BYTES).pointer;
}

static void to_values(const struct factor *factor, const unsigned char *bytes, unsigned count, float *value) {
    for (unsigned i = 0; i < count; i++) {
        float v = value_of(bytes + i * bytes_of(factor->type), factor->type);
        value[i] = factor->is_negated ? -v : v;
    }
}

/* Loads rows of a factor, with their values along k. */
static void read_tile(const struct factor *factor, unsigned rows, float (*value)[MOST_K]) {
    unsigned in_chunk = CHUNK_BYTES / bytes_of(factor->type), depth = STEP_BYTES / bytes_of(factor->type);
    if (!factor->tile.is_transposed) {
        for (unsigned row = 0; row < rows; row++)
            for (unsigned chunk = 0; chunk < STEP_BYTES / CHUNK_BYTES; chunk++)
                to_values(factor, chunk_of(factor, row, chunk), in_chunk, &value[row][chunk * in_chunk]);
        return;
    }
    for (unsigned k = 0; k < depth; k++)
        for (unsigned first = 0; first < rows; first += in_chunk) {
            float across[MOST_K];
            to_values(factor, chunk_of(factor, k, first / in_chunk), in_chunk, across);
            for (unsigned i = 0; i < in_chunk; i++)
                value[first + i][k] = across[i];
        }
}

/* A quad of threads has two rows, 8 apart: each thread has a word of each 16 bytes. */
static void read_registers(const struct factor *factor, const struct sim_thread *warpgroup, unsigned number,
                           float (*value)[MOST_K]) {
    unsigned in_word = sizeof(uint32_t) / bytes_of(factor->type);
    for (unsigned row = 0; row < ROWS; row++)
        for (unsigned word = 0; word < STEP_BYTES / sizeof(uint32_t); word++) {
            const struct sim_thread *thread =
                &warpgroup[row / 16 * SIM_WARP_THREADS + row % 8 * 4 + word % 4];
            const uint32_t *registers = thread->products.pending[number].asked.value;
            to_values(factor, (const unsigned char *)&registers[row % 16 / 8 + word / 4 * 2], in_word,
                      &value[row][word * in_word]);
        }
}

/* Eight columns at a time; the compiler uses whatever vectors the processor has. */
typedef double eight_doubles __attribute__((vector_size(64)));
typedef int64_t eight_longs __attribute__((vector_size(64)));
typedef float eight_floats __attribute__((vector_size(32)));
typedef int32_t eight_ints __attribute__((vector_size(32)));

/* Rounds *v towards zero to floats. (It takes pointers, because passing and returning vectors depends on the
 * processor.) */
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
    const struct sim_wgmma *asked = &product->asked;
    unsigned columns = (unsigned)asked->columns, depth = STEP_BYTES / bytes_of(asked->x_factors);
    struct factor x = {product->site, asked->x_factors, asked->x_negated,
                       sim_read_descriptor(asked->x, asked->x_transposed)};
    struct factor w = {product->site, asked->w_factors, asked->w_negated,
                       sim_read_descriptor(asked->w, asked->w_transposed)};
    static _Thread_local float tile[MOST_COLUMNS][MOST_K];
    static _Thread_local eight_doubles b[MOST_COLUMNS / SLAB][MOST_K];
    read_tile(&w, columns, tile);
    for (unsigned column = 0; column < columns; column++)
        for (unsigned k = 0; k < depth; k++)
            b[column / SLAB][k][column % SLAB] = tile[column][k];
    if (asked->x_in_registers)
        read_registers(&x, warpgroup, number, tile);
    else
        read_tile(&x, ROWS, tile);
    for (unsigned row = 0; row < ROWS; row++) {
        const float *a = tile[row];
        /* the four threads of the row, and the places of its values in their sums */
        const struct sim_thread *quad = &warpgroup[row / 16 * SIM_WARP_THREADS + row % 8 * 4];
        float *own[4];
        for (unsigned t = 0; t < 4; t++)
            own[t] = quad[t].products.pending[number].sum + row % 16 / 8 * 2;
        for (unsigned slab = 0; slab < columns / SLAB; slab++) {
            eight_doubles sum = {0.0};
            for (unsigned i = 0; asked->accumulate && i < SLAB; i++)
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
