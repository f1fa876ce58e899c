/* A launch from beginning to end: checks it, runs its blocks, and reports the outcome. */
#define _GNU_SOURCE
#include "crash.h"
#include "machine.h"
#include "watch.h"
#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif

struct sim_launch sim_launch_now;

static _Thread_local sim_report last_report;

/* ---- OS threads ---- */

static atomic_int threads_set;                /* 0: not set */
static _Thread_local int threads_of_launches; /* that this OS thread makes; 0: as many as those of others */

static int threads_by_default(void) {
    const char *wanted = getenv("CUDASIM_THREADS");
    if (wanted && atoi(wanted) > 0)
        return atoi(wanted);
#ifdef __linux__
    cpu_set_t usable; /* which may be fewer than the machine has */
    if (sched_getaffinity(0, sizeof usable, &usable) == 0)
        return CPU_COUNT(&usable);
#endif
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > 0 ? (int)processors : 1;
}

void sim_set_threads(int threads) {
    atomic_store(&threads_set, threads > 0 ? threads : 0);
}

void sim_set_own_threads(int threads) {
    threads_of_launches = threads > 0 ? threads : 0;
}

int sim_get_threads(void) {
    int threads = threads_of_launches > 0 ? threads_of_launches : atomic_load(&threads_set);
    return threads > 0 ? threads : threads_by_default();
}

/* ---- A sample of the blocks ---- */

static _Thread_local struct {
    const unsigned long long *blocks, *counts; /* of the next launch */
    uint64_t launches;
} chosen;

void sim_choose_blocks(const unsigned long long *blocks, const unsigned long long *counts,
                       unsigned long long launches) {
    chosen.blocks = launches ? blocks : NULL;
    chosen.counts = counts;
    chosen.launches = launches;
}

static void take_chosen(struct sim_launch *launch) {
    launch->chosen = chosen.blocks;
    launch->blocks = chosen.blocks ? *chosen.counts : launch->grid_blocks;
    if (chosen.blocks && chosen.launches > 1) {
        chosen.blocks += *chosen.counts++;
        chosen.launches--;
    }
}

/* ---- Checks ---- */

/* The limits of every GPU since compute capability 3.0; shared memory is that of 9.0. */
enum {
    MAX_BLOCK_Z = 64,
    MAX_GRID_X = 0x7fffffff,
    MAX_GRID_YZ = 65535,
};

static cudaError_t check(const struct sim_launch *launch, sim_report *report) {
    dim3 grid = launch->grid, block = launch->block;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
        sim_report_launch(report, SIM_INVALID_LAUNCH,
                          "grid (%u, %u, %u) and block (%u, %u, %u) may have no 0 in them (in C, dim3 {n} "
                          "leaves y and z 0; write {n, 1, 1})",
                          grid.x, grid.y, grid.z, block.x, block.y, block.z);
        return cudaErrorInvalidConfiguration;
    }
    if (grid.x > MAX_GRID_X || grid.y > MAX_GRID_YZ || grid.z > MAX_GRID_YZ) {
        sim_report_launch(report, SIM_INVALID_LAUNCH, "grid (%u, %u, %u) is larger than (%u, %u, %u)", grid.x,
                          grid.y, grid.z, MAX_GRID_X, MAX_GRID_YZ, MAX_GRID_YZ);
        return cudaErrorInvalidConfiguration;
    }
    uint64_t threads = (uint64_t)block.x * block.y; /* cannot overflow; times z it could */
    if (block.x > SIM_MAX_BLOCK_THREADS || block.y > SIM_MAX_BLOCK_THREADS || block.z > MAX_BLOCK_Z ||
        threads * block.z > SIM_MAX_BLOCK_THREADS) {
        sim_report_launch(report, SIM_INVALID_LAUNCH,
                          "block (%u, %u, %u) is larger than %d threads, or its z than %d", block.x, block.y,
                          block.z, SIM_MAX_BLOCK_THREADS, MAX_BLOCK_Z);
        return cudaErrorInvalidConfiguration;
    }
    enum { MOST_CLUSTER = 16 }; /* and for a cluster of more than 8 a kernel has to ask */
    if (launch->cluster == 0 || launch->cluster > MOST_CLUSTER || grid.x % launch->cluster) {
        sim_report_launch(report, SIM_INVALID_LAUNCH,
                          "%u blocks along x cannot be cut into clusters of %u; a cluster has 1 to %d blocks",
                          grid.x, launch->cluster, MOST_CLUSTER);
        return cudaErrorInvalidConfiguration;
    }
    if (launch->dynamic_shared_bytes > SIM_MAX_SHARED_BYTES) {
        sim_report_launch(report, SIM_INVALID_LAUNCH, "%zu bytes of dynamic shared memory are more than %d",
                          launch->dynamic_shared_bytes, SIM_MAX_SHARED_BYTES);
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}

