/* What the microbenchmarks of a card share. A program of all of them prints a line for each figure: its name,
 * and what each of several launches gave. cudasim/predicting/measuring.py takes the medians and writes the
 * card. */
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call) check(call, #call)

inline void check(cudaError_t error, const char *call) {
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
        exit(1);
    }
}

struct Machine {
    int multiprocessors, capability;
    size_t l2_bytes, memory_bytes;
    bool is_brief;   /* only to see that everything runs: few rounds, small arrays */
    int repetitions; /* launches for each figure */
};

/* Memory on the GPU that is given back at the end of its scope. */
template <typename T> struct Memory {
    T *data = nullptr;
    explicit Memory(size_t count) {
        CHECK(cudaMalloc((void **)&data, count * sizeof(T)));
        CHECK(cudaMemset(data, 0, count * sizeof(T)));
    }
    ~Memory() {
        cudaFree(data);
    }
    Memory(const Memory &) = delete;
    std::vector<T> read(size_t count) const {
        std::vector<T> values(count);
        CHECK(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }
};

template <typename T> double median(std::vector<T> values) {
    std::sort(values.begin(), values.end());
    return (double)values[values.size() / 2];
}

inline void print(const char *figure, const std::vector<double> &values) {
    printf("%s", figure);
    for (double value : values)
        printf(" %.9g", value);
    printf("\n");
}

/* Seconds of the GPU between two events around what `launch` starts. The first launch brings the kernel to
 * the GPU and is left out. */
template <typename Launch> std::vector<double> seconds_of(const Machine &machine, Launch launch) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    std::vector<double> found;
    for (int i = 0; i <= machine.repetitions; i++) {
        CHECK(cudaEventRecord(begin));
        launch();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaGetLastError());
        float milliseconds = 0;
        CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        if (i > 0)
            found.push_back(1e-3 * milliseconds);
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return found;
}

void measure_instructions(const Machine &machine);
void measure_latencies(const Machine &machine);
void measure_bandwidths(const Machine &machine);
