/* wmma: products of matrices that a warp holds in fragments. ../fragments.h says which lane has what. */
#pragma once
#include "../fragments.h"
#include "bfloat16.hpp"
#include "half.hpp"

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
} /* namespace precision */

template <class T> struct sim_stored {
    using type = T;
};
template <> struct sim_stored<precision::tf32> {
    using type = float;
};

template <class T> constexpr enum sim_element sim_element_of() {
    return std::is_same<T, __half>::value            ? SIM_ELEMENT_FLOAT16
           : std::is_same<T, __nv_bfloat16>::value   ? SIM_ELEMENT_BFLOAT16
           : std::is_same<T, precision::tf32>::value ? SIM_ELEMENT_TF32
           : std::is_same<T, double>::value          ? SIM_ELEMENT_DOUBLE
           : std::is_same<T, int>::value             ? SIM_ELEMENT_INT32
           : std::is_same<T, unsigned char>::value   ? SIM_ELEMENT_UINT8
           : std::is_same<T, float>::value           ? SIM_ELEMENT_FLOAT
                                                     : SIM_ELEMENT_INT8;
}

template <class Use, int m, int n, int k, class T, class Layout = void> struct fragment {
    static constexpr enum sim_fragment_use use = std::is_same<Use, matrix_a>::value   ? SIM_FIRST_FACTOR
                                                 : std::is_same<Use, matrix_b>::value ? SIM_SECOND_FACTOR
                                                                                      : SIM_SUM;
    static constexpr int rows = use == SIM_SECOND_FACTOR ? k : m, columns = use == SIM_FIRST_FACTOR ? k : n;
    static constexpr int num_elements = rows * columns / 32;
    static constexpr int num_storage_elements = num_elements;
    using element_type = typename sim_stored<T>::type;
    using storage_element_type = element_type;
    element_type x[num_elements];
};

SIM_INLINE int sim_lane_of_warp() {
    return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}

/* The address of an element of the calling lane. */
template <class F> SIM_INLINE size_t sim_offset(int element, unsigned stride, bool by_columns) {
    int lane = sim_lane_of_warp();
    size_t row = (size_t)sim_fragment_row(F::use, F::rows, F::columns, lane, element);
    size_t column = (size_t)sim_fragment_column(F::use, F::rows, F::columns, lane, element);
    return by_columns ? column * stride + row : row * stride + column;
}

template <class Use, int m, int n, int k, class T, class Layout, class V>
SIM_INLINE void fill_fragment(fragment<Use, m, n, k, T, Layout> &f, V value) {
    for (auto &x : f.x)
        x = (typename sim_stored<T>::type)value;
}
template <class Use, int m, int n, int k, class T, class Layout, class V>
SIM_INLINE void load_matrix_sync(fragment<Use, m, n, k, T, Layout> &f, const V *from, unsigned stride,
                                 SIM_CALLED_FROM) {
    sim_warp_barrier(SIM_CALLER, ~0u);
    for (int i = 0; i < f.num_elements; i++)
        f.x[i] = from[sim_offset<fragment<Use, m, n, k, T, Layout>>(i, stride,
                                                                    std::is_same<Layout, col_major>::value)];
}
template <int m, int n, int k, class T, class V>
SIM_INLINE void load_matrix_sync(fragment<accumulator, m, n, k, T> &f, const V *from, unsigned stride,
                                 layout_t layout, SIM_CALLED_FROM) {
    sim_warp_barrier(SIM_CALLER, ~0u);
    for (int i = 0; i < f.num_elements; i++)
        f.x[i] = from[sim_offset<fragment<accumulator, m, n, k, T>>(i, stride, layout == mem_col_major)];
}
template <int m, int n, int k, class T, class V>
SIM_INLINE void store_matrix_sync(V *to, const fragment<accumulator, m, n, k, T> &f, unsigned stride,
                                  layout_t layout, SIM_CALLED_FROM) {
    sim_warp_barrier(SIM_CALLER, ~0u);
    for (int i = 0; i < f.num_elements; i++)
        to[sim_offset<fragment<accumulator, m, n, k, T>>(i, stride, layout == mem_col_major)] = f.x[i];
}
template <int m, int n, int k, class D, class A, class LayoutA, class LayoutB, class C>
SIM_INLINE void mma_sync(fragment<accumulator, m, n, k, D> &d,
                         const fragment<matrix_a, m, n, k, A, LayoutA> &a,
                         const fragment<matrix_b, m, n, k, A, LayoutB> &b,
                         const fragment<accumulator, m, n, k, C> &c, bool = false, SIM_CALLED_FROM) {
    sim_fragments product = {m,   n,   k,  sim_element_of<A>(), sim_element_of<C>(), sim_element_of<D>(), a.x,
                             b.x, c.x, d.x};
    sim_fragment_product(SIM_CALLER, &product);
}
SIM_INLINE float __float_to_tf32(float v) {
    return sim_bits<float>((sim_bits<unsigned>(v) + 0x1000u) & 0xffffe000u);
}

} /* namespace wmma */
} /* namespace nvcuda */

SIM_INLINE float __float_to_tf32(float v) {
    return nvcuda::wmma::__float_to_tf32(v);
}
