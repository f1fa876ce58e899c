/* CUB's collectives of a block and of a warp: reductions, scans, loads and stores, sorting by radix.
 *
 * They use shuffles and shared memory as CUB does; the order of accesses may differ from CUB's. */
#pragma once
#include "cooperative.hpp"
#include "cuda_bf16.h" /* CUB includes these */
#include "cuda_fp16.h"
#include "cuda_fp8.h"
#include "thrust/functional.h"

namespace cub {

/* CUB's result type for two types: a long sums bools. */
struct Sum {
    template <class T, class U> std::common_type_t<T, U> operator()(const T &a, const U &b) const {
        return a + b;
    }
};
struct Max {
    template <class T, class U> std::common_type_t<T, U> operator()(const T &a, const U &b) const {
        return a < b ? b : a;
    }
};
struct Min {
    template <class T, class U> std::common_type_t<T, U> operator()(const T &a, const U &b) const {
        return b < a ? b : a;
    }
};
enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
    BLOCK_REDUCE_RAKING,
    BLOCK_REDUCE_WARP_REDUCTIONS
};
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT,
    BLOCK_LOAD_STRIPED,
    BLOCK_LOAD_VECTORIZE,
    BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT,
    BLOCK_STORE_STRIPED,
    BLOCK_STORE_VECTORIZE,
    BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE
};

