// The wrappers of kernels/common/ptx.cuh that move bytes or vote, and cp.async.
#include "kernels/common/ptx.cuh"
#include "ptx/ptx_run.cuh"
#include "support/gpu_tests.h"

namespace msda::test {
namespace {

__global__ void load_words(const char* from, std::uint32_t* to) {
  std::uint32_t words[4];
  ptx::load_global(from + 16 * threadIdx.x, words);
  for (int i = 0; i < 4; ++i) to[4 * threadIdx.x + i] = words[i];
}

template <int kBytes, typename Fetch>
__global__ void stream_words(const char* from, std::uint32_t* to) {
  constexpr int kWords = (kBytes + 3) / 4;
  std::uint32_t words[4] = {};
  ptx::stream_global<kBytes, Fetch>(from + kBytes * threadIdx.x, words);
  for (int i = 0; i < kWords; ++i) to[kWords * threadIdx.x + i] = words[i];
}

// Each lane reads what its neighbour stored.
__global__ void exchange_in_shared(std::uint32_t* to) {
  MSDA_SHARED(uint4, quads, [32]);
  MSDA_SHARED(uint2, pairs, [32]);
  std::uint32_t const i = threadIdx.x, other = i ^ 1;
  ptx::store_shared(shared_address(quads + i), i, 100 + i, 200 + i, 300 + i);
  ptx::store_shared(shared_address(pairs + i), 400 + i, 500 + i);
  __syncwarp();
  std::uint32_t quad[4], pair[2];
  ptx::load_shared(shared_address(quads + other), quad);
  ptx::load_shared(shared_address(pairs + other), pair);
  for (int j = 0; j < 4; ++j) to[6 * i + j] = quad[j];
  for (int j = 0; j < 2; ++j) to[6 * i + 4 + j] = pair[j];
}

__global__ void copy_late(const char* from, std::uint32_t* to) {
  MSDA_SHARED(uint4, quads, [32]);
  ptx::copy_async(shared_address(quads + threadIdx.x), from + 16 * threadIdx.x);
  ptx::wait_for_copies();
  __syncwarp();
  uint4 const quad = quads[31 - threadIdx.x];
  to[threadIdx.x] = quad.x + quad.w;
}

__global__ void copy_or_zero(const std::uint32_t* from, std::uint32_t from_bytes,
                             std::uint32_t* to) {
  MSDA_SHARED(uint4, quad, );
  ptx::copy_async_by_l1(shared_address(&quad), from, from_bytes);
  ptx::wait_for_copies();
  for (int i = 0; i < 4; ++i) to[i] = reinterpret_cast<const std::uint32_t*>(&quad)[i];
}

// A pipeline of two stages: the sum of each chunk while the next one is copied.
__global__ void copy_in_groups(const std::uint32_t* from, std::uint32_t* to) {
  MSDA_SHARED(uint4, stage, [2][32]);
  constexpr std::uint32_t kChunks = 8;
  std::uint32_t const i = threadIdx.x;
  ptx::copy_async_by_l1(shared_address(&stage[0][i]), from + 4 * i, 16);
  ptx::commit_copies();
  std::uint32_t sum = 0;
  for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    if (chunk + 1 < kChunks) {
      ptx::copy_async_by_l1(shared_address(&stage[(chunk + 1) % 2][i]),
                            from + 4 * (32 * (chunk + 1) + i), 16);
    }
    ptx::commit_copies();
    ptx::wait_for_copy_groups<1>();
    __syncwarp();
    sum = 3 * sum + stage[chunk % 2][31 - i].w;
    __syncwarp();
  }
  to[i] = sum;
}

__global__ void count_up(std::uint32_t* to) {
  MSDA_SHARED(std::uint32_t, number, );
  if (threadIdx.x == 0) number = 7;
  __syncthreads();
  std::uint32_t const lane = threadIdx.x % 32;
  to[threadIdx.x] = ptx::count_up_shared(shared_address(&number), lane);
  __syncthreads();
  if (threadIdx.x == 0) to[128] = number;
}

__global__ void vote_by_bits(std::uint32_t* to) {
  for (std::uint32_t bit = 0; bit < 8; ++bit) {
    to[8 * threadIdx.x + bit] = ptx::lanes_of_bit(threadIdx.x * 37, 1u << bit);
  }
}

// Across the border of 32 bits, and with a carry into the upper half.
__global__ void add_to_addresses(std::uint64_t* to) {
  std::uint64_t const at = 0x7f00fffffff0u + 8u * threadIdx.x;
  std::uint64_t const bytes = std::uint64_t{threadIdx.x} << 30;
  to[threadIdx.x] =
      reinterpret_cast<std::uint64_t>(ptx::add_wide(reinterpret_cast<const char*>(at), bytes));
}

__global__ void add_fours(float* to) {
  auto const lane = static_cast<float>(threadIdx.x % 32);
  ptx::add_global(to + threadIdx.x % 2 * 4, lane, 2 * lane, 3 * lane, 4 * lane);
}

template <int kBytes, typename Fetch>
void check_stream_with() {
  CAPTURE(kBytes);
  DeviceVector<std::uint32_t> const from(counted(32 * 4));
  std::size_t const words = (kBytes + 3) / 4;
  DeviceVector<std::uint32_t> const to(32 * words);
  run(stream_words<kBytes, Fetch>, {.blocks = 1, .threads = 32},
      reinterpret_cast<const char*>(from.data()), to.data());
  std::vector<std::uint32_t> expected = counted(32 * words);
  if (kBytes == 2) {  // halves of words below 2^16
    for (std::size_t i = 0; i < 32; ++i)
      expected[i] = static_cast<std::uint32_t>(i % 2 ? 0 : i / 2);
  }
  CHECK(to.values() == expected);
}
template <int kBytes>
void check_stream() {
  check_stream_with<kBytes, ptx::Sectors>();
  check_stream_with<kBytes, ptx::Neighbours>();
}

void check_copy_or_zero(std::uint32_t from_bytes) {
  CAPTURE(from_bytes);
  DeviceVector<std::uint32_t> const from(std::vector<std::uint32_t>(4, 0x01020304));
  DeviceVector<std::uint32_t> const to(4);
  run(copy_or_zero, {.blocks = 1, .threads = 1}, from.data(), from_bytes, to.data());
  std::vector<std::uint32_t> expected(4, 0);
  for (std::uint32_t i = 0; i < from_bytes; ++i) {
    expected[i / 4] |= (0x01020304u >> (8 * (i % 4)) & 0xff) << (8 * (i % 4));
  }
  CHECK(to.values() == expected);
}

}  // namespace

