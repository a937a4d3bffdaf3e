// Sums of a tile of few records, of which ranks, lists and sums of cells would be most of the work:
// a warp takes 8 channels and adds record after record to the four pixels of each, in shared
// memory. A lane has one corner and one channel.
#pragma once

#include "kernels/sorted/piece.cuh"
#include "kernels/sorted/segments.cuh"
#include "kernels/sorted/tile_lists.cuh"

namespace msda::sorted {

template <class Config>
__device__ __forceinline__ float grad_element(Params const& p, std::int64_t at) {
  if constexpr (!Config::kVectors) return load_element<float>(p.output_dtype, p.grad_output, at);
  using Element = typename ValueTraits<Config::kType>::Element;
  return convert<float>(static_cast<const Element*>(p.grad_output)[at]);
}

// All threads of the block; the sums are zero. The records are placed where those of a round would
// be; `first` has the quads of their first pixels, times four, and how these are turned.
template <class Config>
__device__ __forceinline__ void add_few_records(Params const& p, ValueParams const& s,
                                                SumStorage<Config>& shared, Piece const& piece) {
  constexpr int kInFlight = 16;
  static_assert(kFewRecords <= kMaxCells && kSumWarps >= kMaxSliceLanes);
  static_assert(kMaxTilePixels * Config::kQuads * 4 <= 0x10000);
  auto const count = static_cast<int>(piece.end - piece.begin);
  auto const i = static_cast<int>(threadIdx.x);
  map_segments(s, shared, piece, piece.begin, count);
  __syncthreads();
  std::uint32_t record_index = 0;
  if (i < count) record_index = record_of_round(shared, 0);
  __syncwarp();  // queries are stored where offsets are
  if (i < count) {
    Record const record = piece.records(s)[record_index];
    auto const x = static_cast<int>(record.x >> 24);
    auto const y = static_cast<int>(record.y >> 24);
    shared.weights[i] = corner_weights(record);
    shared.queries[i] = record.query;
    shared.first[i] = static_cast<std::uint16_t>((y * kPixelsAcross + x) * Config::kQuads * 4 +
                                                 turn_of_pixel<Config>(x, y));
  }
  __syncthreads();
  int const group = warp_of();
  int const channel = lane_of() % kChannelsOfLane;
  std::int64_t const d = piece.slice * kMaxSlice + group * kChannelsOfLane + channel;
  if (group >= Config::kLanes || d >= p.head_dim) return;
  int const corner = lane_of() / kChannelsOfLane;
  HeadIndex const index(p, s, piece.head);
  std::int64_t const first = p.output_strides.at(index.b, 0, index.m) + d;
  float4* const pixel = shared.sums[(corner >> 1) * kPixelsAcross + (corner & 1)];
  float* const sums = &pixel[channel / 4 * Config::kLanes].x + channel % 4;
  const float* const weights = &shared.weights[0].x + corner;
  for (int base = 0; base < count; base += kInFlight) {
    float grads[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (base + j >= count) continue;
      grads[j] = grad_element<Config>(p, first + shared.queries[base + j] * p.output_strides.row);
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (base + j >= count) continue;
      int const quad = shared.first[base + j];
      int const turned = (quad ^ corner ^ group) & (Config::kLanes - 1);
      float& sum = sums[(quad / 4 + turned) * 4];
      sum = fmaf(weights[4 * (base + j)], grads[j], sum);
      __syncwarp();  // the next record may have the same pixels as other corners
    }
  }
}

}  // namespace msda::sorted
