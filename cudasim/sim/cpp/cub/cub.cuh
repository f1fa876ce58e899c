#include "cub_block.hpp"
#ifdef SIM_HOST /* a whole program */
#include "cub_device.hpp"
#endif
