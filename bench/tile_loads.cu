// What a tile takes an SM: 2 x 2 pixels of 32 channels in fp16, the corners of a sampling point,
// 256 bytes, at random places of a map. Tiles come
//
//   ldg           by loads of 16 bytes a lane, two tiles an instruction, into registers
//   cp.async.ca   by copies of 16 bytes a lane into shared memory, through L1
//   cp.async.cg   the same past L1
//   tma           by one box a tile into shared memory, one lane a warp
//
// 16 warps an SM, each with 8 tiles of two stages in flight (ldg: of one). Before anything is timed
// every way stores all its tiles, and each word is compared with the map's.
//
//   msda_tile_loads [--check | DEVICE]
//
// --check: no times. `msda roofline --calibrate` has the rates of single loads.
#include "kernels/common/launch.h"
#include "kernels/common/ptx.cuh"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <vector>

namespace {

using namespace msda;

enum class Way { ldg, cp_async_l1, cp_async_l2, tma };
constexpr const char* kNames[] = {"ldg", "cp.async.ca", "cp.async.cg", "tma"};

constexpr int kWarps = 16, kStages = 2, kLoads = 4;  // of a lane for the tiles of a stage
constexpr int kTileBytes = 256, kLaneBytes = 16, kTileLanes = kTileBytes / kLaneBytes;
constexpr int kOfStage = kLoads * 32 / kTileLanes;  // tiles
constexpr int kStageBytes = kOfStage * kTileBytes;
constexpr int kLineBytes = 128;
constexpr int kSharedBytes = kWarps * kStages * kStageBytes + kLineBytes;
constexpr std::uint32_t kPixelBytes = 64;

// A map of values, [height][width][32 channels], and the tiles of it that are loaded.
struct Tiles {
  const char* values;
  std::uint32_t width, height;
  std::uint32_t count;

  // The upper left pixel of a tile; those behind the last repeat it.
  __host__ __device__ void place(std::uint32_t tile, std::uint32_t& x, std::uint32_t& y) const {
    std::uint32_t hash = (tile < count ? tile : count - 1) + 1;
    hash = (hash ^ hash >> 16) * 0x7feb352du;
    hash = (hash ^ hash >> 15) * 0x846ca68bu;
    hash ^= hash >> 16;
    x = hash % (width - 1);
    y = hash / (width - 1) % (height - 1);
  }
  // Lane i of 16 has 16 bytes: of pixels (x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1) four lanes
  // each.
  __host__ __device__ std::uint64_t offset(std::uint32_t tile, std::uint32_t lane) const {
    std::uint32_t x, y;
    place(tile, x, y);
    std::uint64_t const pixel = std::uint64_t{y + lane / 8} * width + x + lane / 4 % 2;
    return pixel * kPixelBytes + lane % 4 * kLaneBytes;
  }
};

template <Way kWay, bool kStores>
class Warp {
 public:
  __device__ Warp(const CUtensorMap& map, Tiles const& tiles, uint4* out, std::uint32_t stages,
                  std::uint32_t barriers)
      : map_(map),
        tiles_(tiles),
        out_(out),
        lane_(threadIdx.x % 32),
        stages_(stages + threadIdx.x / 32 * kStages * kStageBytes),
        barriers_(barriers + threadIdx.x / 32 * kStages * 8) {}

  __device__ void run() {
    std::uint32_t const warp = blockIdx.x * kWarps + threadIdx.x / 32;
    std::uint32_t const step = gridDim.x * kWarps * kOfStage;
    std::uint32_t const first = warp * kOfStage;
    std::uint32_t turn = 0;
    if constexpr (kWay == Way::ldg) {
      for (std::uint32_t tile = first; tile < tiles_.count; tile += step) load(tile);
    } else {
      send(first, 0);
      for (std::uint32_t tile = first; tile < tiles_.count; tile += step, ++turn) {
        send(tile + step, turn + 1);
        wait(turn);
        read(tile, turn);
        __syncwarp();
      }
      wait_for_last(turn);
    }
    // Values are never like that in a run that is timed, but the loads have to be made.
    if (!kStores && sum_.x == 0x12345678 && sum_.y == 0x87654321) *out_ = sum_;
  }

 private:
  __device__ std::uint32_t tile_of(std::uint32_t tile, int i) const {
    return tile + i * (32 / kTileLanes) + lane_ / kTileLanes;
  }
  __device__ std::uint32_t stage(std::uint32_t turn) const {
    return stages_ + turn % kStages * kStageBytes;
  }
  __device__ std::uint32_t barrier(std::uint32_t turn) const {
    return barriers_ + turn % kStages * 8;
  }

  __device__ void take(std::uint32_t tile, std::uint32_t const (&word)[4]) {
    if constexpr (kStores) {
      if (tile >= tiles_.count) return;
      out_[std::uint64_t{tile} * kTileLanes + lane_ % kTileLanes] =
          make_uint4(word[0], word[1], word[2], word[3]);
    } else {
      sum_ = make_uint4(sum_.x ^ word[0], sum_.y ^ word[1], sum_.z ^ word[2], sum_.w ^ word[3]);
    }
  }

