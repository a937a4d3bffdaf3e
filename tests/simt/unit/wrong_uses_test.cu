// Each wrong use of the simulated device ends the kernel with a report that says what, where, and
// by which thread.
#include "cuda/sim_memory.h"
#include "kernels/common/ptx.cuh"
#include "ptx/ptx_run.cuh"
#include "ptx/tensor_maps.cuh"
#include "support/gpu_tests.h"

#include <string>

namespace msda::test {
namespace {

// Runs a kernel by the runtime alone; the report of its failure, or nothing.
template <typename... Parameters>
std::string report_of(void (*kernel)(Parameters...), simt::Launch launch,
                      std::type_identity_t<Parameters> const&... parameters) {
  void* pointers[] = {const_cast<Parameters*>(&parameters)..., nullptr};
  launch.kernel = simt::find_kernel(simt::kernel_entry(kernel));
  launch.parameters = pointers;
  simt::cuda::OpenMemory const open(0, {});
  simt::return_failures(true);
  std::optional<simt::Failure> const failure = simt::run_kernels({&launch, 1});
  simt::return_failures(false);
  return failure.has_value() ? failure->report : "";
}

simt::Launch shape(unsigned blocks, unsigned threads, unsigned cluster = 1) {
  simt::Launch launch;
  launch.grid = dim3(blocks);
  launch.block = dim3(threads);
  launch.cluster = dim3(cluster);
  return launch;
}

void check_report(std::string const& report, std::string const& what) {
  CAPTURE(report);
  CHECK(report.find(what) != std::string::npos);
  CHECK(report.find("wrong_uses_test.cu:") != std::string::npos);
  CHECK(report.find("MSDA_SIMT_SCHEDULE=") != std::string::npos);
}

__global__ void diverge_at_barriers() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void skip_barrier() {
  if (threadIdx.x < 40) __syncthreads();
}
__global__ void diverge_in_collectives(int* to) {
  int x = static_cast<int>(threadIdx.x);
  if (threadIdx.x < 16) {
    x = __shfl_sync(0xffffffffu, x, 0);
  } else {
    x = __shfl_xor_sync(0xffffffffu, x, 1);
  }
  to[0] = x;
}
__global__ void read_absent_lane(int* to) {
  if (threadIdx.x >= 8) return;
  to[threadIdx.x] = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x), 9);
}
__global__ void leave_own_mask() { __syncwarp(0xfffffffeu); }
__global__ void skip_shuffle(int* to) {
  if (threadIdx.x != 5) to[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
  __syncthreads();
}
__global__ void trap() { __trap(); }

__global__ void read_ended_block(std::uint32_t* to) {
  MSDA_SHARED(std::uint32_t, word, );
  word = 1;
  ptx::sync_cluster();
  if (ptx::cluster_rank() == 1) return;
  for (int i = 0; i < 100; ++i) __nanosleep(100);
  to[0] = ptx::load_cluster(ptx::map_shared(shared_address(&word), 1));
}
__global__ void read_early(std::uint32_t* to) {
  MSDA_SHARED(std::uint32_t, word, );
  word = 1;
  to[0] = ptx::load_cluster(ptx::map_shared(shared_address(&word), ptx::cluster_rank() ^ 1));
}
__global__ void exit_between() { ptx::arrive_cluster(); }
__global__ void wait_without_arrival() { ptx::wait_cluster(); }

__global__ void wait_forever() {
  MSDA_SHARED(std::uint64_t, object, );
  std::uint32_t const at = shared_address(&object);
  if (threadIdx.x == 0) ptx::init_mbarrier(at, 2);
  __syncthreads();
  if (threadIdx.x == 0) ptx::arrive_mbarrier(at);
  ptx::wait_parity(at, 0);
}
__global__ void poll_forever() {
  MSDA_SHARED(std::uint32_t, word, );
  word = 0;
  while (atomicAdd(&word, 0u) == 0) __nanosleep(100);
}
__global__ void arrive_too_often() {
  MSDA_SHARED(std::uint64_t, object, );
  std::uint32_t const at = shared_address(&object);
  ptx::init_mbarrier(at, 1);
  ptx::arrive_and_expect(at, 16);  // the bytes keep the phase open
  ptx::arrive_mbarrier(at);
}
__global__ void init_twice() {
  MSDA_SHARED(std::uint64_t, object, );
  ptx::init_mbarrier(shared_address(&object), 1);
  ptx::init_mbarrier(shared_address(&object), 1);
}
__global__ void use_no_mbarrier() {
  MSDA_SHARED(std::uint64_t, object, );
  ptx::arrive_mbarrier(shared_address(&object));
}

__global__ void misalign_shared() {
  MSDA_SHARED(uint4, quads, [2]);
  std::uint32_t words[4];
  ptx::load_shared(shared_address(quads) + 4, words);
}
__global__ void overrun_shared() {
  MSDA_SHARED(uint4, quads, [2]);
  std::uint32_t words[4];
  ptx::load_shared(shared_address(quads) + 32, words);
}
__global__ void misalign_global(const char* from) {
  std::uint32_t words[4];
  ptx::load_global(from + 8, words);
}
__global__ void overrun_global(const char* from) {
  std::uint32_t words[4];
  ptx::load_global(from + 64, words);
}
__global__ void misalign_plain(const char* from, float2* to) {
  *to = __ldg(reinterpret_cast<const float2*>(from + 4));
}
__global__ void forget_copy(const char* from) {
  MSDA_SHARED(uint4, quad, );
  ptx::copy_async(shared_address(&quad), from);
}
__global__ void expect_too_little(const char* from) {
  MSDA_SHARED(uint4, quads, [4]);
  MSDA_SHARED(std::uint64_t, full, );
  std::uint32_t const barrier = shared_address(&full);
  ptx::init_mbarrier(barrier, 1);
  ptx::arrive_and_expect(barrier, 48);
  ptx::bulk_load(shared_address(quads), from, 64, barrier);
  ptx::wait_parity(barrier, 0);
}
__global__ void load_between(const __grid_constant__ CUtensorMap map) {
  MSDA_SHARED(uint4, quads, [128]);
  MSDA_SHARED(std::uint64_t, full, );
  std::uint32_t const barrier = shared_address(&full);
  ptx::init_mbarrier(barrier, 1);
  ptx::arrive_and_expect(barrier, 8 * 4 * 4);
  std::uint32_t const to = (shared_address(quads) + 127) / 128 * 128;
  ptx::tensor_load(to, &map, {3, 0}, barrier);
}
__global__ void ask_for_much() {
  MSDA_SHARED(uint4, quads, [14336]);  // 224 KiB
  quads[threadIdx.x] = {1, 2, 3, 4};
}

}  // namespace

