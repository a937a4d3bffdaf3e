// Kinds of memory, what an address is, what does not fit, and what lies beside it.
#include "cuda/tests/sim_fixture.h"

#include "cuda/sim_arena.h"

#include <cuda.h>

#include <dlfcn.h>

#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

using namespace simt::cuda::test;

namespace {

using PointerAttribute = CUresult (*)(void*, CUpointer_attribute, CUdeviceptr);

// As src/core/cuda.cpp asks the driver.
CUresult ask(CUpointer_attribute attribute, const void* pointer, unsigned& answer) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  REQUIRE(driver != nullptr);
  auto const function = reinterpret_cast<PointerAttribute>(dlsym(driver, "cuPointerGetAttribute"));
  REQUIRE((function != nullptr));
  return function(&answer, attribute, reinterpret_cast<CUdeviceptr>(pointer));
}

cudaPointerAttributes attributes_of(const void* pointer) {
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess);
  return attributes;
}

simt::cuda::Settings with_memory(std::size_t bytes) {
  simt::cuda::Settings s = simt::cuda::settings();
  s.memory_bytes = bytes;
  return s;
}

const std::byte* bytes_of(Ints const& a) { return reinterpret_cast<const std::byte*>(a.data); }

}  // namespace

TEST_CASE("what an address is") {
  int on_stack = 0;
  Ints device;
  void *managed = nullptr, *pinned = nullptr;
  REQUIRE(cudaMallocManaged(&managed, 64) == cudaSuccess);
  REQUIRE(cudaHostAlloc(&pinned, 64, cudaHostAllocDefault) == cudaSuccess);
  unsigned type = 0, is_managed = 9;
  CHECK(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &on_stack, type) == CUDA_ERROR_INVALID_VALUE);
  CHECK(attributes_of(&on_stack).type == cudaMemoryTypeUnregistered);
  CHECK(attributes_of(&on_stack).devicePointer == nullptr);

  CHECK(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device.data + 5, type) == CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CHECK(ask(CU_POINTER_ATTRIBUTE_IS_MANAGED, device.data, is_managed) == CUDA_SUCCESS);
  CHECK(is_managed == 0);
  CHECK(attributes_of(device.data).type == cudaMemoryTypeDevice);
  CHECK(attributes_of(device.data).hostPointer == nullptr);
  CHECK(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device.data + kCount, type) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device.data - 1, type) == CUDA_ERROR_INVALID_VALUE);

  CHECK(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, managed, type) == CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CHECK(ask(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed, is_managed) == CUDA_SUCCESS);
  CHECK(is_managed == 1);
  CHECK(attributes_of(managed).type == cudaMemoryTypeManaged);

  CHECK(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned, type) == CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_HOST);
  CHECK(attributes_of(pinned).type == cudaMemoryTypeHost);
  static_cast<char*>(pinned)[63] = 1;  // the host's own
  static_cast<char*>(managed)[63] = 1;
  CHECK(cudaFree(managed) == cudaSuccess);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  CHECK(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, managed, type) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("the device that memory is of") {
  OnDevice const second(1);
  Ints a;
  CHECK(attributes_of(a.data).device == 1);
  unsigned ordinal = 9;
  CHECK(ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a.data, ordinal) == CUDA_SUCCESS);
  CHECK(ordinal == 1);
}

