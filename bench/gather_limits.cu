// What the gather alone takes on a GPU, with nothing to read but values: no coordinates, no
// weights, no sums. A kernel that reads the same rows in the same order is not faster.
//
//   msda_gather_limits [DEVICE]
//
// First cycles of an SM for one load of a warp (32 lanes of 16 bytes, 4 wavefronts) that hits L1;
// then microseconds for the points of workloads with points anywhere (bench/workloads.json), as far
// as they are read from global memory.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

namespace {

constexpr int kLaneBytes = 16, kLineBytes = 128;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

__device__ __forceinline__ uint4 load(const char* at) {
  uint4 v;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at));
  return v;
}

__device__ __forceinline__ void add(uint4& sum, uint4 const& v) {
  sum = {sum.x ^ v.x, sum.y ^ v.y, sum.z ^ v.z, sum.w ^ v.w};
}

__device__ __forceinline__ std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

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

class Device {
 public:
  explicit Device(int number) {
    check(cudaSetDevice(number), "cudaSetDevice");
    check(cudaGetDeviceProperties(&properties_, number), "cudaGetDeviceProperties");
    check(cudaDeviceGetAttribute(&clock_khz_, cudaDevAttrClockRate, number),
          "cudaDeviceGetAttribute");
    check(cudaMalloc(&values_, kValues), "cudaMalloc");
    check(cudaMemset(values_, 0, kValues), "cudaMemset");
    check(cudaMalloc(&out_, kOutput), "cudaMalloc");
    check(cudaMalloc(&flush_, kFlush), "cudaMalloc");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
    std::printf("%s, %d SMs, at most %d MHz\n\n", properties_.name, sms(), clock_khz_ / 1000);
  }

  int sms() const { return properties_.multiProcessorCount; }
  double clock_hz() const { return 1e3 * clock_khz_; }
  const char* values() const { return values_; }
  uint4* out() const { return out_; }

  // The median of 15, in microseconds, the caches flushed before each.
  double measure(std::function<void()> const& launch, std::size_t bytes_in_l2 = 0) const {
    std::vector<float> times;
    for (int i = 0; i < 17; ++i) {
      check(cudaMemset(flush_, i, kFlush), "cudaMemset");
      if (bytes_in_l2 > 0) {
        read_all<<<2 * sms(), 512>>>(reinterpret_cast<const uint4*>(values_), bytes_in_l2 / 16,
                                     out_);
      }
      check(cudaEventRecord(begin_), "cudaEventRecord");
      launch();
      check(cudaGetLastError(), "launching a kernel");
      check(cudaEventRecord(end_), "cudaEventRecord");
      check(cudaEventSynchronize(end_), "a kernel");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
      if (i >= 2) times.push_back(1e3f * ms);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }

 private:
  static constexpr std::size_t kValues = std::size_t{64} << 20, kOutput = kValues,
                               kFlush = std::size_t{256} << 20;
  cudaDeviceProp properties_;
  int clock_khz_ = 0;
  char *values_ = nullptr, *flush_ = nullptr;
  uint4* out_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// A quarter of a warp, 8 lanes, reads `rows` rows, each from a part of its line of its own; of
// them `same` at a time are in one line.
void measure_l1(Device const& device, int rows, int same) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> offsets;
  for (int load = 0; load < kWarps * kLoads; ++load) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      std::uint32_t line = 0;
      for (int row = 0; row < rows; ++row) {
        if (row % same == 0) line = random() % (kRegion / kLineBytes);
        for (int lane = 0; lane < 8 / rows; ++lane) {
          offsets.push_back(line * kLineBytes + (row * (8 / rows) + lane) * kLaneBytes);
        }
      }
    }
  }
  std::uint32_t* table = nullptr;
  std::size_t const bytes = offsets.size() * sizeof(offsets[0]);
  check(cudaMalloc(&table, bytes), "cudaMalloc");
  check(cudaMemcpy(table, offsets.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  double const us = device.measure(
      [&] { gather_from_l1<<<device.sms(), 32 * kWarps>>>(device.values(), table, device.out()); });
  check(cudaFree(table), "cudaFree");
  std::printf("%6d %14d %22.2f\n", kLineBytes / rows, rows / same * 4,
              1e-6 * us * device.clock_hz() / (double{kTurns} * kLoads * kWarps));
}

template <int kLanes, int kHeads, int kPoints, int kLevels, int kSpread>
void measure_workload(Device const& device, Workload const& w) {
  std::size_t const bytes = std::size_t{w.batch} * w.tokens * kHeads * kLanes * kLaneBytes;
  double cold = 1e30, warm = 1e30;
  for (int threads : {256, 512}) {
    for (int blocks : {1, 2}) {
      auto const launch = [&] {
        gather<kLanes, kHeads, kPoints, kLevels, kSpread>
            <<<blocks * device.sms(), threads>>>(w, device.values(), device.out());
      };
      cold = std::min(cold, device.measure(launch));
      warm = std::min(warm, device.measure(launch, bytes));
    }
  }
  std::printf("%-12s %6d %10d %12.1f %14.1f\n", w.name, kLanes * kLaneBytes, kLevels, cold, warm);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    std::fprintf(stderr, "usage: msda_gather_limits [DEVICE]\n");
    return 2;
  }
  Device const device(argc == 2 ? std::atoi(argv[1]) : 0);
  std::printf("A load of a warp from L1\nrow, B  lines of a load      cycles of an SM\n");
  for (auto const& [rows, same] : {std::array{1, 1}, {2, 1}, {4, 4}, {4, 2}, {4, 1}}) {
    measure_l1(device, rows, same);
  }
  std::printf("\nThe gather alone, us\nworkload     row, B  levels          cold   values in L2\n");
  measure_workload<4, 8, 4, 4, 4>(device, kDec);
  measure_workload<2, 8, 4, 4, 4>(device, kDec);
  measure_workload<4, 8, 4, 4, 1>(device, kEncoder);
  measure_workload<4, 8, 4, 2, 1>(device, kEncoder);
  measure_workload<2, 8, 4, 4, 1>(device, kEncoder);
  measure_workload<2, 8, 4, 2, 1>(device, kEncoder);
  measure_workload<4, 1, 8, 4, 1>(device, kFold);
  measure_workload<4, 1, 8, 2, 1>(device, kFold);
  measure_workload<2, 1, 8, 4, 1>(device, kFold);
  measure_workload<2, 1, 8, 2, 1>(device, kFold);
  return 0;
}
