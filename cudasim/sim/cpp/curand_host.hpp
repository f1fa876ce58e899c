/* cuRAND's functions for host code, which fill arrays. Every pseudo-random generator is Philox here, with one
 * sequence for a seed and a type: the distributions are cuRAND's, but the numbers differ. Sobol's
 * quasi-random numbers are the same; scrambled ones are refused. */
#pragma once
#include "curand_sobol.hpp"
#include "library_forms.hpp"
#include "library_range.hpp"
#include <optional>
#include <sys/mman.h>

#define CURAND_H_ /* by which others know that it is there */

enum curandStatus_t {
    CURAND_STATUS_SUCCESS = 0,
    CURAND_STATUS_VERSION_MISMATCH = 100,
    CURAND_STATUS_NOT_INITIALIZED = 101,
    CURAND_STATUS_ALLOCATION_FAILED = 102,
    CURAND_STATUS_TYPE_ERROR = 103,
    CURAND_STATUS_OUT_OF_RANGE = 104,
    CURAND_STATUS_LENGTH_NOT_MULTIPLE = 105,
    CURAND_STATUS_DOUBLE_PRECISION_REQUIRED = 106,
    CURAND_STATUS_LAUNCH_FAILURE = 201,
    CURAND_STATUS_PREEXISTING_FAILURE = 202,
    CURAND_STATUS_INITIALIZATION_FAILED = 203,
    CURAND_STATUS_ARCH_MISMATCH = 204,
    CURAND_STATUS_INTERNAL_ERROR = 999
};
enum curandRngType_t {
    CURAND_RNG_TEST = 0,
    CURAND_RNG_PSEUDO_DEFAULT = 100,
    CURAND_RNG_PSEUDO_XORWOW = 101,
    CURAND_RNG_PSEUDO_MRG32K3A = 121,
    CURAND_RNG_PSEUDO_MTGP32 = 141,
    CURAND_RNG_PSEUDO_MT19937 = 142,
    CURAND_RNG_PSEUDO_PHILOX4_32_10 = 161,
    CURAND_RNG_QUASI_DEFAULT = 200,
    CURAND_RNG_QUASI_SOBOL32 = 201,
    CURAND_RNG_QUASI_SCRAMBLED_SOBOL32 = 202,
    CURAND_RNG_QUASI_SOBOL64 = 203,
    CURAND_RNG_QUASI_SCRAMBLED_SOBOL64 = 204
};
typedef curandRngType_t curandRngType;
typedef curandStatus_t curandStatus;
enum curandOrdering_t {
    CURAND_ORDERING_PSEUDO_BEST = 100,
    CURAND_ORDERING_PSEUDO_DEFAULT = 101,
    CURAND_ORDERING_PSEUDO_SEEDED = 102,
    CURAND_ORDERING_PSEUDO_LEGACY = 103,
    CURAND_ORDERING_PSEUDO_DYNAMIC = 104,
    CURAND_ORDERING_QUASI_DEFAULT = 201
};
enum { CURAND_VERSION = 10400 }; /* of CUDA 13 */
struct curandGenerator_st {
    curandRngType_t type;
    bool is_for_host;
    unsigned long long seed, offset;
    bool is_begun;
    curandStatePhilox4_32_10 state;
    unsigned dimensions;
    bool is_quasi() const {
        return type >= CURAND_RNG_QUASI_DEFAULT;
    }
    bool is_of_64_bits() const {
        return type == CURAND_RNG_QUASI_SOBOL64;
    }
};
typedef curandGenerator_st *curandGenerator_t;

