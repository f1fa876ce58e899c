/* CUB's device-wide sorts of segments (cub_device_sort.hpp): DeviceSegmentedRadixSort, and
 * DeviceSegmentedSort with the same functions without bits, and stable ones. */
#pragma once
#include "cub_device_sort.hpp"

namespace cub {

template <bool Descending> struct sim_segments {
    template <class K, class V, class Begins, class Ends>
    static cudaError_t sort(void *temporary, size_t &bytes, const K *in, K *out, const V *values,
                            V *values_out, size_t segments, Begins begins, Ends ends, int begin, int end) {
        return sim_device_wide(temporary, bytes, [&] {
            for (size_t i = 0; i < segments; i++)
                if (values)
                    sim_sort(in, out, values, values_out, begins[i], ends[i],
                             sim_by_radix<Descending>{begin, end});
                else
                    sim_sort(in, out, nullptr, nullptr, begins[i], ends[i],
                             sim_by_radix<Descending>{begin, end});
        });
    }
};

struct DeviceSegmentedRadixSort {
    template <class K, class Begins, class Ends>
    static cudaError_t SortKeys(void *temporary, size_t &bytes, const K *in, K *out, size_t, size_t segments,
                                Begins begins, Ends ends, int begin = 0, int end = 8 * sizeof(K),
                                cudaStream_t = 0, bool = false) {
        return sim_segments<false>::sort(temporary, bytes, in, out, (const int *)0, (int *)0, segments,
                                         begins, ends, begin, end);
    }
    template <class K, class Begins, class Ends>
    static cudaError_t SortKeysDescending(void *temporary, size_t &bytes, const K *in, K *out, size_t,
                                          size_t segments, Begins begins, Ends ends, int begin = 0,
                                          int end = 8 * sizeof(K), cudaStream_t = 0, bool = false) {
        return sim_segments<true>::sort(temporary, bytes, in, out, (const int *)0, (int *)0, segments, begins,
                                        ends, begin, end);
    }
    template <class K, class V, class Begins, class Ends>
    static cudaError_t SortPairs(void *temporary, size_t &bytes, const K *in, K *out, const V *values,
                                 V *values_out, size_t, size_t segments, Begins begins, Ends ends,
                                 int begin = 0, int end = 8 * sizeof(K), cudaStream_t = 0, bool = false) {
        return sim_segments<false>::sort(temporary, bytes, in, out, values, values_out, segments, begins,
                                         ends, begin, end);
    }
    template <class K, class V, class Begins, class Ends>
    static cudaError_t SortPairsDescending(void *temporary, size_t &bytes, const K *in, K *out,
                                           const V *values, V *values_out, size_t, size_t segments,
                                           Begins begins, Ends ends, int begin = 0, int end = 8 * sizeof(K),
                                           cudaStream_t = 0, bool = false) {
        return sim_segments<true>::sort(temporary, bytes, in, out, values, values_out, segments, begins, ends,
                                        begin, end);
    }
    template <class K, class Begins, class Ends>
    static cudaError_t SortKeys(void *temporary, size_t &bytes, DoubleBuffer<K> &keys, size_t count,
                                size_t segments, Begins begins, Ends ends, int begin = 0,
                                int end = 8 * sizeof(K), cudaStream_t = 0, bool = false) {
        cudaError_t error = SortKeys(temporary, bytes, keys.Current(), keys.Alternate(), count, segments,
                                     begins, ends, begin, end);
        keys.selector ^= temporary != 0;
        return error;
    }
    template <class K, class V, class Begins, class Ends>
    static cudaError_t SortPairs(void *temporary, size_t &bytes, DoubleBuffer<K> &keys,
                                 DoubleBuffer<V> &values, size_t count, size_t segments, Begins begins,
                                 Ends ends, int begin = 0, int end = 8 * sizeof(K), cudaStream_t = 0,
                                 bool = false) {
        cudaError_t error = SortPairs(temporary, bytes, keys.Current(), keys.Alternate(), values.Current(),
                                      values.Alternate(), count, segments, begins, ends, begin, end);
        keys.selector ^= temporary != 0, values.selector ^= temporary != 0;
        return error;
    }
};

struct DeviceSegmentedSort {
    template <class K, class Begins, class Ends>
    static cudaError_t SortKeys(void *temporary, size_t &bytes, const K *in, K *out, size_t count,
                                size_t segments, Begins begins, Ends ends, cudaStream_t = 0, bool = false) {
        return DeviceSegmentedRadixSort::SortKeys(temporary, bytes, in, out, count, segments, begins, ends);
    }
    template <class K, class Begins, class Ends>
    static cudaError_t StableSortKeys(void *temporary, size_t &bytes, const K *in, K *out, size_t count,
                                      size_t segments, Begins begins, Ends ends, cudaStream_t = 0,
                                      bool = false) {
        return SortKeys(temporary, bytes, in, out, count, segments, begins, ends);
    }
    template <class K, class Begins, class Ends>
    static cudaError_t SortKeysDescending(void *temporary, size_t &bytes, const K *in, K *out, size_t count,
                                          size_t segments, Begins begins, Ends ends, cudaStream_t = 0,
                                          bool = false) {
        return DeviceSegmentedRadixSort::SortKeysDescending(temporary, bytes, in, out, count, segments,
                                                            begins, ends);
    }
    template <class K, class V, class Begins, class Ends>
    static cudaError_t SortPairs(void *temporary, size_t &bytes, const K *in, K *out, const V *values,
                                 V *values_out, size_t count, size_t segments, Begins begins, Ends ends,
                                 cudaStream_t = 0, bool = false) {
        return DeviceSegmentedRadixSort::SortPairs(temporary, bytes, in, out, values, values_out, count,
                                                   segments, begins, ends);
    }
    template <class K, class V, class Begins, class Ends>
    static cudaError_t StableSortPairs(void *temporary, size_t &bytes, const K *in, K *out, const V *values,
                                       V *values_out, size_t count, size_t segments, Begins begins, Ends ends,
                                       cudaStream_t = 0, bool = false) {
        return SortPairs(temporary, bytes, in, out, values, values_out, count, segments, begins, ends);
    }
    template <class K, class V, class Begins, class Ends>
    static cudaError_t SortPairsDescending(void *temporary, size_t &bytes, const K *in, K *out,
                                           const V *values, V *values_out, size_t count, size_t segments,
                                           Begins begins, Ends ends, cudaStream_t = 0, bool = false) {
        return DeviceSegmentedRadixSort::SortPairsDescending(temporary, bytes, in, out, values, values_out,
                                                             count, segments, begins, ends);
    }
};

} // namespace cub
