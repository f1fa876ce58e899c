/* Kernels without their host code get nothing from it. */
#ifdef SIM_HOST
#include "cublas.hpp"
#endif
