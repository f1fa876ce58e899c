/* Launches with an attribute: clusters of blocks, and launches that begin early. */
#pragma once

#include "sim/portable.h"

/* LAUNCHERs with one more argument. CLUSTER_LAUNCHER, `cluster`: this many neighbouring blocks form a
 * cluster. EARLY_LAUNCHER, `early`: the launch may begin before the previous one has ended. Its kernel has to
 * call griddepcontrol_wait() before it reads what that launch writes. */
#ifdef __CUDACC__

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

#else /* on the simulator no launch begins early */

#define LAUNCHER_WITH(kernel, args_type, parameter, cluster)                                                 \
    static void enter_##kernel(const void *args) {                                                           \
        kernel(*(const args_type *)args);                                                                    \
    }                                                                                                        \
    static cudaError_t launch_##kernel(dim3 grid, dim3 block, size_t dynamic_shared_bytes,                   \
                                       cudaStream_t stream, parameter, args_type args) {                     \
        (void)stream, (void)with;                                                                            \
        return sim_launch_clusters(#kernel, __FILE__, enter_##kernel, &args, sizeof args, grid, block,       \
                                   dynamic_shared_bytes, cluster);                                           \
    }

#define CLUSTER_LAUNCHER(kernel, args_type) LAUNCHER_WITH(kernel, args_type, int with, (unsigned)with)
#define EARLY_LAUNCHER(kernel, args_type) LAUNCHER_WITH(kernel, args_type, bool with, 1)

#endif
