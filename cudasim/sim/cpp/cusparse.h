/* Kernels that come without their host code have nothing of it. */
#ifdef SIM_HOST
#include "cusparse.hpp"
#endif
