// The two computations of the reference family.
#pragma once

#include "core/arena.h"
#include "core/call.h"
#include "core/problem.h"
#include "cpu/thread_pool.h"

#include <cstdint>

namespace msda::ref {

// Work is cut into at most this many chunks, each with a row of scratch of its own: the workspace
// does not depend on the number of threads.
inline constexpr std::int64_t kLargestChunkCount = 64;

struct Scratch {
  double* rows = nullptr;        // [chunk_count][row_size]
  double* grad_value = nullptr;  // [B][M][S][D], backward only
  std::int64_t row_size = 0;
  std::int64_t chunk_count = 0;
};

Scratch take_scratch(Problem const& problem, Arena& arena);
void run_forward(Problem const& problem, Call const& call, Scratch const& scratch,
                 ThreadPool& pool);
void run_backward(Problem const& problem, Call const& call, Scratch const& scratch,
                  ThreadPool& pool);

}  // namespace msda::ref
