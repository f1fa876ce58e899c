#include "cub_block.hpp"
#ifdef SIM_HOST /* a whole program */
#include "cub_device.hpp"
#include <chrono>   /* as CUB does, by <cuda/atomic> */
#ifdef SIM_HAS_CCCL /* CUB includes Thrust's iterators, which have replaced its own */
#define SIM_HEADER <thrust/iterator/constant_iterator.h>
#include "cccl.hpp"
#define SIM_HEADER <thrust/iterator/counting_iterator.h>
#include "cccl.hpp"
#define SIM_HEADER <thrust/iterator/transform_iterator.h>
#include "cccl.hpp"
#endif
#endif
