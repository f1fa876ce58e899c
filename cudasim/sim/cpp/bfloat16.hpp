/* bfloat16, with the names of cuda_bf16.h. */
#pragma once
#include "float16_names.hpp"

using __nv_bfloat16 = sim_float16<sim_bfloat16>;
using __nv_bfloat162 = sim_float16x2<sim_bfloat16>;
using __nv_bfloat16_raw = sim_raw16;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
SIM_FLOAT16_NAMES(bfloat16, __nv_bfloat16, __nv_bfloat162)
