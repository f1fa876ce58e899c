/* Replaces libcu++'s header, which calls the driver: a stream as CUB's environments have it. */
#pragma once
#include <cuda/__fwd/get_stream.h>
#include <cuda/std/cstddef>

_CCCL_BEGIN_NAMESPACE_CUDA

class stream_ref {
    ::cudaStream_t stream;

  public:
    using value_type = ::cudaStream_t;
    constexpr stream_ref(value_type stream) noexcept : stream(stream) {}
    stream_ref(int) = delete;
    stream_ref(decltype(nullptr)) = delete;
    constexpr value_type get() const noexcept {
        return stream;
    }
    void sync() const {
        ::cudaStreamSynchronize(stream);
    }
    constexpr stream_ref query(const ::cuda::get_stream_t &) const noexcept {
        return *this;
    }
    friend constexpr bool operator==(const stream_ref &a, const stream_ref &b) noexcept {
        return a.stream == b.stream;
    }
    friend constexpr bool operator!=(const stream_ref &a, const stream_ref &b) noexcept {
        return a.stream != b.stream;
    }
};

_CCCL_END_NAMESPACE_CUDA
