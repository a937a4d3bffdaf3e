// What variants.inc instantiates and how its rows are laid out; host and device read it.
#pragma once

#include "kernels/common/elements.h"

#include <algorithm>
#include <cstdint>

namespace msda::persistent {

// Names of variants.inc: most channels of a head, and points of every level; pfew: any, of rows
// that have no more than kFewPoints.
enum Channels : std::int32_t { d8 = 8, d16 = 16, d32 = 32, d64 = 64, d128 = 128, d256 = 256 };
enum Points : std::int32_t { pfew = -1, pany = 0, p4 = 4, p8 = 8 };
inline constexpr std::int32_t kFewPoints = 8;
// Slots that share the points of a row: sN; hN the same, with fp16 sums of two points; with a c,
// coarse levels are cached in shared memory.
inline constexpr std::int32_t kFp16SumsBit = 16, kCachesLevels = 32;
enum Spread : std::int32_t {
  s1 = 1,
  s4 = 4,
  h1 = kFp16SumsBit | s1,
  h4 = kFp16SumsBit | s4,
  s1c = kCachesLevels | s1,
  h1c = kCachesLevels | h1,
};
constexpr bool has_fp16_sums(Spread spread) { return (spread & kFp16SumsBit) != 0; }
constexpr bool caches_levels(Spread spread) { return (spread & kCachesLevels) != 0; }
constexpr std::int32_t slots_of(Spread spread) { return spread & ~(kFp16SumsBit | kCachesLevels); }

inline constexpr std::int32_t kLineBytes = 128;

// A vec: the 16 bytes of a pixel that a lane loads at once. Offsets and strides count vecs.
inline constexpr std::int32_t kVecBytes = 16;
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
// Of shared memory that levels are cached in. What is left are records and, of 228 KB, L1.
inline constexpr std::int64_t kMaxCachedBytes = 172 << 10;
inline constexpr std::int32_t kMaxOfBatch = 4;  // points that a lane prepares

// Heads of a problem, where the kernel knows them when compiled, and with them the distance of two
// pixels: all its levels have two columns and rows or more then.
enum Heads : std::int32_t { heads_any = 0, heads_1 = 1, heads_8 = 8 };

// What coordinates and weights are: of any type and alignment, told at run time, or both float32
// and loaded in vectors.
enum InputTypes : std::int32_t { inputs_any, inputs_f32 };

// How a warp's lanes are dealt.
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
  std::int32_t const lanes = vecs < 32 ? vecs : 32;
  std::int32_t const slots = 32 / lanes;
  std::int32_t const heads = grouped && row_bytes < kLineBytes ? kLineBytes / row_bytes : 1;
  bool const by_parity = has_fp16_sums(spread) && heads == 1 && row_bytes == 64;
  // 16 points are what most rows have at least, and what 16 lanes prepare at once.
  std::int32_t const useful = lanes < 16 ? 16 / lanes : 1;
  std::int32_t const most = slots / heads < useful ? slots / heads : useful;
  std::int32_t const shared = slots_of(spread) < most ? slots_of(spread) : most;
  return {lanes, heads, shared, slots / heads / shared, by_parity};
}

// Of a level, with fp16 sums: those that a record's 17 bits count, of which one says by parity
// which pixel is read first.
constexpr std::int64_t max_pixels_of(Layout const& layout) {
  return layout.by_parity ? 1 << 16 : 1 << 17;
}

// Vecs of a row that each of its lanes loads.
constexpr std::int32_t vecs_of_lane(std::int32_t channels, std::int32_t element_bytes,
                                    Layout const& layout) {
  return channels * element_bytes / kVecBytes / layout.lanes;
}

// Points that a lane prepares before the row's lanes gather them.
constexpr std::int32_t batch_of(Layout const& layout, Points points) {
  if (points == pfew) return 1;
  std::int32_t const lanes = layout.lanes * layout.spread;
  return lanes <= 2 ? kMaxOfBatch : lanes <= 8 ? 2 : 1;
}

// Lanes of a slot whose points' loads are in flight, and points of each of them.
constexpr std::int32_t in_flight_of(Layout const& layout, Spread spread, std::int64_t vecs) {
  if (vecs > 1 || layout.lanes == 1) return 1;
  if (slots_of(spread) == 4) return layout.lanes < 4 ? layout.lanes : 4;
  return 2;
}
constexpr std::int32_t turns_in_flight_of(std::int32_t batch) {
  return batch == kMaxOfBatch ? 2 : 1;
}

// What the threads of a block depend on.
struct BlockKind {
  ValueType type;
  Channels channels;
  Points points;
  Spread spread;
  bool fused;
  bool aligned;  // values
  bool known;    // heads
};

// As many threads as there are registers for without spilling, in code for a compute capability
// (times ten). Where levels are cached, fewer leave more of L1.
constexpr std::int32_t threads_of(BlockKind const& kind, std::int32_t sm) {
  bool const is_f8 = kind.type == ValueType::f8, is_f32 = kind.type == ValueType::f32;
  bool const fp16_sums = has_fp16_sums(kind.spread), cached = caches_levels(kind.spread);
  bool const points_are_known = kind.points > 0;
  bool const is_large = slots_of(kind.spread) == 4 || (fp16_sums && kind.channels > 32) ||
                        (is_f32 && !kind.known && points_are_known);
  bool const is_lean = kind.known && (kind.points == pfew || (points_are_known && !is_f8));
  std::int32_t const threads = !kind.aligned                       ? 256
                               : is_large || (cached && fp16_sums) ? 512
                               : is_lean && !cached                ? 768
                                                                   : 640;
  // Code for 10.0 and later takes more registers where it converts float8 or fused input.
  bool const takes_more = sm >= 100 && (is_f8 || kind.fused);
  return takes_more ? std::min(threads, std::max(threads - 128, 512)) : threads;
}

// Heads that have to divide M for `grouped`.
constexpr std::int32_t heads_of_line(std::int32_t channels, std::int32_t element_bytes) {
  return channels * element_bytes < kLineBytes ? kLineBytes / (channels * element_bytes) : 1;
}

}  // namespace msda::persistent