template <class A, class B> struct KeyValuePair {
    using Key = A;
    using Value = B;
    A key;
    B value;
    KeyValuePair() = default;
    KeyValuePair(const A &key, const B &value) : key(key), value(value) {}
};
struct ArgMax { /* of equal ones the first */
    template <class Pair> Pair operator()(const Pair &a, const Pair &b) const {
        return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class Pair> Pair operator()(const Pair &a, const Pair &b) const {
        return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
struct Equality {
    template <class T> bool operator()(const T &a, const T &b) const {
        return a == b;
    }
};
struct Inequality {
    template <class T> bool operator()(const T &a, const T &b) const {
        return !(a == b);
    }
};

/* ---- Warp ---- */

template <class T, int Threads = 32> struct WarpReduce {
    struct TempStorage {
        char unused;
    };
    WarpReduce(TempStorage &) {}
    template <class Operation> T Reduce(T value, Operation operation, int valid = Threads, SIM_CALLED_FROM) {
        unsigned mask = cooperative_groups::sim_tile_mask(Threads);
        int rank = (int)(cooperative_groups::sim_lane() % Threads);
        for (int step = Threads / 2; step > 0; step /= 2) {
            T other = sim_shuffled(SIM_CALLER, mask, value, SIM_SHUFFLE_DOWN, step, Threads);
            if (rank + step < valid && mask >> (cooperative_groups::sim_lane() + (unsigned)step) & 1)
                value = operation(value, other);
        }
        return value;
    }
    T Sum(T value, int valid = Threads, SIM_CALLED_FROM) {
        return Reduce(value, cub::Sum(), valid, sim_file, sim_line);
    }
};

template <class T, int Threads = 32> struct WarpScan {
    struct TempStorage {
        char unused;
    };
    WarpScan(TempStorage &) {}
    template <class Operation> void InclusiveScan(T value, T &result, Operation operation, SIM_CALLED_FROM) {
        unsigned mask = cooperative_groups::sim_tile_mask(Threads);
        int rank = (int)(cooperative_groups::sim_lane() % Threads);
        for (int step = 1; step < Threads; step *= 2) {
            T other = sim_shuffled(SIM_CALLER, mask, value, SIM_SHUFFLE_UP, step, Threads);
            if (rank >= step)
                value = operation(other, value);
        }
        result = value;
    }
    void InclusiveSum(T value, T &result, SIM_CALLED_FROM) {
        InclusiveScan(value, result, Sum(), sim_file, sim_line);
    }
    void ExclusiveSum(T value, T &result, SIM_CALLED_FROM) {
        T inclusive;
        InclusiveScan(value, inclusive, Sum(), sim_file, sim_line);
        result = inclusive - value;
    }
    void ExclusiveSum(T value, T &result, T &total, SIM_CALLED_FROM) {
        ExclusiveSum(value, result, sim_file, sim_line);
        total = sim_shuffled(SIM_CALLER, cooperative_groups::sim_tile_mask(Threads), (T)(result + value),
                             SIM_SHUFFLE_INDEX, Threads - 1, Threads);
    }
};

/* ---- Block: each thread puts its value into shared memory, and every thread reads what it needs ---- */

template <class T, int Threads, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int ThreadsY = 1,
          int ThreadsZ = 1>
struct BlockReduce {
    enum { SIZE = Threads * ThreadsY * ThreadsZ };
    struct TempStorage {
        T value[SIZE];
    };
    TempStorage &shared;
    BlockReduce(TempStorage &shared) : shared(shared) {}
    template <class Operation> T Reduce(T value, Operation operation, int valid = SIZE, SIM_CALLED_FROM) {
        int rank = (int)cooperative_groups::sim_rank_in_block();
        shared.value[rank] = value;
        for (int step = 1; step < SIZE; step *= 2) {
            sim_barrier(SIM_CALLER, 0);
            if (rank % (2 * step) == 0 && rank + step < valid)
                shared.value[rank] = operation(shared.value[rank], shared.value[rank + step]);
        }
        return shared.value[rank];
    }
    template <class Operation, int Items> T Reduce(T (&items)[Items], Operation operation, SIM_CALLED_FROM) {
        T value = items[0];
        for (int i = 1; i < Items; i++)
            value = operation(value, items[i]);
        return Reduce(value, operation, (int)SIZE, sim_file, sim_line);
    }
    T Sum(T value, int valid = SIZE, SIM_CALLED_FROM) {
        return Reduce(value, cub::Sum(), valid, sim_file, sim_line);
    }
    template <int Items> T Sum(T (&items)[Items], SIM_CALLED_FROM) {
        return Reduce(items, cub::Sum(), sim_file, sim_line);
    }
};

template <class T, int Threads, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int ThreadsY = 1, int ThreadsZ = 1>
struct BlockScan {
    enum { SIZE = Threads * ThreadsY * ThreadsZ };
    struct TempStorage {
        T value[SIZE], prefix;
    };
    TempStorage &shared;
    BlockScan(TempStorage &shared) : shared(shared) {}
    template <class Operation>
    void InclusiveScan(T value, T &result, Operation operation, T &total, SIM_CALLED_FROM) {
        int rank = (int)cooperative_groups::sim_rank_in_block();
        shared.value[rank] = value;
        for (int step = 1; step < SIZE; step *= 2) {
            sim_barrier(SIM_CALLER, 0);
            T other = rank >= step ? shared.value[rank - step] : T();
            sim_barrier(SIM_CALLER, 0);
            if (rank >= step)
                shared.value[rank] = value = operation(other, value);
        }
        sim_barrier(SIM_CALLER, 0);
        result = value;
        total = shared.value[SIZE - 1];
    }
    template <class Operation> void InclusiveScan(T value, T &result, Operation operation, SIM_CALLED_FROM) {
        T total;
        InclusiveScan(value, result, operation, total, sim_file, sim_line);
    }
    void InclusiveSum(T value, T &result, SIM_CALLED_FROM) {
        InclusiveScan(value, result, Sum(), sim_file, sim_line);
    }
    void InclusiveSum(T value, T &result, T &total, SIM_CALLED_FROM) {
        InclusiveScan(value, result, Sum(), total, sim_file, sim_line);
    }
    template <class Operation>
    void ExclusiveScan(T value, T &result, T initial, Operation operation, SIM_CALLED_FROM) {
        T inclusive;
        InclusiveScan(value, inclusive, operation, sim_file, sim_line);
        int rank = (int)cooperative_groups::sim_rank_in_block();
        result = rank == 0 ? initial : operation(initial, shared.value[rank - 1]);
    }
    void ExclusiveSum(T value, T &result, T &total, SIM_CALLED_FROM) {
        T inclusive;
        InclusiveScan(value, inclusive, Sum(), total, sim_file, sim_line);
        result = inclusive - value;
    }
    void ExclusiveSum(T value, T &result, SIM_CALLED_FROM) {
        T total;
        ExclusiveSum(value, result, total, sim_file, sim_line);
    }
    template <int Items>
    void ExclusiveSum(T (&items)[Items], T (&results)[Items], T &total, SIM_CALLED_FROM) {
        T own{}, before;
        for (T item : items)
            own += item;
        ExclusiveSum(own, before, total, sim_file, sim_line);
        for (int i = 0; i < Items; i++) {
            T item = items[i];
            results[i] = before;
            before += item;
        }
    }
    template <int Items> void ExclusiveSum(T (&items)[Items], T (&results)[Items], SIM_CALLED_FROM) {
        T total;
        ExclusiveSum(items, results, total, sim_file, sim_line);
    }
    template <int Items> void InclusiveSum(T (&items)[Items], T (&results)[Items], SIM_CALLED_FROM) {
        T before[Items], copy[Items];
        for (int i = 0; i < Items; i++)
            copy[i] = items[i];
        ExclusiveSum(copy, before, sim_file, sim_line);
        for (int i = 0; i < Items; i++)
            results[i] = before[i] + copy[i];
    }
    template <int Items, class Operation>
    void InclusiveScan(T (&items)[Items], T (&results)[Items], Operation operation, T &total,
                       SIM_CALLED_FROM) {
        T own[Items] = {items[0]}, inclusive;
        for (int i = 1; i < Items; i++)
            own[i] = operation(own[i - 1], items[i]);
        InclusiveScan(own[Items - 1], inclusive, operation, total, sim_file, sim_line);
        int rank = (int)cooperative_groups::sim_rank_in_block();
        for (int i = 0; i < Items; i++)
            results[i] = rank == 0 ? own[i] : operation(shared.value[rank - 1], own[i]);
    }
    template <int Items, class Operation>
    void InclusiveScan(T (&items)[Items], T (&results)[Items], Operation operation, SIM_CALLED_FROM) {
        T total;
        InclusiveScan(items, results, operation, total, sim_file, sim_line);
    }
    template <int Items, class Operation>
    void ExclusiveScan(T (&items)[Items], T (&results)[Items], T initial, Operation operation,
                       SIM_CALLED_FROM) {
        T inclusive[Items], total;
        InclusiveScan(items, inclusive, operation, total, sim_file, sim_line);
        int rank = (int)cooperative_groups::sim_rank_in_block();
        T before = rank == 0 ? initial : operation(initial, shared.value[rank - 1]);
        for (int i = 0; i < Items; i++)
            results[i] = i == 0 ? before : operation(initial, inclusive[i - 1]);
    }

    /* ---- With a function that takes the block's total and returns what comes before the block ---- */

    /* All lanes of the first warp call it, and the first lane's result counts. */
    template <class Callback> T sim_prefix(T total, Callback &callback, SIM_CALLED_FROM) {
        int rank = (int)cooperative_groups::sim_rank_in_block();
        if (rank < 32) {
            T prefix = callback(total);
            if (rank == 0)
                shared.prefix = prefix;
        }
        sim_barrier(SIM_CALLER, 0);
        return shared.prefix;
    }
    template <class Operation, class Callback, class = std::enable_if_t<std::is_invocable_v<Callback &, T>>>
    void InclusiveScan(T value, T &result, Operation operation, Callback &callback, SIM_CALLED_FROM) {
        T items[1] = {value}, results[1];
        InclusiveScan(items, results, operation, callback, sim_file, sim_line);
        result = results[0];
    }
    template <class Operation, class Callback, class = std::enable_if_t<std::is_invocable_v<Callback &, T>>>
    void ExclusiveScan(T value, T &result, Operation operation, Callback &callback, SIM_CALLED_FROM) {
        T items[1] = {value}, results[1];
        ExclusiveScan(items, results, operation, callback, sim_file, sim_line);
        result = results[0];
    }
    template <class Callback, class = std::enable_if_t<std::is_invocable_v<Callback &, T>>>
    void InclusiveSum(T value, T &result, Callback &callback, SIM_CALLED_FROM) {
        InclusiveScan(value, result, Sum(), callback, sim_file, sim_line);
    }
    template <class Callback, class = std::enable_if_t<std::is_invocable_v<Callback &, T>>>
    void ExclusiveSum(T value, T &result, Callback &callback, SIM_CALLED_FROM) {
        ExclusiveScan(value, result, Sum(), callback, sim_file, sim_line);
    }
    template <int Items, class Operation, class Callback,
              class = std::enable_if_t<std::is_invocable_v<Callback &, T>>>
    void InclusiveScan(T (&items)[Items], T (&results)[Items], Operation operation, Callback &callback,
                       SIM_CALLED_FROM) {
        T total;
        InclusiveScan(items, results, operation, total, sim_file, sim_line);
        T prefix = sim_prefix(total, callback, sim_file, sim_line);
        for (T &result : results)
            result = operation(prefix, result);
    }
    template <int Items, class Operation, class Callback,
              class = std::enable_if_t<std::is_invocable_v<Callback &, T>>>
    void ExclusiveScan(T (&items)[Items], T (&results)[Items], Operation operation, Callback &callback,
                       SIM_CALLED_FROM) {
        T inclusive[Items], total;
        InclusiveScan(items, inclusive, operation, total, sim_file, sim_line);
        T prefix = sim_prefix(total, callback, sim_file, sim_line);
        int rank = (int)cooperative_groups::sim_rank_in_block();
        results[0] = rank == 0 ? prefix : operation(prefix, shared.value[rank - 1]);
        for (int i = 1; i < Items; i++)
            results[i] = operation(prefix, inclusive[i - 1]);
    }
    template <int Items, class Callback, class = std::enable_if_t<std::is_invocable_v<Callback &, T>>>
    void InclusiveSum(T (&items)[Items], T (&results)[Items], Callback &callback, SIM_CALLED_FROM) {
        InclusiveScan(items, results, Sum(), callback, sim_file, sim_line);
    }
    template <int Items, class Callback, class = std::enable_if_t<std::is_invocable_v<Callback &, T>>>
    void ExclusiveSum(T (&items)[Items], T (&results)[Items], Callback &callback, SIM_CALLED_FROM) {
        ExclusiveScan(items, results, Sum(), callback, sim_file, sim_line);
    }
};

template <class T, int Threads, int Items, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT>
struct BlockLoad {
    struct TempStorage {
        char unused;
    };
    BlockLoad() {}
    BlockLoad(TempStorage &) {}
    template <class From>
    void Load(From from, T (&items)[Items], int valid = Threads * Items, T other = T()) {
        for (int i = 0; i < Items; i++) {
            int rank = (int)cooperative_groups::sim_rank_in_block();
            int place = Algorithm == BLOCK_LOAD_STRIPED ? i * Threads + rank : rank * Items + i;
            items[i] = place < valid ? (T)from[place] : other;
        }
    }
};
template <class T, int Threads, int Items, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT>
struct BlockStore {
    struct TempStorage {
        char unused;
    };
    BlockStore() {}
    BlockStore(TempStorage &) {}
    template <class To> void Store(To to, T (&items)[Items], int valid = Threads * Items) {
        for (int i = 0; i < Items; i++) {
            int rank = (int)cooperative_groups::sim_rank_in_block();
            int place = Algorithm == BLOCK_STORE_STRIPED ? i * Threads + rank : rank * Items + i;
            if (place < valid)
                to[place] = items[i];
        }
    }
};

/* Applies an operation to each item and its neighbour, which may belong to the next or the previous
   thread. */
template <class T, int Threads, int ThreadsY = 1, int ThreadsZ = 1> struct BlockAdjacentDifference {
    enum { SIZE = Threads * ThreadsY * ThreadsZ };
    struct TempStorage {
        T value[SIZE];
    };
    TempStorage &shared;
    BlockAdjacentDifference(TempStorage &shared) : shared(shared) {}
    template <class Item, int Items, class Result, class Operation>
    void SubtractLeft(Item (&items)[Items], Result (&results)[Items], Operation operation, SIM_CALLED_FROM) {
        subtract<-1>(items, results, operation, (T *)nullptr, sim_file, sim_line);
    }
    template <class Item, int Items, class Result, class Operation>
    void SubtractLeft(Item (&items)[Items], Result (&results)[Items], Operation operation, T before_all,
                      SIM_CALLED_FROM) {
        subtract<-1>(items, results, operation, &before_all, sim_file, sim_line);
    }
    template <class Item, int Items, class Result, class Operation>
    void SubtractRight(Item (&items)[Items], Result (&results)[Items], Operation operation, SIM_CALLED_FROM) {
        subtract<1>(items, results, operation, (T *)nullptr, sim_file, sim_line);
    }
    template <class Item, int Items, class Result, class Operation>
    void SubtractRight(Item (&items)[Items], Result (&results)[Items], Operation operation, T after_all,
                       SIM_CALLED_FROM) {
        subtract<1>(items, results, operation, &after_all, sim_file, sim_line);
    }
    /* beyond: the neighbour of the block's outermost item; without one that item stays as it is. Results may
     * replace the items. */
    template <int Step, class Item, int Items, class Result, class Operation>
    void subtract(Item (&items)[Items], Result (&results)[Items], Operation operation, T *beyond,
                  const char *sim_file, int sim_line) {
        int rank = (int)cooperative_groups::sim_rank_in_block();
        const int first = Step < 0 ? 0 : Items - 1, last = Items - 1 - first, end = Step < 0 ? 0 : SIZE - 1;
        shared.value[rank] = items[last];
        sim_barrier(SIM_CALLER, 0);
        for (int i = last; i != first; i += Step)
            results[i] = operation(items[i], items[i + Step]);
        if (rank != end)
            results[first] = operation(items[first], shared.value[rank + Step]);
        else
            results[first] = beyond ? operation(items[first], *beyond) : (Result)items[first];
    }
};

/* Each key's place is the number of keys before it, which is simpler than CUB's sort digit by digit. */
template <class Key, int Threads, int Items, class Value = char> struct BlockRadixSort {
    struct TempStorage {
        Key key[Threads * Items];
        Value value[Threads * Items];
    };
    TempStorage &shared;
    BlockRadixSort(TempStorage &shared) : shared(shared) {}
    template <class Before>
    void sort(Key (&keys)[Items], Value *values, Before before, const char *sim_file, int sim_line) {
        int rank = (int)cooperative_groups::sim_rank_in_block(), places[Items];
        for (int i = 0; i < Items; i++)
            shared.key[rank * Items + i] = keys[i];
        sim_barrier(SIM_CALLER, 0);
        for (int i = 0; i < Items; i++) {
            places[i] = 0;
            for (int j = 0; j < Threads * Items; j++)
                places[i] += before(shared.key[j], keys[i]) ||
                             (!before(keys[i], shared.key[j]) && j < rank * Items + i);
        }
        sim_barrier(SIM_CALLER, 0);
        for (int i = 0; i < Items; i++) {
            shared.key[places[i]] = keys[i];
            if (values)
                shared.value[places[i]] = values[i];
        }
        sim_barrier(SIM_CALLER, 0);
        for (int i = 0; i < Items; i++) {
            keys[i] = shared.key[rank * Items + i];
            if (values)
                values[i] = shared.value[rank * Items + i];
        }
    }
    void Sort(Key (&keys)[Items], SIM_CALLED_FROM) {
        sort(keys, nullptr, [](Key a, Key b) { return a < b; }, sim_file, sim_line);
    }
    void SortDescending(Key (&keys)[Items], SIM_CALLED_FROM) {
        sort(keys, nullptr, [](Key a, Key b) { return b < a; }, sim_file, sim_line);
    }
    void Sort(Key (&keys)[Items], Value (&values)[Items], SIM_CALLED_FROM) {
        sort(keys, values, [](Key a, Key b) { return a < b; }, sim_file, sim_line);
    }
};

} /* namespace cub */
