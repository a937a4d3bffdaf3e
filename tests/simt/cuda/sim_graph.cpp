#include "cuda/sim_graph.h"

#include "cuda/sim_call.h"
#include "cuda/sim_stream.h"

#include <algorithm>

namespace simt::cuda {
namespace {

// Every node after those that it comes after; what is independent in either order, by the seed.
std::vector<std::size_t> running_order(GraphNodes const& graph) {
  bool const latest_first = state().settings.seed % 2 == 1;
  std::vector<bool> is_placed(graph.nodes.size(), false);
  std::vector<std::size_t> order;
  auto const can_run = [&](std::size_t i) {
    auto const& after = graph.nodes[i].after;
    return !is_placed[i] && std::all_of(after.begin(), after.end(),
                                        [&](std::size_t earlier) { return is_placed[earlier]; });
  };
  while (order.size() < graph.nodes.size()) {
    std::size_t next = graph.nodes.size();
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (can_run(i) && (latest_first || next == graph.nodes.size())) next = i;
    }
    is_placed[next] = true;
    order.push_back(next);
  }
  return order;
}

cudaError_t run_graph(GraphNodes const& graph) {
  std::vector<std::size_t> const order = running_order(graph);
  std::vector<const Task*> tasks;
  auto const overlaps = std::make_unique<bool[]>(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    CUgraphNode_st const& node = graph.nodes[order[i]];
    tasks.push_back(&node.task);
    overlaps[i] = i > 0 && node.overlaps_previous && node.after[0] == order[i - 1];
  }
  return run_tasks(tasks, {overlaps.get(), order.size()});
}

double cost_of(GraphNodes const& graph) {
  double us = 0;
  for (CUgraphNode_st const& node : graph.nodes) us += node.task.cost_us;
  return us;
}

cudaError_t find_graph(cudaGraph_t graph) {
  return state().graphs.contains(graph) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t instantiate(cudaGraphExec_t* result, cudaGraph_t graph, unsigned long long flags) {
  return api("cudaGraphInstantiate", Needs::kDevice, [&](Lock&) {
    if (result == nullptr || find_graph(graph) != cudaSuccess) return cudaErrorInvalidValue;
    // The other flags are for devices that launch graphs, which is not simulated.
    constexpr unsigned long long kKnown =
        cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUseNodePriority;
    if ((flags & ~kKnown) != 0) return cudaErrorNotSupported;
    *result = new CUgraphExec_st{graph->nodes};
    state().graph_execs.insert(*result);
    return cudaSuccess;
  });
}

}  // namespace

cudaGraph_t make_graph(std::shared_ptr<const GraphNodes> nodes) {
  auto* const graph = new CUgraph_st{std::move(nodes)};
  for (CUgraphNode_st const& node : graph->nodes->nodes) {
    graph->handles.push_back(const_cast<CUgraphNode_st*>(&node));
  }
  state().graphs.insert(graph);
  return graph;
}

}  // namespace simt::cuda

using namespace simt::cuda;

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* result, cudaGraph_t graph,
                                 unsigned long long flags) {
  return instantiate(result, graph, flags);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* result, cudaGraph_t graph,
                                          unsigned long long flags) {
  return instantiate(result, graph, flags);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t handle) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    CUstream_st* stream = nullptr;
    if (cudaError_t const error = find_stream(handle, stream); error != cudaSuccess) return error;
    return state().graph_execs.contains(graph) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t handle) {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    if (!state().graph_execs.contains(graph)) return cudaErrorInvalidValue;
    CUstream_st* stream = nullptr;
    cudaError_t error = find_stream_for_work(handle, stream);
    if (error != cudaSuccess) return error;
    Task task;
    task.name = "a graph";
    task.device = stream->device;
    task.node_type = cudaGraphNodeTypeGraph;
    task.cost_us = cost_of(*graph->nodes);
    task.run = [nodes = graph->nodes] { return run_graph(*nodes); };
    Given given = {.after = graph->last};
    error = give(lock, *stream, std::move(task), given);
    if (given.work != nullptr) graph->last = given.work;
    return error;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (state().graph_execs.erase(graph) == 0) return cudaErrorInvalidValue;
    delete graph;  // launches have nodes of their own
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (state().graphs.erase(graph) == 0) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (find_graph(graph) != cudaSuccess || count == nullptr) return cudaErrorInvalidValue;
    std::size_t const all = graph->handles.size();
    if (nodes != nullptr) {
      std::copy_n(graph->handles.begin(), std::min(all, *count), nodes);
      std::fill(nodes + std::min(all, *count), nodes + *count, nullptr);
    }
    *count = all;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (node == nullptr || type == nullptr) return cudaErrorInvalidValue;
    *type = node->task.node_type;
    return cudaSuccess;
  });
}
