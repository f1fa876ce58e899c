/* What gemm_few_rows_tensor.cu uses beside ptx/mma.h, for both machines:
 *   - a copy of what is read only once; copy_async_wait() waits for it;
 *   - clusters of blocks, which wait for each other and read each other's shared memory (9.0);
 *   - griddepcontrol (9.0), which lets a launch begin while the one before it ends.
 * PTX ISA, sections "cp.async", "barrier.cluster", "mapa" and "griddepcontrol". */
#pragma once

#include "ptx/mma.h"

#ifdef __CUDACC__

/* Copies 16 bytes to shared memory, or writes zeros there. They are read once: past the L1 cache, and the
 * first to leave the L2 cache, which fetches the whole 128 bytes that they are part of. */
static __forceinline__ __device__ void copy_async_once_16_or_zero(void *shared, const void *global,
                                                                  bool valid) {
#if __CUDA_ARCH__ >= 800
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(shared)),
                 "l"(global), "r"(valid ? 16 : 0), "l"(policy)
                 : "memory");
#else
    (void)shared, (void)global, (void)valid;
    __trap();
#endif
}

/* The next launch may begin as soon as every block has come here; it still has to wait for what this one
 * writes. */
static __forceinline__ __device__ void griddepcontrol_launch_dependents(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Waits until the launch before has ended, and what it wrote can be read. */
static __forceinline__ __device__ void griddepcontrol_wait(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Waits for all threads of all blocks of the cluster, and sees what they wrote. */
static __forceinline__ __device__ void cluster_barrier(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;\n"
                 "barrier.cluster.wait.acquire;" ::
                     : "memory");
#endif
}

/* Four floats at the same place in the shared memory of the cluster's block `rank`. */
static __forceinline__ __device__ float4 load_from_block(const float *shared, uint32_t rank) {
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#if __CUDA_ARCH__ >= 900
    uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("{\n"
                 ".reg .b32 mapped;\n"
                 "mapa.shared::cluster.u32 mapped, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [mapped];\n"
                 "}"
                 : "=f"(quad.x), "=f"(quad.y), "=f"(quad.z), "=f"(quad.w)
                 : "r"(address), "r"(rank)
                 : "memory");
#else
    (void)shared, (void)rank;
    __trap();
#endif
    return quad;
}

/* LAUNCHERs with one more argument. CLUSTER_LAUNCHER: `cluster` blocks that follow each other are a cluster.
 * EARLY_LAUNCHER, for a kernel that calls griddepcontrol_wait() before it looks at anything that the launch
 * before it writes: `early`, it may begin before that one has ended. */
#define LAUNCHER_WITH(kernel, args_type, parameter, choose)                                                  \
    static cudaError_t launch_##kernel(dim3 grid, dim3 block, size_t dynamic_shared_bytes,                   \
                                       cudaStream_t stream, parameter, args_type args) {                     \
        cudaLaunchAttribute attribute = {};                                                                  \
        cudaLaunchConfig_t config = {};                                                                      \
        config.gridDim = grid;                                                                               \
        config.blockDim = block;                                                                             \
        config.dynamicSmemBytes = dynamic_shared_bytes;                                                      \
        config.stream = stream;                                                                              \
        config.attrs = &attribute;                                                                           \
        choose;                                                                                              \
        return cudaLaunchKernelEx(&config, kernel, args);                                                    \
    }

#define CLUSTER_LAUNCHER(kernel, args_type)                                                                  \
    LAUNCHER_WITH(                                                                                           \
        kernel, args_type, int cluster, if (cluster > 1) {                                                   \
            attribute.id = cudaLaunchAttributeClusterDimension;                                              \
            attribute.val.clusterDim.x = cluster;                                                            \
            attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;                                     \
            config.numAttrs = 1;                                                                             \
        })

#define EARLY_LAUNCHER(kernel, args_type)                                                                    \
    LAUNCHER_WITH(                                                                                           \
        kernel, args_type, bool early, if (early) {                                                          \
            attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;                               \
            attribute.val.programmaticStreamSerializationAllowed = 1;                                        \
            config.numAttrs = 1;                                                                             \
        })

#else

#define copy_async_once_16_or_zero(shared, global, valid) copy_async_16_or_zero(shared, global, valid)

/* One launch after the other. */
static inline void griddepcontrol_launch_dependents(void) {}

static inline void griddepcontrol_wait(void) {}

/* There are no clusters: nothing asks for more than one block. */
static inline void cluster_barrier(void) {}

static inline float4 load_from_block(const float *shared, uint32_t rank) {
    (void)rank;
    return *(const float4 *)shared;
}

#define LAUNCHER_WITH(kernel, args_type, parameter)                                                          \
    static void enter_##kernel(const void *args) {                                                           \
        kernel(*(const args_type *)args);                                                                    \
    }                                                                                                        \
    static cudaError_t launch_##kernel(dim3 grid, dim3 block, size_t dynamic_shared_bytes,                   \
                                       cudaStream_t stream, parameter, args_type args) {                     \
        (void)stream, (void)with;                                                                            \
        return sim_launch(#kernel, __FILE__, enter_##kernel, &args, grid, block, dynamic_shared_bytes);      \
    }

#define CLUSTER_LAUNCHER(kernel, args_type) LAUNCHER_WITH(kernel, args_type, int with)
#define EARLY_LAUNCHER(kernel, args_type) LAUNCHER_WITH(kernel, args_type, bool with)

#endif
