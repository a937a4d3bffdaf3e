/**
 * @file host.h
 * ONNX Runtime's C interface with failures as exceptions: the few entries that operators need.
 */
#ifndef MSDA_PLUGINS_ONNXRUNTIME_HOST_H_
#define MSDA_PLUGINS_ONNXRUNTIME_HOST_H_

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/shapes.h"
#include "msda.hpp"
#include "third_party/onnxruntime_c_api.h"

namespace msda::ort {

/** A call of the host failed; its status goes back to it. */
class HostFailure : public std::exception {
 public:
  explicit HostFailure(OrtStatus* status) : status_(status) {}
  OrtStatus* status() const noexcept { return status_; }

 private:
  OrtStatus* status_;
};

inline void check(OrtStatus* status) {
  if (status != nullptr) throw HostFailure(status);
}

/** A tensor of a call as the host gives it. Dimensions may be plugins::kUnknown. */
struct Tensor : plugins::NamedShape {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::vector<std::string> symbols;  // the names of dimensions, where the host has them
  const void* data = nullptr;
  const OrtValue* value = nullptr;
};

/** The name of an element type as ONNX has it. */
const char* type_name(ONNXTensorElementDataType type);

/** The library's type, MSDA_DTYPE_NONE where it has none. */
msda_dtype dtype_of(ONNXTensorElementDataType type);

std::size_t item_bytes(msda_dtype dtype);

/** The types that values may have, and what an output of theirs has. */
struct ValueType {
  ONNXTensorElementDataType value, output;
};
extern const std::array<ValueType, 5> kValueTypes;

/** Type and shape out of the host's description. */
Tensor read_description(const OrtApi& api, const OrtTensorTypeAndShapeInfo* info);

/** A description that is to be released. */
using OwnedDescription =
    std::unique_ptr<OrtTensorTypeAndShapeInfo, void (*)(OrtTensorTypeAndShapeInfo*)>;

/** Runs a body; what it throws becomes a status with the operator's name before the message. */
template <typename Body>
OrtStatus* guarded(const OrtApi& api, const char* name, Body&& body) noexcept {
  OrtErrorCode code = ORT_FAIL;
  std::string message;
  try {
    try {
      std::forward<Body>(body)();
      return nullptr;
    } catch (const HostFailure& failure) {
      return failure.status();
    } catch (const Error& error) {
      if (error.status() == MSDA_ERROR_INVALID_ARGUMENT) code = ORT_INVALID_ARGUMENT;
      if (error.status() == MSDA_ERROR_UNSUPPORTED) code = ORT_NOT_IMPLEMENTED;
      message = error.what();
    } catch (const std::invalid_argument& error) {
      code = ORT_INVALID_ARGUMENT;
      message = error.what();
    } catch (const std::exception& error) {
      message = error.what();
    }
    return api.CreateStatus(code, (std::string(name) + ": " + message).c_str());
  } catch (...) {  // no memory for the message
    return api.CreateStatus(ORT_FAIL, "libmsda: out of memory");
  }
}

}  // namespace msda::ort

#endif  // MSDA_PLUGINS_ONNXRUNTIME_HOST_H_
