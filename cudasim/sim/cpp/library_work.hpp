/* What cuBLAS, cuSPARSE and cuFFT of programs share: work in a stream, numbers of a type that is known when
 * the program runs, and names that are refused. */
#pragma once
#include "cuComplex.h"
#include "cuda_bf16.hpp"
#include "cuda_fp16.hpp"
#include "float8.hpp"
#include "library_forms.hpp"
#include "library_range.hpp"
#include "library_types.h"
#include "program.hpp"
#include <complex>
#include <stdio.h>
#include <vector>

/* Declares a function that is not here: the linker refuses a program that calls it, by its name. */
#define SIM_MISSING(status, name) extern "C" status name(...);

/* Does the work, or notes it for the graph that the stream is captured for. */
template <class F> void sim_library_work(cudaStream_t stream, F work) {
    if (sim_is_captured(stream)) {
        sim_capture(stream, [=](cudaStream_t) {
            sim_library_range range(false);
            work();
            return cudaSuccess;
        });
        return;
    }
    sim_library_range range(false);
    work();
}

/* For a status that says no more than that something is not supported. */
inline void sim_library_lacks(const char *function, const char *what, long long which) {
    fprintf(stderr, "cudasim: %s() has no %s %lld here\n", function, what, which);
}

/* ---- Numbers: W is double, float or a complex one ---- */

template <class W> struct sim_is_complex : std::false_type {};
template <class T> struct sim_is_complex<std::complex<T>> : std::true_type {};

inline size_t sim_bytes_of(cudaDataType type) {
    switch (type) {
    case CUDA_C_64F:
        return 16;
    case CUDA_R_64F:
    case CUDA_C_32F:
        return 8;
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return 2;
    case CUDA_R_8I:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
        return 1;
    default:
        return 4;
    }
}
template <class W> W sim_read_as(const void *from, cudaDataType type, size_t i) {
    switch (type) {
    case CUDA_R_64F:
        return (W)((const double *)from)[i];
    case CUDA_R_16F:
        return (W)(float)((const __half *)from)[i];
    case CUDA_R_16BF:
        return (W)(float)((const __nv_bfloat16 *)from)[i];
    case CUDA_R_8I:
        return (W)((const signed char *)from)[i];
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
        return (W)sim_float_of_fp8(((const unsigned char *)from)[i],
                                   type == CUDA_R_8F_E4M3 ? __NV_E4M3 : __NV_E5M2);
    case CUDA_R_32I:
        return (W)((const int *)from)[i];
    case CUDA_C_32F:
    case CUDA_C_64F:
        if constexpr (sim_is_complex<W>::value) {
            cudaDataType part = type == CUDA_C_32F ? CUDA_R_32F : CUDA_R_64F;
            typedef typename W::value_type R;
            return W(sim_read_as<R>(from, part, 2 * i), sim_read_as<R>(from, part, 2 * i + 1));
        }
    default:
        return (W)((const float *)from)[i];
    }
}
template <class W> void sim_write_as(void *to, cudaDataType type, size_t i, W value) {
    if constexpr (sim_is_complex<W>::value) {
        cudaDataType part = type == CUDA_C_32F ? CUDA_R_32F : CUDA_R_64F;
        sim_write_as(to, part, 2 * i, value.real());
        sim_write_as(to, part, 2 * i + 1, value.imag());
    } else {
        switch (type) {
        case CUDA_R_64F:
            ((double *)to)[i] = (double)value;
            break;
        case CUDA_R_16F:
            ((__half *)to)[i] = __float2half((float)value);
            break;
        case CUDA_R_16BF:
            ((__nv_bfloat16 *)to)[i] = __float2bfloat16((float)value);
            break;
        case CUDA_R_8F_E4M3:
        case CUDA_R_8F_E5M2:
            ((unsigned char *)to)[i] = sim_fp8_of_double((double)value, __NV_SATFINITE,
                                                         type == CUDA_R_8F_E4M3 ? __NV_E4M3 : __NV_E5M2);
            break;
        case CUDA_R_32I:
            ((int *)to)[i] = (int)value;
            break;
        default:
            ((float *)to)[i] = (float)value;
        }
        sim_memory_is_written((char *)to + i * sim_bytes_of(type), sim_bytes_of(type));
    }
}
