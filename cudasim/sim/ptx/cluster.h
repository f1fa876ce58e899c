/* Clusters of blocks on the simulator, under the names that kernels use on both machines. */
#pragma once

#include "sim/ptx/shared_address.h"

#define mapa(address, rank) sim_mapa(SIM_HERE, address, rank)
#define cluster_ctarank() sim_cluster_rank()
#define barrier_cluster() sim_cluster_barrier(SIM_HERE, true)
#define barrier_cluster_relaxed() sim_cluster_barrier(SIM_HERE, false)
#define ld_shared_cluster_v4(shared, rank) sim_load_from_block(SIM_HERE, shared, rank)
#define st_async(to, a, b, barrier) sim_st_async(SIM_HERE, to, a, b, barrier)
