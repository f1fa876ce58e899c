/* Random numbers of a thread: XORWOW, which is curand's default, and Philox 4x32-10.
 *
 * Philox is the published generator (Salmon et al. 2011) with curand's order of counters. Skipping ahead and
 * the distributions follow curand's documentation; XORWOW's sequences begin at other places than curand's. */
#pragma once
#include "intrinsics.hpp"

/* ---- Philox ---- */

struct curandStatePhilox4_32_10 {
    uint4 counter, output;
    uint2 key;
    unsigned place; /* of the next number in the output */
    float other_normal;
    bool has_other_normal;
};
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

SIM_INLINE uint4 sim_philox(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; round++) {
        unsigned high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
        unsigned high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
        counter = {high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0};
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return counter;
}
SIM_INLINE void sim_advance(uint4 &counter, unsigned long long steps) {
    unsigned long long low = (unsigned long long)counter.y << 32 | counter.x, before = low;
    low += steps;
    counter.x = (unsigned)low;
    counter.y = (unsigned)(low >> 32);
    if (low < before && ++counter.z == 0)
        counter.w++;
}
SIM_INLINE void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                            curandStatePhilox4_32_10 *state) {
    *state = {};
    state->key = {(unsigned)seed, (unsigned)(seed >> 32)};
    state->counter = {0, 0, (unsigned)sequence, (unsigned)(sequence >> 32)};
    sim_advance(state->counter, offset / 4);
    state->place = (unsigned)(offset % 4);
    state->output = sim_philox(state->counter, state->key);
}
SIM_INLINE unsigned curand(curandStatePhilox4_32_10 *state) {
    const unsigned outputs[4] = {state->output.x, state->output.y, state->output.z, state->output.w};
    unsigned result = outputs[state->place++];
    if (state->place == 4) {
        sim_advance(state->counter, 1);
        state->output = sim_philox(state->counter, state->key);
        state->place = 0;
    }
    return result;
}

/* ---- XORWOW (Marsaglia 2003) ---- */

struct curandStateXORWOW {
    unsigned weyl, v[5];
    float other_normal;
    bool has_other_normal;
};
typedef curandStateXORWOW curandStateXORWOW_t;
typedef curandStateXORWOW curandState;
typedef curandStateXORWOW curandState_t;

SIM_INLINE unsigned curand(curandStateXORWOW *state) {
    unsigned t = state->v[0] ^ state->v[0] >> 2;
    for (int i = 0; i < 4; i++)
        state->v[i] = state->v[i + 1];
    state->v[4] = state->v[4] ^ state->v[4] << 4 ^ t ^ t << 1;
    state->weyl += 362437;
    return state->weyl + state->v[4];
}
SIM_INLINE void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                            curandStateXORWOW *state) {
    *state = {};
    uint4 first = sim_philox({(unsigned)sequence, (unsigned)(sequence >> 32), 0, 0},
                             {(unsigned)seed, (unsigned)(seed >> 32)});
    uint4 second = sim_philox({(unsigned)sequence, (unsigned)(sequence >> 32), 1, 0},
                              {(unsigned)seed, (unsigned)(seed >> 32)});
    *state = {second.x, {first.x, first.y, first.z, first.w, second.y | 1u}, 0.0f, false};
    for (unsigned long long i = 0; i < offset; i++)
        curand(state);
}

/* ---- Distributions ---- */

template <class S> SIM_INLINE float curand_uniform(S *state) { /* (0, 1] */
    return (float)curand(state) * 0x1p-32f + 0x1p-33f;
}
template <class S> SIM_INLINE double curand_uniform_double(S *state) {
    unsigned long long low = curand(state), high = curand(state);
    return (double)((low | high << 32) >> 11) * 0x1p-53 + 0x1p-54;
}
template <class S> SIM_INLINE float2 curand_normal2(S *state) { /* Box and Muller */
    float radius = sqrtf(-2.0f * logf(curand_uniform(state))),
          angle = curand_uniform(state) * 2.0f * (float)M_PI;
    return {radius * sinf(angle), radius * cosf(angle)};
}
template <class S> SIM_INLINE float curand_normal(S *state) {
    if (state->has_other_normal) {
        state->has_other_normal = false;
        return state->other_normal;
    }
    float2 both = curand_normal2(state);
    state->has_other_normal = true;
    state->other_normal = both.y;
    return both.x;
}
template <class S> SIM_INLINE double curand_normal_double(S *state) {
    return sqrt(-2.0 * log(curand_uniform_double(state))) * sin(curand_uniform_double(state) * 2.0 * M_PI);
}
template <class S> SIM_INLINE float curand_log_normal(S *state, float mean, float deviation) {
    return expf(mean + deviation * curand_normal(state));
}
template <class S> SIM_INLINE uint4 curand4(S *state) {
    unsigned a = curand(state), b = curand(state), c = curand(state), d = curand(state);
    return {a, b, c, d};
}
template <class S> SIM_INLINE float4 curand_uniform4(S *state) {
    float a = curand_uniform(state), b = curand_uniform(state), c = curand_uniform(state),
          d = curand_uniform(state);
    return {a, b, c, d};
}
template <class S> SIM_INLINE float4 curand_normal4(S *state) {
    float2 a = curand_normal2(state), b = curand_normal2(state);
    return {a.x, a.y, b.x, b.y};
}
template <class S> SIM_INLINE unsigned curand_poisson(S *state, double mean) { /* Knuth */
    double limit = exp(-mean), product = curand_uniform_double(state);
    unsigned count = 0;
    for (; product > limit; count++)
        product *= curand_uniform_double(state);
    return count;
}
template <class S> SIM_INLINE void skipahead(unsigned long long count, S *state) {
    for (unsigned long long i = 0; i < count; i++)
        curand(state);
}
