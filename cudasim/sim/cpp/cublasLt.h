/* Kernels that come without their host code have nothing of it. */
#pragma once
#ifdef SIM_HOST
#include "cublasLt.hpp"
#endif
