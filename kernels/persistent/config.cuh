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

template <ValueType kTypeOfValue, Channels kMaxChannels, Points kPointsOfLevel, Spread kSpreadOfRow,
          bool kIsFused, bool kIsGrouped, bool kIsAligned, Heads kHeadsOfAll,
          InputTypes kTypesOfInputs>
struct RowsConfig {
  static constexpr ValueType kType = kTypeOfValue;
  using Element = typename ValueTraits<kType>::Element;
  static constexpr int kElementBytes = sizeof(Element);
  static constexpr bool kFew = kPointsOfLevel == pfew;
  static constexpr int kPoints = kFew ? 0 : kPointsOfLevel;
  static constexpr bool kFused = kIsFused;
  static constexpr bool kAligned = kIsAligned;              // values
  static constexpr bool kHalves = in_halves(kSpreadOfRow);  // sums of two points
  static constexpr int kPieceBytes = persistent::kPieceBytes;
  static constexpr int kChannels = channels_of_piece(kElementBytes);
  static constexpr Layout kLayout =
      layout_of(kMaxChannels, kElementBytes, kSpreadOfRow, kIsGrouped);
  static constexpr int kLanes = kLayout.lanes;    // of a slot: they share the channels
  static constexpr int kHeads = kLayout.heads;    // neighbouring slots work on neighbouring heads
  static constexpr int kSpread = kLayout.spread;  // slots that share the points of a row
  static constexpr int kQueries = kLayout.queries;
  // Neighbouring slots share a row, and their banks by the parity of pixels.
  static constexpr bool kByParity = kLayout.by_parity;
  static constexpr int kPieces = pieces_of(kMaxChannels, kElementBytes, kLayout);  // of a lane
  static_assert(!kHalves || (kPieces == 1 && kLanes > 1));
  // Where it is known, D is the most, and every level has a pixel beside and below another.
  static constexpr int kHeadCount = kHeadsOfAll;
  static constexpr bool kIsKnown = kHeadCount > 0;
  // Levels in shared memory: pixels of the heads of a group, one after the other.
  static constexpr bool kKeepsLevels = keeps_levels(kSpreadOfRow) && kIsKnown;
  static constexpr int kRowBytes = kMaxChannels * kElementBytes;
  static constexpr int kKeptPixelBytes = kHeads * kRowBytes;
  // There, halves of two lanes have all points of a lane out at a time: those of one level. And
  // halves of four lanes are prepared by eight, 16 points of a row and then of another one: loads
  // of coordinates are of whole lines.
  static constexpr bool kLaneByLane = keeps_levels(kSpreadOfRow) && kHalves && kLanes == 2;
  static constexpr bool kInLines = keeps_levels(kSpreadOfRow) && kHalves && kLanes == 4;
  // Both add a row's points in their order, others first those that the lanes prepare first.
  static constexpr bool kInOrder = kLaneByLane || kInLines;
  static constexpr int kRowsOfLane = kInLines ? 2 : 1;
  // Points of a row that a lane prepares.
  static constexpr int kBatch = batch_of(kLayout, kPointsOfLevel);
  static constexpr int kPreparing = kLanes * kSpread * kRowsOfLane;  // lanes
  static constexpr int kChunk = kPreparing * kBatch;                 // points of a row
  static constexpr bool kWholeChunks = kPoints > 0 && kPoints % kChunk == 0;
  // Lanes of a slot whose points' loads are out at a time, and points of each.
  static constexpr int kInFlight =
      kAligned && !kLaneByLane ? in_flight_of(kLayout, kSpreadOfRow, kPieces) : 1;
  static constexpr int kTurnsInFlight = !kAligned     ? 1
                                        : kLaneByLane ? kBatch
                                                      : turns_in_flight_of(kBatch);
  static constexpr InputTypes kInputs = kTypesOfInputs;
  static constexpr int kPixelBytes = kHeadCount * kMaxChannels * kElementBytes;
  static constexpr int kThreads = threads_of({.type = kType,
                                              .channels = kMaxChannels,
                                              .points = kPointsOfLevel,
                                              .spread = kSpreadOfRow,
                                              .aligned = kAligned,
                                              .known = kIsKnown});
  // A level for all points of a batch.
  static constexpr bool kLevelOfBatch =
      kHalves || kBatch == 1 || (kPoints > 0 && kPoints % kBatch == 0);
  // Points of a lane's batch that it prepares before they are gathered; and tables of their
  // records, those of single points in turn.
  static constexpr bool kAllTogether = kHalves || (kPoints == 8 && kHasMuchSharedMemory);
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
  static constexpr bool kStepsOfChunk =
      kInLines || (kLevelsOfSlot > 0 && kLevelsOfSlot <= (kIsKnown ? 4 : 2));
  static constexpr int kSteps = kStepsOfChunk && !kInLines ? kLevelsOfSlot : 1;
  static constexpr int kPlaces = kPoints > 0 ? kInlineLevels : kMaxPoints;
};

}  // namespace msda::persistent
