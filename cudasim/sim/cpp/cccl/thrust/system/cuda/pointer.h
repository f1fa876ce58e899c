/* Replaces Thrust's header: for a GPU it is the same as cpp/pointer.h. */
#pragma once
#include <thrust/system/cpp/pointer.h>
#include <thrust/system/cuda/execution_policy.h>

THRUST_NAMESPACE_BEGIN
namespace system::cuda {
using namespace thrust::system::cpp;
}
THRUST_NAMESPACE_END
