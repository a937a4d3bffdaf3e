// What an instantiation of the kernel is made of, known when compiled.
#pragma once

#include "kernels/common/elements.cuh"
#include "kernels/persistent/persistent.h"

namespace msda::persistent {

// Whether a block may have more than 48 KB of shared memory without asking for it at run time: code
// for 9.0a may.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kHasMuchSharedMemory = false;
#else
inline constexpr bool kHasMuchSharedMemory = true;
#endif

// The compute capability, times ten, that this code is compiled for. The host's is not used, but on
// the simulated device.
#if defined(__CUDA_ARCH__)
inline constexpr std::int32_t kCodeSm = __CUDA_ARCH__ / 10;
#elif defined(MSDA_SIMULATED_SM)
inline constexpr std::int32_t kCodeSm = MSDA_SIMULATED_SM;
#else
inline constexpr std::int32_t kCodeSm = 90;
#endif

// A row of variants.inc, and what the kernel takes for granted of a launch (LaunchOptions).
struct RowsKind {
  ValueType type;
  Channels channels;  // the most
  Points points;      // of every level
  Spread spread;
  bool fused;
  bool grouped;
  bool aligned;  // values
  Heads heads;
  InputTypes inputs;
};

template <RowsKind kKind>
struct RowsConfig {
  static constexpr ValueType kType = kKind.type;
  using Element = typename ValueTraits<kType>::Element;
  static constexpr int kElementBytes = sizeof(Element);
  static constexpr bool kFew = kKind.points == pfew;
  static constexpr int kPoints = kFew ? 0 : kKind.points;
  static constexpr bool kFused = kKind.fused;
  static constexpr bool kAligned = kKind.aligned;
  static constexpr bool kFp16Sums = has_fp16_sums(kKind.spread);  // of two points
  static constexpr int kVecBytes = persistent::kVecBytes;
  static constexpr int kChannels = channels_of_vec(kElementBytes);
  static constexpr Layout kLayout =
      layout_of(kKind.channels, kElementBytes, kKind.spread, kKind.grouped);
  static constexpr int kLanes = kLayout.lanes;    // of a slot: they share the channels
  static constexpr int kHeads = kLayout.heads;    // neighbouring slots work on neighbouring heads
  static constexpr int kSpread = kLayout.spread;  // slots that share the points of a row
  static constexpr int kQueries = kLayout.queries;
  // Neighbouring slots share a row, and their banks by the parity of pixels.
  static constexpr bool kByParity = kLayout.by_parity;
  static constexpr int kVecs = vecs_of_lane(kKind.channels, kElementBytes, kLayout);
  static_assert(!kFp16Sums || (kVecs == 1 && kLanes > 1));
  // Where it is known, D is the most, and every level has a pixel beside and below another.
  static constexpr int kHeadCount = kKind.heads;
  static constexpr bool kIsKnown = kHeadCount > 0;
  // Levels in shared memory: pixels of the heads of a group, one after the other.
  static constexpr bool kCachesLevels = caches_levels(kKind.spread) && kIsKnown;
  static constexpr int kRowBytes = kKind.channels * kElementBytes;
  static constexpr int kCachedPixelBytes = kHeads * kRowBytes;
  // With cached levels and fp16 sums, rows of two lanes have all points of a lane in flight: those
  // of one level. Rows of four lanes are prepared by eight, 16 points of a row and then of another
  // one, so that loads of coordinates are of whole lines.
  static constexpr bool kLaneByLane = caches_levels(kKind.spread) && kFp16Sums && kLanes == 2;
  static constexpr bool kInLines = caches_levels(kKind.spread) && kFp16Sums && kLanes == 4;
  // Both add a row's points in their order, other kernels first those that the lanes prepare first.
  static constexpr bool kInOrder = kLaneByLane || kInLines;
  static constexpr int kRowsOfLane = kInLines ? 2 : 1;
  // Points of a row that a lane prepares.
  static constexpr int kBatch = batch_of(kLayout, kKind.points);
  static constexpr int kPreparing = kLanes * kSpread * kRowsOfLane;  // lanes
  static constexpr int kChunk = kPreparing * kBatch;                 // points of a row
  static constexpr bool kWholeChunks = kPoints > 0 && kPoints % kChunk == 0;
  // Lanes of a slot whose points' loads are in flight, and points of each.
  static constexpr int kInFlight =
      kAligned && !kLaneByLane ? in_flight_of(kLayout, kKind.spread, kVecs) : 1;
  static constexpr int kTurnsInFlight = !kAligned     ? 1
                                        : kLaneByLane ? kBatch
                                                      : turns_in_flight_of(kBatch);
  static constexpr InputTypes kInputs = kKind.inputs;
  static constexpr int kPixelBytes = kHeadCount * kRowBytes;
  static constexpr BlockKind kBlock = {.type = kType,
                                       .channels = kKind.channels,
                                       .points = kKind.points,
                                       .spread = kKind.spread,
                                       .fused = kFused,
                                       .aligned = kAligned,
                                       .known = kIsKnown};
  static constexpr int kThreads = threads_of(kBlock, kCodeSm);
  // A level for all points of a batch.
  static constexpr bool kLevelOfBatch =
      kFp16Sums || kBatch == 1 || (kPoints > 0 && kPoints % kBatch == 0);
  // Points of a lane's batch that it prepares before they are gathered; and tables of their
  // records, those of single points in turn.
  static constexpr bool kAllTogether = kFp16Sums || (kPoints == 8 && kHasMuchSharedMemory);
  static constexpr int kTogether = kBatch == kMaxOfBatch ? (kAllTogether ? 4 : 2)
                                   : kLevelOfBatch       ? 1
                                                         : kBatch;
  static constexpr int kTables = kInLines ? 1 : kTogether == 1 ? 2 : kTogether;
  static_assert(kBatch % kTogether == 0 && kTogether % kTurnsInFlight == 0);
  // The levels of a slot's points of a chunk, where they are as many each time.
  static constexpr int kOfSlot = kLanes * kRowsOfLane * kBatch;
  static constexpr int kLevelsOfSlot = kPoints == 0             ? 0
                                       : kPoints % kOfSlot == 0 ? 1
                                       : kOfSlot % kPoints == 0 ? kOfSlot / kPoints
                                                                : 0;
  // One level, whatever the lane.
  static constexpr bool kLevelOfChunk = kLevelsOfSlot == 1 && kSpread == 1;
  // Strides of levels are loaded once a chunk, kStrides of them.
  static constexpr bool kStridesOfChunk =
      kInLines || (kLevelsOfSlot > 0 && kLevelsOfSlot <= (kIsKnown ? 4 : 2));
  static constexpr int kStrides = kStridesOfChunk && !kInLines ? kLevelsOfSlot : 1;
  static constexpr int kPlaces = kPoints > 0 ? kInlineLevels : kMaxPoints;
};

}  // namespace msda::persistent
