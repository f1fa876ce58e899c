/* SIM_HEADER, which is a header of NVIDIA's CCCL (Thrust, CUB, libcu++): read as by a C++ compiler that knows
 * nothing of CUDA, for which Thrust has a backend on the CPU. What it asks of us is in the folder cccl/. */
#pragma push_macro("__CUDACC__")
#pragma push_macro("__NVCC__")
#pragma push_macro("__CUDA_ARCH__")
#undef __CUDACC__
#undef __NVCC__
#undef __CUDA_ARCH__
/* Copies by the simulator's function, as memory.hpp has it for memmove() of the program's own. */
#include <cuda/std/__cccl/builtin.h>
#undef _CCCL_BUILTIN_MEMMOVE
#define _CCCL_BUILTIN_MEMMOVE(...) ::sim_copy_bytes(__VA_ARGS__)
#include SIM_HEADER
#ifdef THRUST_VERSION
/* As Thrust's headers do with its backend for GPUs. */
#include <thrust/system/cuda/execution_policy.h>
#include <thrust/system_error.h>
#include <iostream>
#endif
#pragma pop_macro("__CUDACC__")
#pragma pop_macro("__NVCC__")
#pragma pop_macro("__CUDA_ARCH__")
#undef SIM_HEADER
