/* Types and constants of the CUDA runtime that device code and its headers mention. A kernel from a cell has
 * no host code: Python does that part. A whole program also has the functions of program.hpp. */
#pragma once
#include "errors.hpp"
#include "language.hpp"

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct cudaArray *cudaArray_t;
struct cudaExtent {
    size_t width, height, depth;
};

/* The enumeration's own name is one that a program's function may have, as CUDA's is. */
typedef enum cudaError {
#define SIM_NAMED(name, number, words) name = number,
    SIM_ERRORS(SIM_NAMED)
#undef SIM_NAMED
} cudaError_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
