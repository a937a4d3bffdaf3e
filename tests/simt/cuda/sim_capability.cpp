#include "cuda/sim_capability.h"

namespace simt::cuda {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr Capability kRows[] = {
    {75, 64 * kKiB, 64 * kKiB, 1024, 16, false},   {80, 164 * kKiB, 163 * kKiB, 2048, 32, false},
    {86, 100 * kKiB, 99 * kKiB, 1536, 16, false},  {87, 164 * kKiB, 163 * kKiB, 1536, 16, false},
    {89, 100 * kKiB, 99 * kKiB, 1536, 24, false},  {90, 228 * kKiB, 227 * kKiB, 2048, 32, true},
    {100, 228 * kKiB, 227 * kKiB, 2048, 32, true}, {103, 228 * kKiB, 227 * kKiB, 2048, 32, true},
    {110, 228 * kKiB, 227 * kKiB, 1536, 24, true}, {120, 100 * kKiB, 99 * kKiB, 1536, 24, true},
    {121, 100 * kKiB, 99 * kKiB, 1536, 24, true},
};

}  // namespace

Capability const& capability_row(int capability) {
  Capability const* row = &kRows[0];
  for (Capability const& candidate : kRows) {
    if (candidate.capability <= capability) row = &candidate;
  }
  return *row;
}

}  // namespace simt::cuda
