/**
 * @file trt_host.h
 * TensorRT's side of a call: tensors, its logger, the device that it runs on.
 */
#ifndef MSDA_PLUGINS_TENSORRT_TRT_HOST_H_
#define MSDA_PLUGINS_TENSORRT_TRT_HOST_H_

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "NvInferRuntime.h"
#include "common/shapes.h"
#include "msda.hpp"

namespace msda::trt {

using plugins::described;
using plugins::kUnknown;
using plugins::refuse;
using Tensor = plugins::NamedShape;

Tensor tensor_of(const char* name, const nvinfer1::Dims& dims);
Tensor tensor_of(const char* name, const nvinfer1::DimsExprs& dims);

/** The library's type of floating-point numbers, MSDA_DTYPE_NONE where it has none. */
msda_dtype dtype_of(nvinfer1::DataType type);

inline bool is_integer(nvinfer1::DataType type) {
  return type == nvinfer1::DataType::kINT32 || type == nvinfer1::DataType::kINT64;
}

/** The current CUDA device of the calling thread, which is the one that TensorRT calls a plugin
 * for. */
std::int32_t current_device();

/** Takes an ILoggerFinder of TensorRT 10 or 11. */
void set_logger_finder(void* finder) noexcept;

/** Tells the logger that belongs to the calling thread, where there is one. */
void log_error(const char* plugin, const char* message) noexcept;

/** Runs a body; where it throws, the message goes to the logger and the result is `failure`. */
template <typename Result, typename Body>
Result guarded(const char* plugin, Result failure, Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::exception& error) {  // std::bad_alloc, too
    log_error(plugin, error.what());
  } catch (...) {
    log_error(plugin, "unknown failure");
  }
  return failure;
}

}  // namespace msda::trt

#endif  // MSDA_PLUGINS_TENSORRT_TRT_HOST_H_
