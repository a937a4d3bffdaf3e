#include "host.h"

namespace msda::ort {
namespace {

struct Type {
  ONNXTensorElementDataType host;
  msda_dtype dtype;
  const char* name;
};

constexpr std::array kTypes{
    Type{ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, MSDA_DTYPE_F32, "float"},
    Type{ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, MSDA_DTYPE_F16, "float16"},
    Type{ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, MSDA_DTYPE_BF16, "bfloat16"},
    Type{ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, MSDA_DTYPE_F64, "double"},
    Type{ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN, MSDA_DTYPE_F8_E4M3, "float8e4m3fn"},
    Type{ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, MSDA_DTYPE_NONE, "int32"},
    Type{ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, MSDA_DTYPE_NONE, "int64"},
    Type{ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, MSDA_DTYPE_NONE, "int8"},
};

const Type* find(ONNXTensorElementDataType type) {
  for (const Type& known : kTypes) {
    if (known.host == type) return &known;
  }
  return nullptr;
}

}  // namespace

const std::array<ValueType, 5> kValueTypes{{
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT},
}};

const char* type_name(ONNXTensorElementDataType type) {
  const Type* const known = find(type);
  return known == nullptr ? "of another type" : known->name;
}

msda_dtype dtype_of(ONNXTensorElementDataType type) {
  const Type* const known = find(type);
  return known == nullptr ? MSDA_DTYPE_NONE : known->dtype;
}

std::size_t item_bytes(msda_dtype dtype) {
  switch (dtype) {
    case MSDA_DTYPE_F64:
      return 8;
    case MSDA_DTYPE_F32:
      return 4;
    case MSDA_DTYPE_F16:
    case MSDA_DTYPE_BF16:
      return 2;
    default:
      return 1;
  }
}

Tensor read_description(const OrtApi& api, const OrtTensorTypeAndShapeInfo* info) {
  Tensor tensor;
  check(api.GetTensorElementType(info, &tensor.type));
  std::size_t rank = 0;
  check(api.GetDimensionsCount(info, &rank));
  tensor.shape.resize(rank);
  check(api.GetDimensions(info, tensor.shape.data(), rank));
  std::vector<const char*> symbols(rank, nullptr);
  check(api.GetSymbolicDimensions(info, symbols.data(), rank));
  for (const char* const symbol : symbols) tensor.symbols.emplace_back(symbol ? symbol : "");
  return tensor;
}

}  // namespace msda::ort
