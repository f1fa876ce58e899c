/* Sobol's quasi-random numbers, in the order of Antonov and Saleev, with the direction numbers of Joe and Kuo
 * (2008, the set D6), as in cuRAND: the numbers are the same. Not supported: scrambled ones, and more than
 * SIM_SOBOL_DIMENSIONS dimensions. */
#pragma once
#include "curand.hpp"

/* For each dimension from the second on: the polynomial's degree, its inner coefficients, and the first
   numbers.
 */
struct sim_sobol_row {
    unsigned degree, coefficients;
    unsigned char first[7];
};
inline constexpr sim_sobol_row sim_sobol_rows[] = {
    {1, 0, {1}},
    {2, 1, {1, 3}},
    {3, 1, {1, 3, 1}},
    {3, 2, {1, 1, 1}},
    {4, 1, {1, 1, 3, 3}},
    {4, 4, {1, 3, 5, 13}},
    {5, 2, {1, 1, 5, 5, 17}},
    {5, 4, {1, 1, 5, 5, 5}},
    {5, 7, {1, 1, 7, 11, 19}},
    {5, 11, {1, 1, 5, 1, 1}},
    {5, 13, {1, 1, 1, 3, 11}},
    {5, 14, {1, 3, 5, 5, 31}},
    {6, 1, {1, 3, 3, 9, 7, 49}},
    {6, 13, {1, 1, 1, 15, 21, 21}},
    {6, 16, {1, 3, 1, 13, 27, 49}},
    {6, 19, {1, 1, 1, 15, 7, 5}},
    {6, 22, {1, 3, 1, 15, 13, 25}},
    {6, 25, {1, 1, 5, 5, 19, 61}},
    {7, 1, {1, 3, 7, 11, 23, 15, 103}},
};
enum { SIM_SOBOL_DIMENSIONS = 1 + sizeof sim_sobol_rows / sizeof *sim_sobol_rows };

template <class Word> inline void sim_set_directions(Word *v, unsigned dimension) {
    const unsigned bits = 8 * sizeof(Word);
    sim_sobol_row row = dimension ? sim_sobol_rows[dimension - 1] : sim_sobol_row{};
    for (unsigned k = 0; k < bits; k++) {
        Word first = dimension ? k < row.degree ? row.first[k] : 0 : 1;
        v[k] = first << (bits - 1 - k);
        if (dimension && k >= row.degree) {
            v[k] = v[k - row.degree] ^ v[k - row.degree] >> row.degree;
            for (unsigned j = 1; j < row.degree; j++)
                v[k] ^= row.coefficients >> (row.degree - 1 - j) & 1 ? v[k - j] : 0;
        }
    }
}

template <class Word> struct sim_sobol {
    unsigned long long index;
    Word x, directions[8 * sizeof(Word)];
};
typedef sim_sobol<unsigned> curandStateSobol32;
typedef sim_sobol<unsigned long long> curandStateSobol64;
typedef curandStateSobol32 curandStateSobol32_t;
typedef curandStateSobol64 curandStateSobol64_t;
typedef unsigned curandDirectionVectors32_t[32];
typedef unsigned long long curandDirectionVectors64_t[64];

template <class Word> SIM_INLINE void skipahead(unsigned long long count, sim_sobol<Word> *state) {
    state->index += count;
    state->x = 0;
    unsigned long long gray = state->index ^ state->index >> 1;
    for (unsigned k = 0; k < 8 * sizeof(Word); k++)
        state->x ^= gray >> k & 1 ? state->directions[k] : 0;
}
template <class Word>
SIM_INLINE void sim_begin_sobol(const Word *directions, unsigned long long offset, sim_sobol<Word> *state) {
    for (unsigned k = 0; k < 8 * sizeof(Word); k++)
        state->directions[k] = directions[k];
    state->index = 0;
    skipahead(offset, state);
}
SIM_INLINE void curand_init(const unsigned *directions, unsigned offset, curandStateSobol32 *state) {
    sim_begin_sobol(directions, offset, state);
}
SIM_INLINE void curand_init(const unsigned long long *directions, unsigned long long offset,
                            curandStateSobol64 *state) {
    sim_begin_sobol(directions, offset, state);
}
template <class Word> SIM_INLINE Word curand(sim_sobol<Word> *state) {
    Word now = state->x;
    int k = __builtin_ctzll(~state->index++);
    state->x ^= k < (int)(8 * sizeof(Word)) ? state->directions[k] : 0;
    return now;
}
template <class Word> SIM_INLINE float curand_uniform(sim_sobol<Word> *state) {
    return (float)(unsigned)(curand(state) >> (8 * sizeof(Word) - 32)) * 0x1p-32f + 0x1p-33f;
}
SIM_INLINE double curand_uniform_double(curandStateSobol32 *state) {
    return curand(state) * 0x1p-32 + 0x1p-33;
}
SIM_INLINE double curand_uniform_double(curandStateSobol64 *state) {
    return (double)(curand(state) >> 11) * 0x1p-53 + 0x1p-54;
}
template <class Word> SIM_INLINE float curand_normal(sim_sobol<Word> *state) { /* a number for each */
    return normcdfinvf(curand_uniform(state));
}
template <class Word> SIM_INLINE double curand_normal_double(sim_sobol<Word> *state) {
    return normcdfinv(curand_uniform_double(state));
}
