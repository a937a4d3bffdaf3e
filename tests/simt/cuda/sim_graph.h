// Graphs, executable ones, and running them.
#pragma once

#include "cuda/sim_capture.h"

// What a cudaGraph_t points to.
struct CUgraph_st {
  std::shared_ptr<const simt::cuda::GraphNodes> nodes;
  std::vector<cudaGraphNode_t> handles = {};  // cudaGraphGetNodes()
};

// What a cudaGraphExec_t points to.
struct CUgraphExec_st {
  std::shared_ptr<const simt::cuda::GraphNodes> nodes;
  simt::cuda::WorkPtr last = nullptr;  // launches of one executable graph do not overlap
};

namespace simt::cuda {

// With the lock held.
cudaGraph_t make_graph(std::shared_ptr<const GraphNodes> nodes);

}  // namespace simt::cuda
