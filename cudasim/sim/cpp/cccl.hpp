/* SIM_HEADER, a header of NVIDIA's CCCL (Thrust, CUB, libcu++), as a C++ compiler without CUDA reads it:
 * Thrust has a CPU backend for that. The folder cccl/ replaces some of its headers. */
#pragma push_macro("__CUDACC__")
#pragma push_macro("__NVCC__")
#pragma push_macro("__CUDA_ARCH__")
#undef __CUDACC__
#undef __NVCC__
#undef __CUDA_ARCH__
/* Copies by the simulator's function, as memory.hpp does for the program's own memmove(). */
#include <cuda/std/__cccl/builtin.h>
#undef _CCCL_BUILTIN_MEMMOVE
#define _CCCL_BUILTIN_MEMMOVE(...) ::sim_copy_bytes(__VA_ARGS__)
/* g++ takes no count that depends on a template's parameter. */
#include <cuda/std/__cccl/compiler.h>
#undef _CCCL_PRAGMA_UNROLL
#undef _CCCL_PRAGMA_UNROLL_FULL
#define _CCCL_PRAGMA_UNROLL(count)
#define _CCCL_PRAGMA_UNROLL_FULL()
/* That of CUDA 13.0 for the GPU that __CUDA_ARCH__ names: libcu++ gives it to nvcc alone. */
#include <cuda/std/__cccl/ptx_isa.h>
#undef __cccl_ptx_isa
#define __cccl_ptx_isa 900ULL
/* By this the linker hides kernels, whose names are told. */
#ifndef _CCCL_KERNEL_ATTRIBUTES
#define _CCCL_KERNEL_ATTRIBUTES __global__
#endif
#include SIM_HEADER
#if defined THRUST_VERSION && defined SIM_HOST
/* Includes what Thrust's headers include with the backend for GPUs. */
#include <thrust/system/cuda/execution_policy.h>
#include <thrust/system_error.h>
#include <iostream>
#if THRUST_VERSION >= 300000 && !defined SIM_HAS_THRUST_OF_CUDA_12
#define SIM_HAS_THRUST_OF_CUDA_12
/* Bases of functors, which ended with CUDA 13. */
THRUST_NAMESPACE_BEGIN
template <typename Argument, typename Result> struct unary_function {
    typedef Argument argument_type;
    typedef Result result_type;
};
template <typename First, typename Second, typename Result> struct binary_function {
    typedef First first_argument_type;
    typedef Second second_argument_type;
    typedef Result result_type;
};
THRUST_NAMESPACE_END
#endif
#endif
#pragma pop_macro("__CUDACC__")
#pragma pop_macro("__NVCC__")
#pragma pop_macro("__CUDA_ARCH__")
#undef SIM_HEADER
