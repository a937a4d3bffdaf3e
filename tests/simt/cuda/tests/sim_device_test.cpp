// Devices, their attributes, settings, injected errors, texts, and several threads.
#include "cuda/tests/sim_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

using namespace simt::cuda::test;
using simt::cuda::ScopedSettings;
using simt::cuda::Settings;

namespace {

int attribute(cudaDeviceAttr which) {
  int value = -1;
  REQUIRE(cudaDeviceGetAttribute(&value, which, 0) == cudaSuccess);
  return value;
}

// The exit status of a process in which the variable has this value.
int status_with(const char* variable, const char* value) {
  pid_t const child = fork();
  if (child == 0) {
    setenv(variable, value, 1);
    static_cast<void>(simt::cuda::settings_of_environment());
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The exit status of a process that gives back, or does not, what it allocates.
int status_of_leaving(bool gives_back) {
  pid_t const child = fork();
  if (child == 0) {
    Settings s = simt::cuda::settings();
    s.leaks = simt::cuda::LeakPolicy::kFail;
    simt::cuda::set_settings(s);
    void* p = nullptr;
    static_cast<void>(cudaMalloc(&p, 8));
    if (gives_back) static_cast<void>(cudaFree(p));
    std::exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("which devices there are") {
  int count = 0, device = -1, version = 0;
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 2);
  CHECK(cudaDriverGetVersion(&version) == cudaSuccess);
  CHECK(version == 13000);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  CHECK(cudaGetDevice(&device) == cudaSuccess);
  CHECK(device == 0);
  CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrWarpSize, 2) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceGetAttribute(&count, static_cast<cudaDeviceAttr>(127), 0) ==
        cudaErrorInvalidValue);
  cudaGetLastError();
  Settings none = simt::cuda::settings();
  none.device_count = 0;
  ScopedSettings const scope(none);
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(cudaDeviceSynchronize() == cudaErrorNoDevice);
  cudaGetLastError();
}

TEST_CASE("each thread has a current device of its own") {
  OnDevice const second(1);
  int elsewhere = -1, here = -1;
  std::thread([&] { cudaGetDevice(&elsewhere); }).join();
  cudaGetDevice(&here);
  CHECK(elsewhere == 0);
  CHECK(here == 1);
}

TEST_CASE("attributes and properties, by capability") {
  struct Expected {
    int capability, optin, per_sm, clusters;
  };
  for (Expected const& e : {Expected{75, 64, 64, 0},
                            {80, 163, 164, 0},
                            {86, 99, 100, 0},
                            {89, 99, 100, 0},
                            {90, 227, 228, 1},
                            {100, 227, 228, 1},
                            {120, 99, 100, 1}}) {
    Settings s = simt::cuda::settings();
    s.capability = e.capability;
    s.sm_count = 17;
    ScopedSettings const scope(s);
    CAPTURE(e.capability);
    cudaDeviceProp p{};
    REQUIRE(cudaGetDeviceProperties(&p, 1) == cudaSuccess);
    CHECK(10 * p.major + p.minor == e.capability);
    CHECK(p.multiProcessorCount == 17);
    CHECK(p.sharedMemPerBlockOptin == static_cast<std::size_t>(e.optin) << 10);
    CHECK(p.sharedMemPerMultiprocessor == static_cast<std::size_t>(e.per_sm) << 10);
    CHECK(p.clusterLaunch == e.clusters);
    CHECK(std::string(p.name) == "simulated device 1");
    CHECK(attribute(cudaDevAttrComputeCapabilityMajor) == p.major);
    CHECK(attribute(cudaDevAttrComputeCapabilityMinor) == p.minor);
    CHECK(attribute(cudaDevAttrMultiProcessorCount) == 17);
    CHECK(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) == e.optin << 10);
    CHECK(attribute(cudaDevAttrClusterLaunch) == e.clusters);
    CHECK(attribute(cudaDevAttrPageableMemoryAccess) == 0);
  }
}

TEST_CASE("access to another device's memory is given once") {
  int can = -1;
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 1) == cudaSuccess);
  CHECK(can == 1);
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 0) == cudaSuccess);
  CHECK(can == 0);
  CHECK(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceDisablePeerAccess(1) == cudaSuccess);
  Settings s = simt::cuda::settings();
  s.has_peer_access = false;
  ScopedSettings const scope(s);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessUnsupported);
  cudaGetLastError();
}

