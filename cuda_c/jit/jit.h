/* Kernels that are compiled for one call, when it is made again and again (just-in-time compilation, JIT).
 *
 * Idea: a kernel of the library takes any list of operators, so its instructions find out what to compute,
 * and a small call waits for code that it does not run: with mish and hardtanh 6 of 10 instructions of a
 * launch chose operators or computed addresses. Compiled for one call, the same source has its operators,
 * sizes and division as constants (jit/known.h), and only the code of these. The arithmetic is the same, but
 * for products that the compiler contracts with a sum in one of the two: the last bit may differ.
 *
 * A launch describes what is the same in all calls like it as a struct of ints, the facts. A table finds the
 * kernel for a file and its facts. Such a kernel needs fewer registers than the library's, so a grid whose
 * blocks take turns gets as many blocks as are resident at once. Only the library's caller can compile, so it
 * sets a compiler (fgn_jit.h); without one, in a stream that is being captured, or where compiling fails, the
 * library's own kernel runs.
 */
#pragma once

#include "jit/fgn_jit.h"
#include "shared/rung.h"

/* What is known of a list of operators: each one's kind, and whether it has a vector or a tensor. */
struct known_list {
    int count;
    int step[FGN_MAX_POINTWISE];
};

#define HAS_CHANNEL 256
#define HAS_TENSOR 512
#define HAS_ONE 1024

static inline struct known_list known_list_of(const struct operators *list) {
    struct known_list known = {list->count, {0}};
    for (int i = 0; i < list->count; i++)
        known.step[i] = (int)list->step[i].kind | (list->step[i].channel ? HAS_CHANNEL : 0) |
                        (list->step[i].tensor ? HAS_TENSOR : 0) | (list->step[i].one ? HAS_ONE : 0);
    return known;
}

struct jit_call {
    const char *file; /* below cuda_c/, the kernel's; a literal */
    const int *facts;
    int count;        /* of facts */
    const void *args; /* the kernel's parameter */
    dim3 grid, block;
    int shared_bytes;
    int64_t turns; /* that the blocks of a column of the grid take, or 0 if their number is to stay */
    int cluster;   /* neighbouring blocks of a cluster; 1 if there are no clusters */
};

#ifdef __CUDACC__

/* Launches the kernel that was compiled for this call, which may begin before the previous launch has ended,
 * and sets `error`; false if there is none. */
bool launched_jit(const struct jit_call *call, cudaStream_t stream, cudaError_t *error);

#else /* the simulator runs the library's own kernels */

static inline bool launched_jit(const struct jit_call *call, cudaStream_t stream, cudaError_t *error) {
    (void)call, (void)stream, (void)error;
    return false;
}

#endif