  __device__ void load(std::uint32_t tile) {
    std::uint32_t word[kLoads][4];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      ptx::load_global(tiles_.values + tiles_.offset(tile_of(tile, i), lane_ % kTileLanes),
                       word[i]);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) take(tile_of(tile, i), word[i]);
  }

  // Behind the last tile a stage is sent once more, and nobody reads it.
  __device__ void send(std::uint32_t tile, std::uint32_t turn) {
    if constexpr (kWay == Way::tma) {
      if (lane_ != 0) return;
      ptx::arrive_and_expect(barrier(turn), kStageBytes);
      for (int i = 0; i < kOfStage; ++i) {
        std::uint32_t x, y;
        tiles_.place(tile + i, x, y);
        ptx::tensor_load(stage(turn) + i * kTileBytes, &map_,
                         {0, static_cast<std::int32_t>(x), static_cast<std::int32_t>(y)},
                         barrier(turn));
      }
    } else {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const char* const from =
            tiles_.values + tiles_.offset(tile_of(tile, i), lane_ % kTileLanes);
        std::uint32_t const to = stage(turn) + (i * 32 + lane_) * kLaneBytes;
        if constexpr (kWay == Way::cp_async_l1) {
          ptx::copy_async_by_l1(to, from, kLaneBytes);
        } else {
          ptx::copy_async(to, from);
        }
      }
      ptx::commit_copies();
    }
  }
  __device__ void wait(std::uint32_t turn) const {
    if constexpr (kWay == Way::tma) {
      ptx::wait_parity(barrier(turn), turn / kStages % 2);
    } else {
      ptx::wait_for_copy_groups<kStages - 1>();
    }
  }
  __device__ void wait_for_last(std::uint32_t turn) const {
    if constexpr (kWay == Way::tma) {
      wait(turn);
    } else {
      ptx::wait_for_copy_groups<0>();
    }
  }
  __device__ void read(std::uint32_t tile, std::uint32_t turn) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      std::uint32_t word[4];
      ptx::load_shared(stage(turn) + (i * 32 + lane_) * kLaneBytes, word);
      take(tile_of(tile, i), word);
    }
  }

  const CUtensorMap& map_;
  Tiles const& tiles_;
  uint4* out_;  // [tiles][16]
  std::uint32_t lane_, stages_, barriers_;
  uint4 sum_ = {};
};

template <Way kWay, bool kStores>
__global__ void __launch_bounds__(32 * kWarps, 1)
    load_tiles(const __grid_constant__ CUtensorMap map, const __grid_constant__ Tiles tiles,
               uint4* out) {
  MSDA_DYNAMIC_SHARED(storage);
  MSDA_SHARED(std::uint64_t, barriers, [kWarps * kStages]);
  auto const at = static_cast<std::uint32_t>(__cvta_generic_to_shared(storage));
  auto const first = static_cast<std::uint32_t>(__cvta_generic_to_shared(&barriers[0]));
  if (threadIdx.x == 0) {
    for (int i = 0; i < kWarps * kStages; ++i) ptx::init_mbarrier(first + 8 * i, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  Warp<kWay, kStores>(map, tiles, out, (at + kLineBytes - 1) / kLineBytes * kLineBytes, first)
      .run();
}

using TilesKernel = Kernel<CUtensorMap, Tiles, uint4*>;
template <bool kStores>
TilesKernel load_way(Way way) {
  switch (way) {
    case Way::ldg:
      return load_kernel(load_tiles<Way::ldg, kStores>, kSharedBytes);
    case Way::cp_async_l1:
      return load_kernel(load_tiles<Way::cp_async_l1, kStores>, kSharedBytes);
    case Way::cp_async_l2:
      return load_kernel(load_tiles<Way::cp_async_l2, kStores>, kSharedBytes);
    default:
      return load_kernel(load_tiles<Way::tma, kStores>, kSharedBytes);
  }
}

CUtensorMap tensor_map(Tiles const& tiles) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  cuda::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                               cudaEnableDefault, &result),
              "looking for cuTensorMapEncodeTiled");
  if (found == nullptr) throw std::runtime_error("the driver has no cuTensorMapEncodeTiled");
  std::uint64_t const size[] = {32, tiles.width, tiles.height};
  std::uint64_t const strides[] = {kPixelBytes, std::uint64_t{kPixelBytes} * tiles.width};
  std::uint32_t const box[] = {32, 2, 2}, steps[] = {1, 1, 1};
  CUtensorMap map{};
  CUresult const error = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, const_cast<char*>(tiles.values), size, strides, box,
      steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (error != CUDA_SUCCESS) throw std::runtime_error("encoding a tensor map failed");
  return map;
}

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) { cuda::check(cudaMalloc(&data_, bytes), "allocating"); }
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(DeviceMemory const&) = delete;
  char* data() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
};

