#include "command/report/bounds.h"

#include <algorithm>
#include <array>
#include <utility>

namespace msda::command {

namespace {

constexpr double kBytesPerUs = 1e6;  // of 1 TB/s
constexpr double kWavefrontsOfLoad = 4;

using NamedBound = std::pair<double, std::string_view>;

NamedBound largest_of(Bounds const& bounds) {
  std::array<NamedBound, 5> const all = {{{bounds.hbm, "HBM"},
                                          {bounds.l2, "L2"},
                                          {bounds.l1, "L1 data pipe"},
                                          {bounds.issue, "issue slots"},
                                          {bounds.launch, "launch"}}};
  return *std::max_element(all.begin(), all.end(), [](NamedBound const& a, NamedBound const& b) {
    return a.first < b.first;
  });
}

// Cycles in which L1 looks up the lines of the gather.
double line_cycles(Counts const& counts, GpuRates const& rates) {
  return counts.gather_loads * counts.lines_of_load / rates.lines_per_cycle;
}

}  // namespace

double Bounds::largest() const { return largest_of(*this).first; }
std::string_view Bounds::binding() const { return largest_of(*this).second; }

double pipe_wavefronts(Counts const& counts, GpuRates const& rates) {
  return counts.wavefronts() - counts.gather_wavefronts +
         std::max(counts.gather_wavefronts, line_cycles(counts, rates));
}

Bounds bounds_of(Counts const& counts, GpuRates const& rates) {
  double const sm_cycles_per_us = rates.clock_mhz * rates.sm_count;
  // The fastest that was measured of any piece: a bound must not be above what the GPU can do.
  auto const fastest = [](PieceRates const& r) { return *std::max_element(r.begin(), r.end()); };
  auto const of_row = [&](PieceRates const& r) { return GpuRates::of_piece(r, counts.row_bytes); };
  double const gather_cycles = std::max(
      counts.gather_wavefronts * rates.load_cycles / kWavefrontsOfLoad, line_cycles(counts, rates));
  double const other_wavefronts = counts.wavefronts() - counts.gather_wavefronts;
  // Pixels of cached levels are gathered from the copies.
  double const values = std::min(counts.value_bytes, counts.gathered_bytes) + counts.copied_bytes;
  Bounds bounds;
  bounds.hbm = counts.compulsory_bytes() / (fastest(rates.hbm_tb_per_s) * kBytesPerUs);
  bounds.hbm_most = counts.most_bytes() / (of_row(rates.hbm_tb_per_s) * kBytesPerUs);
  bounds.l2 = (counts.input_bytes + counts.output_bytes + values) /
              (fastest(rates.l2_tb_per_s) * kBytesPerUs);
  bounds.l2_most = counts.most_bytes() / (of_row(rates.l2_tb_per_s) * kBytesPerUs);
  bounds.l1 = (gather_cycles + other_wavefronts) / sm_cycles_per_us;
  bounds.issue = counts.instructions / (rates.issue_per_cycle * sm_cycles_per_us);
  bounds.launch = rates.launch_us;
  return bounds;
}

}  // namespace msda::command
