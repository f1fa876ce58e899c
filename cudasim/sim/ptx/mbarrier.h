/* mbarriers on the simulator (sim/hopper/mbarrier.c), under the names of the instructions. */
#pragma once

#include "sim/ptx/cluster.h"

#define mbarrier_init(barrier, arrivals) sim_mbarrier_init(SIM_HERE, barrier, arrivals)
#define fence_mbarrier_init() sim_fence_mbarrier_init()
#define mbarrier_arrive_expect_tx(barrier, bytes) sim_mbarrier_arrive(SIM_HERE, barrier, bytes)
#define mbarrier_arrive(barrier) sim_mbarrier_arrive(SIM_HERE, barrier, 0)
#define mbarrier_arrive_cluster(barrier, rank)                                                               \
    sim_mbarrier_arrive(SIM_HERE, sim_mapa(SIM_HERE, barrier, rank), 0)
#define mbarrier_wait(barrier, parity) sim_mbarrier_wait(SIM_HERE, barrier, parity)