// All tiles of all ways, on a small map, the last stage not full.
bool check_ways() {
  constexpr std::uint32_t kWidth = 37, kHeight = 23, kCount = 1003, kBlocks = 3;
  std::vector<std::uint32_t> values(kWidth * kHeight * kPixelBytes / 4);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::uint32_t>(i) * 2654435761u;
  }
  DeviceMemory const map_memory(values.size() * 4), out(kCount * kTileBytes);
  cuda::check(
      cudaMemcpy(map_memory.data(), values.data(), values.size() * 4, cudaMemcpyHostToDevice),
      "copying");
  Tiles const tiles = {map_memory.data(), kWidth, kHeight, kCount};
  bool good = true;
  for (int way = 0; way < 4; ++way) {
    cuda::check(cudaMemset(out.data(), 0xff, kCount * kTileBytes), "poisoning");
    launch_kernel(load_way<true>(static_cast<Way>(way)),
                  {.blocks = kBlocks, .threads = 32 * kWarps, .shared_bytes = kSharedBytes},
                  nullptr, tensor_map(tiles), tiles, reinterpret_cast<uint4*>(out.data()));
    std::vector<char> found(kCount * kTileBytes);
    cuda::check(cudaMemcpy(found.data(), out.data(), found.size(), cudaMemcpyDeviceToHost),
                "copying back");
    std::uint32_t wrong = 0;
    for (std::uint32_t i = 0; i < kCount * kTileLanes; ++i) {
      const char* const expected = reinterpret_cast<const char*>(values.data()) +
                                   tiles.offset(i / kTileLanes, i % kTileLanes);
      wrong += std::memcmp(found.data() + i * kLaneBytes, expected, kLaneBytes) != 0 ? 1 : 0;
    }
    std::printf("%-12s %u tiles: %u of %u parts differ\n", kNames[way], kCount, wrong,
                kCount * kTileLanes);
    good = good && wrong == 0;
  }
  return good;
}

struct Clock {
  cudaEvent_t begin = nullptr, end = nullptr;
  Clock() {
    cuda::check(cudaEventCreate(&begin), "creating an event");
    cuda::check(cudaEventCreate(&end), "creating an event");
  }
  ~Clock() {
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
  }

  // The median of 15 launches, microseconds.
  template <class Fn>
  double measure(Fn launch) const {
    std::vector<float> times;
    for (int i = 0; i < 17; ++i) {
      cuda::check(cudaEventRecord(begin), "recording an event");
      launch();
      cuda::check(cudaEventRecord(end), "recording an event");
      cuda::check(cudaEventSynchronize(end), "loading tiles");
      float ms = 0;
      cuda::check(cudaEventElapsedTime(&ms, begin, end), "timing");
      if (i >= 2) times.push_back(1e3f * ms);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }
};

void time_ways(int device) {
  struct Region {
    const char* name;
    std::uint32_t width, height;
  };
  constexpr Region kRegions[] = {{"64 KB", 32, 32}, {"16 MB", 512, 512}, {"1 GB", 4096, 4096}};
  int sms = 0, clock_khz = 0;
  cuda::check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "asking");
  cuda::check(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, device), "asking");
  Clock const clock;
  std::printf("cycles of an SM (at %d MHz) a tile; TB/s\n%-12s", clock_khz / 1000, "");
  for (Region const& region : kRegions) std::printf("%18s", region.name);
  std::printf("\n");
  for (int way = 0; way < 4; ++way) {
    TilesKernel const kernel = load_way<false>(static_cast<Way>(way));
    std::printf("%-12s", kNames[way]);
    for (Region const& region : kRegions) {
      std::size_t const bytes = std::size_t{region.width} * region.height * kPixelBytes;
      DeviceMemory const memory(bytes);
      cuda::check(cudaMemset(memory.data(), 0, bytes), "clearing the map");
      auto const count = static_cast<std::uint32_t>(sms) * kWarps * kOfStage * 64;
      Tiles const tiles = {memory.data(), region.width, region.height, count};
      CUtensorMap const map = tensor_map(tiles);
      double const us = clock.measure([&] {
        launch_kernel(kernel, {.blocks = sms, .threads = 32 * kWarps, .shared_bytes = kSharedBytes},
                      nullptr, map, tiles, reinterpret_cast<uint4*>(memory.data()));
      });
      double const cycles = us * 1e-3 * clock_khz / (static_cast<double>(count) / sms);
      std::printf("%10.2f%8.2f", cycles, 1e-6 * count * kTileBytes / us);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bool const only_check = argc > 1 && std::strcmp(argv[1], "--check") == 0;
    int const device = argc > 1 && !only_check ? std::atoi(argv[1]) : 0;
    cuda::check(cudaSetDevice(device), "choosing the device");
    if (!check_ways()) return 1;
    if (!only_check) time_ways(device);
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "msda_tile_loads: %s\n", error.what());
    return 1;
  }
}
