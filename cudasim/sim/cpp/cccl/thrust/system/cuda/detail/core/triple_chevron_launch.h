/* Replaces Thrust's header: here CUB's device-wide functions launch their kernels. */
#pragma once
#include <thrust/detail/config.h>

THRUST_NAMESPACE_BEGIN
namespace cuda_cub::detail {

struct triple_chevron {
    sim_configured with;
    triple_chevron(dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = 0, bool = false)
        : with{grid, block, shared_bytes, stream} {}

    template <class... P, class... A> cudaError_t doit(void (*kernel)(P...), const A &...arguments) const {
        const char *name = sim_kernel_name((const void *)kernel);
        sim_typed_launch<void (*)(P...), P...>{&sim_of_library, name, kernel, with}(arguments...);
        return cudaPeekAtLastError();
    }
};

} // namespace cuda_cub::detail
THRUST_NAMESPACE_END
