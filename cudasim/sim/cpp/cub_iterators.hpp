/* CUB's iterators, and the types that its device-wide functions take and return. CUB has moved most of them
 * to Thrust; programs still use these names. */
#pragma once
#include "cub_block.hpp"
#include <cstddef>
#include <iterator>

namespace cub {

/* An iterator that computes each element on demand. Self has `Value at(ptrdiff_t) const`. */
template <class Self, class Value> struct sim_made {
    using value_type = Value;
    using reference = Value;
    using pointer = Value *;
    using difference_type = ptrdiff_t;
    using iterator_category = std::random_access_iterator_tag;

    ptrdiff_t index = 0;

    Value operator*() const {
        return self().at(index);
    }
    Value operator[](ptrdiff_t more) const {
        return self().at(index + more);
    }
    Self &operator+=(ptrdiff_t more) {
        index += more;
        return (Self &)*this;
    }
    Self operator+(ptrdiff_t more) const {
        Self moved = self();
        return moved += more;
    }
    Self operator-(ptrdiff_t less) const {
        return *this + -less;
    }
    ptrdiff_t operator-(const Self &other) const {
        return index - other.index;
    }
    Self &operator++() {
        return *this += 1;
    }
    Self operator++(int) {
        Self before = self();
        index++;
        return before;
    }
    bool operator==(const Self &other) const {
        return index == other.index;
    }
    bool operator!=(const Self &other) const {
        return index != other.index;
    }

  private:
    const Self &self() const {
        return (const Self &)*this;
    }
};

template <class T, class Offset = ptrdiff_t>
struct CountingInputIterator : sim_made<CountingInputIterator<T, Offset>, T> {
    T first;
    CountingInputIterator(T first) : first(first) {}
    T at(ptrdiff_t index) const {
        return (T)(first + index);
    }
};
template <class T, class Offset = ptrdiff_t>
struct ConstantInputIterator : sim_made<ConstantInputIterator<T, Offset>, T> {
    T value;
    ConstantInputIterator(T value, Offset = 0) : value(value) {}
    T at(ptrdiff_t) const {
        return value;
    }
};
template <class T, class Operation, class Input, class Offset = ptrdiff_t>
struct TransformInputIterator : sim_made<TransformInputIterator<T, Operation, Input, Offset>, T> {
    Input input;
    Operation operation;
    TransformInputIterator(Input input, Operation operation) : input(input), operation(operation) {}
    T at(ptrdiff_t index) const {
        return operation(input[index]);
    }
};
template <class Input, class Offset = ptrdiff_t, class T = typename std::iterator_traits<Input>::value_type>
struct ArgIndexInputIterator : sim_made<ArgIndexInputIterator<Input, Offset, T>, KeyValuePair<Offset, T>> {
    Input input;
    ArgIndexInputIterator(Input input) : input(input) {}
    KeyValuePair<Offset, T> at(ptrdiff_t index) const {
        return {(Offset)index, (T)input[index]};
    }
};
enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };
template <CacheLoadModifier Modifier, class T, class Offset = ptrdiff_t>
struct CacheModifiedInputIterator : sim_made<CacheModifiedInputIterator<Modifier, T, Offset>, T> {
    const T *memory;
    CacheModifiedInputIterator(const T *memory) : memory(memory) {}
    T at(ptrdiff_t index) const {
        return memory[index];
    }
};
template <class Offset = ptrdiff_t>
struct DiscardOutputIterator : sim_made<DiscardOutputIterator<Offset>, int &> {
    int &at(ptrdiff_t) const {
        static thread_local int nobody_reads;
        return nobody_reads;
    }
};

/* Two arrays: a sort leaves its result in one and makes it the current one. */
template <class T> struct DoubleBuffer {
    T *d_buffers[2] = {};
    int selector = 0;
    DoubleBuffer() = default;
    DoubleBuffer(T *current, T *alternate) : d_buffers{current, alternate} {}
    T *Current() {
        return d_buffers[selector];
    }
    T *Alternate() {
        return d_buffers[selector ^ 1];
    }
};

} // namespace cub
