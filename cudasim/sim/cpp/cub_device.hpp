/* CUB's device-wide functions for host code, with CUB's first call that asks for the size of temporary
 * memory. The host does the work while it may touch the memory of the GPU.
 *
 * CUB does not specify the order in which a reduction combines neighbours. Here they are leaves of a tree, so
 * that sums of many floats are as accurate as on a GPU. */
#pragma once
#include "cub_allocator.hpp"
#include "cub_iterators.hpp"
#include "library_range.hpp"
#include <type_traits>

namespace cub {

template <class Work> cudaError_t sim_device_wide(void *temporary, size_t &bytes, Work work) {
    if (!temporary) {
        bytes = 1;
        return cudaSuccess;
    }
    cudaError_t error = sim_says(0);
    if (error == cudaSuccess) {
        sim_library_range range(false);
        work();
    }
    return error;
}
template <class Iterator> using sim_value_of = typename std::iterator_traits<Iterator>::value_type;
/* CUB's accumulator type of an operation. */
template <class Operation, class Initial, class Input>
using sim_gathered = std::decay_t<decltype(std::declval<Operation &>()(std::declval<Initial>(),
                                                                       std::declval<sim_value_of<Input>>()))>;

/* Reduces the elements [begin, end), at least one. */
template <class T, class Input, class Operation>
T sim_reduced(Input in, size_t begin, size_t end, Operation &operation) {
    enum { LEAF = 32 };
    if (end - begin > LEAF) {
        size_t middle = begin + (end - begin) / 2;
        T left = sim_reduced<T>(in, begin, middle, operation);
        return operation(left, sim_reduced<T>(in, middle, end, operation));
    }
    T result = in[begin];
    for (size_t i = begin + 1; i < end; i++)
        result = operation(result, (T)in[i]);
    return result;
}
template <class T, class Input, class Operation, class Initial>
T sim_reduced(Input in, size_t begin, size_t end, Operation &operation, Initial initial) {
    if (begin == end)
        return initial;
    return operation((T)initial, sim_reduced<T>(in, begin, end, operation));
}
template <class T> constexpr T sim_lowest() {
    if constexpr (std::numeric_limits<T>::has_infinity)
        return -std::numeric_limits<T>::infinity();
    else if constexpr (std::numeric_limits<T>::is_specialized)
        return std::numeric_limits<T>::lowest();
    else
        return (T)-INFINITY; /* floats of 16 bits */
}
template <class T> constexpr T sim_highest() {
    if constexpr (std::numeric_limits<T>::has_infinity)
        return std::numeric_limits<T>::infinity();
    else if constexpr (std::numeric_limits<T>::is_specialized)
        return std::numeric_limits<T>::max();
    else
        return (T)INFINITY;
}
/* The place of the first smallest element, by `less`; `end` if there is none. */
template <class Input, class Less> size_t sim_first(Input in, size_t begin, size_t end, Less less) {
    size_t found = begin;
    for (size_t i = begin + 1; i < end; i++)
        if (less(in[i], in[found]))
            found = i;
    return found;
}
template <class T> struct sim_is_pair : std::false_type {};
template <class A, class B> struct sim_is_pair<KeyValuePair<A, B>> : std::true_type {};
/* Stores an extreme's index and value, in a pair or separately. */
template <class Input, class Output, class Less>
void sim_tell_first(Input in, Output out, size_t begin, size_t end, Less less, sim_value_of<Input> if_none) {
    size_t found = sim_first(in, begin, end, less);
    sim_value_of<Input> value = begin == end ? if_none : (sim_value_of<Input>)in[found];
    using Pair = sim_value_of<Output>;
    if constexpr (sim_is_pair<Pair>::value)
        *out = Pair{(decltype(Pair::key))(begin == end ? 1 : found - begin), (decltype(Pair::value))value};
}
struct sim_less {
    template <class A, class B> bool operator()(const A &a, const B &b) const {
        return a < b;
    }
};
struct sim_equal { /* of what may be of two types */
    template <class A, class B> bool operator()(const A &a, const B &b) const {
        return a == b;
    }
};
struct sim_more {
    template <class A, class B> bool operator()(const A &a, const B &b) const {
        return b < a;
    }
};

struct DeviceReduce {
    template <class Input, class Output, class Operation, class Initial>
    static cudaError_t Reduce(void *temporary, size_t &bytes, Input in, Output out, size_t count,
                              Operation operation, Initial initial, cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            *out = sim_reduced<sim_gathered<Operation, Initial, Input>>(in, 0, count, operation, initial);
        });
    }
    template <class Input, class Output>
    static cudaError_t Sum(void *temporary, size_t &bytes, Input in, Output out, size_t count,
                           cudaStream_t = 0, bool = false) {
        return Reduce(temporary, bytes, in, out, count, cub::Sum(), sim_value_of<Output>{});
    }
    template <class Input, class Output>
    static cudaError_t Min(void *temporary, size_t &bytes, Input in, Output out, size_t count,
                           cudaStream_t = 0, bool = false) {
        return Reduce(temporary, bytes, in, out, count, cub::Min(), sim_highest<sim_value_of<Input>>());
    }
    template <class Input, class Output>
    static cudaError_t Max(void *temporary, size_t &bytes, Input in, Output out, size_t count,
                           cudaStream_t = 0, bool = false) {
        return Reduce(temporary, bytes, in, out, count, cub::Max(), sim_lowest<sim_value_of<Input>>());
    }
    template <class Input, class Output>
    static cudaError_t ArgMin(void *temporary, size_t &bytes, Input in, Output out, size_t count,
                              cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            sim_tell_first(in, out, 0, count, sim_less(), sim_highest<sim_value_of<Input>>());
        });
    }
    template <class Input, class Output>
    static cudaError_t ArgMax(void *temporary, size_t &bytes, Input in, Output out, size_t count,
                              cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            sim_tell_first(in, out, 0, count, sim_more(), sim_lowest<sim_value_of<Input>>());
        });
    }
    template <class Input, class Value, class Index, class = std::enable_if_t<!std::is_integral_v<Index>>>
    static cudaError_t ArgMin(void *temporary, size_t &bytes, Input in, Value value, Index index,
                              size_t count, cudaStream_t = 0) {
        return sim_device_wide(temporary, bytes, [&] {
            size_t found = sim_first(in, 0, count, sim_less());
            *value = in[found], *index = found;
        });
    }
    template <class Input, class Value, class Index, class = std::enable_if_t<!std::is_integral_v<Index>>>
    static cudaError_t ArgMax(void *temporary, size_t &bytes, Input in, Value value, Index index,
                              size_t count, cudaStream_t = 0) {
        return sim_device_wide(temporary, bytes, [&] {
            size_t found = sim_first(in, 0, count, sim_more());
            *value = in[found], *index = found;
        });
    }
    template <class Input, class Output, class Operation, class Transform, class Initial>
    static cudaError_t TransformReduce(void *temporary, size_t &bytes, Input in, Output out, size_t count,
                                       Operation operation, Transform transform, Initial initial,
                                       cudaStream_t = 0) {
        using T = std::decay_t<decltype(transform(in[0]))>;
        TransformInputIterator<T, Transform, Input> transformed(in, transform);
        return Reduce(temporary, bytes, transformed, out, count, operation, initial);
    }
    template <class Keys, class Unique, class Values, class Sums, class Runs, class Operation>
    static cudaError_t ReduceByKey(void *temporary, size_t &bytes, Keys keys, Unique unique, Values values,
                                   Sums sums, Runs runs, Operation operation, size_t count, cudaStream_t = 0,
                                   bool = false) {
        using T = sim_gathered<Operation, sim_value_of<Values>, Values>;
        return sim_device_wide(temporary, bytes, [&] {
            size_t found = 0;
            for (size_t begin = 0, end; begin < count; begin = end, found++) {
                for (end = begin + 1; end < count && keys[end] == keys[begin];)
                    end++;
                unique[found] = keys[begin];
                sums[found] = sim_reduced<T>(values, begin, end, operation);
            }
            *runs = found;
        });
    }
};

