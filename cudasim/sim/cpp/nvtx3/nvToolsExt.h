#include "sim/cpp/nvtx.hpp"
