/* CUB's device-wide functions that choose elements, find runs of them, and count them (cub_device.hpp). */
#pragma once
#include "cub_device.hpp"
#include <algorithm>

namespace cub {

struct DeviceSelect {
    template <class Input, class Flags, class Output, class Number>
    static cudaError_t Flagged(void *temporary, size_t &bytes, Input in, Flags flags, Output out,
                               Number number, size_t count, cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            size_t found = 0;
            for (size_t i = 0; i < count; i++)
                if (flags[i])
                    out[found++] = in[i];
            *number = found;
        });
    }
    template <class Data, class Flags, class Number>
    static cudaError_t Flagged(void *temporary, size_t &bytes, Data data, Flags flags, Number number,
                               size_t count, cudaStream_t = 0) {
        return Flagged(temporary, bytes, data, flags, data, number, count);
    }
    template <class Input, class Output, class Number, class Condition>
    static cudaError_t If(void *temporary, size_t &bytes, Input in, Output out, Number number, size_t count,
                          Condition condition, cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            size_t found = 0;
            for (size_t i = 0; i < count; i++)
                if (condition(in[i]))
                    out[found++] = in[i];
            *number = found;
        });
    }
    template <class Data, class Number, class Condition,
              class = decltype(std::declval<Condition>()(std::declval<Data>()[0]))>
    static cudaError_t If(void *temporary, size_t &bytes, Data data, Number number, size_t count,
                          Condition condition, cudaStream_t = 0) {
        return If(temporary, bytes, data, data, number, count, condition);
    }
    template <class Input, class Flags, class Output, class Number, class Condition>
    static cudaError_t FlaggedIf(void *temporary, size_t &bytes, Input in, Flags flags, Output out,
                                 Number number, size_t count, Condition condition, cudaStream_t = 0) {
        return sim_device_wide(temporary, bytes, [&] {
            size_t found = 0;
            for (size_t i = 0; i < count; i++)
                if (condition(flags[i]))
                    out[found++] = in[i];
            *number = found;
        });
    }
    template <class Input, class Output, class Number>
    static cudaError_t Unique(void *temporary, size_t &bytes, Input in, Output out, Number number,
                              size_t count, cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            size_t found = 0;
            sim_value_of<Input> last{};
            for (size_t i = 0; i < count; i++) {
                sim_value_of<Input> now = in[i];
                if (i == 0 || !(last == now))
                    out[found++] = now;
                last = now;
            }
            *number = found;
        });
    }
    template <class Keys, class Values, class KeysOut, class ValuesOut, class Number>
    static cudaError_t UniqueByKey(void *temporary, size_t &bytes, Keys keys, Values values, KeysOut keys_out,
                                   ValuesOut values_out, Number number, size_t count, cudaStream_t = 0,
                                   bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            size_t found = 0;
            for (size_t i = 0; i < count; i++)
                if (i == 0 || !(keys[i - 1] == keys[i]))
                    keys_out[found] = keys[i], values_out[found++] = values[i];
            *number = found;
        });
    }
};

/* The chosen elements come first and in order; the others follow from the end. */
struct DevicePartition {
    template <class Input, class Flags, class Output, class Number>
    static cudaError_t Flagged(void *temporary, size_t &bytes, Input in, Flags flags, Output out,
                               Number number, size_t count, cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            size_t found = 0, left = count;
            for (size_t i = 0; i < count; i++)
                out[flags[i] ? found++ : --left] = in[i];
            *number = found;
        });
    }
    template <class Input, class Output, class Number, class Condition>
    static cudaError_t If(void *temporary, size_t &bytes, Input in, Output out, Number number, size_t count,
                          Condition condition, cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            size_t found = 0, left = count;
            for (size_t i = 0; i < count; i++)
                out[condition(in[i]) ? found++ : --left] = in[i];
            *number = found;
        });
    }
    template <class Input, class First, class Second, class Rest, class Number, class IsFirst, class IsSecond>
    static cudaError_t If(void *temporary, size_t &bytes, Input in, First first, Second second, Rest rest,
                          Number number, size_t count, IsFirst is_first, IsSecond is_second,
                          cudaStream_t = 0) {
        return sim_device_wide(temporary, bytes, [&] {
            size_t firsts = 0, seconds = 0, left = 0;
            for (size_t i = 0; i < count; i++)
                if (is_first(in[i]))
                    first[firsts++] = in[i];
                else if (is_second(in[i]))
                    second[seconds++] = in[i];
                else
                    rest[left++] = in[i];
            number[0] = firsts, number[1] = seconds;
        });
    }
};

