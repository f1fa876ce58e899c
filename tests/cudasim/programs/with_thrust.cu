// What Thrust has, in a program whose kernels work on Thrust's vectors.
#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/complex.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_malloc.h>
#include <thrust/device_free.h>
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/extrema.h>
#include <thrust/fill.h>
#include <thrust/for_each.h>
#include <thrust/functional.h>
#include <thrust/gather.h>
#include <thrust/generate.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/logical.h>
#include <thrust/merge.h>
#include <thrust/partition.h>
#include <thrust/random.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/sequence.h>
#include <thrust/set_operations.h>
#include <thrust/shuffle.h>
#include <thrust/sort.h>
#include <thrust/system/cuda/execution_policy.h>
#include <thrust/tabulate.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/transform_scan.h>
#include <thrust/tuple.h>
#include <thrust/unique.h>
#include <thrust/universal_vector.h>
#include <cstdio>
#include <vector>
#include <string>

struct particle {
    float3 at;
    int id;
};
struct by_id {
    __host__ __device__ bool operator()(const particle &a, const particle &b) const {
        return a.id < b.id;
    }
};
struct is_odd : thrust::unary_function<int, bool> {
    __host__ __device__ bool operator()(int v) const {
        return v & 1;
    }
};
struct add_up {
    template <class T> __device__ void operator()(T t) {
        thrust::get<2>(t) = thrust::get<0>(t) + thrust::get<1>(t);
    }
};

__global__ void fill(particle *p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        p[i].id = n - i;
        p[i].at = make_float3(i, 0, 0);
    }
}
__global__ void sort_rows(int *x, int width) {
    int *row = x + threadIdx.x * width;
    thrust::sort(thrust::seq, row, row + width);
}
__global__ void add_one(int *x, int n) {
    int i = threadIdx.x;
    if (i < n)
        x[i]++;
}

