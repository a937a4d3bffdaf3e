#include "kernels/tma/tensor_maps.h"

#include "core/cuda.h"
#include "core/dtype.h"
#include "core/status.h"
#include "kernels/tma/plan.h"

#include <algorithm>

namespace msda::tma {
namespace {

constexpr std::int32_t kRank = 5;
constexpr int kMinVersion = 12000;  // of the driver, that has tensor maps
// Any address that a map may have; a plan's maps are not used as they are.
constexpr std::uintptr_t kAnyAddress = 4096;

template <typename Function>
Function driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  cuda::check(
      cudaGetDriverEntryPointByVersion(name, &found, kMinVersion, cudaEnableDefault, &result),
      "looking for the driver's tensor maps");
  if (result != cudaDriverEntryPointSuccess || found == nullptr) {
    fail(MSDA_ERROR_CUDA, "the CUDA driver has no {}()", name);
  }
  return reinterpret_cast<Function>(found);
}

// Calls a function of the driver. It needs a context, which a thread whose first CUDA call this is
// does not have before it sets its device.
template <typename Call>
CUresult with_context(Call const& call) {
  CUresult const result = call();
  if (result != CUDA_ERROR_INVALID_CONTEXT) return result;
  int device = 0;
  cuda::check(cudaGetDevice(&device), "reading the current device");
  cuda::check(cudaSetDevice(device), "making the current device's context");
  return call();
}

CUtensorMapDataType map_type(msda_dtype dtype) {
  return dtype == MSDA_DTYPE_F16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
         : dtype == MSDA_DTYPE_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                    : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

// Dimensions from the fastest on: channels, x, y, head, batch item.
struct Shape5 {
  cuuint64_t sizes[kRank];
  cuuint64_t strides[kRank - 1];  // bytes, of all but the fastest

  Shape5(Problem const& problem, Level const& level) {
    auto const u64 = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
    std::int64_t const element = dtype_bytes(problem.value_dtype);
    std::int64_t const pixel = problem.value.row * element;
    // A dimension that is never stepped over may have any stride.
    auto const stride = [&](std::int64_t count, std::int64_t bytes) {
      return u64(count > 1 ? bytes : pixel);
    };
    sizes[0] = u64(problem.head_dim);
    sizes[1] = u64(level.width);
    sizes[2] = u64(level.height);
    sizes[3] = u64(problem.head_count);
    sizes[4] = u64(problem.batch);
    strides[0] = u64(pixel);
    strides[1] = stride(level.height, level.row_tokens * pixel);
    strides[2] = stride(problem.head_count, problem.value.head * element);
    strides[3] = stride(problem.batch, problem.value.batch * element);
  }
};

}  // namespace

PlannedMaps::PlannedMaps(Problem const& problem, const Box (&boxes)[kInlineLevels])
    : replace_(driver_function<decltype(replace_)>("cuTensorMapReplaceAddress")) {
  auto const encode = driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    if (boxes[l].columns == 0) continue;
    Shape5 const shape(problem, problem.levels[l]);
    cuuint32_t const box[kRank] = {static_cast<cuuint32_t>(problem.head_dim),
                                   static_cast<cuuint32_t>(boxes[l].columns),
                                   static_cast<cuuint32_t>(boxes[l].rows), 1, 1};
    cuuint32_t const element_strides[kRank] = {1, 1, 1, 1, 1};
    CUresult const error = with_context([&] {
      return encode(&maps_.level[l], map_type(problem.value_dtype), kRank,
                    reinterpret_cast<void*>(kAnyAddress), shape.sizes, shape.strides, box,
                    element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                    CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    });
    if (error != CUDA_SUCCESS) {
      fail(MSDA_ERROR_CUDA,
           "the CUDA driver refuses a tensor map of level {}: boxes of {} x {} pixels with {} "
           "channels, {} bytes from pixel to pixel: error {}",
           l, boxes[l].columns, boxes[l].rows, problem.head_dim, shape.strides[0],
           static_cast<int>(error));
    }
    offset_[l] = problem.levels[l].origin * problem.value.row * dtype_bytes(problem.value_dtype);
    is_used_[l] = true;
  }
}

Maps PlannedMaps::at(const void* value) const {
  Maps maps = maps_;
  auto const begin = reinterpret_cast<std::uintptr_t>(value);
  for (std::int32_t l = 0; l < kInlineLevels; ++l) {
    if (!is_used_[l]) continue;
    auto* const address = reinterpret_cast<void*>(begin + static_cast<std::uintptr_t>(offset_[l]));
    if (with_context([&] { return replace_(&maps.level[l], address); }) != CUDA_SUCCESS) {
      fail(MSDA_ERROR_CUDA, "the CUDA driver refuses address {} in a tensor map", address);
    }
  }
  return maps;
}

}  // namespace msda::tma
