/* A launch that is kept for later: a node of a graph. */
#pragma once
#include "../cpp/program.hpp"
#include <memory>

struct sim_kept_launch {
    const sim_kernel_type *type; /* NULL: no kernel is at that address */
    const void *address;
    std::shared_ptr<const void> call; /* begins with the addresses of its own copies of the arguments */
    const sim_site *site;
    const char *name;
    sim_configured with;
    bool is_cooperative;
    cudaError_t operator()(cudaStream_t stream) const {
        sim_configured there = with;
        there.stream = stream;
        return sim_launch(type, address, call.get(), site, name, there, is_cooperative);
    }
};
/* host.cpp: of a kernel whose type is lost. */
sim_kept_launch sim_known_launch(const void *kernel, sim_configured with, bool is_cooperative,
                                 void **arguments, const char *file, int line);
/* graphs.cpp */
cudaError_t sim_capture_launch(const sim_kept_launch &launch);
