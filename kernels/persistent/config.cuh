// What an instantiation of the kernel is made of, known when compiled.
#pragma once

#include "kernels/common/elements.cuh"
#include "kernels/persistent/persistent.h"

namespace msda::persistent {

template <ValueType kTypeOfValue, Channels kMostChannels, Points kPointsOfLevel,
          Spread kSpreadOfRow, bool kIsFused, bool kIsGrouped, bool kIsAligned>
struct RowsConfig {
  static constexpr ValueType kType = kTypeOfValue;
  using Element = typename ValueTraits<kType>::Element;
  static constexpr int kElementBytes = sizeof(Element);
  static constexpr int kPoints = kPointsOfLevel;
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
  static_assert(!kHalves || kPieces == 1);
  static constexpr int kBatch = batch_of(kLayout);          // points a lane prepares
  static constexpr int kChunk = kLanes * kSpread * kBatch;  // points of a row
  static constexpr int kInFlight = kAligned ? in_flight_of(kLayout, kSpreadOfRow, kPieces) : 1;
  static constexpr bool kF8 = kType == ValueType::f8;
  // As many as there are registers for without spilling; measured best for the first of them.
  static constexpr int kThreads =
      !kAligned                                                                             ? 256
      : slots_of(kSpreadOfRow) == 4 || (kHalves && (kMostChannels > 32 || (kF8 && kFused))) ? 512
      : kFused || kPoints == 0 || kF8 || kHalves                                            ? 640
                                                                                            : 768;
  // A level for all points of a batch.
  static constexpr bool kLevelOfBatch = kHalves || (kPoints > 0 && kPoints % kBatch == 0);
  // And the steps to the row below, one for each lane of a slot, few enough to be kept.
  static constexpr bool kStepsOfChunk = kLevelOfBatch && kSpread == 1 && kLanes <= 4;
  static constexpr int kPlaces = kPoints > 0 ? kInlineLevels : kMostPoints;
};

}  // namespace msda::persistent