SIM_HOST curandStatus_t sim_create_generator(curandGenerator_t *generator, curandRngType_t type,
                                             bool is_for_host, sim_called called) {
    if (type == CURAND_RNG_QUASI_SCRAMBLED_SOBOL32 || type == CURAND_RNG_QUASI_SCRAMBLED_SOBOL64)
        sim_program_say(&called, "wants a scrambled generator, which the simulator does not have");
    else if (type >= CURAND_RNG_PSEUDO_DEFAULT && type <= CURAND_RNG_QUASI_SOBOL64)
        return *generator = new curandGenerator_st{type, is_for_host, 0, 0, false, {}, 1},
               CURAND_STATUS_SUCCESS;
    return CURAND_STATUS_TYPE_ERROR;
}
SIM_HOST curandStatus_t curandSetQuasiRandomGeneratorDimensions(curandGenerator_t generator,
                                                                unsigned dimensions, SIM_CALLED) {
    if (!generator->is_quasi())
        return CURAND_STATUS_TYPE_ERROR;
    if (dimensions < 1 || dimensions > SIM_SOBOL_DIMENSIONS) {
        sim_called called = SIM_CALLED_AS(0);
        sim_program_say(&called, "wants %u dimensions, and the simulator has %d", dimensions,
                        SIM_SOBOL_DIMENSIONS);
        return CURAND_STATUS_OUT_OF_RANGE;
    }
    generator->dimensions = dimensions;
    return CURAND_STATUS_SUCCESS;
}
SIM_HOST curandStatus_t curandCreateGenerator(curandGenerator_t *generator, curandRngType_t type,
                                              SIM_CALLED) {
    return sim_create_generator(generator, type, false, SIM_CALLED_AS(0));
}
SIM_HOST curandStatus_t curandCreateGeneratorHost(curandGenerator_t *generator, curandRngType_t type,
                                                  SIM_CALLED) {
    return sim_create_generator(generator, type, true, SIM_CALLED_AS(0));
}
inline constexpr sim_destroys<curandStatus_t, curandGenerator_st> curandDestroyGenerator;
inline curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator,
                                                         unsigned long long seed) {
    if (generator->is_quasi())
        return CURAND_STATUS_TYPE_ERROR;
    generator->seed = seed;
    generator->is_begun = false;
    return CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset) {
    generator->offset = offset;
    generator->is_begun = false;
    return CURAND_STATUS_SUCCESS;
}
inline constexpr sim_ignores<curandStatus_t, curandGenerator_t, curandOrdering_t> curandSetGeneratorOrdering;
inline constexpr sim_ignores<curandStatus_t, curandGenerator_t, cudaStream_t> curandSetStream;
inline constexpr sim_ignores<curandStatus_t, curandGenerator_t> curandGenerateSeeds;
inline curandStatus_t curandGetVersion(int *version) {
    *version = CURAND_VERSION;
    return CURAND_STATUS_SUCCESS;
}

/* One dimension after the other. */
template <class Word, class T, class Next>
SIM_HOST void sim_fill_sobol(curandGenerator_t generator, T *out, size_t count, unsigned dimension,
                             Next next) {
    Word directions[8 * sizeof(Word)];
    sim_sobol<Word> state;
    sim_set_directions(directions, dimension);
    sim_begin_sobol(directions, generator->offset, &state);
    std::optional<sim_library_range> range;
    if (!generator->is_for_host)
        range.emplace(false);
    for (size_t i = 0; i < count; i++)
        out[i] = (T)next(&state);
}
/* Fills the array by calls of `next`; the array has to be where the generator may write. */
template <class T, class Next>
SIM_HOST curandStatus_t sim_generate(curandGenerator_t generator, T *out, size_t count, sim_called called,
                                     Next next) {
    const sim_allocation *of = sim_allocation_at(out);
    if (!generator)
        return CURAND_STATUS_NOT_INITIALIZED;
    if (!generator->is_for_host && !of) {
        sim_program_say(&called, "writes to %p, which is no memory of the GPU", (void *)out);
        return CURAND_STATUS_LAUNCH_FAILURE;
    }
    if (of && count * sizeof(T) > of->bytes - (size_t)((unsigned char *)out - of->begin)) {
        sim_program_say(&called, "writes %zu bytes to %s, which has %zu", count * sizeof(T),
                        of->called.name ? of->called.name : "an allocation", of->bytes);
        return CURAND_STATUS_LAUNCH_FAILURE;
    }
    if (generator->is_quasi()) {
        if (count % generator->dimensions)
            return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
        size_t each = count / generator->dimensions;
        for (unsigned d = 0; d < generator->dimensions; d++)
            generator->is_of_64_bits()
                ? sim_fill_sobol<unsigned long long>(generator, out + d * each, each, d, next)
                : sim_fill_sobol<unsigned>(generator, out + d * each, each, d, next);
        generator->offset += each;
        return CURAND_STATUS_SUCCESS;
    }
    if (!generator->is_begun)
        curand_init(generator->seed, (unsigned)generator->type, generator->offset, &generator->state);
    generator->is_begun = true;
    if (generator->is_for_host) {
        for (size_t i = 0; i < count; i++)
            out[i] = next(&generator->state);
        return CURAND_STATUS_SUCCESS;
    }
    sim_library_range range(false);
    for (size_t i = 0; i < count; i++)
        out[i] = next(&generator->state);
    return CURAND_STATUS_SUCCESS;
}
SIM_HOST curandStatus_t curandGenerate(curandGenerator_t generator, unsigned *out, size_t count, SIM_CALLED) {
    if (generator && generator->is_of_64_bits())
        return CURAND_STATUS_TYPE_ERROR;
    return sim_generate(generator, out, count, SIM_CALLED_AS(0), [](auto *s) { return curand(s); });
}
SIM_HOST curandStatus_t curandGenerateLongLong(curandGenerator_t generator, unsigned long long *out,
                                               size_t count, SIM_CALLED) {
    if (generator && generator->is_quasi() && !generator->is_of_64_bits())
        return CURAND_STATUS_TYPE_ERROR;
    return sim_generate(generator, out, count, SIM_CALLED_AS(0), [](auto *s) {
        unsigned long long low = curand(s);
        return sizeof curand(s) == 8 ? low : low | (unsigned long long)curand(s) << 32;
    });
}
SIM_HOST curandStatus_t curandGenerateUniform(curandGenerator_t generator, float *out, size_t count,
                                              SIM_CALLED) {
    return sim_generate(generator, out, count, SIM_CALLED_AS(0), [](auto *s) { return curand_uniform(s); });
}
SIM_HOST curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double *out, size_t count,
                                                    SIM_CALLED) {
    return sim_generate(generator, out, count, SIM_CALLED_AS(0),
                        [](auto *s) { return curand_uniform_double(s); });
}
/* Normal numbers come in pairs, and cuRAND makes whole pairs only. */
template <class T, class Next>
SIM_HOST curandStatus_t sim_generate_pairs(curandGenerator_t generator, T *out, size_t count,
                                           sim_called called, Next next) {
    bool needs_pairs = generator && !generator->is_quasi();
    return needs_pairs && count % 2 ? CURAND_STATUS_LENGTH_NOT_MULTIPLE
                                    : sim_generate(generator, out, count, called, next);
}
SIM_HOST curandStatus_t curandGenerateNormal(curandGenerator_t generator, float *out, size_t count,
                                             float mean, float deviation, SIM_CALLED) {
    return sim_generate_pairs(generator, out, count, SIM_CALLED_AS(0),
                              [=](auto *s) { return mean + deviation * curand_normal(s); });
}
SIM_HOST curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator, double *out, size_t count,
                                                   double mean, double deviation, SIM_CALLED) {
    return sim_generate_pairs(generator, out, count, SIM_CALLED_AS(0),
                              [=](auto *s) { return mean + deviation * curand_normal_double(s); });
}
SIM_HOST curandStatus_t curandGenerateLogNormal(curandGenerator_t generator, float *out, size_t count,
                                                float mean, float deviation, SIM_CALLED) {
    return sim_generate_pairs(generator, out, count, SIM_CALLED_AS(0),
                              [=](auto *s) { return expf(mean + deviation * curand_normal(s)); });
}
SIM_HOST curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t generator, double *out, size_t count,
                                                      double mean, double deviation, SIM_CALLED) {
    return sim_generate_pairs(generator, out, count, SIM_CALLED_AS(0),
                              [=](auto *s) { return exp(mean + deviation * curand_normal_double(s)); });
}
SIM_HOST curandStatus_t curandGeneratePoisson(curandGenerator_t generator, unsigned *out, size_t count,
                                              double mean, SIM_CALLED) {
    if (generator && generator->is_quasi())
        return CURAND_STATUS_TYPE_ERROR; /* a draw would take several of its numbers */
    return sim_generate(generator, out, count, SIM_CALLED_AS(0),
                        [=](auto *s) { return curand_poisson(s, mean); });
}

