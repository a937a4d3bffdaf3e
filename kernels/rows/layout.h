// How the rows of a forward are laid out on the lanes of a warp, with the names that variants.inc
// has for it, and how they are dealt to blocks: for `persistent` and `cluster`. Host and device
// read it.
#pragma once

#include "kernels/common/params.h"

#include <algorithm>

namespace msda::rows {

// Names of variants.inc. Channels: the most of a head. Points: those of every level, or pany; pfew
// is any number for rows of no more than kFewPoints.
enum Channels : std::int32_t { d8 = 8, d16 = 16, d32 = 32, d64 = 64, d128 = 128, d256 = 256 };
enum Points : std::int32_t { pfew = -1, pany = 0, p4 = 4, p8 = 8 };
inline constexpr std::int32_t kFewPoints = 8;
// Spread: sN slots share the points of a row; hN form fp16 sums of two points; a c says that
// coarse levels are cached in shared memory, of sampled input, or with an f of fused input.
inline constexpr std::int32_t kFp16SumsBit = 16, kCachesLevels = 32, kFusedBit = 64;
enum Spread : std::int32_t {
  s1 = 1,
  s4 = 4,
  h1 = kFp16SumsBit | s1,
  h4 = kFp16SumsBit | s4,
  s1c = kCachesLevels | s1,
  h1c = kCachesLevels | h1,
  s1cf = kFusedBit | s1c,
  h1cf = kFusedBit | h1c,
};
constexpr bool has_fp16_sums(Spread spread) { return (spread & kFp16SumsBit) != 0; }
constexpr bool caches_levels(Spread spread) { return (spread & kCachesLevels) != 0; }
constexpr bool is_for_fused(Spread spread) { return (spread & kFusedBit) != 0; }
constexpr std::int32_t slots_of(Spread spread) {
  return spread & ~(kFp16SumsBit | kCachesLevels | kFusedBit);
}

// The channels of a vec. Offsets and strides count vecs.
constexpr std::int32_t channels_of_vec(std::int32_t element_bytes) {
  return kVecBytes / element_bytes;
}

// Limits that reject() keeps to.
inline constexpr std::int32_t kMaxPoints = 256;             // K, where P is not a constant
inline constexpr std::int64_t kMaxItemVecs = 0xffff0000u;   // values of a batch item
inline constexpr std::int64_t kMaxHeadBytes = 0xffffffffu;  // from a head's values to the next's
inline constexpr std::int64_t kMaxTokens = 1 << 30;         // of a batch item
inline constexpr std::int64_t kMaxJobs = 1 << 30;
inline constexpr std::int64_t kMaxPointsOfAll = 0xffffffff;  // B Q M K
inline constexpr std::int32_t kMaxRounds = 64;
inline constexpr std::int32_t kMaxGroup = 4;  // points of a lane's group

// Heads of a problem, where the kernel knows them when compiled, and with them the distance of two
// pixels: all its levels have two columns and rows or more then.
enum Heads : std::int32_t { heads_any = 0, heads_1 = 1, heads_8 = 8 };

// The types of coordinates and weights: any type and alignment, told at run time; or, loaded in
// vectors, all of float32, or of fused input offsets and logits of the values' type of 16 bits with
// references of float32, as under autocast.
enum InputTypes : std::int32_t { inputs_any, inputs_f32, inputs_narrow };

// A warp's lanes form slots; the lanes of a slot work on one row at a time.
struct Layout {
  std::int32_t lanes;    // of a slot: they share the channels of a row
  std::int32_t heads;    // neighbouring slots that work on neighbouring heads of one query
  std::int32_t spread;   // slots that share the points of a row
  std::int32_t queries;  // of a job
  bool by_parity;        // which pixel of two is read first is decided by the parity of its number
};

// Rows are read without a bank conflict only if those of a quarter warp lie in different parts of
// 128-byte lines. Neighbouring heads do; `grouped` says that they come in whole lines. Where they
// do not, and banks are what fp16 sums wait for, of two slots with rows of 64 bytes one begins with
// the even, the other with the odd pixels.
constexpr Layout layout_of(std::int32_t channels, std::int32_t element_bytes, Spread spread,
                           bool grouped) {
  std::int32_t const row_bytes = channels * element_bytes;
  std::int32_t const vecs = row_bytes / kVecBytes;
  std::int32_t const lanes = vecs < kWarp ? vecs : kWarp;
  std::int32_t const slots = kWarp / lanes;
  std::int32_t const heads = grouped && row_bytes < kLineBytes ? kLineBytes / row_bytes : 1;
  bool const by_parity = has_fp16_sums(spread) && heads == 1 && row_bytes == 64;
  // 16 points are what most rows have at least, and what 16 lanes prepare at once.
  std::int32_t const useful = lanes < 16 ? 16 / lanes : 1;
  std::int32_t const most = slots / heads < useful ? slots / heads : useful;
  std::int32_t const shared = slots_of(spread) < most ? slots_of(spread) : most;
  return {lanes, heads, shared, slots / heads / shared, by_parity};
}

// The most pixels of a level with fp16 sums: a record counts them in 17 bits, or in 16 where one
// bit says by parity which pixel is read first.
constexpr std::int64_t max_pixels_of(Layout const& layout) {
  return layout.by_parity ? 1 << 16 : 1 << 17;
}

// The number of vecs of a row that each of its lanes loads.
constexpr std::int32_t vecs_of_lane(std::int32_t channels, std::int32_t element_bytes,
                                    Layout const& layout) {
  return channels * element_bytes / kVecBytes / layout.lanes;
}

// Points that a lane prepares before the row's lanes gather them.
constexpr std::int32_t group_of(Layout const& layout, Points points) {
  if (points == pfew) return 1;
  std::int32_t const lanes = layout.lanes * layout.spread;
  return lanes <= 2 ? kMaxGroup : lanes <= 8 ? 2 : 1;
}

// The number of lanes of a slot whose points' loads are in flight, and of points of each of them.
constexpr std::int32_t in_flight_of(Layout const& layout, Spread spread, std::int64_t vecs) {
  if (vecs > 1 || layout.lanes == 1) return 1;
  if (slots_of(spread) == 4) return layout.lanes < 4 ? layout.lanes : 4;
  return 2;
}
constexpr std::int32_t turns_in_flight_of(std::int32_t group) { return group == kMaxGroup ? 2 : 1; }

// The number of heads whose rows fill a line: it has to divide M for `grouped`.
constexpr std::int32_t heads_of_line(std::int32_t channels, std::int32_t element_bytes) {
  return channels * element_bytes < kLineBytes ? kLineBytes / (channels * element_bytes) : 1;
}

// ---- the schedule: how jobs are dealt to blocks and warps

// A divider computes n / divisor for n < 2^31 by a multiplication.
struct Divider {
  std::uint32_t divisor;
  std::uint32_t multiplier;  // ceil(2^(31 + shift) / divisor)
  std::uint32_t shift;       // ceil(log2(divisor))

#ifdef __CUDACC__
  __device__ __forceinline__ std::uint32_t quotient(std::uint32_t n) const {
    return __umulhi(n + n, multiplier) >> shift;
  }
#endif
};
Divider divider(std::uint32_t divisor);

// Points are located in units of 2^22 pixels: between() says why.
inline constexpr float kPixel = 0x1p-22f;

// A place is what locating a point needs of its level.
struct alignas(16) Place {
  float width;  // in units of 2^22 pixels, as is the height
  float height;
  std::uint32_t row_tokens;  // from a pixel to the one below
  std::uint32_t origin;      // of pixel (0, 0), in vecs
};

// The schedule deals the rows of a problem. A job is what a warp does at a time: a few
// neighbouring queries with a group of heads that lie in one line. A tile is neighbouring jobs
// that a block works on: all queries of one head group after the other. In every round each
// block has one tile, and its warps fetch jobs from it in order.
struct ScheduleParams {
  Divider head_group_jobs;  // jobs of one group of heads of a batch item
  Divider head_groups;      // of a batch item
  Divider tile_jobs;        // of a tile
  std::uint32_t blocks;     // of the launch
  std::uint32_t rounds;
  std::uint32_t jobs;      // all
  std::uint32_t rotation;  // by how many blocks a round is turned against the one before
  std::uint32_t visits;    // Q
  std::uint32_t heads;     // M
  std::uint32_t points;    // K
  std::uint32_t head_dim;
  std::uint64_t item_bytes;  // from the values of a batch item to those of the next
  std::uint32_t head_bytes;
  bool wide_inputs;             // coordinates, references and weights can be loaded in vectors
  bool aligned_output;          // and output stored so
  bool exact_only;              // empty levels, or levels of 2^24 tokens: no fast path
  Place places[kInlineLevels];  // of each level
  // Each level's distances in vecs, 0 where there is no other pixel: from a pixel to the one on
  // the right, and to the one below.
  std::uint32_t column_stride[kInlineLevels];
  std::uint32_t row_stride[kInlineLevels];
  std::uint32_t pixel_stride;  // from a token to the next, in vecs
  const std::int32_t* order;   // [Q] queries in the order of their visits, or null
  // Levels cached in shared memory: bit l stands for level l, whose place and row_stride are those
  // in the cache. Tile indices count the jobs of all head groups and, before those of each, as
  // many as copying its levels is worth. A block has the indices of one grid range after the
  // other, and in each a tile for every head group in it.
  std::uint32_t cached_levels;
  std::uint32_t cached_bytes[kInlineLevels];
  std::uint32_t shared_bytes;  // for all of them
  Divider head_group_indices;  // tile indices of a group
  std::uint32_t index_count;   // of all groups
  std::uint32_t grid_range;    // tile indices that a block has at a time
};

}  // namespace msda::rows
