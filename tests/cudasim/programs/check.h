#pragma once
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t error = (call);                                                                          \
        if (error != cudaSuccess)                                                                            \
            printf("[%s] ", cudaGetErrorName(error));                                                        \
    } while (0)
