#include "curand_sobol.hpp"
