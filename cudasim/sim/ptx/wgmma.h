/* wgmma on the simulator (sim/hopper/wgmma.c), under the names of the instructions. */
#pragma once

#include "sim/hopper/hopper.h"

#define fence_proxy_async() sim_fence_proxy_async(SIM_HERE)
#define wgmma_commit_group() sim_wgmma_commit()
#define wgmma_wait_group(groups) sim_wgmma_wait(SIM_HERE, groups)

#define wgmma_fence() sim_wgmma_fence()

#define wgmma_m64n128k16_f16(sum, x, w, accumulate)                                                          \
    sim_wgmma(SIM_HERE, sum, 128, SIM_FLOAT16_FACTORS, x, w, accumulate)
#define wgmma_m64n128k16_bf16(sum, x, w, accumulate)                                                         \
    sim_wgmma(SIM_HERE, sum, 128, SIM_BFLOAT16_FACTORS, x, w, accumulate)
#define wgmma_m64n128k8_tf32(sum, x, w, accumulate)                                                          \
    sim_wgmma(SIM_HERE, sum, 128, SIM_TF32_FACTORS, x, w, accumulate)

#define wgmma_m64n64k16_f16(sum, x, w, accumulate)                                                           \
    sim_wgmma(SIM_HERE, sum, 64, SIM_FLOAT16_FACTORS, x, w, accumulate)
#define wgmma_m64n64k16_bf16(sum, x, w, accumulate)                                                          \
    sim_wgmma(SIM_HERE, sum, 64, SIM_BFLOAT16_FACTORS, x, w, accumulate)
#define wgmma_m64n64k8_tf32(sum, x, w, accumulate)                                                           \
    sim_wgmma(SIM_HERE, sum, 64, SIM_TF32_FACTORS, x, w, accumulate)
#define wgmma_m64n96k16_f16(sum, x, w, accumulate)                                                           \
    sim_wgmma(SIM_HERE, sum, 96, SIM_FLOAT16_FACTORS, x, w, accumulate)
#define wgmma_m64n96k16_bf16(sum, x, w, accumulate)                                                          \
    sim_wgmma(SIM_HERE, sum, 96, SIM_BFLOAT16_FACTORS, x, w, accumulate)
#define wgmma_m64n96k8_tf32(sum, x, w, accumulate)                                                           \
    sim_wgmma(SIM_HERE, sum, 96, SIM_TF32_FACTORS, x, w, accumulate)
#define wgmma_m64n128k32_e4m3(sum, x, w, accumulate)                                                         \
    sim_wgmma(SIM_HERE, sum, 128, SIM_E4M3_FACTORS, x, w, accumulate)
#define wgmma_m64n64k32_e4m3(sum, x, w, accumulate)                                                          \
    sim_wgmma(SIM_HERE, sum, 64, SIM_E4M3_FACTORS, x, w, accumulate)
#define wgmma_m64n96k32_e4m3(sum, x, w, accumulate)                                                          \
    sim_wgmma(SIM_HERE, sum, 96, SIM_E4M3_FACTORS, x, w, accumulate)
