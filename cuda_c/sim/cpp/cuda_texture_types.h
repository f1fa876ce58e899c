#include "cuda.hpp"
