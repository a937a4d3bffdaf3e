// Events and simulated time.
#include "cuda/tests/sim_fixture.h"

using namespace simt::cuda::test;

namespace {

float time_of_sets(int count) {
  Ints a;
  TestStream s;
  TestEvent begin, end;
  REQUIRE(cudaEventRecord(begin, s) == cudaSuccess);
  for (int i = 0; i < count; ++i) REQUIRE(set(a.data, i, s) == cudaSuccess);
  REQUIRE(cudaEventRecord(end, s) == cudaSuccess);
  REQUIRE(cudaEventSynchronize(end) == cudaSuccess);
  float ms = -1;
  REQUIRE(cudaEventElapsedTime(&ms, begin, end) == cudaSuccess);
  return ms;
}

}  // namespace

TEST_CASE("time is what was done, the same in every run") {
  float const one = time_of_sets(1), four = time_of_sets(4);
  CHECK(one > 0);
  CHECK(time_of_sets(1) == doctest::Approx(one));
  CHECK(four == doctest::Approx(4 * one));
}

TEST_CASE("independent work takes the longest one's time") {
  Ints a, b;
  TestStream s, t;
  TestEvent begin, middle, end;
  REQUIRE(cudaEventRecord(begin, s) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(t, begin, 0) == cudaSuccess);
  for (int i = 0; i < 3; ++i) REQUIRE(set(a.data, i, s) == cudaSuccess);
  REQUIRE(set(b.data, 1, t) == cudaSuccess);
  REQUIRE(cudaEventRecord(middle, t) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(s, middle, 0) == cudaSuccess);
  REQUIRE(cudaEventRecord(end, s) == cudaSuccess);
  REQUIRE(cudaEventSynchronize(end) == cudaSuccess);
  float ms = -1;
  REQUIRE(cudaEventElapsedTime(&ms, begin, end) == cudaSuccess);
  CHECK(ms == doctest::Approx(time_of_sets(3)));
}

TEST_CASE("events that have no time, or not yet") {
  TestStream s;
  TestEvent a, b, untimed(cudaEventDisableTiming);
  Ints ints;
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, a, b) == cudaErrorInvalidResourceHandle);  // never recorded
  CHECK(cudaEventQuery(a) == cudaSuccess);
  CHECK(cudaEventSynchronize(a) == cudaSuccess);
  REQUIRE(cudaEventRecord(a, s) == cudaSuccess);
  REQUIRE(set(ints.data, 1, s) == cudaSuccess);
  REQUIRE(cudaEventRecord(b, s) == cudaSuccess);
  REQUIRE(cudaEventRecord(untimed, s) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&ms, a, b) == cudaErrorNotReady);
  CHECK(cudaEventQuery(b) == cudaErrorNotReady);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(cudaEventQuery(b) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&ms, a, b) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&ms, a, untimed) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventElapsedTime(nullptr, a, b) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("what is no event, and flags that do not exist") {
  cudaEvent_t event = nullptr;
  CHECK(cudaEventRecord(nullptr, nullptr) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventCreateWithFlags(&event, 64) == cudaErrorInvalidValue);
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaEventDestroy(event) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventSynchronize(event) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}