TEST_CASE("giving back what cannot be given back") {
  Ints a;
  int on_stack = 0;
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 64) == cudaSuccess);
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaFree(a.data + 1) == cudaErrorInvalidValue);
  CHECK(cudaFree(&on_stack) == cudaErrorInvalidValue);
  CHECK(cudaFree(pinned) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(a.data) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, 8) == cudaSuccess);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(cudaFree(p) == cudaErrorInvalidValue);
  CHECK(cudaMalloc(&p, 0) == cudaSuccess);
  CHECK(p == nullptr);
  CHECK(cudaMalloc(nullptr, 1) == cudaErrorInvalidValue);
  CHECK(cudaMallocManaged(&p, 8, 77) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("memory of the host is registered once") {
  std::vector<char> host(8192);
  CHECK(cudaHostUnregister(host.data()) == cudaErrorHostMemoryNotRegistered);
  CHECK(cudaHostRegister(host.data(), host.size(), 0) == cudaSuccess);
  CHECK(cudaHostRegister(host.data() + 8, 8, 0) == cudaErrorHostMemoryAlreadyRegistered);
  CHECK(attributes_of(host.data() + 8191).type == cudaMemoryTypeHost);
  void* on_device = nullptr;
  CHECK(cudaHostGetDevicePointer(&on_device, host.data(), 0) == cudaSuccess);
  CHECK(on_device == host.data());
  CHECK(cudaHostUnregister(host.data()) == cudaSuccess);
  CHECK(cudaHostGetDevicePointer(&on_device, host.data(), 0) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("a device has so much memory") {
  simt::cuda::ScopedSettings const scope(with_memory(1 << 20));
  std::size_t free_bytes = 0, total = 0;
  void *p = nullptr, *q = nullptr;
  CHECK(cudaMalloc(&p, (1 << 20) + 1) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&p, ~std::size_t{0}) == cudaErrorMemoryAllocation);
  CHECK(p == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&p, 1 << 19) == cudaSuccess);
  CHECK(cudaMemGetInfo(&free_bytes, &total) == cudaSuccess);
  CHECK(total == 1 << 20);
  CHECK(free_bytes == 1 << 19);
  CHECK(cudaMalloc(&q, (1 << 19) + 1) == cudaErrorMemoryAllocation);
  {
    OnDevice const second(1);  // has its own
    CHECK(cudaMalloc(&q, 1 << 20) == cudaSuccess);
    CHECK(cudaFree(q) == cudaSuccess);
  }
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(cudaMalloc(&q, 1 << 20) == cudaSuccess);
  CHECK(cudaFree(q) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("fresh memory is garbage, by the seed") {
  simt::cuda::Settings s = simt::cuda::settings();
  std::vector<std::vector<int>> seen;
  for (std::uint64_t const seed : {0, 1, 2}) {
    s.seed = seed;
    simt::cuda::ScopedSettings const scope(s);
    Ints a;
    seen.push_back(a.now());
  }
  CHECK(seen[0] == all(-1));
  CHECK(seen[1] == all(0x3c3c3c3c));
  float value = 0;
  std::memcpy(&value, seen[2].data(), sizeof(value));
  CHECK(value < 0);
  CHECK(value > -1e-3f);
}

TEST_CASE("an address is a multiple of 256 and not of more, and not used again at once") {
  void* before = nullptr;
  for (int i = 0; i < 20; ++i) {
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, 100) == cudaSuccess);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 512 == 256);
    CHECK(p != before);
    before = p;
    CHECK(cudaFree(p) == cudaSuccess);
  }
}

TEST_CASE("much memory can be allocated and freed, one after the other") {
  for (int i = 0; i < 400; ++i) {
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, std::size_t{1} << (i % 22)) == cudaSuccess);
    REQUIRE(cudaFree(p) == cudaSuccess);
  }
  CHECK(simt::cuda::held().device_bytes == 0);
}

TEST_CASE("what is written beside an allocation is found when it is given back") {
  constexpr auto kEnd = static_cast<std::ptrdiff_t>(Ints::kBytes);
  for (std::ptrdiff_t const at : {std::ptrdiff_t{-256}, std::ptrdiff_t{-1}, kEnd, kEnd + 255}) {
    Ints a;
    CHECK(simt::cuda::Arena::first_changed(bytes_of(a), Ints::kBytes) == 0);
    char const byte = 1, before = '\xC9';
    simt::cuda::device_copy(reinterpret_cast<char*>(a.data) + at, &byte, 1);
    CHECK(simt::cuda::Arena::first_changed(bytes_of(a), Ints::kBytes) == at);
    simt::cuda::device_copy(reinterpret_cast<char*>(a.data) + at, &before, 1);
  }
}

