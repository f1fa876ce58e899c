/* TMA on the simulator (sim/hopper/tma.c), under the names of the instructions. */
#pragma once

#include "sim/hopper/hopper.h"
#include "sim/hopper/tensor_map.h"

#define prefetch_tensormap(map) ((void)(map))
#define cp_async_bulk(to, from, bytes, barrier) sim_bulk_copy(SIM_HERE, to, from, bytes, barrier)
#define cp_async_bulk_tensor(to, map, column, row, barrier)                                                  \
    cp_async_bulk_tensor_multicast(to, map, column, row, barrier, 0)
#define cp_async_bulk_tensor_multicast(to, map, column, row, barrier, blocks)                                \
    ({                                                                                                       \
        const int sim_at[] = {column, row};                                                                  \
        sim_tensor_copy(SIM_HERE, to, map, 2, sim_at, barrier, blocks);                                      \
    })
#define cp_async_bulk_tensor_blocks(to, map, column, block, barrier)                                         \
    cp_async_bulk_tensor_blocks_multicast(to, map, column, block, barrier, 0)
#define cp_async_bulk_tensor_blocks_multicast(to, map, column, block, barrier, blocks)                       \
    ({                                                                                                       \
        const int sim_at[] = {column, 0, 0, 0, block};                                                       \
        sim_tensor_copy(SIM_HERE, to, map, 5, sim_at, barrier, blocks);                                      \
    })