TEST_CASE("simt: threads of a block must meet at one barrier") {
  check_report(report_of(diverge_at_barriers, shape(1, 64)), "meet at different barriers");
  check_report(report_of(skip_barrier, shape(1, 64)), "__syncthreads()");
}

TEST_CASE("simt: lanes of a warp must meet in one collective") {
  DeviceVector<int> const to(64);
  check_report(report_of(diverge_in_collectives, shape(1, 32), to.data()), "different places");
  check_report(report_of(read_absent_lane, shape(1, 32), to.data()), "reads lane 9");
  check_report(report_of(leave_own_mask, shape(1, 32)), "is not in the mask");
  check_report(report_of(skip_shuffle, shape(1, 64), to.data()), "deadlock");
}

TEST_CASE("simt: __trap() ends the kernel") {
  std::string const report = report_of(trap, shape(3, 64));
  check_report(report, "__trap()");
  CHECK(report.find("block (0, 0, 0) thread (") != std::string::npos);
  CHECK(report.find("trap") != std::string::npos);
}

TEST_CASE("simt: memory of a block that has ended is not there") {
  DeviceVector<std::uint32_t> const to(1);
  check_report(report_of(read_ended_block, shape(2, 32, 2), to.data()), "a block that has ended");
}

TEST_CASE("simt: memory of another block is there when the cluster has met") {
  DeviceVector<std::uint32_t> const to(1);
  check_report(report_of(read_early, shape(2, 32, 2), to.data()), "may not have begun");
}

TEST_CASE("simt: the cluster's barrier is arrived at, then waited for") {
  check_report(report_of(exit_between, shape(2, 32, 2)), "exits between");
  check_report(report_of(wait_without_arrival, shape(2, 32, 2)), "without barrier.cluster.arrive");
}

TEST_CASE("simt: waits that nobody ends are reported, with who waits where") {
  std::string const report = report_of(wait_forever, shape(1, 64));
  check_report(report, "deadlock");
  CHECK(report.find("64 threads") != std::string::npos);
  CHECK(report.find("mbarrier.try_wait") != std::string::npos);
  CHECK(report_of(poll_forever, shape(1, 64)).find("poll") != std::string::npos);
}

TEST_CASE("simt: mbarriers are initialised once and count their arrivals") {
  check_report(report_of(arrive_too_often, shape(1, 1)), "arrive at the mbarrier");
  check_report(report_of(init_twice, shape(1, 1)), "initialised again");
  check_report(report_of(use_no_mbarrier, shape(1, 1)), "no mbarrier was initialised");
}

TEST_CASE("simt: addresses are in bounds and aligned") {
  DeviceVector<std::uint32_t> const from(16);
  auto const* const bytes = reinterpret_cast<const char*>(from.data());
  DeviceVector<float2> const to(1);
  check_report(report_of(misalign_shared, shape(1, 1)), "is not a multiple of 16");
#if defined(__SANITIZE_ADDRESS__)
  check_report(report_of(overrun_shared, shape(1, 1)), "are not in a shared variable");
#endif
  check_report(report_of(misalign_global, shape(1, 1), bytes), "is not a multiple of 16");
  check_report(report_of(overrun_global, shape(1, 1), bytes), "are not in device memory");
  check_report(report_of(misalign_plain, shape(1, 1), bytes, to.data()), "__ldg()");
}

TEST_CASE("simt: copies are waited for") {
  DeviceVector<std::uint32_t> const memory(16);
  auto* const bytes = reinterpret_cast<char*>(memory.data());
  check_report(report_of(forget_copy, shape(1, 1), bytes), "before its asynchronous copy");
  check_report(report_of(expect_too_little, shape(1, 1), bytes), "deadlock");
}

TEST_CASE("simt: tiles begin at multiples of 16 bytes") {
  DeviceVector<std::uint32_t> const tensor(40 * 9);
  CUtensorMap const map = tensor_map<2>(tensor.data(), {40, 9}, {8, 4}, CU_TENSOR_MAP_SWIZZLE_NONE);
  check_report(report_of(load_between, shape(1, 1), map), "no multiple of 16 bytes");
}

TEST_CASE("simt: a block has no more shared memory than the device") {
  CHECK(report_of(ask_for_much, shape(1, 32)) == "");
  simt::Launch launch = shape(1, 32);
  launch.dynamic_shared_bytes = 16 << 10;
  check_report(report_of(ask_for_much, launch), "bytes of shared memory");
}

}  // namespace msda::test
