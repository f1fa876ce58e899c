/* Prefetching of the gradient's pass: a ring buffer in shared memory of up to MOST_STAGES rows for each
 * thread.
 *
 * cp.async copies a thread's values of v and dy, and its group's moments, while the thread works on earlier
 * rows. A load from memory takes longer than one row of work, and no registers are left for a second row.
 * Each thread reads only what it has copied itself, so no barrier is needed. The 16 bytes of neighbouring
 * threads are adjacent, so there are no bank conflicts. */
#pragma once

#include "backward/backward.h"
#include "norm/channels.h"
#include "ptx/cp_async.h"

#define MOST_STAGES 3 /* wait_for_oldest() knows it */

/* Where a stage's parts begin, in bytes. */
#define BYTES_OF_TENSOR(size) (VALUES * (size) * THREADS)
#define BYTES_OF_STAGE(size) (2 * BYTES_OF_TENSOR(size) + (int)sizeof(struct kept_moments) * THREADS)

/* Begins to copy `bytes` to shared memory: 2, 4, 8 or 16, a constant where this is called. cp.async does not
 * copy 2 bytes, and GPUs before compute capability 8.0 have no cp.async. */
static __forceinline__ __device__ void prefetch(void *to, const void *from, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    const bool asynchronous = false;
#else
    const bool asynchronous = true;
#endif
    if (asynchronous && bytes == 16)
        cp_async_16_or_zero(to, from, true);
    else if (asynchronous && bytes == 8)
        cp_async_8(to, from);
    else if (asynchronous && bytes == 4)
        cp_async_4_or_zero(to, from, true);
    else {
        uint32_t word[4];
        load_neighbours(word, from, bytes);
        store_neighbours(to, word, bytes);
    }
}

/* A vector of more than 16 bytes is two pieces. `width` and `size` are constants where these are called. */
static __forceinline__ __device__ int bytes_of_piece(int width, int size) {
    return width * size < 16 ? width * size : 16;
}

/* Copies the thread's values of a tensor. size: bytes of an element. from: its first channel in the row. */
static __forceinline__ __device__ void prefetch_vectors(unsigned char *stage, const char *from,
                                                        const struct channels *channels, int size,
                                                        int thread) {
    const int width = channels->width, bytes = bytes_of_piece(width, size), pieces = width * size / bytes;
#pragma unroll
    for (int i = 0; i < VALUES / width; i++)
#pragma unroll
        for (int piece = 0; piece < pieces; piece++)
            if (i * width < channels->count)
                prefetch(stage + ((i * pieces + piece) * THREADS + thread) * bytes,
                         from + i * channels->team * width * size + piece * bytes, bytes);
}

/* Returns these values after the copy has ended; zeros for channels that do not exist. */
static __forceinline__ __device__ void take_vectors(struct words *words, const unsigned char *stage,
                                                    const struct channels *channels, int size, int thread) {
    const int width = channels->width, bytes = bytes_of_piece(width, size), pieces = width * size / bytes;
    const int words_of_piece = bytes < 4 ? 1 : bytes / 4;
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        words->word[j] = 0;
#pragma unroll
    for (int i = 0; i < VALUES / width; i++)
#pragma unroll
        for (int piece = 0; piece < pieces; piece++)
            if (i * width < channels->count)
                load_neighbours(&words->word[(i * pieces + piece) * words_of_piece],
                                stage + ((i * pieces + piece) * THREADS + thread) * bytes, bytes);
}

/* Begins to copy what the thread needs of a row of `group`: nothing if `place` has no channels. */
static __forceinline__ __device__ void prefetch_row(unsigned char *stage,
                                                    const struct chain_gradient *gradient, int64_t row,
                                                    int group, const struct gradient_row *place, int thread) {
    const int size = place->type == FGN_FLOAT32 ? 4 : 2;
    int64_t first = (place->row_start + place->channels.first) * size;
    prefetch_vectors(stage, (const char *)gradient->dy + first, &place->channels, size, thread);
    if (gradient->groups > 0 || gradient->before.count > 0) {
        unsigned char *of_v = stage + BYTES_OF_TENSOR(size), *moments = of_v + BYTES_OF_TENSOR(size);
        prefetch_vectors(of_v, (const char *)gradient->v + first, &place->channels, size, thread);
        if (gradient->groups > 0 && place->channels.count > 0)
            prefetch(moments + thread * sizeof(struct kept_moments),
                     &gradient->moments[row * gradient->groups + group], sizeof(struct kept_moments));
    }
}

/* Waits until the copies of the oldest stage have ended. */
static __forceinline__ __device__ void wait_for_oldest(int stages) {
    if (stages == MOST_STAGES)
        cp_async_wait_group(MOST_STAGES - 1);
    else if (stages == 2)
        cp_async_wait_group(1);
    else
        cp_async_wait_group(0);
}

static __forceinline__ __device__ void take_dy(float *dy, const unsigned char *stage,
                                               const struct gradient_row *place, int thread) {
    struct words words;
    take_vectors(&words, stage, &place->channels, place->type == FGN_FLOAT32 ? 4 : 2, thread);
    values_of(dy, &words, &place->channels, place->type);
}

static __forceinline__ __device__ void take_v(float *v, const unsigned char *stage,
                                              const struct gradient_row *place, int thread) {
    const int size = place->type == FGN_FLOAT32 ? 4 : 2;
    struct words words;
    take_vectors(&words, stage + BYTES_OF_TENSOR(size), &place->channels, size, thread);
    values_of(v, &words, &place->channels, place->type);
}

static __forceinline__ __device__ struct kept_moments
take_moments(const unsigned char *stage, const struct gradient_row *place, int thread) {
    const int size = place->type == FGN_FLOAT32 ? 4 : 2;
    struct kept_moments moments = {0.0f, 1.0f};
    if (place->channels.count > 0)
        moments = ((const struct kept_moments *)(stage + 2 * BYTES_OF_TENSOR(size)))[thread];
    return moments;
}
