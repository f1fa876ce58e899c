/* CUB's device-wide sorts (cub_device.hpp). All of them are stable here. */
#pragma once
#include "cub_device.hpp"
#include <algorithm>
#include <vector>

namespace cub {

/* A key as a number that sorts like the key; NaNs are at the ends. */
template <class T> uint64_t sim_radix(const T &key, int begin_bit, int end_bit) {
    typename Traits<T>::UnsignedBits bits;
    __builtin_memcpy(&bits, &key, sizeof bits);
    if (key == (T)0) /* for CUB's radix sorts a negative zero is one as well */
        bits = 0;
    uint64_t number = Traits<T>::TwiddleIn(bits);
    uint64_t below_end = end_bit >= 64 ? ~0ull : (1ull << end_bit) - 1;
    return (number & below_end) >> begin_bit;
}

/* Writes the elements [begin, end) to the output in sorted order; values may be missing. */
template <class Key, class KeyOut, class Value, class ValueOut, class Less>
void sim_sort(Key keys, KeyOut keys_out, Value values, ValueOut values_out, size_t begin, size_t end,
              Less less) {
    constexpr bool has_values = !std::is_same_v<Value, std::nullptr_t>;
    struct no_value {};
    using K = sim_value_of<Key>;
    using V = typename std::conditional_t<has_values, std::iterator_traits<Value>,
                                          std::iterator_traits<no_value *>>::value_type;
    struct element {
        K key;
        V value;
    };
    std::vector<element> all(end - begin);
    for (size_t i = begin; i < end; i++) {
        all[i - begin].key = keys[i];
        if constexpr (has_values)
            all[i - begin].value = values[i];
    }
    std::stable_sort(all.begin(), all.end(),
                     [&](const element &a, const element &b) { return less(a.key, b.key); });
    for (size_t i = begin; i < end; i++) {
        keys_out[i] = all[i - begin].key;
        if constexpr (has_values)
            values_out[i] = all[i - begin].value;
    }
}
template <bool Descending> struct sim_by_radix {
    int begin_bit, end_bit;
    template <class T> bool operator()(const T &a, const T &b) const {
        uint64_t of_a = sim_radix(a, begin_bit, end_bit), of_b = sim_radix(b, begin_bit, end_bit);
        return Descending ? of_b < of_a : of_a < of_b;
    }
};

template <bool Descending> struct sim_radix_sort {
    template <class K>
    static cudaError_t keys(void *temporary, size_t &bytes, const K *in, K *out, size_t count, int begin,
                            int end) {
        return sim_device_wide(temporary, bytes, [&] {
            sim_sort(in, out, nullptr, nullptr, 0, count, sim_by_radix<Descending>{begin, end});
        });
    }
    template <class K, class V>
    static cudaError_t pairs(void *temporary, size_t &bytes, const K *in, K *out, const V *values,
                             V *values_out, size_t count, int begin, int end) {
        return sim_device_wide(temporary, bytes, [&] {
            sim_sort(in, out, values, values_out, 0, count, sim_by_radix<Descending>{begin, end});
        });
    }
    template <class K>
    static cudaError_t keys(void *temporary, size_t &bytes, DoubleBuffer<K> &of, size_t count, int begin,
                            int end) {
        cudaError_t error = keys(temporary, bytes, of.Current(), of.Alternate(), count, begin, end);
        of.selector ^= temporary != 0;
        return error;
    }
    template <class K, class V>
    static cudaError_t pairs(void *temporary, size_t &bytes, DoubleBuffer<K> &of, DoubleBuffer<V> &values,
                             size_t count, int begin, int end) {
        cudaError_t error = pairs(temporary, bytes, of.Current(), of.Alternate(), values.Current(),
                                  values.Alternate(), count, begin, end);
        of.selector ^= temporary != 0, values.selector ^= temporary != 0;
        return error;
    }
};

struct DeviceRadixSort {
    template <class K>
    static cudaError_t SortKeys(void *temporary, size_t &bytes, const K *in, K *out, size_t count,
                                int begin = 0, int end = 8 * sizeof(K), cudaStream_t = 0, bool = false) {
        return sim_radix_sort<false>::keys(temporary, bytes, in, out, count, begin, end);
    }
    template <class K>
    static cudaError_t SortKeys(void *temporary, size_t &bytes, DoubleBuffer<K> &keys, size_t count,
                                int begin = 0, int end = 8 * sizeof(K), cudaStream_t = 0, bool = false) {
        return sim_radix_sort<false>::keys(temporary, bytes, keys, count, begin, end);
    }
    template <class K>
    static cudaError_t SortKeysDescending(void *temporary, size_t &bytes, const K *in, K *out, size_t count,
                                          int begin = 0, int end = 8 * sizeof(K), cudaStream_t = 0,
                                          bool = false) {
        return sim_radix_sort<true>::keys(temporary, bytes, in, out, count, begin, end);
    }
    template <class K>
    static cudaError_t SortKeysDescending(void *temporary, size_t &bytes, DoubleBuffer<K> &keys, size_t count,
                                          int begin = 0, int end = 8 * sizeof(K), cudaStream_t = 0,
                                          bool = false) {
        return sim_radix_sort<true>::keys(temporary, bytes, keys, count, begin, end);
    }
    template <class K, class V>
    static cudaError_t SortPairs(void *temporary, size_t &bytes, const K *in, K *out, const V *values,
                                 V *values_out, size_t count, int begin = 0, int end = 8 * sizeof(K),
                                 cudaStream_t = 0, bool = false) {
        return sim_radix_sort<false>::pairs(temporary, bytes, in, out, values, values_out, count, begin, end);
    }
    template <class K, class V>
    static cudaError_t SortPairs(void *temporary, size_t &bytes, DoubleBuffer<K> &keys,
                                 DoubleBuffer<V> &values, size_t count, int begin = 0,
                                 int end = 8 * sizeof(K), cudaStream_t = 0, bool = false) {
        return sim_radix_sort<false>::pairs(temporary, bytes, keys, values, count, begin, end);
    }
    template <class K, class V>
    static cudaError_t SortPairsDescending(void *temporary, size_t &bytes, const K *in, K *out,
                                           const V *values, V *values_out, size_t count, int begin = 0,
                                           int end = 8 * sizeof(K), cudaStream_t = 0, bool = false) {
        return sim_radix_sort<true>::pairs(temporary, bytes, in, out, values, values_out, count, begin, end);
    }
    template <class K, class V>
    static cudaError_t SortPairsDescending(void *temporary, size_t &bytes, DoubleBuffer<K> &keys,
                                           DoubleBuffer<V> &values, size_t count, int begin = 0,
                                           int end = 8 * sizeof(K), cudaStream_t = 0, bool = false) {
        return sim_radix_sort<true>::pairs(temporary, bytes, keys, values, count, begin, end);
    }
};

struct DeviceMergeSort {
    template <class Keys, class Less>
    static cudaError_t SortKeys(void *temporary, size_t &bytes, Keys keys, size_t count, Less less,
                                cudaStream_t = 0, bool = false) {
        return SortKeysCopy(temporary, bytes, keys, keys, count, less);
    }
    template <class Keys, class Less>
    static cudaError_t StableSortKeys(void *temporary, size_t &bytes, Keys keys, size_t count, Less less,
                                      cudaStream_t = 0, bool = false) {
        return SortKeysCopy(temporary, bytes, keys, keys, count, less);
    }
    template <class Keys, class KeysOut, class Less>
    static cudaError_t SortKeysCopy(void *temporary, size_t &bytes, Keys in, KeysOut out, size_t count,
                                    Less less, cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes,
                               [&] { sim_sort(in, out, nullptr, nullptr, 0, count, less); });
    }
    template <class Keys, class Values, class Less>
    static cudaError_t SortPairs(void *temporary, size_t &bytes, Keys keys, Values values, size_t count,
                                 Less less, cudaStream_t = 0, bool = false) {
        return SortPairsCopy(temporary, bytes, keys, values, keys, values, count, less);
    }
    template <class Keys, class Values, class Less>
    static cudaError_t StableSortPairs(void *temporary, size_t &bytes, Keys keys, Values values, size_t count,
                                       Less less, cudaStream_t = 0, bool = false) {
        return SortPairsCopy(temporary, bytes, keys, values, keys, values, count, less);
    }
    template <class Keys, class Values, class KeysOut, class ValuesOut, class Less>
    static cudaError_t SortPairsCopy(void *temporary, size_t &bytes, Keys in, Values values, KeysOut out,
                                     ValuesOut values_out, size_t count, Less less, cudaStream_t = 0,
                                     bool = false) {
        return sim_device_wide(temporary, bytes,
                               [&] { sim_sort(in, out, values, values_out, 0, count, less); });
    }
};

} // namespace cub

#include "cub_device_segments.hpp"
