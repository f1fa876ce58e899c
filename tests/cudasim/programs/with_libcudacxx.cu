// libcu++ in kernels and in host code.
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/cmath>
#include <cuda/functional>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/cmath>
#include <cuda/std/complex>
#include <cuda/std/cstdint>
#include <cuda/std/functional>
#include <cuda/std/limits>
#include <cuda/std/mdspan>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
#include <cuda/std/variant>
#include <cuda/std/atomic>
#include <thrust/device_vector.h>
#include <cstdio>

__global__ void use(cuda::std::span<int> x, int *sum) {
    cuda::std::array<int, 3> a = {1, 2, 3};
    cuda::std::optional<int> o;
    if (threadIdx.x % 2)
        o = 5;
    cuda::std::tuple<int, float> t{4, 0.5f};
    cuda::std::complex<float> z(0, 1);
    z = z * z;
    int v =
        a[threadIdx.x % 3] + o.value_or(1) + cuda::std::get<0>(t) + (int)z.real() + cuda::std::popcount(7u);
    v += cuda::maximum<int>()(3, 4) + cuda::ceil_div(7, 2) + (int)cuda::std::sqrt(16.0f) +
         cuda::std::max(1, 2);
    if (threadIdx.x < x.size())
        x[threadIdx.x] = v;
    cuda::atomic_ref<int, cuda::thread_scope_device> total(*sum);
    total.fetch_add(v, cuda::std::memory_order_relaxed);
    cuda::std::mdspan<int, cuda::std::dextents<int, 2>> m(x.data(), 4, 8);
    if (threadIdx.x == 0)
        m(3, 7) = cuda::std::numeric_limits<int>::max();
}
__global__ void with_barrier(int *x) {
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    __shared__ int s[32];
    if (threadIdx.x == 0)
        init(&b, 32);
    __syncthreads();
    s[threadIdx.x] = threadIdx.x;
    b.arrive_and_wait();
    x[threadIdx.x] = s[31 - threadIdx.x];
}
int main() {
    thrust::device_vector<int> x(32), sum(1);
    use<<<1, 31>>>(cuda::std::span<int>(x.data().get(), 31), sum.data().get());
    printf("values: %d %d %d %d\n", (int)x[0], (int)x[1], (int)sum[0], (int)x[31]);
    with_barrier<<<1, 32>>>(x.data().get());
    printf("barrier: %d\n", (int)x[0]);
    cuda::std::pair<int, int> p{1, 2};
    printf("pair: %d\n", p.second);
}
