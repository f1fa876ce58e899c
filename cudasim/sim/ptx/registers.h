/* How a kernel controls its registers: on the simulator every value has its own register. */
#pragma once

#include "sim/hopper/hopper.h"

static inline uint32_t uniform(uint32_t value) {
    return value;
}

static inline void hold_registers(float *v, int count) {
    (void)v, (void)count;
}

#define setmaxnreg_dec(count) sim_setmaxnreg(SIM_HERE, count)
#define setmaxnreg_inc(count) sim_setmaxnreg(SIM_HERE, count)
