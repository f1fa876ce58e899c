/* cp.async on the simulator: a copy lands when its thread waits for it (sim/copy.c). */
#pragma once

#include "sim/portable.h"

#define cp_async_once_16_or_zero(shared, global, valid) cp_async_16_or_zero(shared, global, valid)
#define cp_async_8(shared, global) sim_cp_async(SIM_HERE, shared, global, 8, true)
#define cp_async_4_partly(shared, global, bytes) sim_cp_async_partly(SIM_HERE, shared, global, 4, bytes)

static inline void cp_async_wait_all(void) {
    cp_async_commit_group();
    cp_async_wait_group(0);
}
