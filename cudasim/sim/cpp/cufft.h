/* The types of cuFFT, which kernels use too; its functions are for host code. */
#pragma once
#include "cuComplex.h"

typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;
typedef int cufftHandle;
#ifdef SIM_HOST /* a whole program */
#include "cufft.hpp"
#endif
