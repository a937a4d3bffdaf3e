// Launches: what is refused, what stays, what overlaps, and what kernels tell about themselves.
#include "cuda/tests/sim_fixture.h"

#include <cstring>
#include <memory>

using namespace simt::cuda::test;
using simt::cuda::ScopedSettings;
using simt::cuda::Settings;

namespace {

void nothing_kernel() {}

struct alignas(64) Large {
  int values[300];
};
void large_kernel(int* to, Large const& from, char offset) {
  int const i = index();
  if (i < kCount) to[i] = from.values[i + offset];
}
void by_value_kernel(int* to, Large from, char offset) { large_kernel(to, from, offset); }

cudaError_t launch_nothing(LaunchShape const& shape) {
  return launch(shape, nullptr, nothing_kernel);
}

const void* entry() { return simt::kernel_entry(nothing_kernel); }

Settings with_capability(int capability) {
  Settings s = simt::cuda::settings();
  s.capability = capability;
  return s;
}

int max_blocks(int threads, std::size_t shared) {
  int count = -1;
  REQUIRE(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, entry(), threads, shared) ==
          cudaSuccess);
  return count;
}

cudaError_t max_clusters(unsigned cluster, std::size_t shared, int& count) {
  return cudaOccupancyMaxActiveClusters(&count, entry(),
                                        LaunchConfig({cluster, 128, cluster, shared}));
}

}  // namespace