struct DeviceSegmentedReduce {
    template <class Input, class Output, class Begins, class Ends, class Operation, class Initial>
    static cudaError_t Reduce(void *temporary, size_t &bytes, Input in, Output out, size_t segments,
                              Begins begins, Ends ends, Operation operation, Initial initial,
                              cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            for (size_t i = 0; i < segments; i++)
                out[i] = sim_reduced<sim_gathered<Operation, Initial, Input>>(in, begins[i], ends[i],
                                                                              operation, initial);
        });
    }
    template <class Input, class Output, class Begins, class Ends>
    static cudaError_t Sum(void *temporary, size_t &bytes, Input in, Output out, size_t segments,
                           Begins begins, Ends ends, cudaStream_t = 0, bool = false) {
        return Reduce(temporary, bytes, in, out, segments, begins, ends, cub::Sum(), sim_value_of<Output>{});
    }
    template <class Input, class Output, class Begins, class Ends>
    static cudaError_t Min(void *temporary, size_t &bytes, Input in, Output out, size_t segments,
                           Begins begins, Ends ends, cudaStream_t = 0, bool = false) {
        return Reduce(temporary, bytes, in, out, segments, begins, ends, cub::Min(),
                      sim_highest<sim_value_of<Input>>());
    }
    template <class Input, class Output, class Begins, class Ends>
    static cudaError_t Max(void *temporary, size_t &bytes, Input in, Output out, size_t segments,
                           Begins begins, Ends ends, cudaStream_t = 0, bool = false) {
        return Reduce(temporary, bytes, in, out, segments, begins, ends, cub::Max(),
                      sim_lowest<sim_value_of<Input>>());
    }
    template <class Input, class Output, class Begins, class Ends>
    static cudaError_t ArgMin(void *temporary, size_t &bytes, Input in, Output out, size_t segments,
                              Begins begins, Ends ends, cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            for (size_t i = 0; i < segments; i++)
                sim_tell_first(in, out + i, begins[i], ends[i], sim_less(),
                               sim_highest<sim_value_of<Input>>());
        });
    }
    template <class Input, class Output, class Begins, class Ends>
    static cudaError_t ArgMax(void *temporary, size_t &bytes, Input in, Output out, size_t segments,
                              Begins begins, Ends ends, cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            for (size_t i = 0; i < segments; i++)
                sim_tell_first(in, out + i, begins[i], ends[i], sim_more(),
                               sim_lowest<sim_value_of<Input>>());
        });
    }
};

