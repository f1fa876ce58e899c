/* cuBLAS's first interface, without handles. Kernels without their host code get nothing from it. */
#ifdef SIM_HOST
#define SIM_CUBLAS_WITHOUT_HANDLES
#include "cublas.hpp"
#endif
