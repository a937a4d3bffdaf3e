// What variants.inc instantiates and how its rows are laid out; host and device read it.
#pragma once

#include <cstdint>

namespace msda::persistent {

// Names of variants.inc: most channels of a head, and points of every level.
enum Channels : std::int32_t { d8 = 8, d16 = 16, d32 = 32, d64 = 64, d128 = 128, d256 = 256 };
enum Points : std::int32_t { pany = 0, p4 = 4, p8 = 8 };

// A lane loads 16 bytes of a pixel at once.
inline constexpr std::int32_t kPieceBytes = 16;
constexpr std::int32_t channels_of_piece(std::int32_t element_bytes) {
  return kPieceBytes / element_bytes;
}

// Limits that reject() keeps to.
inline constexpr std::int32_t kMostPoints = 256;             // K, where P is not a constant
inline constexpr std::int64_t kMostItemBytes = 0xffff0000u;  // values of a batch item
inline constexpr std::int64_t kMostTokens = 1 << 30;         // of a batch item
inline constexpr std::int64_t kMostJobs = 1 << 30;

// Two rows of 64 bytes are read without a bank conflict only from opposite halves of 128-byte
// lines. Where neighbouring heads do not give that, two neighbouring pixels of one head do.
constexpr bool is_half_line(std::int32_t channels, std::int32_t element_bytes) {
  return channels * element_bytes == 64;
}

constexpr std::int32_t at_most_32(std::int32_t n) { return n < 32 ? n : 32; }

// Lanes that work on one row.
constexpr std::int32_t lanes_of(std::int32_t channels, std::int32_t element_bytes, bool split) {
  return at_most_32(channels / channels_of_piece(element_bytes)) * (split ? 2 : 1);
}

}  // namespace msda::persistent
