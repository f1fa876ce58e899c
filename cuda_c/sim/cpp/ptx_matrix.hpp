/* Inline PTX on matrices: ldmatrix, stmatrix and mma.sync. PTX ISA, "Warp Level Matrix Instructions". */
#pragma once
#include "../hopper/tensor_map.h"
#include "ptx.hpp"
#include <initializer_list>

/* The rows of the matrices that the lanes' addresses name: of each, the one that this lane has a part of. */
template <int count> SIM_INLINE void sim_ptx_rows(const sim_site *site, uint32_t address, uint32_t **row) {
    const void *found[4], *mine = 0;
    if (sim_ptx_lane() < 8 * count)
        mine = sim_shared_pointer(site, address);
    sim_matrix_rows(site, mine, found);
    for (int i = 0; i < count; i++)
        row[i] = (uint32_t *)found[i];
}
template <class... R>
SIM_INLINE void sim_ptx_ldmatrix(const sim_site *site, bool transposed, uint32_t address, R &...to) {
    constexpr int count = sizeof...(R);
    uint32_t *row[count], word[count];
    sim_ptx_rows<count>(site, address, row);
    for (int i = 0; i < count; i++)
        word[i] = row[i][sim_ptx_lane() % 4];
    if (transposed)
        sim_transpose(site, word, count);
    int i = 0;
    (sim_ptx_set<uint32_t>(to, word[i++]), ...);
}
template <class... R>
SIM_INLINE void sim_ptx_stmatrix(const sim_site *site, bool transposed, uint32_t address, R... from) {
    constexpr int count = sizeof...(R);
    uint32_t *row[count], word[count] = {sim_ptx_get<uint32_t>(from)...};
    if (transposed)
        sim_transpose(site, word, count);
    sim_ptx_rows<count>(site, address, row);
    for (int i = 0; i < count; i++)
        row[i][sim_ptx_lane() % 4] = word[i];
}

/* d = a b + c for 16 rows and 8 columns. A shape with half as many k is one whose other factors are zeros.
 * Sums of 16 bits are rounded once, from sums that are exact to 32. */
template <int k, enum sim_factors factors, class Sum, class... R>
SIM_INLINE void
sim_ptx_mma(const sim_site *site, std::initializer_list<uint32_t> a, std::initializer_list<uint32_t> b,
            std::initializer_list<std::conditional_t<sizeof(Sum) == 4, float, uint32_t>> c, R &...d) {
    constexpr bool is_half = k < (factors == SIM_TF32_FACTORS ? 8 : 16);
    static_assert(k <= (factors == SIM_TF32_FACTORS ? 8 : 16), "no instruction has as many k");
    uint32_t first[4] = {}, second[2] = {};
    for (int i = 0; i < (is_half ? 2 : 4); i++)
        first[i] = a.begin()[i];
    for (int i = 0; i < (is_half ? 1 : 2); i++)
        second[i] = b.begin()[i];
    float sum[4];
    int i = 0;
    if constexpr (sizeof(Sum) == 4) {
        for (int j = 0; j < 4; j++)
            sum[j] = c.begin()[j];
        sim_mma(site, sum, first, second, factors);
        (sim_ptx_set<float>(d, sum[i++]), ...);
    } else {
        for (int j = 0; j < 4; j++)
            sum[j] = sim_float_of_half((uint16_t)(c.begin()[j / 2] >> j % 2 * 16));
        sim_mma(site, sum, first, second, factors);
        uint32_t pair[2];
        for (int j = 0; j < 2; j++)
            pair[j] = sim_half_of_double(sum[2 * j]) | (uint32_t)sim_half_of_double(sum[2 * j + 1]) << 16;
        (sim_ptx_set<uint32_t>(d, pair[i++]), ...);
    }
}

/* wgmma.mma_async: the sums are added to when the warpgroup waits, so they have to be one array. `scaled`:
 * the signs of the factors, and whether they are transposed. */
struct sim_ptx_scaled {
    int x = 1, w = 1, x_transposed = 0, w_transposed = 0;
};
template <int columns, sim_factors factors, class... Sum>
SIM_INLINE void sim_ptx_wgmma(const sim_site *site, uint64_t x, uint64_t w, bool accumulates,
                              sim_ptx_scaled scaled, float &first, Sum &...more) {
    static_assert(1 + sizeof...(more) == columns / 2, "wgmma has n / 2 sums of each thread");
    const float *next = &first;
    bool is_array = true;
    ((is_array &= &more == ++next), ...);
    sim_wgmma_is_plain(site, is_array,
                       scaled.x == 1 && scaled.w == 1 && !scaled.x_transposed && !scaled.w_transposed);
    sim_wgmma(site, &first, columns, factors, x, w, accumulates);
}