TEST_CASE("ptx: 16 bytes of a tensor are loaded" * needs_gpu()) {
  DeviceVector<std::uint32_t> const from(counted(128)), to(128);
  run(load_words, {.blocks = 1, .threads = 32}, reinterpret_cast<const char*>(from.data()),
      to.data());
  CHECK(to.values() == counted(128));
}

TEST_CASE("ptx: 2 to 16 bytes are streamed" * needs_gpu()) {
  check_stream<2>();
  check_stream<4>();
  check_stream<8>();
  check_stream<16>();
}

TEST_CASE("ptx: words go through shared memory by its addresses" * needs_gpu()) {
  DeviceVector<std::uint32_t> const to(32 * 6);
  run(exchange_in_shared, {.blocks = 1, .threads = 32}, to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t i = 0; i < 32; ++i) {
    for (std::uint32_t j = 0; j < 6; ++j) CHECK(values[6 * i + j] == 100 * j + (i ^ 1));
  }
}

TEST_CASE("ptx: cp.async copies 16 bytes" * needs_gpu()) {
  DeviceVector<std::uint32_t> const from(counted(128)), to(32);
  run(copy_late, {.blocks = 1, .threads = 32}, reinterpret_cast<const char*>(from.data()),
      to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(values[i] == 2 * 4 * (31 - i) + 3);
}

TEST_CASE("ptx: cp.async fills with zeros" * needs_gpu()) {
  for (std::uint32_t const bytes : {0u, 1u, 6u, 12u, 16u}) check_copy_or_zero(bytes);
}

TEST_CASE("ptx: groups of cp.async are waited for in order" * needs_gpu()) {
  DeviceVector<std::uint32_t> const from(counted(1024)), to(32);
  run(copy_in_groups, {.blocks = 1, .threads = 32}, from.data(), to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t i = 0; i < 32; ++i) {
    std::uint32_t sum = 0;
    for (std::uint32_t chunk = 0; chunk < 8; ++chunk) sum = 3 * sum + 4 * (32 * chunk + 31 - i) + 3;
    CHECK(values[i] == sum);
  }
}

TEST_CASE("ptx: four numbers are added to global memory" * needs_gpu()) {
  DeviceVector<float> const to(std::vector<float>(8, 0.5f));
  run(add_fours, {.blocks = 3, .threads = 64}, to.data());
  std::vector<float> const values = to.values();
  // Lanes of 6 warps with an even number add to the first four, the others to the
  // rest.
  float const of_lanes[2] = {6 * 240.0f, 6 * 256.0f};  // 0 + 2 + ... + 30, 1 + 3 + ... + 31
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(values[i] == 0.5f + static_cast<float>(i % 4 + 1) * of_lanes[i / 4]);
  }
}

TEST_CASE("ptx: a lane counts up in shared memory" * needs_gpu()) {
  DeviceVector<std::uint32_t> const to(129);
  run(count_up, {.blocks = 1, .threads = 128}, to.data());
  std::vector<std::uint32_t> const values = to.values();
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < 128; ++i) {
    sum += values[i];
    if (i % 32 != 0) CHECK(values[i] == 0);
  }
  CHECK(sum == 7 + 8 + 9 + 10);
  CHECK(values[128] == 11);
}

TEST_CASE("ptx: 64 bits are added to an address" * needs_gpu()) {
  DeviceVector<std::uint64_t> const to(64);
  run(add_to_addresses, {.blocks = 1, .threads = 64}, to.data());
  std::vector<std::uint64_t> const sums = to.values();
  for (std::uint64_t i = 0; i < sums.size(); ++i) {
    CAPTURE(i);
    CHECK(sums[i] == 0x7f00fffffff0u + 8 * i + (i << 30));
  }
}

TEST_CASE("ptx: votes by bits of a key" * needs_gpu()) {
  DeviceVector<std::uint32_t> const to(32 * 8);
  run(vote_by_bits, {.blocks = 1, .threads = 32}, to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t i = 0; i < 32 * 8; ++i) {
    CAPTURE(i);
    std::uint32_t expected = 0;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      bool const is_same = ((lane * 37 ^ i / 8 * 37) >> i % 8 & 1) == 0;
      expected |= (is_same ? 1u : 0u) << lane;
    }
    CHECK(values[i] == expected);
  }
}

}  // namespace msda::test
