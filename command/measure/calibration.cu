// The rates of a GPU, measured in a few seconds: cycles of an SM for loads of a warp (32 lanes of
// 16 bytes) that hit L1, bytes a second of gathers from L2 and from device memory, and an empty
// kernel.
#include "command/measure/gpu_rates.h"
#include "command/measure/gpu_timer.cuh"

#include <random>

namespace msda::command {
namespace {

// ---- L1

constexpr int kWarps = 16, kLoads = 8, kTurns = 4000;
constexpr std::uint32_t kRegion = 64 << 10;  // that L1 holds

// Offsets move by lines, so that a load keeps its banks and the distances of its rows.
__global__ void __launch_bounds__(32 * kWarps)
    gather_from_l1(const char* values, const std::uint32_t* offsets, uint4* out) {
  std::uint32_t at[kLoads];
  for (int i = 0; i < kLoads; ++i) {
    at[i] = offsets[(threadIdx.x / 32 * kLoads + i) * 32 + threadIdx.x % 32];
  }
  uint4 sum = {};
  for (int turn = 0; turn < kTurns; ++turn) {
    uint4 v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) v[i] = load(values + at[i]);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      add(sum, v[i]);
      at[i] = (at[i] + 36 * kLineBytes * (1 + i % 2)) % kRegion;
    }
  }
  if (sum.x == 1) *out = sum;  // values are 0: never, but the loads have to be made
}

// Cycles of an SM for a load in which a quarter of a warp, 8 lanes, reads `rows` rows, each from
// a part of its own of a line of its own.
double load_cycles(GpuTimer const& timer, int rows) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> offsets;
  for (int quarter = 0; quarter < 4 * kWarps * kLoads; ++quarter) {
    for (int row = 0; row < rows; ++row) {
      std::uint32_t const line = random() % (kRegion / kLineBytes);
      for (int lane = 0; lane < 8 / rows; ++lane) {
        offsets.push_back(line * kLineBytes + (row * (8 / rows) + lane) * kLaneBytes);
      }
    }
  }
  std::uint32_t* table = nullptr;
  std::size_t const bytes = offsets.size() * sizeof(offsets[0]);
  check(cudaMalloc(&table, bytes), "cudaMalloc");
  check(cudaMemcpy(table, offsets.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  double const us = timer.measure(
      [&] { gather_from_l1<<<timer.sms(), 32 * kWarps>>>(timer.values(), table, timer.out()); });
  check(cudaFree(table), "cudaFree");
  return 1e-6 * us * timer.clock_hz() / (double{kTurns} * kLoads * kWarps);
}

// ---- L2 and device memory

constexpr int kGatherThreads = 512, kGatherTurns = 64;

// Pieces of kPieceBytes at random places of a region.
template <int kPieceBytes>
__global__ void __launch_bounds__(kGatherThreads)
    gather_pieces(const char* values, std::uint32_t pieces, uint4* out) {
  constexpr std::uint32_t kLanes = kPieceBytes / kLaneBytes;
  std::uint32_t const thread = blockIdx.x * blockDim.x + threadIdx.x;
  std::uint32_t const first = thread / kLanes * kGatherTurns * kLoads;
  uint4 sum = {};
  for (int turn = 0; turn < kGatherTurns; ++turn) {
    uint4 v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      std::uint32_t const piece =
          __umulhi(mixed(first + static_cast<std::uint32_t>(turn * kLoads + i)), pieces);
      v[i] = load(values + std::uint64_t{piece} * kPieceBytes + thread % kLanes * kLaneBytes);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) add(sum, v[i]);
  }
  if (sum.x == 1) *out = sum;
}

// Terabytes a second. `is_warm`: the region is read once before.
template <int kPieceBytes>
double gather_rate(GpuTimer const& timer, std::size_t region, bool is_warm) {
  int const blocks = 4 * timer.sms();
  auto const launch = [&] {
    gather_pieces<kPieceBytes><<<blocks, kGatherThreads>>>(
        timer.values(), static_cast<std::uint32_t>(region / kPieceBytes), timer.out());
  };
  double const us = is_warm ? timer.measure(launch, launch) : timer.measure(launch);
  return 1e-6 * blocks * kGatherThreads * kGatherTurns * kLoads * kLaneBytes / us;
}

PieceRates gather_rates(GpuTimer const& timer, std::size_t region, bool is_warm) {
  return {gather_rate<128>(timer, region, is_warm), gather_rate<64>(timer, region, is_warm),
          gather_rate<32>(timer, region, is_warm)};
}

__global__ void do_nothing() {}

}  // namespace

GpuRates measure_rates(std::int32_t device) {
  constexpr std::size_t kFarBytes = std::size_t{1} << 30;
  GpuTimer const timer(device, kFarBytes);
  cudaDeviceProp const& properties = timer.properties();
  GpuRates rates;
  rates.gpu = properties.name;
  rates.sm = 10 * properties.major + properties.minor;
  rates.sm_count = timer.sms();
  rates.shared_bytes_per_block = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  rates.clock_mhz = 1e-6 * timer.clock_hz();
  rates.load_cycles = std::min(load_cycles(timer, 1), load_cycles(timer, 2));
  rates.lines_per_cycle = 16 / load_cycles(timer, 4);
  rates.issue_per_cycle = kIssuePerCycle;
  rates.l2_tb_per_s =
      gather_rates(timer, static_cast<std::size_t>(properties.l2CacheSize) / 4, true);
  rates.hbm_tb_per_s = gather_rates(timer, kFarBytes, false);
  rates.launch_us = timer.measure([] { do_nothing<<<1, 32>>>(); });
  return rates;
}

}  // namespace msda::command