#if defined(__SANITIZE_ADDRESS__)
namespace {

int seen_by_kernel = -1;
void look_kernel(const int* at, const int* other) {
  seen_by_kernel = __asan_address_is_poisoned(at) * 10 + __asan_address_is_poisoned(other);
}

}  // namespace

TEST_CASE("the host cannot touch device memory, and a kernel no other device's") {
  Ints a;
  int* other = nullptr;
  {
    OnDevice const second(1);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&other), 64) == cudaSuccess);
  }
  void* managed = nullptr;
  REQUIRE(cudaMallocManaged(&managed, 64) == cudaSuccess);
  CHECK(__asan_address_is_poisoned(a.data) == 1);
  CHECK(__asan_address_is_poisoned(managed) == 0);
  REQUIRE(launch({1, 1}, nullptr, look_kernel, a.data, other) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(seen_by_kernel == 1);
  REQUIRE(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
  REQUIRE(launch({1, 1}, nullptr, look_kernel, a.data, other) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(seen_by_kernel == 0);
  REQUIRE(cudaDeviceDisablePeerAccess(1) == cudaSuccess);
  CHECK(__asan_address_is_poisoned(a.data) == 1);
  CHECK(cudaFree(managed) == cudaSuccess);
  CHECK(cudaFree(other) == cudaSuccess);
  CHECK(__asan_address_is_poisoned(other) == 1);
}

TEST_CASE("the bytes around an allocation are poisoned, to the byte") {
  void* p = nullptr;
  REQUIRE(cudaMallocManaged(&p, 101) == cudaSuccess);
  auto* const bytes = static_cast<char*>(p);
  CHECK(__asan_address_is_poisoned(bytes) == 0);
  CHECK(__asan_address_is_poisoned(bytes + 100) == 0);
  CHECK(__asan_address_is_poisoned(bytes + 101) == 1);
  CHECK(__asan_address_is_poisoned(bytes - 1) == 1);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(__asan_address_is_poisoned(bytes) == 1);
}
#endif

TEST_CASE("memory of which runtime may ask") {
  Ints a;
  int on_stack[4] = {};
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 64) == cudaSuccess);
  CHECK(simt::is_device_memory(a.data, Ints::kBytes));
  CHECK(simt::is_device_memory(a.data + 1, 8));
  CHECK(!simt::is_device_memory(a.data, Ints::kBytes + 1));
  CHECK(!simt::is_device_memory(a.data - 1, 4));
  CHECK(!simt::is_device_memory(on_stack, 4));
  static int of_program = 0;  // as __device__ variables are
  CHECK(simt::is_device_memory(&of_program, 4));
  CHECK(simt::is_device_memory(pinned, 64));
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  CHECK(!simt::is_device_memory(pinned, 1));
}

TEST_CASE("memory by a stream's order") {
  TestStream s;
  void* p = nullptr;
  REQUIRE(cudaMallocAsync(&p, Ints::kBytes, s) == cudaSuccess);
  REQUIRE(set(static_cast<int*>(p), 3, s) == cudaSuccess);
  REQUIRE(cudaFreeAsync(p, s) == cudaSuccess);
  CHECK(attributes_of(p).type == cudaMemoryTypeDevice);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(attributes_of(p).type == cudaMemoryTypeUnregistered);
  CHECK(cudaFreeAsync(p, s) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("giving memory back waits for what may use it") {
  Ints from;
  void* p = nullptr;
  TestStream s;
  REQUIRE(cudaMalloc(&p, Ints::kBytes) == cudaSuccess);
  REQUIRE(set(static_cast<int*>(p), 6, s) == cudaSuccess);
  REQUIRE(launch({}, s, copy_kernel, from.data, static_cast<const int*>(p), kCount) == cudaSuccess);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(from.now() == all(6));
}
