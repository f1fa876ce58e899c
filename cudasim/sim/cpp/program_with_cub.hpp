/* A precompiled header for programs that use CUB. */
#include "program.hpp"
#include "cub/cub.cuh"
