/* Thrust's function objects, which device code passes to CUB's collectives. */
#pragma once
#ifdef SIM_HAS_CCCL
#define SIM_HEADER <thrust/functional.h>
#include "../cccl.hpp"
#else
#include "../functional.hpp"

namespace thrust {
using cuda::maximum;
using cuda::minimum;
using std::bit_and;
using std::bit_or;
using std::bit_xor;
using std::divides;
using std::equal_to;
using std::greater;
using std::greater_equal;
using std::less;
using std::less_equal;
using std::logical_and;
using std::logical_not;
using std::logical_or;
using std::minus;
using std::modulus;
using std::multiplies;
using std::negate;
using std::not_equal_to;
using std::plus;
} // namespace thrust
#endif
