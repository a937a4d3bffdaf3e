// cuTensorMapEncodeTiled(): the rules of its documentation, one after the other. What is allowed
// but not simulated (interleaved layouts, element strides, packed types, swizzles of larger atoms,
// NaN outside of the tensor) is CUDA_ERROR_NOT_SUPPORTED.
#include "cuda/sim_control.h"
#include "cuda/sim_state.h"
#include "runtime/tensor_map.h"

#include <cuda.h>

#include <cstdint>
#include <cstring>

namespace simt::cuda {
namespace {

thread_local std::string t_refusal;

CUresult refuse(std::string why, CUresult error = CUDA_ERROR_INVALID_VALUE) {
  t_refusal = std::move(why);
  return error;
}

CUresult unsimulated(std::string what) {
  return refuse(std::move(what) + " is not simulated", CUDA_ERROR_NOT_SUPPORTED);
}

struct Type {
  CUtensorMapDataType type;
  std::uint8_t bytes;  // 0: packed
  bool is_float;
};
constexpr Type kTypes[] = {
    {CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, false},
    {CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, false},
    {CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, false},
    {CU_TENSOR_MAP_DATA_TYPE_INT32, 4, false},
    {CU_TENSOR_MAP_DATA_TYPE_UINT64, 8, false},
    {CU_TENSOR_MAP_DATA_TYPE_INT64, 8, false},
    {CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, true},
    {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, true},
    {CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8, true},
    {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, true},
    {CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, 4, true},
    {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 4, true},
    {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ, 4, true},
    {CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, 0, false},
    {CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B, 0, false},
    {CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B, 0, false},
};

const Type* find_type(CUtensorMapDataType type) {
  for (Type const& known : kTypes) {
    if (known.type == type) return &known;
  }
  return nullptr;
}

struct Choices {
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
};

CUresult check_choices(Choices const& c, Type const& type, std::uint32_t rank) {
  if (c.interleave < 0 || c.interleave > CU_TENSOR_MAP_INTERLEAVE_32B) {
    return refuse("interleave is none of CUtensorMapInterleave");
  }
  if (c.swizzle < 0 || c.swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B) {
    return refuse("swizzle is none of CUtensorMapSwizzle");
  }
  if (c.promotion < 0 || c.promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B) {
    return refuse("l2Promotion is none of CUtensorMapL2promotion");
  }
  if (c.fill < 0 || c.fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA) {
    return refuse("oobFill is none of CUtensorMapFloatOOBfill");
  }
  if (c.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !type.is_float) {
    return refuse("oobFill is NaN, and tensorDataType has none");
  }
  if (c.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE && rank < 3) {
    return refuse("interleave needs a tensorRank of at least 3");
  }
  if (c.interleave == CU_TENSOR_MAP_INTERLEAVE_32B && c.swizzle != CU_TENSOR_MAP_SWIZZLE_32B) {
    return refuse("an interleave of 32 bytes needs a swizzle of 32 bytes");
  }
  return CUDA_SUCCESS;
}

CUresult check_simulated(Choices const& c, Type const& type) {
  if (type.bytes == 0) return unsimulated("a packed tensorDataType");
  if (c.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return unsimulated("interleave");
  if (c.swizzle > CU_TENSOR_MAP_SWIZZLE_128B) return unsimulated("a swizzle of larger atoms");
  if (c.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) return unsimulated("oobFill of NaN");
  return CUDA_SUCCESS;
}

// Dimensions are given with the fastest first: the wrong way round, rows overlap, or each dimension
// is nearer to the next than the one before.
std::string order_fault(TensorMap const& map) {
  if (map.rank < 2) return "";
  if (map.stride[0] < map.size[0] * map.element_bytes) {
    return "globalStrides[0] is less than globalDim[0] elements: is the innermost dimension first?";
  }
  bool is_reversed = map.rank > 2;
  for (std::uint32_t i = 1; i + 1 < map.rank; ++i) {
    is_reversed = is_reversed && map.stride[i] < map.stride[i - 1];
  }
  return is_reversed ? "globalStrides fall: is the innermost dimension first?" : "";
}

CUresult check_element_strides(const cuuint32_t* strides, std::uint32_t rank) {
  for (std::uint32_t i = 0; i < rank; ++i) {
    if (strides[i] == 0 || strides[i] > 8) {
      return refuse("elementStrides[" + std::to_string(i) + "] is " + std::to_string(strides[i]) +
                    "; 1 to 8 are allowed");
    }
  }
  for (std::uint32_t i = 1; i < rank; ++i) {  // the first one is ignored
    if (strides[i] != 1) return unsimulated("an element stride");
  }
  return CUDA_SUCCESS;
}

constexpr std::uint8_t kSwizzleBytes[] = {0, 32, 64, 128};

}  // namespace

std::string tensor_map_refusal() { return t_refusal; }

}  // namespace simt::cuda

using namespace simt::cuda;

CUresult cuTensorMapEncodeTiled(CUtensorMap* to, CUtensorMapDataType data_type, cuuint32_t rank,
                                void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (settings().capability < 90) {
    return refuse("the device has no tensor maps", CUDA_ERROR_NOT_SUPPORTED);
  }
  bool const has_all = to != nullptr && address != nullptr && sizes != nullptr &&
                       (strides != nullptr || rank == 1) && box != nullptr &&
                       element_strides != nullptr;
  if (!has_all) return refuse("an argument is null");
  if (reinterpret_cast<std::uintptr_t>(to) % 64 != 0) {
    return refuse("tensorMap is no multiple of 64");
  }
  if (rank == 0 || rank > simt::kMaxTensorRank) return refuse("tensorRank is not 1 to 5");
  const auto* const type = find_type(data_type);
  if (type == nullptr) return refuse("tensorDataType is none of CUtensorMapDataType");
  Choices const choices{interleave, swizzle, promotion, fill};
  CUresult error = check_choices(choices, *type, rank);
  if (error == CUDA_SUCCESS) error = check_simulated(choices, *type);
  if (error == CUDA_SUCCESS) error = check_element_strides(element_strides, rank);
  if (error != CUDA_SUCCESS) return error;
  simt::TensorMap map;
  map.base = reinterpret_cast<std::uintptr_t>(address);
  map.rank = static_cast<std::uint8_t>(rank);
  map.element_bytes = type->bytes;
  map.swizzle_bytes = kSwizzleBytes[swizzle];
  for (std::uint32_t i = 0; i < rank; ++i) {
    map.size[i] = sizes[i];
    if (i + 1 < rank) map.stride[i] = strides[i];
    if (box[i] > 256) return refuse("boxDim[" + std::to_string(i) + "] is more than 256");
    map.box[i] = static_cast<std::uint16_t>(box[i]);
  }
  std::string fault = order_fault(map);
  if (fault.empty()) fault = simt::encode_tensor_map(to, map);
  return fault.empty() ? CUDA_SUCCESS : refuse(fault);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  if (map == nullptr || reinterpret_cast<std::uintptr_t>(map) % 64 != 0) {
    return refuse("tensorMap is null or no multiple of 64");
  }
  simt::TensorMap changed;
  std::memcpy(static_cast<void*>(&changed), map, sizeof(changed));
  changed.base = reinterpret_cast<std::uintptr_t>(address);
  std::string const fault = simt::encode_tensor_map(map, changed);
  return fault.empty() ? CUDA_SUCCESS : refuse(fault);
}
