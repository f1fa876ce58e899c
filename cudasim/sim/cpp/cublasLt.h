/* For programs that name its handle and call nothing of it: cublasLt itself is not here. */
#pragma once
#ifdef SIM_HOST
#include "cublas.hpp"
typedef struct cublasLtContext *cublasLtHandle_t;
#endif
