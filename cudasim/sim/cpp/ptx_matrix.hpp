/* Inline PTX on matrices: ldmatrix, stmatrix and mma.sync. PTX ISA, "Warp Level Matrix Instructions". */
#pragma once
#include "../hopper/tensor_map.h"
#include "ptx.hpp"
#include <initializer_list>

/* Gathers the matrices' rows from the lanes' addresses: from each matrix the row of which this lane has a
   part. */
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

/* d = a b + c for 16 rows and 8 columns. A shape with half as many k has zeros for the other factors. 16-bit
 * sums are rounded once, from sums that are exact to 32 bits. */
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

/* The first factor of a wgmma in registers: their values, and their addresses in the kernel. A register with
 * only a variable's value has no address here, because the variable's lifetime is unknown. */
struct sim_ptx_fragment {
    uint32_t value[4];
    const void *at[4];
};
template <class T>
using sim_ptx_register_type = std::conditional_t<std::is_lvalue_reference<T>::value, T, std::decay_t<T>>;
#define sim_ptx_register_of(...) sim_ptx_register_type<__VA_ARGS__>
template <class R>
static constexpr bool sim_ptx_has_place =
    std::is_lvalue_reference<R>::value && sizeof(std::remove_reference_t<R>) == sizeof(uint32_t);
template <class R> SIM_INLINE const void *sim_ptx_place(R &&from) {
    return sim_ptx_has_place<R> ? (const void *)&from : nullptr;
}
template <class R> SIM_INLINE uint32_t sim_ptx_value(R &&from) {
    if constexpr (sim_ptx_has_place<R>)
        return 0; /* the simulator reads it, which is no access of the thread's */
    else
        return sim_ptx_get<uint32_t>(from);
}
template <class... R> SIM_INLINE sim_ptx_fragment sim_ptx_in_registers(R &&...from) {
    static_assert(sizeof...(R) == 4, "wgmma has 4 registers of x");
    return {{sim_ptx_value(std::forward<R>(from))...}, {sim_ptx_place(std::forward<R>(from))...}};
}

/* wgmma.mma_async: it adds to the sums when the warpgroup waits, so they have to be one array. `scaled`: the
 * signs of the factors, and whether they are transposed. */
struct sim_ptx_scaled {
    int x = 1, w = 1, x_transposed = 0, w_transposed = 0;
};
template <int columns, sim_factors x_factors, sim_factors w_factors, class X, class... Sum>
SIM_INLINE void sim_ptx_wgmma(const sim_site *site, X x, uint64_t w, bool accumulates, sim_ptx_scaled scaled,
                              float &first, Sum &...more) {
    static_assert(1 + sizeof...(more) == columns / 2, "wgmma has n / 2 sums of each thread");
    const float *next = &first;
    bool is_array = true;
    ((is_array &= &more == ++next), ...);
    if (!is_array)
        sim_wgmma_sums_are_scattered(site);
    struct sim_wgmma asked = {};
    asked.columns = columns;
    asked.x_factors = x_factors, asked.w_factors = w_factors;
    asked.w = w;
    asked.accumulate = accumulates;
    asked.x_negated = scaled.x < 0, asked.w_negated = scaled.w < 0;
    asked.x_transposed = scaled.x_transposed, asked.w_transposed = scaled.w_transposed;
    if constexpr (std::is_same<X, sim_ptx_fragment>::value) {
        asked.x_in_registers = true;
        for (int i = 0; i < 4; i++)
            asked.value[i] = x.value[i], asked.register_at[i] = x.at[i];
    } else {
        asked.x = x;
    }
    sim_wgmma_with(site, &first, &asked);
}

/* The coordinates of a box. */
struct sim_ptx_box {
    int at[5];
};
template <class R> SIM_INLINE uint32_t sim_ptx_mbarrier(const sim_site *site, R address, int64_t offset) {
    if constexpr (sizeof(R) == sizeof(uint32_t))
        return sim_ptx_get<uint32_t>(address) + (uint32_t)offset;
    else if (sim_is_shared((const void *)sim_ptx_get<uint64_t>(address)))
        return sim_shared_address(site, (const void *)(sim_ptx_get<uint64_t>(address) + (uint64_t)offset));
    else
        return (uint32_t)(sim_ptx_get<uint64_t>(address) + (uint64_t)offset);
}
template <class T, class... R>
SIM_INLINE void sim_ptx_st_async(const sim_site *site, uint32_t to, uint32_t barrier, R... from) {
    T value[] = {sim_ptx_get<T>(from)...};
    sim_st_async_bytes(site, to, value, sizeof value, barrier);
}
