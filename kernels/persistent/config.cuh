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

template <ValueType kTypeOfValue, Channels kMostChannels, Points kPointsOfLevel,
          Spread kSpreadOfRow, bool kIsFused, bool kIsGrouped, bool kIsAligned, Heads kHeadsOfAll,
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
      layout_of(kMostChannels, kElementBytes, kSpreadOfRow, kIsGrouped);
  static constexpr int kLanes = kLayout.lanes;    // of a slot: they share the channels
  static constexpr int kHeads = kLayout.heads;    // neighbouring slots work on neighbouring heads
  static constexpr int kSpread = kLayout.spread;  // slots that share the points of a row
  static constexpr int kQueries = kLayout.queries;
  // Neighbouring slots share a row, and their banks by the parity of pixels.
  static constexpr bool kByParity = kLayout.by_parity;
  static constexpr int kPieces = pieces_of(kMostChannels, kElementBytes, kLayout);  // of a lane
  static_assert(!kHalves || (kPieces == 1 && kLanes > 1));
  static constexpr int kBatch = batch_of(kLayout, kPointsOfLevel);  // points a lane prepares
  static constexpr int kChunk = kLanes * kSpread * kBatch;          // points of a row
  static constexpr bool kWholeChunks = kPoints > 0 && kPoints % kChunk == 0;
  // Fused: chunks of a row whose logits become weights at once.
  static constexpr int kHeldChunks = kBatch == 4 ? 2 : 4;
  // Lanes of a slot whose points' loads are out at a time, and points of each.
  static constexpr int kInFlight = kAligned ? in_flight_of(kLayout, kSpreadOfRow, kPieces) : 1;
  static constexpr int kTurnsInFlight = kAligned ? turns_in_flight_of(kBatch) : 1;
  static constexpr bool kF8 = kType == ValueType::f8;
  // Where it is known, D is the most, and every level has a pixel beside and below another.
  static constexpr int kHeadCount = kHeadsOfAll;
  static constexpr bool kIsKnown = kHeadCount > 0;
  static constexpr InputTypes kInputs = kTypesOfInputs;
  static constexpr int kPixelBytes = kHeadCount * kMostChannels * kElementBytes;
  // As many as there are registers for without spilling.
  static constexpr bool kIsLarge =
      slots_of(kSpreadOfRow) == 4 || (kHalves && kMostChannels > 32) ||
      (kFused && (kByParity || kF8 || (kPoints > 0 && !kIsKnown))) ||
      (kType == ValueType::f32 && !kIsKnown && (kFused || kPoints > 0));
  static constexpr bool kIsLean = kIsKnown && !kFused && (kFew || (kPoints > 0 && !kF8));
  static constexpr int kThreads = !kAligned ? 256 : kIsLarge ? 512 : kIsLean ? 768 : 640;
  // A level for all points of a batch.
  static constexpr bool kLevelOfBatch =
      kHalves || kBatch == 1 || (kPoints > 0 && kPoints % kBatch == 0);
  // Points of a lane's batch that it prepares before they are gathered; and tables of their
  // records, those of single points in turn.
  static constexpr bool kAllTogether = kHalves || (kPoints == 8 && kHasMuchSharedMemory);
  static constexpr int kTogether = kBatch == kMostOfBatch ? (kAllTogether ? 4 : 2)
                                   : kLevelOfBatch        ? 1
                                                          : kBatch;
  static constexpr int kTables = kTogether == 1 ? 2 : kTogether;
  static_assert(kBatch % kTogether == 0 && kTogether % kTurnsInFlight == 0);
  // The levels of a slot's points of a chunk, where they are as many each time.
  static constexpr int kOfSlot = kLanes * kBatch;
  static constexpr int kLevelsOfSlot = kPoints == 0             ? 0
                                       : kPoints % kOfSlot == 0 ? 1
                                       : kOfSlot % kPoints == 0 ? kOfSlot / kPoints
                                                                : 0;
  // One level, whatever the lane.
  static constexpr bool kLevelOfChunk = kLevelsOfSlot == 1 && kSpread == 1;
  static constexpr bool kStepsOfChunk = kLevelsOfSlot > 0 && kLevelsOfSlot <= (kIsKnown ? 4 : 2);
  static constexpr int kSteps = kStepsOfChunk ? kLevelsOfSlot : 1;
  static constexpr int kPlaces = kPoints > 0 ? kInlineLevels : kMostPoints;
};

}  // namespace msda::persistent
