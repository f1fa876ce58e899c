/* IEEE's binary16, with the names of cuda_fp16.h. */
#pragma once
#include "float16_names.hpp"

using __half = sim_float16<sim_binary16>;
using __half2 = sim_float16x2<sim_binary16>;
using __half_raw = sim_raw16;
using half = __half;
using half2 = __half2;
SIM_FLOAT16_NAMES(half, __half, __half2)
