/* The types of cuFFT, which kernels take as well; its functions are the host's. */
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