template <class V> void show(const char *what, const V &v) {
    printf("%s:", what);
    thrust::host_vector<typename V::value_type> h(v.begin(), v.end());
    for (size_t i = 0; i < h.size() && i < 8; i++)
        printf(" %d", (int)h[i]);
    printf("\n");
}
int main() {
    using namespace thrust::placeholders;
    const int n = 64;
    thrust::device_vector<particle> p(n);
    fill<<<1, n>>>(thrust::raw_pointer_cast(&p[0]), n);
    thrust::sort(p.begin(), p.end(), by_id());
    particle first = p[0];
    std::cout << "first: " << first.id << ' ' << first.at.x << std::endl; // Thrust's headers have <iostream>

    thrust::device_vector<int> a(n), b(n), c(n);
    thrust::sequence(a.begin(), a.end());
    thrust::fill(b.begin(), b.end(), 3);
    thrust::transform(a.begin(), a.end(), b.begin(), c.begin(), thrust::multiplies<int>());
    show("products", c);
    thrust::transform(a.begin(), a.end(), c.begin(), 2 * _1 + 1);
    show("placeholders", c);
    thrust::for_each(thrust::device,
                     thrust::make_zip_iterator(thrust::make_tuple(a.begin(), b.begin(), c.begin())),
                     thrust::make_zip_iterator(thrust::make_tuple(a.end(), b.end(), c.end())), add_up());
    show("zipped", c);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    thrust::inclusive_scan(thrust::cuda::par.on(stream), a.begin(), a.end(), c.begin());
    cudaStreamSynchronize(stream);
    show("scan", c);
    int *raw;
    cudaMalloc(&raw, n * sizeof(int));
    thrust::device_ptr<int> ptr(raw), other = thrust::device_pointer_cast(raw);
    thrust::copy(a.rbegin(), a.rend(), ptr);
    printf("pointers: %d %d %d\n", (int)ptr[0], (int)*(other + 1),
           (int)(thrust::max_element(ptr, ptr + n) - ptr));
    thrust::stable_sort_by_key(thrust::device, raw, raw + n, a.begin(), thrust::greater<int>());
    sort_rows<<<1, 8>>>(raw, 8);
    add_one<<<1, n>>>(raw, n);
    printf("sum: %d %d %d\n", thrust::reduce(thrust::device, raw, raw + n),
           (int)thrust::count(ptr, ptr + n, 5),
           (int)thrust::count_if(thrust::device, raw, raw + n, is_odd()));
    thrust::device_vector<int> keys(n), vals(n, 1), ok(n), ov(n);
    thrust::transform(thrust::make_counting_iterator(0), thrust::make_counting_iterator(n), keys.begin(),
                      _1 / 10);
    auto ends = thrust::reduce_by_key(keys.begin(), keys.end(), vals.begin(), ok.begin(), ov.begin());
    ov.resize(ends.second - ov.begin());
    show("by key", ov);
    ok.resize(thrust::copy_if(a.begin(), a.end(), ok.begin(), is_odd()) - ok.begin());
    show("odd", ok);
    c.erase(thrust::remove_if(c.begin(), c.end(), is_odd()), c.end());
    show("even", c);
    auto square = thrust::make_transform_iterator(a.begin(), _1 * _1);
    printf("squares: %d %d\n", thrust::reduce(square, square + n),
           thrust::transform_reduce(a.begin(), a.end(), _1 * _1, 0, thrust::plus<int>()));
    printf("inner product: %d\n", thrust::inner_product(a.begin(), a.end(), b.begin(), 0));
    auto both = thrust::minmax_element(a.begin(), a.end());
    printf("extremes: %d %d\n", (int)*both.first, (int)*both.second);
    thrust::device_vector<int> low(3), want(3);
    want[0] = 3;
    want[1] = 5;
    want[2] = 60;
    thrust::sort(a.begin(), a.end());
    thrust::lower_bound(a.begin(), a.end(), want.begin(), want.end(), low.begin());
    show("bounds", low);
    thrust::default_random_engine rng(7);
    thrust::uniform_int_distribution<int> dist(0, 9);
    thrust::host_vector<int> h(5);
    thrust::generate(h.begin(), h.end(), [&] { return dist(rng); });
    show("random", h);
    thrust::shuffle(a.begin(), a.end(), rng);
    printf("shuffled: %d\n", thrust::reduce(a.begin(), a.end()));
    thrust::universal_vector<int> u(n, 2);
    add_one<<<1, n>>>(u.data().get(), n);
    cudaDeviceSynchronize();
    printf("universal: %d %d\n", u[5], *thrust::max_element(u.begin(), u.end()));
    thrust::device_ptr<int> m = thrust::device_malloc<int>(4);
    thrust::fill(m, m + 4, 9);
    add_one<<<1, 4>>>(m.get(), 4);
    printf("malloc: %d\n", (int)m[3]);
    thrust::device_free(m);
    thrust::complex<float> z(1, 2);
    printf("complex: %.1f %.1f\n", (z * z).real(), thrust::abs(z));
    std::vector<int> std_v(n, 4);
    thrust::device_vector<int> from_std(std_v), again = from_std;
    again.push_back(1), again.insert(again.begin(), 77);
    thrust::copy(again.begin(), again.begin() + n, std_v.begin());
    printf("from std: %d %zu\n", std_v[0], again.size());
    thrust::gather(a.begin(), a.begin() + 3, b.begin(), low.begin());
    thrust::scatter(low.begin(), low.end(), thrust::make_counting_iterator(0), b.begin());
    thrust::swap(a, b);
    a.swap(b);
    a[0] = b[1], a[1] += 2;
    swap(a[0], a[1]);
    thrust::tabulate(a.begin(), a.end(), _1 % 3);
    auto e = thrust::unique(a.begin(), a.end());
    thrust::inclusive_scan_by_key(a.begin(), a.end(), b.begin(), b.begin());
    thrust::adjacent_difference(a.begin(), a.end(), b.begin());
    printf("logic: %d %d\n", thrust::all_of(a.begin(), a.end(), _1 < 3),
           thrust::any_of(a.begin(), a.end(), _1 > 3));
    thrust::set_union(thrust::device, raw, raw + 4, raw + 8, raw + 12, a.begin());
    thrust::partition(a.begin(), a.end(), is_odd());
    thrust::for_each_n(thrust::device, thrust::make_counting_iterator(0), 4,
                       [=] __device__(int i) { raw[i] = 100 + i; });
    printf("lambda: %d\n", (int)ptr[3]);
    // One after the other, floats would end at 2^24.
    thrust::device_vector<float> many((1 << 24) + (1 << 20), 1.0f);
    printf("many: %.0f %.0f\n", thrust::reduce(many.begin(), many.end()),
           thrust::inner_product(many.begin(), many.end(), many.begin(), 0.0f));
    cudaStreamDestroy(stream);
    cudaFree(raw);
}
