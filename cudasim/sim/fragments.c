/* The product of two matrices that a warp holds in fragments: the last lane to arrive computes it for all. */
#include "fragments.h"
#include "machine.h"

enum { MOST_ROWS = 32, MOST_COLUMNS = 32, MOST_DEPTH = 16 };

static double element_of(const void *fragment, enum sim_element kind, int index) {
    switch (kind) {
    case SIM_ELEMENT_FLOAT16:
        return (double)sim_float_of_half(((const uint16_t *)fragment)[index]);
    case SIM_ELEMENT_BFLOAT16:
        return (double)__uint_as_float((uint32_t)((const uint16_t *)fragment)[index] << 16);
    case SIM_ELEMENT_TF32:
        return (double)__uint_as_float(((const uint32_t *)fragment)[index] & 0xffffe000u);
    case SIM_ELEMENT_FLOAT:
        return (double)((const float *)fragment)[index];
    case SIM_ELEMENT_DOUBLE:
        return ((const double *)fragment)[index];
    case SIM_ELEMENT_INT8:
        return ((const int8_t *)fragment)[index];
    case SIM_ELEMENT_UINT8:
        return ((const uint8_t *)fragment)[index];
    case SIM_ELEMENT_INT32:
        return ((const int32_t *)fragment)[index];
    }
    return 0.0;
}

/* A double holds integers exactly up to 2^53, which no sum of these depths reaches. */
static void set_element(void *fragment, enum sim_element kind, int index, double value) {
    switch (kind) {
    case SIM_ELEMENT_FLOAT16:
        ((uint16_t *)fragment)[index] = sim_half_of_double(value);
        break;
    case SIM_ELEMENT_DOUBLE:
        ((double *)fragment)[index] = value;
        break;
    case SIM_ELEMENT_INT32:
        ((int32_t *)fragment)[index] = (int32_t)(int64_t)value;
        break;
    default:
        ((float *)fragment)[index] = sim_cut_off(value);
        break;
    }
}

void sim_multiply_fragments(const struct sim_thread *warp) {
    const struct sim_fragments *of_lane[SIM_WARP_THREADS];
    for (int lane = 0; lane < SIM_WARP_THREADS; lane++)
        of_lane[lane] = (const struct sim_fragments *)(uintptr_t)warp[lane].exchange.value;
    const struct sim_fragments *shape = of_lane[0];
    int rows = shape->rows, columns = shape->columns, depth = shape->depth;

    double a[MOST_ROWS][MOST_DEPTH], b[MOST_DEPTH][MOST_COLUMNS];
    for (int lane = 0; lane < SIM_WARP_THREADS; lane++) {
        for (int i = 0; i < sim_fragment_elements(rows, depth); i++)
            a[sim_fragment_row(SIM_FIRST_FACTOR, rows, depth, lane, i)]
             [sim_fragment_column(SIM_FIRST_FACTOR, rows, depth, lane, i)] =
                 element_of(of_lane[lane]->a, shape->factors, i);
        for (int i = 0; i < sim_fragment_elements(depth, columns); i++)
            b[sim_fragment_row(SIM_SECOND_FACTOR, depth, columns, lane, i)]
             [sim_fragment_column(SIM_SECOND_FACTOR, depth, columns, lane, i)] =
                 element_of(of_lane[lane]->b, shape->factors, i);
    }
    for (int lane = 0; lane < SIM_WARP_THREADS; lane++) {
        for (int i = 0; i < sim_fragment_elements(rows, columns); i++) {
            int row = sim_fragment_row(SIM_SUM, rows, columns, lane, i);
            int column = sim_fragment_column(SIM_SUM, rows, columns, lane, i);
            double sum = element_of(of_lane[lane]->c, shape->addends, i);
            for (int k = 0; k < depth; k++)
                sum += a[row][k] * b[k][column];
            set_element(of_lane[lane]->d, shape->sums, i, sum);
        }
    }
}

void sim_fragment_product(const struct sim_site *site, const struct sim_fragments *mine) {
    sim_meet_for_matrix(site, SIM_FRAGMENTS, (uintptr_t)mine);
}
