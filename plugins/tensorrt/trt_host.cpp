#include "trt_host.h"

#include <dlfcn.h>

#include <atomic>

namespace msda::trt {
namespace {

std::atomic<nvinfer1::ILoggerFinder*> logger_finder{nullptr};

std::size_t rank_of(const char* name, std::int32_t rank) {
  if (rank < 0 || rank > nvinfer1::Dims::MAX_DIMS) {
    refuse(std::string(name) + " has a number of dimensions that is not known");
  }
  return static_cast<std::size_t>(rank);
}

}  // namespace

Tensor tensor_of(const char* name, const nvinfer1::Dims& dims) {
  return {name, {dims.d, dims.d + rank_of(name, dims.nbDims)}};
}

Tensor tensor_of(const char* name, const nvinfer1::DimsExprs& dims) {
  Tensor tensor{name, std::vector<std::int64_t>(rank_of(name, dims.nbDims), kUnknown)};
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (dims.d[i] != nullptr && dims.d[i]->isConstant()) {
      tensor.shape[i] = dims.d[i]->getConstantValue();
    }
  }
  return tensor;
}

msda_dtype dtype_of(nvinfer1::DataType type) {
  switch (type) {
    case nvinfer1::DataType::kFLOAT:
      return MSDA_DTYPE_F32;
    case nvinfer1::DataType::kHALF:
      return MSDA_DTYPE_F16;
    case nvinfer1::DataType::kBF16:
      return MSDA_DTYPE_BF16;
    default:
      return MSDA_DTYPE_NONE;
  }
}

std::int32_t current_device() {
  using GetDevice = int (*)(int* device);
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);  // TensorRT has loaded it
  const auto get_device =
      driver == nullptr ? nullptr : reinterpret_cast<GetDevice>(dlsym(driver, "cuCtxGetDevice"));
  if (get_device == nullptr) refuse("there is no CUDA driver (libcuda.so.1)");
  int device = 0;
  if (const int failure = get_device(&device); failure != 0) {
    refuse("the thread has no current CUDA device: cuCtxGetDevice() returned " +
           std::to_string(failure));
  }
  return device;
}

void set_logger_finder(nvinfer1::ILoggerFinder* finder) noexcept { logger_finder = finder; }

void log_error(const char* plugin, const char* message) noexcept {
  try {
    nvinfer1::ILoggerFinder* const finder = logger_finder;
    nvinfer1::ILogger* const logger = finder == nullptr ? nullptr : finder->findLogger();
    if (logger == nullptr) return;
    const std::string text = std::string(plugin) + ": " + message;
    logger->log(nvinfer1::ILogger::Severity::kERROR, text.c_str());
  } catch (...) {  // no memory for the message, or a host that throws: the status says it
  }
}

}  // namespace msda::trt
