/* Replaces CUB's header: the state of a scan on Blackwell, which is not chosen here. */
#pragma once

CUB_NAMESPACE_BEGIN
namespace detail::warpspeed {
template <class T> struct tile_state_t {
    T value;
};
} // namespace detail::warpspeed
CUB_NAMESPACE_END
