// How fast a GPU does what kernels ask of it, measured: of an H200 from bench/rates/h200.json,
// which is compiled in; of others from a file of the same format.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace msda::command {

// Bytes a microsecond by pieces of 128, 64 and 32 bytes.
using PieceRates = std::array<double, 3>;

struct GpuRates {
  std::string gpu;
  std::int32_t sm = 0;  // compute capability times ten
  std::int32_t sm_count = 0;
  std::int64_t shared_bytes_per_block = 0;

  double clock_mhz = 0;
  double load_cycles = 0;      // of an SM, for a warp load of 512 bytes that hits L1
  double lines_per_cycle = 0;  // that L1 looks up
  double issue_per_cycle = 0;  // instructions of an SM
  PieceRates l2_tb_per_s = {};
  PieceRates hbm_tb_per_s = {};
  double launch_us = 0;
};

// The rates in a text; `name` stands for it in messages. What is missing or no positive number is
// the user's mistake.
GpuRates read_rates(std::string const& name, std::string_view json);
// The format that read_rates() reads; `source` says where the rates are from.
std::string rates_json(GpuRates const& rates, std::string const& source);

// Every GPU that the library runs on has four schedulers an SM. Nothing measures it.
inline constexpr double kIssuePerCycle = 4;
// Measures the rates of a GPU, in a few seconds on it.
GpuRates measure_rates(std::int32_t device);

GpuRates h200_rates();
// Times of `msda bench --csv` on an H200: bench/baselines/h200.csv.
std::string_view h200_times_csv();

}  // namespace msda::command
