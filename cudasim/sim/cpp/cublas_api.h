/* Kernels that come without their host code have nothing of it. */
#ifdef SIM_HOST
#include "cublas.hpp"
#endif
