/* The table of kernels that were compiled for one call (jit/jit.h), and their launch. */
#include "jit/jit.h"

#ifdef __CUDACC__

#include <atomic>
#include <mutex>
#include <stdio.h>

#define ENTRIES 512 /* a power of two */
#define MOST_FACTS 96
#define MOST_USES 3 /* the use for which a kernel is compiled */

struct entry {
    const char *file; /* NULL: no entry */
    int device;
    int count;
    int facts[MOST_FACTS];
    int uses;
    const void *kernel; /* NULL: not compiled, or it failed */
    int resident;       /* its blocks that the device holds at once */
};

static std::mutex table_lock;
static struct entry table[ENTRIES];
static int used;
static fgn_jit_compiler compiler;
static std::atomic<unsigned long long> launches;

/* FNV-1a, a word at a time. */
static unsigned hash_of(const struct jit_call *call) {
    unsigned hash = 2166136261u;
    for (int i = 0; i < call->count; i++)
        hash = (hash ^ (unsigned)call->facts[i]) * 16777619u;
    return hash ^ hash >> 15;
}

/* The call's entry, a new one if it has none, or NULL if the table is full. The lock is held. */
static struct entry *entry_of(const struct jit_call *call, int device) {
    for (unsigned at = hash_of(call);; at++) {
        struct entry *entry = &table[at % ENTRIES];
        if (!entry->file) {
            if (used >= ENTRIES * 3 / 4)
                return NULL;
            used++;
            entry->file = call->file;
            entry->device = device;
            entry->count = call->count;
            memcpy(entry->facts, call->facts, sizeof(int) * call->count);
            return entry;
        }
        if (entry->file == call->file && entry->device == device && entry->count == call->count &&
            memcmp(entry->facts, call->facts, sizeof(int) * call->count) == 0)
            return entry;
    }
}

/* The source: the facts, and the kernel's file, which reads them. */
static const void *compiled(const struct jit_call *call) {
    char source[16 * MOST_FACTS + 256], *at = source;
    at += sprintf(at, "#define JIT_COMPILED\n#include \"jit/beginning.h\"\n#define FACTS {");
    for (int i = 0; i < call->count; i++)
        at += sprintf(at, "%d, ", call->facts[i]);
    sprintf(at, "}\n#include \"%s\"\n", call->file);
    return compiler(source);
}

static int resident_blocks(const void *kernel, const struct jit_call *call, int device) {
    int blocks = 0, multiprocessors = 0, threads = (int)(call->block.x * call->block.y);
    if (!kernel)
        return 0;
    if (cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, call->shared_bytes))
        cudaGetLastError(); /* the grid stays */
    return blocks * multiprocessors;
}

/* The kernel, or NULL, and how many of its blocks are resident. */
static const void *kernel_for(const struct jit_call *call, cudaStream_t stream, int *resident) {
    int device = 0;
    if (!compiler || call->count > MOST_FACTS || cudaGetDevice(&device) != cudaSuccess)
        return NULL;
    struct entry *entry;
    bool is_due;
    {
        std::lock_guard<std::mutex> lock(table_lock);
        entry = entry_of(call, device);
        *resident = entry ? entry->resident : 0;
        if (!entry || entry->uses > MOST_USES)
            return entry ? entry->kernel : NULL;
        is_due = ++entry->uses == MOST_USES;
    }
    if (!is_due)
        return NULL;
    /* Modules are not loaded while a stream is captured: the next call asks again. */
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    bool is_captured =
        cudaStreamIsCapturing(stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone;
    const void *kernel = is_captured ? NULL : compiled(call);
    *resident = resident_blocks(kernel, call, device);
    std::lock_guard<std::mutex> lock(table_lock);
    entry->kernel = kernel;
    entry->resident = *resident;
    entry->uses = is_captured ? MOST_USES - 1 : MOST_USES + 1;
    return kernel;
}

bool launched_jit(const struct jit_call *call, cudaStream_t stream, cudaError_t *error) {
    int resident = 0;
    const void *kernel = kernel_for(call, stream, &resident);
    if (!kernel)
        return false;
    dim3 grid = call->grid;
    int64_t held = resident / grid.x, blocks = held < call->turns ? held : call->turns;
    if (blocks > grid.y)
        grid.y = (unsigned)blocks;
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = call->cluster;
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = call->block;
    config.dynamicSmemBytes = call->shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = call->cluster > 1 ? 2 : 1;
    void *args[] = {(void *)call->args};
    *error = cudaSuccess;
    if (call->shared_bytes > 48 << 10) /* more has to be asked for */
        *error =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, call->shared_bytes);
    if (*error == cudaSuccess)
        *error = cudaLaunchKernelExC(&config, kernel, args);
    launches++;
    return true;
}

/* ---- The caller's side ---- */

void fgn_set_jit_compiler(fgn_jit_compiler given) {
    compiler = given;
}

unsigned long long fgn_jit_launches(void) {
    return launches;
}

const void *fgn_load_kernel(const void *image, const char *name) {
    cudaLibrary_t library;
    cudaKernel_t kernel;
    if (cudaLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0) != cudaSuccess ||
        cudaLibraryGetKernel(&kernel, library, name) != cudaSuccess) {
        cudaGetLastError(); /* the call goes on with the library's own kernel */
        return NULL;
    }
    return (const void *)kernel;
}

#else

void fgn_set_jit_compiler(fgn_jit_compiler given) {
    (void)given;
}

unsigned long long fgn_jit_launches(void) {
    return 0;
}

const void *fgn_load_kernel(const void *image, const char *name) {
    (void)image, (void)name;
    return NULL;
}

#endif
