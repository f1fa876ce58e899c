#include "curand.hpp"
