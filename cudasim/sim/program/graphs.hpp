/* Graphs, for the files that make them (graph_nodes.cpp), run them (graphs.cpp) and capture streams into them
 * (captures.cpp): ../cpp/program_graphs.hpp. These are linked into each program, so that no program has to
 * compile them. A node keeps its parameters for those who ask, and what it does. A graph that is ready to run
 * has the nodes' doings in an order that their dependencies allow. */
#pragma once
#include "kept_launch.hpp"
#include <any>
#include <cstdio>
#include <map>
#include <set>

struct sim_condition {
    unsigned value, at_launch; /* first, for cudaGraphSetConditional() */
    bool is_assigned;
};
struct CUuserObject_st {
    void *data;
    cudaHostFn_t destroy;
    unsigned count;
};
struct CUgraphNode_st {
    sim_called called;
    cudaGraph_t graph;
    std::vector<cudaGraphNode_t> after;
    std::map<int, cudaLaunchAttributeValue> attributes;
    cudaGraphNode_t original; /* of a clone */
    cudaGraphNodeType type;
    std::any of;                                     /* parameters */
    sim_operation run;                               /* of what has no bodies */
    std::vector<std::shared_ptr<CUgraph_st>> bodies; /* a child graph, or those of a condition */
    void *memory;                                    /* that it allocates */
};
struct CUgraph_st {
    std::vector<std::shared_ptr<CUgraphNode_st>> nodes; /* in the order in which they were added */
    std::map<cudaUserObject_t, unsigned> objects;
    std::vector<std::shared_ptr<sim_condition>> conditions;
};

/* Of a graph that can run: a node at that time, behind those that it depends on. */
struct sim_step {
    cudaGraphNode_t node;
    cudaGraphNodeType type;
    std::any of;
    sim_operation run;
    void *memory;
    std::set<size_t> after; /* steps */
    std::vector<std::vector<sim_step>> bodies;
    bool is_enabled;
};
struct CUgraphExec_st {
    std::vector<sim_step> steps;
    unsigned long long flags;
    std::map<cudaUserObject_t, unsigned> objects;
    std::vector<std::shared_ptr<sim_condition>> conditions;
};

/* What nobody may ask for: an empty node, or a library's work. */
struct sim_work {
    cudaGraphNodeType type;
    sim_operation run;
};

/* P: a kind of node's parameters, or a kept launch, or sim_work. */
template <class P>
cudaError_t sim_add_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                         P &of, sim_called called);
sim_step *sim_find_step(std::vector<sim_step> &steps, cudaGraphNode_t node); /* NULL: it is not there */
cudaError_t sim_clone_graph(cudaGraph_t from, std::shared_ptr<CUgraph_st> *to);
/* false: its dependencies are a circle */
bool sim_make_steps(cudaGraph_t graph, std::vector<sim_step> *steps);
bool sim_are_alike(const std::vector<sim_step> &ready, const std::vector<sim_step> &other,
                   cudaGraphExecUpdateResultInfo *info);
