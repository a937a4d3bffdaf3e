// The backward computation: what its passes hand to one another.
#pragma once

#include "core/arena.h"
#include "core/family.h"
#include "cpu/simd/simd_kernel.h"
#include "cpu/simd/simd_tables.h"
#include "cpu/simd/simd_windows.h"

#include <cstdint>
#include <memory_resource>

namespace msda::simd {

// Heads whose points are summed in turns, at most.
inline constexpr std::int64_t kMaxHeadsTogether = 16;

// Scratch of one head in flight.
struct HeadScratch {
  Record* records;  // [points of the head]; of a chunk in the order of windows or of rows
  std::uint16_t*
      ends;            // [chunk][window_count + 1]: behind the records of each window, of no window
  float* edges;        // [edge_pixels][2][D]: what the band above and the band below add
  float* grad_output;  // [Q][padded_dim]: a copy, or null
};

// Puts the points of a chunk into the order of their windows.
using BinChunk = void (*)(HeadSource const&, Windows const&, PointBlocks<PointWindows> const&,
                          std::int64_t chunk, HeadScratch const&);

// Scratch with which a thread sums a window.
struct WindowScratch {
  float* row;                // [padded_dim]: channels of grad_output
  float* pixels;             // [window_pixels][value and gradient][padded_dim]
  unsigned char* is_loaded;  // [window_pixels]
};

// The heads of one query that are in flight.
struct QueryHeads {
  const Record* row;          // of the first head
  std::int64_t head_records;  // from there to the row of the next head
  std::int64_t first;         // head
  std::int64_t count;
  float* sums;  // [L][reference_dim]: of the heads in flight so far; null where all are at once
};

struct BandKernels {
  std::int64_t lanes;  // floats of a vector
  // Copies a head's rows [first, last) of grad_output to where the sums find them near each other.
  void (*pack)(HeadSource const&, std::int64_t first, std::int64_t last, Windows const&,
               HeadScratch const&);
  // Sums the points of a band. Gradients in `pixels` are zero before, and again afterwards.
  void (*sum)(HeadSource const&, Windows const&, std::int64_t band, HeadScratch const&,
              WindowScratch const&);
  // Adds what two bands have for the first row of pixels of the lower one.
  void (*join_edge)(HeadSource const&, Windows const&, std::int64_t band, HeadScratch const&);
};
// Scratch with which a thread sums strips.
struct StripScratch {
  float* row;      // [padded_dim]: channels of grad_output
  float* outside;  // [padded_dim]: sums of corners outside their map
  float* sums;     // [strip_pixels][heads][D], or null: in grad_value
};

// Sums the points of `heads` heads of a batch item; the scratch is of the first.
using SumStrips = void (*)(HeadSource const&, Windows const&, std::int64_t heads,
                           HeadScratch const&, StripScratch const&);

struct PointKernels {
  // Stores the gradients of the points of queries [first, last); null: all sums are 0.
  void (*store)(HeadSource const&, std::int64_t first, std::int64_t last, const Record*);
  // Adds what the points of these heads have for a query's references; stores it with the last
  // head.
  void (*store_reference)(HeadSource const& first_head, std::int64_t q, QueryHeads const&);
};
BinChunk choose_bin();
BandKernels choose_band(Problem const& problem);
SumStrips choose_strips(Problem const& problem);
PointKernels choose_point_grads(Problem const& problem);

struct BackwardTables final : Prepared {
  BackwardTables(Problem const& problem, std::pmr::memory_resource* memory);

  Tables points;
  BinChunk bin;
  BandKernels band;
  SumStrips sum_strips;
  PointKernels point_grads;
  Windows windows;
  PointBlocks<PointWindows> windows_of_points;
};

void take_backward(Problem const& problem, Device const& device, Arena& arena);
void run_backward(Launch const& launch);

}  // namespace msda::simd
