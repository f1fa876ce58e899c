/* The lists of operators in a kernel that is compiled for one call (jit/jit.h).
 *
 * Such a kernel's file defines `known`, its facts, with the lists `known.before` and `known.after`, and
 * includes this file. Loops over a list are unrolled, and then the compiler sees each operator's kind and
 * removes the others' code. */
#pragma once

#include "jit/jit.h"

static __forceinline__ __device__ int count_of(const struct operators *list, enum list which) {
    (void)list;
    return which == BEFORE ? known.before.count : known.after.count;
}

static __forceinline__ __device__ fgn_pointwise step_of(const struct operators *list, enum list which,
                                                        int i) {
    int step = which == BEFORE ? known.before.step[i] : known.after.step[i];
    fgn_pointwise of = list->step[i];
    of.kind = (fgn_pointwise_kind)(step & (HAS_CHANNEL - 1));
    of.one = step & HAS_ONE ? 1 : 0;
    if (!(step & HAS_CHANNEL))
        of.channel = NULL;
    if (!(step & HAS_TENSOR))
        of.tensor = NULL;
    return of;
}