TEST_CASE("errors that a test asks for") {
  void* p = nullptr;
  simt::cuda::inject_error("cudaMalloc", 2, cudaErrorMemoryAllocation);
  REQUIRE(cudaMalloc(&p, 8) == cudaSuccess);
  CHECK(cudaFree(p) == cudaSuccess);
  p = nullptr;
  CHECK(cudaMalloc(&p, 8) == cudaErrorMemoryAllocation);
  CHECK(p == nullptr);
  CHECK(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  REQUIRE(cudaMalloc(&p, 8) == cudaSuccess);
  CHECK(cudaFree(p) == cudaSuccess);
  simt::cuda::inject_error("cudaFree", 1, cudaErrorIllegalAddress);
  simt::cuda::clear_injections();
  CHECK(cudaFree(nullptr) == cudaSuccess);
}

TEST_CASE("the last error is the thread's own") {
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&] { elsewhere = cudaGetLastError(); }).join();
  CHECK(elsewhere == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE("names and texts of errors") {
  CHECK(std::string(cudaGetErrorName(cudaErrorInvalidValue)) == "cudaErrorInvalidValue");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
  CHECK(std::string(cudaGetErrorName(cudaErrorStreamCaptureImplicit)) ==
        "cudaErrorStreamCaptureImplicit");
  CHECK(std::string(cudaGetErrorName(static_cast<cudaError_t>(9998))) == "unrecognized error code");
}

TEST_CASE("a setting that is not allowed ends the process") {
  CHECK(status_with("MSDA_SIMT_SM_COUNT", "132") == 0);
  CHECK(status_with("MSDA_SIMT_SM_COUNT", "133") == 2);
  CHECK(status_with("MSDA_SIMT_SM_COUNT", "0") == 2);
  CHECK(status_with("MSDA_SIMT_SM_COUNT", "three") == 2);
  CHECK(status_with("MSDA_SIMT_DEVICES", "-1") == 2);
  CHECK(status_with("MSDA_SIMT_WORK", "early") == 0);
  CHECK(status_with("MSDA_SIMT_WORK", "soon") == 2);
  CHECK(status_with("MSDA_SIMT_LEAKS", "fail") == 0);
}

TEST_CASE("what a process leaves behind") {
  CHECK(status_of_leaving(false) == 86);
  CHECK(status_of_leaving(true) != 86);
}

TEST_CASE("what is held") {
  simt::cuda::Held const before = simt::cuda::held();
  {
    Ints a;
    TestStream s;
    TestEvent e;
    simt::cuda::Held const now = simt::cuda::held();
    CHECK(now.device_bytes == before.device_bytes + Ints::kBytes);
    CHECK(now.allocations == before.allocations + 1);
    CHECK(now.streams == before.streams + 1);
    CHECK(now.events == before.events + 1);
  }
  CHECK(simt::cuda::held().allocations == before.allocations);
  CHECK(simt::cuda::held().streams == before.streams);
}

TEST_CASE("threads, streams and devices at once") {
  constexpr int kRounds = 25;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong, t] {
      bool good = cudaSetDevice(t % 2) == cudaSuccess;
      cudaStream_t s = nullptr;
      cudaEvent_t e = nullptr;
      good &= cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess;
      good &= cudaEventCreate(&e) == cudaSuccess;
      for (int round = 0; good && round < kRounds; ++round) {
        int* data = nullptr;
        std::vector<int> host(kCount);
        good &= cudaMalloc(reinterpret_cast<void**>(&data), Ints::kBytes) == cudaSuccess;
        good &= set(data, t, s) == cudaSuccess && add(data, round, s) == cudaSuccess;
        good &= cudaEventRecord(e, s) == cudaSuccess && cudaEventSynchronize(e) == cudaSuccess;
        good &= cudaMemcpy(host.data(), data, Ints::kBytes, cudaMemcpyDeviceToHost) == cudaSuccess;
        good &= host == all(t + round) && cudaFree(data) == cudaSuccess;
      }
      good &= cudaEventDestroy(e) == cudaSuccess && cudaStreamDestroy(s) == cudaSuccess;
      if (!good) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("threads that wait for one stream") {
  Ints a;
  TestStream s;
  REQUIRE(set(a.data, 0, s) == cudaSuccess);
  for (int i = 0; i < 40; ++i) REQUIRE(add(a.data, 1, s) == cudaSuccess);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] { wrong += cudaStreamSynchronize(s) != cudaSuccess; });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(a.now() == all(40));
}