/* ---- The launch ---- */

/* Small enough that the workers end together, large enough that they rarely meet. */
static uint64_t blocks_at_a_time(uint64_t blocks, unsigned workers) {
    enum { TURNS_PER_WORKER = 16, MOST_BLOCKS = 64 };
    uint64_t share = blocks / (TURNS_PER_WORKER * (uint64_t)workers);
    return share < 1 ? 1 : share > MOST_BLOCKS ? MOST_BLOCKS : share;
}

static cudaError_t run(struct sim_launch *launch) {
    unsigned workers = (unsigned)sim_get_threads();
    launch->grid_blocks = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z;
    take_chosen(launch);
    if (workers > launch->blocks)
        workers = (unsigned)launch->blocks;
    launch->workers = workers;
    launch->blocks_at_a_time = blocks_at_a_time(launch->blocks, workers);
    launch->blocks_at_a_time =
        (launch->blocks_at_a_time + launch->cluster - 1) / launch->cluster * launch->cluster;
    sim_catch_crashes();
    sim_turns_begin();
    if (sim_isolation_begin() && (!WATCHED || watch_launch_begins(launch)))
        sim_run_all_blocks(workers);
    else
        sim_report_no_memory();
    sim_turns_end();
    sim_release_crashes();
    sim_isolation_end();
    if (WATCHED)
        watch_launch_ends(launch);
    if (!atomic_load(&launch->reported) && atomic_load(&launch->cut_short))
        sim_report_launch(&launch->report, SIM_INTERRUPTED, "stopped before its end");
    return launch->report.kind == SIM_NO_REPORT       ? cudaSuccess
           : launch->report.kind == SIM_OUT_OF_MEMORY ? cudaErrorMemoryAllocation
                                                      : cudaErrorLaunchFailure;
}

cudaError_t sim_launch(const char *kernel, const char *file, void (*enter)(const void *),
                       const void *arguments, unsigned long long argument_bytes, dim3 grid, dim3 block,
                       unsigned long long dynamic_shared_bytes) {
    return sim_launch_clusters(kernel, file, enter, arguments, argument_bytes, grid, block,
                               dynamic_shared_bytes, 1);
}

cudaError_t sim_launch_clusters(const char *kernel, const char *file, void (*enter)(const void *),
                                const void *arguments, unsigned long long argument_bytes, dim3 grid,
                                dim3 block, unsigned long long dynamic_shared_bytes, unsigned cluster) {
    static uint64_t launches;
    if (!sim_lock_launches()) {
        last_report = (sim_report){.kind = SIM_INTERRUPTED, .kernel = kernel, .file = file};
        snprintf(last_report.message, sizeof last_report.message,
                 "interrupted in %s: stopped while it waited for another launch to end", kernel);
        return sim_set_last_error(cudaErrorLaunchFailure);
    }
    struct sim_launch *launch = &sim_launch_now;
    *launch = (struct sim_launch){.kernel = kernel,
                                  .file = file,
                                  .enter = enter,
                                  .arguments = arguments,
                                  .argument_bytes = argument_bytes,
                                  .grid = grid,
                                  .block = block,
                                  .dynamic_shared_bytes = dynamic_shared_bytes,
                                  .cluster = cluster,
                                  .number = ++launches};
    cudaError_t error = check(launch, &launch->report);
    if (error == cudaSuccess)
        error = run(launch);
    last_report = launch->report;
    sim_unlock_launches();
    return sim_set_last_error(error);
}

const sim_report *sim_last_report(void) {
    return &last_report;
}