struct DeviceRunLengthEncode {
    template <class Input, class Unique, class Lengths, class Runs>
    static cudaError_t Encode(void *temporary, size_t &bytes, Input in, Unique unique, Lengths lengths,
                              Runs runs, size_t count, cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            size_t found = 0;
            for (size_t begin = 0, end; begin < count; begin = end, found++) {
                for (end = begin + 1; end < count && in[end] == in[begin];)
                    end++;
                unique[found] = in[begin], lengths[found] = end - begin;
            }
            *runs = found;
        });
    }
    template <class Input, class Begins, class Lengths, class Runs>
    static cudaError_t NonTrivialRuns(void *temporary, size_t &bytes, Input in, Begins begins,
                                      Lengths lengths, Runs runs, size_t count, cudaStream_t = 0,
                                      bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            size_t found = 0;
            for (size_t begin = 0, end; begin < count; begin = end) {
                for (end = begin + 1; end < count && in[end] == in[begin];)
                    end++;
                if (end - begin > 1)
                    begins[found] = begin, lengths[found++] = end - begin;
            }
            *runs = found;
        });
    }
};

struct DeviceHistogram {
    template <class Samples, class Counter, class Level>
    static cudaError_t HistogramEven(void *temporary, size_t &bytes, Samples samples, Counter *histogram,
                                     int levels, Level lower, Level upper, size_t count, cudaStream_t = 0,
                                     bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            sim_clear(histogram, levels);
            for (size_t i = 0; i < count; i++)
                sim_count_even(samples[i], histogram, levels, lower, upper);
        });
    }
    template <class Samples, class Counter, class Level>
    static cudaError_t HistogramRange(void *temporary, size_t &bytes, Samples samples, Counter *histogram,
                                      int count_of_levels, const Level *levels, size_t count,
                                      cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            sim_clear(histogram, count_of_levels);
            for (size_t i = 0; i < count; i++) {
                auto sample = samples[i];
                const Level *above = std::upper_bound(levels, levels + count_of_levels, sample);
                if (above != levels && above != levels + count_of_levels)
                    histogram[above - levels - 1]++;
            }
        });
    }
    template <int Channels, int Active, class Samples, class Counter, class Level>
    static cudaError_t MultiHistogramEven(void *temporary, size_t &bytes, Samples samples,
                                          Counter *const histogram[Active], const int levels[Active],
                                          const Level lower[Active], const Level upper[Active], size_t pixels,
                                          cudaStream_t = 0, bool = false) {
        return sim_device_wide(temporary, bytes, [&] {
            for (int channel = 0; channel < Active; channel++)
                sim_clear(histogram[channel], levels[channel]);
            for (size_t i = 0; i < pixels * Channels; i++)
                if (int channel = (int)(i % Channels); channel < Active)
                    sim_count_even(samples[i], histogram[channel], levels[channel], lower[channel],
                                   upper[channel]);
        });
    }

  private:
    template <class Counter> static void sim_clear(Counter *histogram, int levels) {
        for (int i = 0; i + 1 < levels; i++)
            histogram[i] = 0;
    }
    template <class Sample, class Counter, class Level>
    static void sim_count_even(Sample sample, Counter *histogram, int levels, Level lower, Level upper) {
        if (!(sample >= lower && sample < upper))
            return;
        size_t bin;
        if constexpr (std::is_integral_v<Level>)
            bin = (size_t)((unsigned __int128)(sample - lower) * (unsigned)(levels - 1) /
                           (unsigned long long)(upper - lower));
        else
            bin = (size_t)((sample - lower) * ((Level)(levels - 1) / (upper - lower)));
        histogram[bin < (size_t)levels - 1 ? bin : (size_t)levels - 2]++;
    }
};

struct DeviceFor {
    template <class Shape, class Operation>
    static cudaError_t Bulk(Shape count, Operation operation, cudaStream_t = 0) {
        return sim_now([&] {
            for (Shape i = 0; i < count; i++)
                operation(i);
        });
    }
    template <class Iterator, class Operation>
    static cudaError_t ForEach(Iterator begin, Iterator end, Operation operation, cudaStream_t = 0) {
        return ForEachN(begin, end - begin, operation);
    }
    template <class Iterator, class Operation>
    static cudaError_t ForEachN(Iterator begin, size_t count, Operation operation, cudaStream_t = 0) {
        return sim_now([&] {
            for (size_t i = 0; i < count; i++)
                operation(begin[i]);
        });
    }

  private:
    template <class Work> static cudaError_t sim_now(Work work) {
        size_t unused;
        return sim_device_wide(&unused, unused, work);
    }
};

struct DeviceTransform {
    template <class Input, class Output, class Operation>
    static cudaError_t Transform(Input in, Output out, size_t count, Operation operation, cudaStream_t = 0) {
        return DeviceFor::Bulk(count, [&](size_t i) { out[i] = operation(in[i]); });
    }
};

struct DeviceAdjacentDifference {
    template <class Input, class Output, class Operation>
    static cudaError_t SubtractLeftCopy(void *temporary, size_t &bytes, Input in, Output out, size_t count,
                                        Operation operation, cudaStream_t = 0) {
        return sim_device_wide(temporary, bytes, [&] {
            for (size_t i = count; i-- > 0;)
                out[i] = i == 0 ? in[0] : (sim_value_of<Input>)operation(in[i], in[i - 1]);
        });
    }
};

} // namespace cub
