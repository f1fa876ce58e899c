/* In place of Thrust's header: what it has for a GPU is what cpp/vector.h has. */
#pragma once
#include <thrust/system/cpp/vector.h>
#include <thrust/system/cuda/execution_policy.h>

THRUST_NAMESPACE_BEGIN
namespace system::cuda {
using namespace thrust::system::cpp;
}
THRUST_NAMESPACE_END
