// The tma family: what variants.inc names, how shared memory is dealt, what its kernels are handed
// beside the problem, and what a plan loads. Host and device read it.
#pragma once

#include "kernels/rows/layout.h"

namespace msda::tma {

// Names of variants.inc: most channels of a head; what tensor maps bring, a box for each point or
// windows for tiles of queries; float32 sums, or fp16 sums of two points.
enum Channels : std::int32_t { d32 = 32, d64 = 64 };
enum Shape : std::int32_t { box, win };
enum Sums : std::int32_t { s, h };
// Producer warps of a block, and stages of shared memory that they keep ahead.
enum Producers : std::int32_t { p1 = 1, p2 = 2, p3 = 3, p4 = 4 };
enum Stages : std::int32_t { n2 = 2, n3 = 3, n4 = 4, n6 = 6, n8 = 8 };
inline constexpr std::int32_t kMaxProducers = 4;
inline constexpr std::int32_t kMaxStages = 8;

// Limits that reject() keeps to. A record has a pixel's column and row in 16 bits each.
inline constexpr std::int64_t kMaxSide = 65534;
inline constexpr std::int32_t kMaxPoints = 512;  // K
inline constexpr std::int64_t kMaxRows = std::int64_t{1} << 31;

// Rules of cuTensorMapEncodeTiled() (CUDA Driver API).
inline constexpr std::int64_t kMapAlignment = 16;  // of addresses and strides
inline constexpr std::int64_t kMaxMapStride = std::int64_t{1} << 40;
inline constexpr std::int32_t kMaxBoxSide = 256;

// Lanes of a slot: they share the channels of a row.
constexpr std::int32_t lanes_of(Channels channels, std::int32_t element_bytes) {
  return channels * element_bytes / kVecBytes;
}

// ---- boxes: a fill of a stage is a point of each lane of a producer
inline constexpr std::int32_t kBoxWarps = 8;  // of a block, producers among them
inline constexpr std::int32_t kRecordBytes = 16;
constexpr std::int32_t box_bytes(std::int32_t pixel_bytes) {
  return (4 * pixel_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}
constexpr std::int64_t box_stage_bytes(std::int32_t pixel_bytes) {
  return std::int64_t{kWarp} * (box_bytes(pixel_bytes) + kRecordBytes);
}

// ---- windows: rows of 64 bytes, whose four lanes each locate the points of one level
inline constexpr std::int32_t kWindowWarps = 16;  // of a block; the last one is the producer
inline constexpr std::int32_t kWindowConsumers = kWindowWarps - 1;
inline constexpr std::int32_t kWindowLanes = 4;                     // of a slot
inline constexpr std::int32_t kWindowSlots = kWarp / kWindowLanes;  // of a warp
inline constexpr std::int32_t kMaxWindows = kWindowLanes;           // levels with points
inline constexpr std::int32_t kPixelBytes = 64;                     // of a head's channels
inline constexpr std::int32_t kMaxWindowPixels = 1024;  // of a level: a record has 10 bits
inline constexpr std::int32_t kSamples = 8;  // queries that tell where a tile's points lie

// Rows of a slot: a warp has as many points at a time, whether levels have 4 or 8 of them.
constexpr std::int32_t passes_of(std::int64_t points) { return points == 4 ? 2 : 1; }
constexpr std::int32_t tile_rows(std::int64_t points) {
  return kWindowConsumers * kWindowSlots * passes_of(points);
}
// Records of a level, in pairs of points: those of the slots one after the other. Levels are set
// off against each other, so that the lanes of a slot write to different banks.
constexpr std::int32_t window_record_bytes(bool fp16_sums) { return fp16_sums ? 8 : 16; }
constexpr std::int32_t level_record_bytes(std::int64_t points, bool fp16_sums) {
  return static_cast<std::int32_t>(points) * kWindowSlots * window_record_bytes(fp16_sums) + 32;
}
constexpr std::int32_t warp_record_bytes(std::int64_t points, bool fp16_sums) {
  return passes_of(points) * kMaxWindows * level_record_bytes(points, fp16_sums);
}

inline constexpr std::int32_t kWarpRecords = 256;  // at most
static_assert(kWarpRecords == kWindowSlots * kMaxWindows * 8 * passes_of(8) &&
              kWarpRecords == kWindowSlots * kMaxWindows * 4 * passes_of(4));

// Shared memory that the kernels declare. A kernel may ask for the rest, whatever its plan needs:
// what it may ask for is a property of the process.
inline constexpr std::int64_t kStaticSharedBytes = 1024;
inline constexpr std::int64_t kWindowStaticBytes = 16 * 1024;
// Bytes that aligning dynamic shared memory may take.
inline constexpr std::int64_t kAlignmentSlack = kLineBytes;

// How rows, (b Q + q) M + m, are dealt: consumer warps have jobs of neighbouring rows.
struct BoxParams {
  std::int64_t rows;
  std::int64_t jobs;
  std::int32_t producers;
  std::int32_t stages;  // of a producer
  std::int32_t pixel_bytes;
  std::int32_t box_bytes;  // from box to box in a stage
  bool aligned_output;
};

// The window of a level that has points. Columns are even, and so are the columns at which windows
// begin, so that the parity of a pixel's number in shared memory is that of its column in the
// level.
struct WindowLevel {
  std::int32_t level;
  std::int32_t columns;
  std::int32_t rows;
  std::int32_t first_pixel;  // in shared memory
};

// Bytes from a batch item, a query and a head to the next.
struct RowBytes {
  std::int64_t batch;
  std::uint32_t row;
  std::uint32_t head;
};

// A unit is a tile of queries with one head of one batch item. Shared memory has all windows,
// and records of each consumer warp.
struct WindowParams {
  const std::int32_t* queries;  // [tiles][tile_rows()] of each tile; behind the last ~the first
  const std::int32_t* samples;  // [tiles][kSamples] some of them
  std::int32_t units;
  std::int32_t pixels;       // of all windows
  std::int32_t level_count;  // of `levels`
  bool aligned_output;
  WindowLevel levels[kMaxWindows];
  std::uint32_t first_byte[kMaxWindows];  // of a level's window in shared memory
  std::uint32_t row_bytes[kMaxWindows];   // from a row of it to the next
  rows::Divider by_tiles;
  rows::Divider by_heads;
  // Coordinates and weights of a level are float32 that load in vectors; output is of the values'
  // type and is stored in vectors.
  bool is_plain;
  RowBytes coord, weight, output;  // where it is
};

// Rows one by one, where a call's values lie at an address that no tensor map takes.
struct RowParams {
  std::int64_t rows;
  bool aligned_output;
};

struct Maps;  // tensor_maps.h

// A variant with boxes loads the first, one with windows the next ones.
struct Kernels {
  Kernel<Maps, Params, BoxParams> boxes;
  // The first two are of 4 points a level, the others of 8; each for any inputs, then plain ones.
  Kernel<Maps, Params, WindowParams> windows[2][2];
  Kernel<Params, RowParams> rows;
};

// Loads them onto the current device. Instantiated in CUDA files.
template <ValueType kType, Channels kMax, Shape kShape, Sums kSums, Producers kProducers,
          Stages kStages>
Kernels load_kernels(std::int64_t shared_bytes);

}  // namespace msda::tma
