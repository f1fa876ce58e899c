/* How PTX instructions name shared memory, on the simulator: an offset in the block's window. */
#pragma once

#include "sim/hopper/hopper.h"

#define shared_address(pointer) sim_shared_address(SIM_HERE, pointer)