/* ---- Scans; with one array less, the result replaces the input ---- */

struct DeviceScan {
    template <class Input, class Output, class Operation, class Initial>
    static cudaError_t ExclusiveScan(void *temporary, size_t &bytes, Input in, Output out,
                                     Operation operation, Initial initial, size_t count, cudaStream_t = 0,
                                     bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            sim_gathered<Operation, Initial, Input> sum = initial;
            for (size_t i = 0; i < count; i++) {
                auto next = operation(sum, in[i]);
                out[i] = sum;
                sum = next;
            }
        });
    }
    template <class Data, class Operation, class Initial>
    static cudaError_t ExclusiveScan(void *temporary, size_t &bytes, Data data, Operation operation,
                                     Initial initial, size_t count, cudaStream_t = 0) {
        return ExclusiveScan(temporary, bytes, data, data, operation, initial, count);
    }
    template <class Input, class Output>
    static cudaError_t ExclusiveSum(void *temporary, size_t &bytes, Input in, Output out, size_t count,
                                    cudaStream_t = 0, bool = false) {
        return ExclusiveScan(temporary, bytes, in, out, cub::Sum(), sim_value_of<Input>{}, count);
    }
    template <class Data>
    static cudaError_t ExclusiveSum(void *temporary, size_t &bytes, Data data, size_t count,
                                    cudaStream_t = 0) {
        return ExclusiveSum(temporary, bytes, data, data, count);
    }
    template <class Input, class Output, class Operation>
    static cudaError_t InclusiveScan(void *temporary, size_t &bytes, Input in, Output out,
                                     Operation operation, size_t count, cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            if (count == 0)
                return;
            sim_gathered<Operation, sim_value_of<Input>, Input> sum = in[0];
            out[0] = sum;
            for (size_t i = 1; i < count; i++)
                out[i] = sum = operation(sum, in[i]);
        });
    }
    template <class Input, class Output, class Operation, class Initial>
    static cudaError_t InclusiveScanInit(void *temporary, size_t &bytes, Input in, Output out,
                                         Operation operation, Initial initial, size_t count,
                                         cudaStream_t = 0) {
        return sim_device_wide(temporary, bytes, [&] {
            sim_gathered<Operation, Initial, Input> sum = initial;
            for (size_t i = 0; i < count; i++)
                out[i] = sum = operation(sum, in[i]);
        });
    }
    template <class Data, class Operation>
    static cudaError_t InclusiveScan(void *temporary, size_t &bytes, Data data, Operation operation,
                                     size_t count, cudaStream_t = 0) {
        return InclusiveScan(temporary, bytes, data, data, operation, count);
    }
    template <class Input, class Output>
    static cudaError_t InclusiveSum(void *temporary, size_t &bytes, Input in, Output out, size_t count,
                                    cudaStream_t = 0, bool = false) {
        return InclusiveScan(temporary, bytes, in, out, cub::Sum(), count);
    }
    template <class Data>
    static cudaError_t InclusiveSum(void *temporary, size_t &bytes, Data data, size_t count,
                                    cudaStream_t = 0) {
        return InclusiveSum(temporary, bytes, data, data, count);
    }
    template <class Keys, class Input, class Output, class Operation, class Initial, class Equal = sim_equal>
    static cudaError_t ExclusiveScanByKey(void *temporary, size_t &bytes, Keys keys, Input in, Output out,
                                          Operation operation, Initial initial, size_t count,
                                          Equal equal = {}, cudaStream_t = 0) {
        return sim_device_wide(temporary, bytes, [&] {
            sim_gathered<Operation, Initial, Input> sum = initial;
            for (size_t i = 0; i < count; i++) {
                if (i > 0 && !equal(keys[i - 1], keys[i]))
                    sum = initial;
                auto next = operation(sum, in[i]);
                out[i] = sum;
                sum = next;
            }
        });
    }
    template <class Keys, class Input, class Output, class Equal = sim_equal>
    static cudaError_t ExclusiveSumByKey(void *temporary, size_t &bytes, Keys keys, Input in, Output out,
                                         size_t count, Equal equal = {}, cudaStream_t = 0) {
        return ExclusiveScanByKey(temporary, bytes, keys, in, out, cub::Sum(), sim_value_of<Input>{}, count,
                                  equal);
    }
    template <class Keys, class Input, class Output, class Operation, class Equal = sim_equal>
    static cudaError_t InclusiveScanByKey(void *temporary, size_t &bytes, Keys keys, Input in, Output out,
                                          Operation operation, size_t count, Equal equal = {},
                                          cudaStream_t = 0) {
        return sim_device_wide(temporary, bytes, [&] {
            sim_gathered<Operation, sim_value_of<Input>, Input> sum{};
            for (size_t i = 0; i < count; i++) {
                bool is_same = i > 0 && equal(keys[i - 1], keys[i]);
                sum = is_same ? operation(sum, in[i]) : (decltype(sum))in[i];
                out[i] = sum;
            }
        });
    }
    template <class Keys, class Input, class Output, class Equal = sim_equal>
    static cudaError_t InclusiveSumByKey(void *temporary, size_t &bytes, Keys keys, Input in, Output out,
                                         size_t count, Equal equal = {}, cudaStream_t = 0) {
        return InclusiveScanByKey(temporary, bytes, keys, in, out, cub::Sum(), count, equal);
    }
};

} // namespace cub

#include "cub_device_select.hpp"
#include "cub_device_sort.hpp"
