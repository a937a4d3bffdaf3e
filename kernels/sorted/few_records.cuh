// Sums of a tile of few records, of which ranks, lists and sums of cells would be most of the work:
// a warp takes 8 channels and adds record after record to the four pixels of each, in shared
// memory. A lane has one corner and one channel.
#pragma once

#include "kernels/sorted/piece.cuh"
#include "kernels/sorted/store_pixels.cuh"
#include "kernels/sorted/tile_lists.cuh"

namespace msda::sorted {

// Sums of a tile's pixels, in the place of those of its cells. Four corners of 8 channels lie in
// different banks.
template <class Config>
class PixelSums {
 public:
  static constexpr int kSide = kMaxTileSide + 1;
  static constexpr int kPixel = (Config::kLanes + 1) * kChannelsOfLane;  // words
  static constexpr int kBank = kPixel % kWarp == 16 ? 8 : 16;            // of the second row
  static constexpr int kRow = kSide * kPixel + (kBank + kWarp - kSide * kPixel % kWarp) % kWarp;
  static constexpr int kVectors = kSide * kRow / 4;

  __device__ __forceinline__ explicit PixelSums(SumStorage<Config>& shared, int quad)
      : sums_(sums_of(shared) + channel_of_quad<Config>(quad)) {}

  __device__ __forceinline__ static float* sums_of(SumStorage<Config>& shared) {
    static_assert(kVectors * sizeof(float4) <= sizeof(shared.sums));
    return &shared.sums[0][0][0].x;
  }
  __device__ __forceinline__ float4 any(int x, int y) const {
    return *reinterpret_cast<const float4*>(sums_ + y * kRow + x * kPixel);
  }
  __device__ __forceinline__ float4 inner(int x, int y) const { return any(x, y); }

 private:
  const float* sums_;
};

template <class Config>
__device__ __forceinline__ float grad_element(Params const& p, std::int64_t at) {
  if constexpr (!Config::kVectors) return load_element<float>(p.output_dtype, p.grad_output, at);
  using Element = typename ValueTraits<Config::kType>::Element;
  return convert<float>(static_cast<const Element*>(p.grad_output)[at]);
}

// All threads of the block. The records are placed where those of a round would be; `first` has
// their pixels.
template <class Config>
__device__ __forceinline__ void add_few_records(Params const& p, ValueParams const& s,
                                                SumStorage<Config>& shared, Piece const& piece) {
  using Sums = PixelSums<Config>;
  constexpr int kInFlight = 8;
  static_assert(kFewRecords <= kSumThreads && kFewRecords <= kMaxCells &&
                kSumWarps >= kMaxSliceLanes);
  auto const count = static_cast<int>(piece.end - piece.begin);
  auto const i = static_cast<int>(threadIdx.x);
  if (i < count) {
    Record const record = s.records[std::int64_t{piece.head} * s.points + piece.begin + i];
    shared.weights[i] = corner_weights(record);
    shared.queries[i] = record.query;
    shared.first[i] =
        static_cast<std::uint16_t>((record.y >> 24) * Sums::kRow + (record.x >> 24) * Sums::kPixel);
  }
  auto* const vectors = reinterpret_cast<float4*>(Sums::sums_of(shared));
#pragma unroll
  for (int j = 0; j < Sums::kVectors; j += kSumThreads) {
    if (j + i < Sums::kVectors) vectors[j + i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  __syncthreads();
  int const channel = warp_of() * kChannelsOfLane + lane_of() % kChannelsOfLane;
  std::int64_t const d = piece.slice * kMaxSlice + channel;
  if (warp_of() >= Config::kLanes || d >= p.head_dim) return;
  int const corner = lane_of() / kChannelsOfLane;
  HeadIndex const index(p, s, piece.head);
  std::int64_t const first = p.output_strides.at(index.b, 0, index.m) + d;
  float* const sums =
      Sums::sums_of(shared) + (corner >> 1) * Sums::kRow + (corner & 1) * Sums::kPixel + channel;
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
      float& sum = sums[shared.first[base + j]];
      sum = fmaf(weights[4 * (base + j)], grads[j], sum);
      __syncwarp();  // the next record may have the same pixels as other corners
    }
  }
}

}  // namespace msda::sorted
