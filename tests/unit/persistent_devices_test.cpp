// Which GPUs the persistent family serves, and with how many threads.

#include "kernels/persistent/persistent.h"
#include "plan/selector.h"
#include "support/counted_kernel.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace msda;
using namespace msda::test;

namespace {

Device gpu(std::int32_t sm, std::int32_t sm_count, std::int64_t shared_kb) {
  Device device = h200();
  device.sm = sm;
  device.sm_count = sm_count;
  device.shared_bytes_per_block = shared_kb << 10;
  return device;
}

Reason reason(std::string_view id, ProblemShape const& shape, Device const& device) {
  for (Family const& family : families()) {
    for (Variant const& variant : family.model.variants) {
      if (variant.id == id) return family.model.reject(variant, problem_of(shape), device);
    }
  }
  FAIL("there is no kernel " << id);
  return Reason::kNone;
}

// The kernel that a plan takes from the families that serve every GPU.
std::string chosen(ProblemShape const& shape, Device const& device) {
  std::vector<KernelRef> kernels;
  for (Family const& family : families()) {
    if (family.model.counts == nullptr) continue;
    for (Variant const& variant : family.model.variants) kernels.push_back({&family, &variant});
  }
  return rank_kernels(problem_of(shape), device, 0, kernels).front().kernel.variant->id;
}

}  // namespace

TEST_CASE("persistent serves every GPU from 8.0 on") {
  Device const gpus[] = {gpu(80, 108, 163), gpu(86, 84, 99), gpu(90, 132, 227), gpu(100, 148, 227),
                         gpu(120, 170, 99)};
  for (Device const& device : gpus) {
    CAPTURE(device.sm);
    for (msda_dtype const type : {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16}) {
      ProblemShape shape = workload("enc-local", type, MSDA_MATH_ACCURATE);
      CHECK(chosen(shape, device).starts_with("persistent."));
      shape.reference_dim = 2;
      CHECK(chosen(shape, device).starts_with("persistent."));
    }
    ProblemShape const f8 = workload("enc-local", MSDA_DTYPE_F8_E4M3, MSDA_MATH_ACCURATE);
    CHECK(chosen(f8, device).starts_with(device.sm < 90 ? "direct." : "persistent."));
  }
  CHECK(chosen(workload("enc-local", MSDA_DTYPE_F16, MSDA_MATH_ACCURATE), gpu(75, 40, 64))
            .starts_with("direct."));
}

TEST_CASE("levels are cached where a block can have their shared memory") {
  ProblemShape const shape = workload("enc-local", MSDA_DTYPE_F16, MSDA_MATH_ACCURATE);
  constexpr const char* kCached = "persistent.sm90.f16.d32.p4.s1c@1";
  CHECK(reason(kCached, shape, gpu(80, 108, 163)) == Reason::kComputeCapability);
  CHECK(reason(kCached, shape, gpu(90, 132, 227)) == Reason::kNone);
  CHECK(reason(kCached, shape, gpu(100, 148, 227)) == Reason::kNone);
  CHECK(reason(kCached, shape, gpu(120, 170, 99)) == Reason::kSharedMemory);
}

TEST_CASE("blocks have threads for the registers that a device's code takes") {
  using namespace msda::persistent;
  BlockKind kind = {.type = ValueType::f16,
                    .channels = d32,
                    .points = p4,
                    .spread = s1,
                    .fused = false,
                    .aligned = true,
                    .known = true};
  CHECK(threads_of(kind, 90) == 768);
  CHECK(threads_of(kind, 100) == 768);
  kind.fused = true;
  CHECK(threads_of(kind, 90) == 768);
  CHECK(threads_of(kind, 100) == 640);
  kind.known = false;
  CHECK(threads_of(kind, 80) == 640);
  CHECK(threads_of(kind, 120) == 512);
  kind.spread = s4;
  CHECK(threads_of(kind, 120) == 512);
  kind = {.type = ValueType::f8,
          .channels = d64,
          .points = pany,
          .spread = s1,
          .fused = false,
          .aligned = true,
          .known = false};
  CHECK(threads_of(kind, 90) == 640);
  CHECK(threads_of(kind, 100) == 512);
  kind.aligned = false;
  CHECK(threads_of(kind, 100) == 256);
}
