// What the gather alone takes on a GPU, with nothing to read but values: no coordinates, no
// weights, no sums. A kernel that reads the same rows in the same order is not faster.
//
//   msda_gather_limits [DEVICE]
//
// Microseconds for the points of workloads with points anywhere (bench/workloads.json), as far as
// they are read from global memory. What one load of a warp takes `msda roofline --calibrate`
// measures.
#include "command/measure/gpu_timer.cuh"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace {

using namespace msda::command;

// ---- workloads

struct Level {
  std::uint32_t height, width, first;
};

struct Workload {
  const char* name;
  std::uint32_t batch, queries, tokens;
  Level levels[4];
};

// Sizes as bench/workloads.json has them; where levels begin follows from those before.
constexpr Workload workload(const char* name, std::uint32_t batch, std::uint32_t queries,
                            std::array<std::array<std::uint32_t, 2>, 4> const& level_hw) {
  Workload made{name, batch, queries, 0, {}};
  for (int l = 0; l < 4; ++l) {
    made.levels[l] = {level_hw[l][0], level_hw[l][1], made.tokens};
    made.tokens += level_hw[l][0] * level_hw[l][1];
  }
  return made;
}
constexpr std::array<std::array<std::uint32_t, 2>, 4> kDetrLevels = {
    {{100, 167}, {50, 84}, {25, 42}, {13, 21}}};
constexpr Workload kDec = workload("dec", 2, 900, kDetrLevels);
constexpr Workload kEncoder = workload("enc-uniform", 2, 22223, kDetrLevels);
static_assert(kEncoder.queries == kEncoder.tokens);
constexpr Workload kFold =
    workload("bev-fold", 48, 15422, {{{92, 160}, {46, 80}, {23, 40}, {12, 20}}});

// Rows of kLanes * 16 bytes; points of each of the first kLevels levels; slots that share a row's
// points. As the persistent family deals them: all queries of the heads of a line, then of the
// next, and one head's rows by parity.
template <int kLanes, int kHeads, int kPoints, int kLevels, int kSpread>
__global__ void __launch_bounds__(512, 1)
    gather(Workload const __grid_constant__ w, const char* values, uint4* out) {
  constexpr std::uint32_t kRow = kLanes * kLaneBytes, kPixel = kHeads * kRow;
  constexpr std::uint32_t kOfLine = kHeads * kRow < kLineBytes ? kHeads : kLineBytes / kRow;
  constexpr std::uint32_t kQueries = 32 / kLanes / kOfLine / kSpread;
  constexpr int kOfSlot = kPoints / kSpread, kOut = 4;  // points, of each level and at a time
  std::uint32_t const lane = threadIdx.x % 32, slot = lane / kLanes;
  std::uint32_t const sub = slot / kOfLine % kSpread;
  std::uint32_t const jobs = (w.queries + kQueries - 1) / kQueries;
  std::uint32_t const all = jobs * (kHeads / kOfLine) * w.batch;
  std::uint32_t const stride = gridDim.x * (blockDim.x / 32);
  for (std::uint32_t job = threadIdx.x / 32 * gridDim.x + blockIdx.x; job < all; job += stride) {
    std::uint32_t const run = job / jobs;
    std::uint32_t const query =
        min((job - run * jobs) * kQueries + slot / kOfLine / kSpread, w.queries - 1);
    std::uint32_t const item = run / (kHeads / kOfLine);
    std::uint32_t const head = run % (kHeads / kOfLine) * kOfLine + slot % kOfLine;
    std::uint32_t const row = (item * w.queries + query) * kHeads + head;
    const char* const base =
        values + std::uint64_t{item} * w.tokens * kPixel + head * kRow + lane % kLanes * kLaneBytes;
    uint4 sum = {};
#pragma unroll 1
    for (int i = 0; i < kLevels * kOfSlot; i += kOut) {
      const char* rows[kOut][2];
      std::int64_t beside[kOut];
#pragma unroll
      for (int u = 0; u < kOut; ++u) {
        Level const level = w.levels[(i + u) / kOfSlot];
        std::uint32_t const any = mixed((row * kLevels * kOfSlot + i + u) * kSpread + sub);
        std::uint32_t const x = (any & 0xffff) * (level.width - 1) >> 16;
        std::uint32_t const y = (any >> 16) * (level.height - 1) >> 16;
        std::uint32_t const pixel = level.first + y * level.width + x;
        bool const turned = kHeads == 1 && (pixel & 1) != (slot & 1);
        beside[u] = turned ? -std::int64_t{kPixel} : std::int64_t{kPixel};
        rows[u][0] = base + std::uint64_t{turned ? pixel + 1 : pixel} * kPixel;
        rows[u][1] = rows[u][0] + std::uint64_t{level.width} * kPixel;
      }
      uint4 v[kOut][4];
#pragma unroll
      for (int u = 0; u < kOut; ++u) {
#pragma unroll
        for (int corner = 0; corner < 4; ++corner) {
          v[u][corner] = load(rows[u][corner / 2] + (corner % 2 == 0 ? 0 : beside[u]));
        }
      }
#pragma unroll
      for (int u = 0; u < kOut; ++u) {
#pragma unroll
        for (int corner = 0; corner < 4; ++corner) add(sum, v[u][corner]);
      }
    }
    for (int distance = kLanes * kOfLine; distance < kLanes * kOfLine * kSpread; distance *= 2) {
      sum.x ^= __shfl_xor_sync(0xffffffffu, sum.x, distance);
      sum.y ^= __shfl_xor_sync(0xffffffffu, sum.y, distance);
      sum.z ^= __shfl_xor_sync(0xffffffffu, sum.z, distance);
      sum.w ^= __shfl_xor_sync(0xffffffffu, sum.w, distance);
    }
    if (sub == 0) out[std::uint64_t{row} * kLanes + lane % kLanes] = sum;
  }
}

