// Work runs as late as it may, in the order that streams and events make.
#include "cuda/tests/sim_fixture.h"

using namespace simt::cuda::test;

TEST_CASE("work waits until it is waited for") {
  Ints a;
  TestStream s;
  std::vector<int> const garbage = a.now();
  REQUIRE(set(a.data, 7, s) == cudaSuccess);
  CHECK(a.now() == garbage);
  SUBCASE("by its stream") { CHECK(cudaStreamSynchronize(s) == cudaSuccess); }
  SUBCASE("by the device") { CHECK(cudaDeviceSynchronize() == cudaSuccess); }
  SUBCASE("by an event behind it") {
    TestEvent e;
    REQUIRE(cudaEventRecord(e, s) == cudaSuccess);
    CHECK(a.now() == garbage);
    CHECK(cudaEventSynchronize(e) == cudaSuccess);
  }
  SUBCASE("by asking again and again") {
    int asked = 0;
    while (cudaStreamQuery(s) == cudaErrorNotReady) REQUIRE(++asked < 10);
    CHECK(asked == 1);
    CHECK(cudaGetLastError() == cudaErrorNotReady);
  }
  CHECK(a.now() == all(7));
}

TEST_CASE("waiting for one stream runs nothing of another") {
  Ints a, b;
  TestStream s, t;
  std::vector<int> const garbage = b.now();
  REQUIRE(set(a.data, 1, s) == cudaSuccess);
  REQUIRE(set(b.data, 2, t) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(a.now() == all(1));
  CHECK(b.now() == garbage);
  CHECK(cudaStreamSynchronize(t) == cudaSuccess);
  CHECK(b.now() == all(2));
}

TEST_CASE("an event orders two streams, and nothing else does") {
  Ints a;
  TestStream s, t;
  TestEvent e;
  REQUIRE(set(a.data, 5, s) == cudaSuccess);
  REQUIRE(cudaEventRecord(e, s) == cudaSuccess);
  bool const waits = [&] {
    bool with = false;
    SUBCASE("with the event") { with = true; }
    SUBCASE("without") {}
    return with;
  }();
  if (waits) REQUIRE(cudaStreamWaitEvent(t, e, 0) == cudaSuccess);
  REQUIRE(add(a.data, 1, t) == cudaSuccess);
  CHECK(cudaStreamSynchronize(t) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(a.now() == all(waits ? 6 : 5));
}

TEST_CASE("an event that is recorded again no longer stands for the first time") {
  Ints a, b;
  TestStream s, t;
  TestEvent e;
  REQUIRE(set(a.data, 1, s) == cudaSuccess);
  REQUIRE(cudaEventRecord(e, s) == cudaSuccess);
  REQUIRE(set(b.data, 2, t) == cudaSuccess);
  REQUIRE(cudaEventRecord(e, t) == cudaSuccess);
  std::vector<int> const garbage = a.now();
  CHECK(cudaEventSynchronize(e) == cudaSuccess);
  CHECK(b.now() == all(2));
  CHECK(a.now() == garbage);
}

TEST_CASE("the default stream and blocking streams wait for one another") {
  Ints a;
  TestStream blocking(cudaStreamDefault), other;
  SUBCASE("the default stream for a blocking one") {
    REQUIRE(set(a.data, 3, blocking) == cudaSuccess);
    REQUIRE(add(a.data, 1, nullptr) == cudaSuccess);
    CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(a.now() == all(4));
  }
  SUBCASE("a blocking one for the default stream") {
    REQUIRE(set(a.data, 3, cudaStreamLegacy) == cudaSuccess);
    REQUIRE(add(a.data, 1, blocking) == cudaSuccess);
    CHECK(cudaStreamSynchronize(blocking) == cudaSuccess);
    CHECK(a.now() == all(4));
  }
  SUBCASE("the thread's own is a blocking one") {
    REQUIRE(set(a.data, 3, nullptr) == cudaSuccess);
    REQUIRE(add(a.data, 1, cudaStreamPerThread) == cudaSuccess);
    CHECK(cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess);
    CHECK(a.now() == all(4));
  }
  SUBCASE("one that is not blocking waits for nobody") {
    REQUIRE(set(a.data, 3, nullptr) == cudaSuccess);
    REQUIRE(set(a.data, 9, other) == cudaSuccess);
    CHECK(cudaStreamSynchronize(other) == cudaSuccess);
    CHECK(a.now() == all(9));
    CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(a.now() == all(3));
  }
  SUBCASE("waiting for the default stream waits for blocking ones") {
    REQUIRE(set(a.data, 3, blocking) == cudaSuccess);
    CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(a.now() == all(3));
  }
}

TEST_CASE("a stream's work goes on when the stream is destroyed") {
  Ints a;
  {
    TestStream s;
    REQUIRE(set(a.data, 8, s) == cudaSuccess);
  }
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(a.now() == all(8));
}

TEST_CASE("a full stream runs what it has") {
  Ints a;
  TestStream s;
  REQUIRE(set(a.data, 0, s) == cudaSuccess);
  for (int i = 0; i < 1100; ++i) REQUIRE(cudaMemsetAsync(a.data, i % 100, 4, s) == cudaSuccess);
  CHECK(a.now()[1] == 0);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(a.now()[0] == 1099 % 100 * 0x01010101);
}

TEST_CASE("with MSDA_SIMT_WORK=early work runs when it is given") {
  simt::cuda::Settings early = simt::cuda::settings();
  early.work_time = simt::cuda::WorkTime::kEarly;
  simt::cuda::ScopedSettings const scope(early);
  Ints a;
  TestStream s;
  REQUIRE(set(a.data, 7, s) == cudaSuccess);
  CHECK(a.now() == all(7));
  CHECK(cudaStreamQuery(s) == cudaSuccess);
}

TEST_CASE("functions of the host run in their place") {
  Ints a;
  TestStream s;
  std::vector<int> seen;
  struct Data {
    Ints* ints;
    std::vector<int>* seen;
  } data{&a, &seen};
  REQUIRE(set(a.data, 4, s) == cudaSuccess);
  auto const look = [](void* p) {
    auto* const d = static_cast<Data*>(p);
    *d->seen = d->ints->now();
  };
  REQUIRE(cudaLaunchHostFunc(s, look, &data) == cudaSuccess);
  REQUIRE(set(a.data, 5, s) == cudaSuccess);
  CHECK(seen.empty());
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(seen == all(4));
  CHECK(a.now() == all(5));
}

TEST_CASE("functions of the host may not call CUDA") {
  TestStream s;
  cudaError_t error = cudaSuccess;
  auto const call = [](void* p) { *static_cast<cudaError_t*>(p) = cudaDeviceSynchronize(); };
  REQUIRE(cudaLaunchHostFunc(s, call, &error) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(error == cudaErrorNotPermitted);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("with MSDA_SIMT_WORK=mixed some work runs when it is given") {
  simt::cuda::Settings mixed = simt::cuda::settings();
  mixed.work_time = simt::cuda::WorkTime::kMixed;
  simt::cuda::ScopedSettings const scope(mixed);
  Ints a;
  TestStream s;
  int at_once = 0;
  for (int i = 0; i < 40; ++i) {
    REQUIRE(cudaMemsetAsync(a.data, i, 4, s) == cudaSuccess);
    at_once += a.now()[0] == i * 0x01010101;
  }
  CHECK(at_once > 0);
  CHECK(at_once < 40);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(a.now()[0] == 39 * 0x01010101);
}

TEST_CASE("streams of another device, and what is no stream") {
  Ints a;
  cudaStream_t second = nullptr;
  {
    OnDevice const device(1);
    REQUIRE(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking) == cudaSuccess);
  }
  CHECK(set(a.data, 1, second) == cudaErrorInvalidResourceHandle);
  CHECK(cudaMemsetAsync(a.data, 1, 4, second) == cudaErrorInvalidResourceHandle);
  // Copies are allowed, and so is waiting.
  CHECK(cudaMemcpyAsync(a.data, a.data + 1, 4, cudaMemcpyDeviceToDevice, second) == cudaSuccess);
  CHECK(cudaStreamSynchronize(second) == cudaSuccess);
  TestEvent e;
  CHECK(cudaEventRecord(e, second) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamWaitEvent(second, e, 0) == cudaSuccess);
  {
    OnDevice const device(1);
    CHECK(cudaStreamDestroy(second) == cudaSuccess);
  }
  CHECK(cudaStreamSynchronize(second) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(second) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("flags, priorities and devices of streams") {
  cudaStream_t s = nullptr;
  CHECK(cudaStreamCreateWithFlags(&s, 12) == cudaErrorInvalidValue);
  CHECK(cudaStreamCreateWithFlags(nullptr, 0) == cudaErrorInvalidValue);
  cudaGetLastError();
  int least = 9, greatest = 9;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess);
  CHECK(least > greatest);
  REQUIRE(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest) == cudaSuccess);
  unsigned flags = 0;
  int priority = 0, device = 7;
  CHECK(cudaStreamGetFlags(s, &flags) == cudaSuccess);
  CHECK(flags == cudaStreamNonBlocking);
  CHECK(cudaStreamGetPriority(s, &priority) == cudaSuccess);
  CHECK(priority == greatest);
  CHECK(cudaStreamGetDevice(s, &device) == cudaSuccess);
  CHECK(device == 0);
  CHECK(cudaStreamDestroy(s) == cudaSuccess);
}
