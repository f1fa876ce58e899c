/* bar.sync on the simulator: the numbered barriers of a block, each for a part of its warps. */
#pragma once

#include "sim/hopper/hopper.h"

#define bar_sync(number, threads) sim_named_barrier(SIM_HERE, number, threads)