TEST_CASE("shapes that no device runs") {
  CHECK(launch_nothing({0, 32}) == cudaErrorInvalidConfiguration);
  CHECK(launch_nothing({1, 0}) == cudaErrorInvalidConfiguration);
  CHECK(launch_nothing({1, 1025}) == cudaErrorInvalidConfiguration);
  CHECK(launch_nothing({0x80000000u, 1}) == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(launch_nothing({1, 1024}) == cudaSuccess);
  CHECK(cudaLaunchKernel(entry(), dim3(1, 65536), dim3(1), nullptr, 0, nullptr) ==
        cudaErrorInvalidConfiguration);
  CHECK(cudaLaunchKernel(entry(), dim3(1), dim3(1, 1, 65), nullptr, 0, nullptr) ==
        cudaErrorInvalidConfiguration);
  CHECK(cudaLaunchKernel(entry(), dim3(1), dim3(4, 4, 4), nullptr, 0, nullptr) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("what is no kernel") {
  int data = 0;
  cudaKernel_t kernel = nullptr;
  CHECK(cudaLaunchKernel(&data, dim3(1), dim3(1), nullptr, 0, nullptr) ==
        cudaErrorInvalidDeviceFunction);
  CHECK(cudaLaunchKernel(nullptr, dim3(1), dim3(1), nullptr, 0, nullptr) ==
        cudaErrorInvalidDeviceFunction);
  CHECK(cudaGetKernel(&kernel, &data) == cudaErrorInvalidDeviceFunction);
  CHECK(cudaFuncSetAttribute(&data, cudaFuncAttributeMaxDynamicSharedMemorySize, 1) ==
        cudaErrorInvalidDeviceFunction);
  CHECK(cudaLaunchKernelExC(nullptr, entry(), nullptr) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("a kernel's handle is as good as its address") {
  Ints a;
  cudaKernel_t kernel = nullptr, again = nullptr;
  REQUIRE(cudaGetKernel(&kernel, simt::kernel_entry(set_kernel)) == cudaSuccess);
  REQUIRE(cudaGetKernel(&again, simt::kernel_entry(set_kernel)) == cudaSuccess);
  CHECK(kernel == again);
  int value = 12, count = kCount;
  void* arguments[] = {&a.data, &value, &count};
  LaunchConfig const config(LaunchShape{});
  CHECK(cudaLaunchKernelExC(config, kernel, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaLaunchKernelExC(config, kernel, arguments) == cudaSuccess);
  value = 13;
  CHECK(a.read() == all(12));
  cudaGetLastError();
}

TEST_CASE("arguments of every size and alignment are copied") {
  Ints a;
  {
    auto const large = std::make_unique<Large>();
    for (int i = 0; i < 300; ++i) large->values[i] = 5;
    char const offset = 100;
    REQUIRE(launch({}, nullptr, by_value_kernel, a.data, *large, offset) == cudaSuccess);
    std::memset(static_cast<void*>(large.get()), 0, sizeof(Large));
  }
  CHECK(a.read() == all(5));
}

TEST_CASE("shared memory must be asked for") {
  CHECK(launch_nothing({1, 32, 1, 48 << 10}) == cudaSuccess);
  CHECK(launch_nothing({1, 32, 1, (48 << 10) + 1}) == cudaErrorInvalidValue);
  auto const ask = [](int bytes) {
    return cudaFuncSetAttribute(entry(), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  CHECK(ask(-1) == cudaErrorInvalidValue);
  CHECK(ask((227 << 10) + 1) == cudaErrorInvalidValue);
  CHECK(ask(227 << 10) == cudaSuccess);
  CHECK(launch_nothing({1, 32, 1, 227 << 10}) == cudaSuccess);
  {
    OnDevice const second(1);  // each device is asked on its own
    CHECK(launch_nothing({1, 32, 1, 227 << 10}) == cudaErrorInvalidValue);
  }
  cudaFuncAttributes attributes{};
  CHECK(cudaFuncGetAttributes(&attributes, entry()) == cudaSuccess);
  CHECK(attributes.maxDynamicSharedSizeBytes == 227 << 10);
  CHECK(attributes.maxThreadsPerBlock == 1024);
  CHECK(attributes.binaryVersion == 90);
  {
    ScopedSettings const scope(with_capability(86));
    CHECK(ask((99 << 10) + 1) == cudaErrorInvalidValue);
    CHECK(ask(99 << 10) == cudaSuccess);
  }
  CHECK(ask(0) == cudaSuccess);
  CHECK(cudaFuncSetAttribute(entry(), cudaFuncAttributePreferredSharedMemoryCarveout, 101) ==
        cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(entry(), cudaFuncAttributePreferredSharedMemoryCarveout, 50) ==
        cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("clusters") {
  CHECK(launch_nothing({8, 32, 4}) == cudaSuccess);
  CHECK(launch_nothing({6, 32, 4}) == cudaErrorInvalidClusterSize);
  CHECK(launch_nothing({16, 32, 16}) == cudaErrorInvalidClusterSize);
  CHECK(launch_nothing({8, 32, 0}) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(entry(), cudaFuncAttributeNonPortableClusterSizeAllowed, 1) ==
        cudaSuccess);
  CHECK(launch_nothing({16, 32, 16}) == cudaSuccess);
  CHECK(launch_nothing({32, 32, 32}) == cudaErrorInvalidClusterSize);
  CHECK(cudaFuncSetAttribute(entry(), cudaFuncAttributeNonPortableClusterSizeAllowed, 0) ==
        cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  ScopedSettings const scope(with_capability(89));
  CHECK(launch_nothing({8, 32, 4}) == cudaErrorNotSupported);
  CHECK(launch_nothing({8, 32, 1}) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("how many blocks and clusters there is room for") {
  CHECK(max_blocks(32, 0) == 32);
  CHECK(max_blocks(1024, 0) == 1);
  CHECK(max_blocks(64, 100 << 10) == 2);
  CHECK(max_blocks(64, 227 << 10) == 1);
  CHECK(max_blocks(64, 228 << 10) == 0);
  int count = -1;
  CHECK(max_clusters(4, 227 << 10, count) == cudaSuccess);
  CHECK(count == 0);  // of three multiprocessors with a block each
  CHECK(max_clusters(2, 227 << 10, count) == cudaSuccess);
  CHECK(count == 1);
  Settings all_of_it = simt::cuda::settings();
  all_of_it.sm_count = 132;
  ScopedSettings const scope(all_of_it);
  CHECK(max_clusters(4, 227 << 10, count) == cudaSuccess);
  CHECK(count == 33);
  CHECK(max_clusters(8, 227 << 10, count) == cudaSuccess);
  CHECK(count == 16);
  ScopedSettings const older(with_capability(80));
  CHECK(max_clusters(8, 0, count) == cudaErrorNotSupported);
  CHECK(max_blocks(64, 164 << 10) == 0);
  cudaGetLastError();
}

TEST_CASE("a kernel that fails: the error stays until the device is reset") {
  Ints a;
  TestStream s;
  simt::cuda::inject_kernel_failure("set_kernel", 2, cudaErrorIllegalAddress);
  REQUIRE(set(a.data, 1, s) == cudaSuccess);
  REQUIRE(set(a.data, 2, s) == cudaSuccess);
  REQUIRE(set(a.data, 3, s) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
  CHECK(a.now() == all(1));
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 8) == cudaErrorIllegalAddress);
  CHECK(set(a.data, 4, s) == cudaErrorIllegalAddress);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  for (int i = 0; i < 3; ++i) CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  {
    OnDevice const second(1);  // has not failed
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaMalloc(&p, 8) == cudaSuccess);
    CHECK(cudaFree(p) == cudaSuccess);
  }
  CHECK(cudaSetDevice(0) == cudaErrorIllegalAddress);
  CHECK(cudaDeviceReset() == cudaSuccess);
  cudaGetLastError();
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(simt::cuda::held().allocations == 0);
  simt::cuda::clear_injections();
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&a.data), Ints::kBytes) == cudaSuccess);
}

TEST_CASE("what the runtime finds wrong is a failure of the launch") {
  simt::return_failures(true);
  auto const kernel = +[](int* at) { simt::check_global(at, 4, 4, simt::Where::current()); };
  int on_host = 0;
  REQUIRE(launch({1, 1}, nullptr, kernel, &on_host) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  simt::return_failures(false);
  CHECK(cudaDeviceReset() == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("kernels that overlap the previous one run as a chain") {
  Ints a;
  TestStream s;
  REQUIRE(set(a.data, 1, s) == cudaSuccess);
  // Without waiting for it, the second may run before or after; with waiting, after.
  auto const waiting = +[](int* to) {
    simt::wait_for_previous_grid(simt::Where::current());
    if (index() < kCount) to[index()] += 1;
  };
  LaunchShape shape;
  shape.overlaps = true;
  REQUIRE(launch(shape, s, waiting, a.data) == cudaSuccess);
  REQUIRE(launch(shape, s, waiting, a.data) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(a.now() == all(3));
  // In a graph too.
  TestCapture capture(s, cudaStreamCaptureModeGlobal);
  REQUIRE(set(a.data, 10, s) == cudaSuccess);
  REQUIRE(launch(shape, s, waiting, a.data) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  REQUIRE(capture.end(&graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(executable, s) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(a.now() == all(11));
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}
