/* The beginning of a kernel that is compiled for one call (jit/jit.h), before its own file. */
#pragma once

/* NVRTC has no <math.h>. */
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)

#include "shared/rung.h"

/* Functions of one copy are inlined: they have one operator left. */
#undef CALLED
#define CALLED __forceinline__

/* A loop over a list of operators is unrolled. jit/known.h defines these functions. */
enum { STEPS_AT_ONCE = FGN_MAX_POINTWISE };
static __forceinline__ __device__ int count_of(const struct operators *list, enum list which);
static __forceinline__ __device__ fgn_pointwise step_of(const struct operators *list, enum list which, int i);
