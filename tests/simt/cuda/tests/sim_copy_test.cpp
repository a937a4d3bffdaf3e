// Copies: directions, ranges, and when they happen.
#include "cuda/tests/sim_fixture.h"

#include <numeric>

using namespace simt::cuda::test;

namespace {

std::vector<int> numbers() {
  std::vector<int> values(kCount);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

struct Pinned {
  Pinned() {
    REQUIRE(cudaMallocHost(reinterpret_cast<void**>(&data), Ints::kBytes) == cudaSuccess);
  }
  ~Pinned() { cudaFreeHost(data); }
  Pinned(Pinned const&) = delete;
  int* data = nullptr;
};

}  // namespace

TEST_CASE("a copy from pageable memory has been staged, not more") {
  Ints a;
  TestStream other;
  std::vector<int> const values = numbers(), garbage = a.now();
  {
    std::vector<int> host = values;
    REQUIRE(cudaMemcpy(a.data, host.data(), Ints::kBytes, cudaMemcpyHostToDevice) == cudaSuccess);
    host.assign(kCount, 0);
  }
  CHECK(a.now() == garbage);
  SUBCASE("the default stream has it next") {
    REQUIRE(add(a.data, 0, nullptr) == cudaSuccess);
    CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(a.now() == values);
  }
  SUBCASE("a stream that does not wait has not") {
    Ints b;
    std::vector<int> const too_early = a.now();
    REQUIRE(launch({}, other, copy_kernel, b.data, a.data, kCount) == cudaSuccess);
    CHECK(cudaStreamSynchronize(other) == cudaSuccess);
    CHECK(b.now() == too_early);
  }
  CHECK(a.read() == values);
}

TEST_CASE("a copy to the host is there when the call returns") {
  Ints a;
  REQUIRE(set(a.data, 4, nullptr) == cudaSuccess);
  CHECK(a.read() == all(4));
}

TEST_CASE("copies within the device, and fills, are work like any other") {
  Ints a, b;
  std::vector<int> const garbage = b.now();
  REQUIRE(cudaMemset(a.data, 3, Ints::kBytes) == cudaSuccess);
  REQUIRE(cudaMemcpy(b.data, a.data, Ints::kBytes, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(b.now() == garbage);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(b.now() == all(0x03030303));
}

TEST_CASE("pinned memory is read when the copy's turn has come") {
  Ints a;
  Pinned host;
  TestStream s;
  std::fill_n(host.data, kCount, 1);
  REQUIRE(cudaMemcpyAsync(a.data, host.data, Ints::kBytes, cudaMemcpyHostToDevice, s) ==
          cudaSuccess);
  std::fill_n(host.data, kCount, 2);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(a.now() == all(2));
}

TEST_CASE("an asynchronous copy to the host is there after waiting") {
  Ints a;
  TestStream s;
  std::vector<int> host(kCount, 0);
  REQUIRE(set(a.data, 8, s) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(host.data(), a.data, Ints::kBytes, cudaMemcpyDeviceToHost, s) ==
          cudaSuccess);
  CHECK(host == all(0));
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(host == all(8));
}

TEST_CASE("directions that the memory does not have") {
  Ints a;
  std::vector<int> host = numbers(), more = numbers();
  CHECK(cudaMemcpy(host.data(), more.data(), 8, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(a.data, a.data + 8, 8, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host.data(), more.data(), 8, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(a.data, host.data(), 8, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(a.data, host.data(), 8, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(a.data, host.data(), 8, cudaMemcpyHostToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(a.data, host.data(), 8, static_cast<cudaMemcpyKind>(7)) ==
        cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemcpy(nullptr, host.data(), 8, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemset(host.data(), 0, 8) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(a.data, host.data(), 8, cudaMemcpyDefault) == cudaSuccess);
  CHECK(cudaMemcpy(more.data(), host.data(), 8, cudaMemcpyDefault) == cudaSuccess);
  CHECK(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice) == cudaSuccess);
  Pinned pinned;  // is both
  CHECK(cudaMemcpy(a.data, pinned.data, 8, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(a.data, pinned.data, 8, cudaMemcpyHostToDevice) == cudaSuccess);
}

TEST_CASE("copies and fills past the end of an allocation") {
  Ints a;
  std::vector<int> host(kCount + 1);
  std::size_t const too_many = Ints::kBytes + 1;
  CHECK(cudaMemcpy(a.data, host.data(), too_many, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host.data(), a.data, too_many, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemset(a.data, 0, too_many) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(a.data + 1, 0, Ints::kBytes, nullptr) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("rows with a pitch") {
  Ints a;
  std::vector<int> host = numbers(), back(kCount, 0);
  REQUIRE(cudaMemset(a.data, 0, Ints::kBytes) == cudaSuccess);
  REQUIRE(cudaMemcpy2D(a.data, 16, host.data(), 12, 8, 4, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(a.read()[0] == 1);
  CHECK(a.read()[1] == 2);
  CHECK(a.read()[2] == 0);
  CHECK(a.read()[4] == 4);
  CHECK(a.read()[13] == 11);
  CHECK(cudaMemcpy2D(a.data, 4, host.data(), 12, 8, 4, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidPitchValue);
  CHECK(cudaMemcpy2D(a.data, 128, host.data(), 12, 8, 4, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("copies between devices") {
  Ints a;
  int* b = nullptr;
  {
    OnDevice const second(1);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&b), Ints::kBytes) == cudaSuccess);
  }
  REQUIRE(set(a.data, 5, nullptr) == cudaSuccess);
  REQUIRE(cudaMemcpyPeer(b, 1, a.data, 0, Ints::kBytes) == cudaSuccess);
  std::vector<int> host(kCount);
  REQUIRE(cudaMemcpy(host.data(), b, Ints::kBytes, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(host == all(5));
  CHECK(cudaFree(b) == cudaSuccess);
}

TEST_CASE("a copy whose memory has been given back is reported") {
  simt::return_failures(true);
  TestStream s;
  void* pinned = nullptr;
  Ints a;
  REQUIRE(cudaMallocHost(&pinned, 64) == cudaSuccess);
  SUBCASE("the host's own vector") {
    auto* const host = new std::vector<int>(16);
    REQUIRE(cudaMemcpyAsync(host->data(), a.data, 64, cudaMemcpyDeviceToHost, s) == cudaSuccess);
    delete host;
#if defined(__SANITIZE_ADDRESS__)
    CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
#else
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
#endif
  }
  SUBCASE("by an earlier free in stream order") {
    void* p = nullptr;
    REQUIRE(cudaMallocAsync(&p, 64, s) == cudaSuccess);
    REQUIRE(cudaFreeAsync(p, s) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(p, a.data, 64, cudaMemcpyDeviceToDevice, s) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
  }
  simt::return_failures(false);
  CHECK(cudaDeviceReset() == cudaSuccess);
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&a.data), Ints::kBytes) == cudaSuccess);
}
