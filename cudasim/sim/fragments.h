/* Matrices that the 32 lanes of a warp hold together, as fragments (wmma): which lane has which element.
 *
 * CUDA does not specify the order. Here it is that of the mma instructions: a matrix is divided into tiles of
 * 8 x 8, and lane 4 g + t has two elements of each tile, (g, 2 t) and (g, 2 t + 1). Tiles of the second
 * factor are transposed: the lane has (2 t, g) and (2 t + 1, g). The tiles of a fragment go down the columns
 * first. A factor of depth 4 (double precision) has one element a lane. */
#pragma once

enum sim_fragment_use { SIM_FIRST_FACTOR, SIM_SECOND_FACTOR, SIM_SUM };

/* Elements of a lane. */
static inline int sim_fragment_elements(int rows, int columns) {
    return rows * columns / 32;
}

static inline int sim_fragment_row(enum sim_fragment_use use, int rows, int columns, int lane, int element) {
    int g = lane / 4, t = lane % 4;
    if (use == SIM_FIRST_FACTOR && columns == 4)
        return g;
    if (use == SIM_SECOND_FACTOR && rows == 4)
        return t;
    int tile = element / 2 % (rows / 8) * 8;
    return tile + (use == SIM_SECOND_FACTOR ? 2 * t + element % 2 : g);
}

static inline int sim_fragment_column(enum sim_fragment_use use, int rows, int columns, int lane,
                                      int element) {
    int g = lane / 4, t = lane % 4;
    if (use == SIM_FIRST_FACTOR && columns == 4)
        return t;
    if (use == SIM_SECOND_FACTOR && rows == 4)
        return g;
    int tile = element / 2 / (rows / 8) * 8;
    return tile + (use == SIM_SECOND_FACTOR ? g : 2 * t + element % 2);
}