/* ---- Directions for generators in kernels ---- */

enum curandDirectionVectorSet_t {
    CURAND_DIRECTION_VECTORS_32_JOEKUO6 = 101,
    CURAND_SCRAMBLED_DIRECTION_VECTORS_32_JOEKUO6 = 102,
    CURAND_DIRECTION_VECTORS_64_JOEKUO6 = 103,
    CURAND_SCRAMBLED_DIRECTION_VECTORS_64_JOEKUO6 = 104
};
typedef curandDirectionVectorSet_t curandDirectionVectorSet;

/* A table of the supported dimensions, which ends at a page's end with no memory after it. So a kernel that
 * reads on, as cuRAND's 20,000 dimensions would allow, is reported. */
template <class Word> inline Word (*sim_directions())[8 * sizeof(Word)] {
    static Word(*table)[8 * sizeof(Word)];
    const size_t page = 4096, bytes = SIM_SOBOL_DIMENSIONS * sizeof *table;
    const size_t whole = (bytes + page - 1) / page * page;
    if (table)
        return table;
    void *memory = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    table = (Word(*)[8 * sizeof(Word)])((char *)memory + whole - bytes);
    for (unsigned d = 0; d < SIM_SOBOL_DIMENSIONS; d++)
        sim_set_directions(table[d], d);
    mprotect((char *)memory + whole, page, PROT_NONE);
    return table;
}
inline curandStatus_t curandGetDirectionVectors32(curandDirectionVectors32_t *vectors[],
                                                  curandDirectionVectorSet_t set) {
    *vectors = set == CURAND_DIRECTION_VECTORS_32_JOEKUO6 ? sim_directions<unsigned>() : NULL;
    return *vectors ? CURAND_STATUS_SUCCESS : CURAND_STATUS_OUT_OF_RANGE;
}
inline curandStatus_t curandGetDirectionVectors64(curandDirectionVectors64_t *vectors[],
                                                  curandDirectionVectorSet_t set) {
    *vectors = set == CURAND_DIRECTION_VECTORS_64_JOEKUO6 ? sim_directions<unsigned long long>() : NULL;
    return *vectors ? CURAND_STATUS_SUCCESS : CURAND_STATUS_OUT_OF_RANGE;
}
