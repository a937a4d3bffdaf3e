// Plans as bytes: what the caller asked for and the kernel that was chosen, with a checksum.
#pragma once

#include "core/device.h"
#include "core/problem.h"
#include "core/problem_copy.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace msda {

struct StoredPlan {
  std::string kernel_id;
  std::int32_t sm_count_limit = 0;
  ProblemCopy problem;
};

std::vector<std::uint8_t> encode_plan(Problem const& problem, std::string_view kernel_id,
                                      Device const& device);
// Throws MSDA_ERROR_INVALID_ARGUMENT where the bytes are no whole blob, MSDA_ERROR_STALE_PLAN where
// they are of another library version or device. The kernel id is not looked up here.
StoredPlan decode_plan(const void* bytes, std::size_t size, Device const& device);

}  // namespace msda
