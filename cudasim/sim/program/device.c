/* The GPU that a program sees. Numbers of the chips: NVIDIA's data sheets and architecture whitepapers of the
 * named cards; limits of a multiprocessor: CUDA C++ Programming Guide, "Compute Capabilities". */
#include "program.h"
#include "../machine.h"
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum { INVALID_DEVICE = 101 };

#define KIB (1024ull)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

static const struct sim_gpu gpus[] = {
    {"NVIDIA H100 80GB HBM3", 9, 0, 132, 2048, 32, 80 * GIB, 50 * MIB, 228 * KIB, 227 * KIB, 1980000, 2619000,
     5120},
    {"NVIDIA H200", 9, 0, 132, 2048, 32, 141 * GIB, 50 * MIB, 228 * KIB, 227 * KIB, 1980000, 3201000, 6144},
    {"NVIDIA A100-SXM4-40GB", 8, 0, 108, 2048, 32, 40 * GIB, 40 * MIB, 164 * KIB, 163 * KIB, 1410000, 1215000,
     5120},
    {"Tesla T4", 7, 5, 40, 1024, 16, 16 * GIB, 4 * MIB, 64 * KIB, 64 * KIB, 1590000, 5001000, 256},
    {"NVIDIA GeForce RTX 4090", 8, 9, 128, 1536, 24, 24 * GIB, 72 * MIB, 100 * KIB, 99 * KIB, 2520000,
     10501000, 384},
};
enum { GPUS = sizeof gpus / sizeof *gpus };

const struct sim_gpu *sim_gpu_now(void) {
    static const struct sim_gpu *found;
    const char *wanted = getenv("CUDASIM_GPU");
    for (unsigned i = 0; !found && wanted && i < GPUS; i++)
        if (strstr(gpus[i].name, wanted))
            found = &gpus[i];
    if (!found && wanted && *wanted) {
        fprintf(stderr, "CUDASIM_GPU: expected a part of one of these names, got %s:", wanted);
        for (unsigned i = 0; i < GPUS; i++)
            fprintf(stderr, "%s %s", i ? "," : "", gpus[i].name);
        fprintf(stderr, "\n");
        exit(EXIT_FAILURE);
    }
    return found ? found : (found = &gpus[0]);
}

/* ---- Several of them, all of a kind ---- */

static _Thread_local int now;
static int of_kernel;                 /* on which the launch that runs is, whichever OS threads it has */
static uint64_t peers[SIM_MOST_GPUS]; /* of each device: which others' kernels may access its memory */

int sim_gpu_count(void) {
    static int count;
    const char *wanted = getenv("CUDASIM_GPUS");
    if (!count && wanted && *wanted) {
        char *end;
        long number = strtol(wanted, &end, 10);
        if (*end || number < 1 || number > SIM_MOST_GPUS) {
            fprintf(stderr, "CUDASIM_GPUS: expected a number from 1 to %d, got %s\n", SIM_MOST_GPUS, wanted);
            exit(EXIT_FAILURE);
        }
        count = (int)number;
    }
    return count ? count : (count = 1);
}

int sim_device_now(void) {
    return sim_is_in_kernel() ? of_kernel : now;
}

void sim_device_launches(void) {
    of_kernel = now;
}

static bool is_device(int device) {
    return device >= 0 && device < sim_gpu_count();
}

int sim_device_exists(int device) {
    return sim_program_error(is_device(device) ? 0 : INVALID_DEVICE);
}

int sim_device_choose(int device) {
    if (is_device(device))
        now = device;
    return sim_device_exists(device);
}

const uint64_t *sim_device_peers(int device) {
    return &peers[device];
}

int sim_device_opens_to_peer(int of, bool opens) {
    enum { ALREADY_ENABLED = 704, NOT_ENABLED = 705 };
    if (!is_device(of) || of == now)
        return sim_program_error(INVALID_DEVICE);
    uint64_t bit = (uint64_t)1 << now;
    if (opens == !!(peers[of] & bit))
        return sim_program_error(opens ? ALREADY_ENABLED : NOT_ENABLED);
    peers[of] ^= bit;
    return sim_program_error(0);
}

int sim_gpu_blocks(int threads, size_t shared_bytes) {
    enum { RESERVED_BYTES = 1024, WARP = 32 }; /* of each block, since compute capability 8.0 */
    const struct sim_gpu *gpu = sim_gpu_now();
    int whole_warps = (threads + WARP - 1) / WARP * WARP;
    int blocks = whole_warps > 0 ? gpu->threads / whole_warps : 0;
    size_t bytes = shared_bytes + (gpu->major >= 8 ? RESERVED_BYTES : 0);
    if (bytes && (size_t)blocks > gpu->shared_bytes / bytes)
        blocks = (int)(gpu->shared_bytes / bytes);
    return blocks < gpu->blocks ? blocks : gpu->blocks;
}
