#include "curand_sobol.hpp"
#ifdef SIM_HOST /* a whole program */
#include "curand_host.hpp"
#endif
