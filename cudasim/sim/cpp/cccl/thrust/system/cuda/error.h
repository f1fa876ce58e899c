/* Replaces Thrust's header: the runtime's errors as C++ error codes. */
#pragma once
#include <thrust/detail/config.h>
#include <thrust/system/error_code.h>

THRUST_NAMESPACE_BEGIN
namespace system {

class sim_cuda_category : public error_category {
  public:
    const char *name() const override {
        return "cuda";
    }
    std::string message(int error) const override {
        return std::string(::cudaGetErrorName((cudaError_t)error)) + ": " +
               ::cudaGetErrorString((cudaError_t)error);
    }
};
inline const error_category &cuda_category() {
    static const sim_cuda_category category;
    return category;
}

} // namespace system
using system::cuda_category;
THRUST_NAMESPACE_END
