/* A precompiled header for kernels that use CUB. */
#include "cuda.hpp"
#include "cub/cub.cuh"
