/* Kernels without their host code get nothing from it. */
#ifdef SIM_HOST
#include "cusparse.hpp"
#endif