__global__ void read_all(const uint4* values, std::size_t count, uint4* out) {
  uint4 sum = {};
  std::size_t const stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    add(sum, values[i]);
  }
  if (sum.x == 1) *out = sum;
}

// ---- measuring

template <int kLanes, int kHeads, int kPoints, int kLevels, int kSpread>
void measure_workload(GpuTimer const& timer, Workload const& w) {
  std::size_t const bytes = std::size_t{w.batch} * w.tokens * kHeads * kLanes * kLaneBytes;
  double cold = 1e30, warm = 1e30;
  for (int threads : {256, 512}) {
    for (int blocks : {1, 2}) {
      auto const launch = [&] {
        gather<kLanes, kHeads, kPoints, kLevels, kSpread>
            <<<blocks * timer.sms(), threads>>>(w, timer.values(), timer.out());
      };
      auto const read = [&] {
        read_all<<<2 * timer.sms(), 512>>>(reinterpret_cast<const uint4*>(timer.values()),
                                           bytes / sizeof(uint4), timer.out());
      };
      cold = std::min(cold, timer.measure(launch));
      warm = std::min(warm, timer.measure(launch, read));
    }
  }
  std::printf("%-12s %6d %10d %12.1f %14.1f\n", w.name, kLanes * kLaneBytes, kLevels, cold, warm);
}

void measure_all(int device) {
  GpuTimer const timer(device, std::size_t{64} << 20);
  std::printf("%s, %d SMs, at most %.0f MHz\n\nThe gather alone, us\n", timer.properties().name,
              timer.sms(), 1e-6 * timer.clock_hz());
  std::printf("workload     row, B  levels          cold   values in L2\n");
  measure_workload<4, 8, 4, 4, 4>(timer, kDec);
  measure_workload<2, 8, 4, 4, 4>(timer, kDec);
  measure_workload<4, 8, 4, 4, 1>(timer, kEncoder);
  measure_workload<4, 8, 4, 2, 1>(timer, kEncoder);
  measure_workload<2, 8, 4, 4, 1>(timer, kEncoder);
  measure_workload<2, 8, 4, 2, 1>(timer, kEncoder);
  measure_workload<4, 1, 8, 4, 1>(timer, kFold);
  measure_workload<4, 1, 8, 2, 1>(timer, kFold);
  measure_workload<2, 1, 8, 4, 1>(timer, kFold);
  measure_workload<2, 1, 8, 2, 1>(timer, kFold);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    std::fprintf(stderr, "usage: msda_gather_limits [DEVICE]\n");
    return 2;
  }
  try {
    measure_all(argc == 2 ? std::atoi(argv[1]) : 0);
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
