// Maps of dense tensors of 32-bit words, by the driver's cuTensorMapEncodeTiled().
#pragma once

#include "core/cuda.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <array>
#include <cstdint>

namespace msda::test {

template <std::size_t kRank>
CUtensorMap tensor_map(std::uint32_t* data, std::array<std::uint64_t, kRank> size,
                       std::array<std::uint32_t, kRank> box, CUtensorMapSwizzle swizzle) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  cuda::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                               cudaEnableDefault, &result),
              "looking for cuTensorMapEncodeTiled");
  REQUIRE(found != nullptr);
  std::array<std::uint64_t, kRank> strides{};  // bytes, of all but the first
  std::uint64_t bytes = 4;
  for (std::size_t i = 0; i + 1 < kRank; ++i) strides[i] = bytes *= size[i];
  std::array<std::uint32_t, kRank> steps;
  steps.fill(1);
  CUtensorMap map{};
  auto const encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  CUresult const error =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT32, kRank, data, size.data(), strides.data(),
             box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  REQUIRE(error == CUDA_SUCCESS);
  return map;
}

}  // namespace msda::test
