#include "trt_host.h"

#include <dlfcn.h>

#include <atomic>

namespace msda::trt {

// TensorRT 10's loggers, whose functions are the first of their virtual tables; in 11 four stand
// before them. All else that the plugin has or calls lies at one place in both. In a namespace
// without a name a compiler would know that nothing derives from them.
class LoggerOf10 {
 public:
  virtual void log(nvinfer1::ILogger::Severity severity, const char* message) noexcept = 0;
  virtual ~LoggerOf10() = default;
};
class LoggerFinderOf10 {
 public:
  virtual LoggerOf10* findLogger() = 0;
  virtual ~LoggerFinderOf10() = default;
};

namespace {

std::atomic<bool> host_is_10{false};
std::atomic<void*> logger_finder{nullptr};

// The library that has the finder's virtual table says its version: a process may have two.
bool is_of_10(void* finder) {
  Dl_info place{};
  if (dladdr(*static_cast<void**>(finder), &place) == 0) return false;
  void* const library = dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  using GetVersion = std::int32_t (*)();
  const auto get = reinterpret_cast<GetVersion>(dlsym(library, "getInferLibVersion"));
  const bool is_10 = get != nullptr && get() / 10000 == 10;
  dlclose(library);
  return is_10;
}

template <typename Finder>
void log_to(void* finder, const char* text) {
  auto* const logger = static_cast<Finder*>(finder)->findLogger();
  if (logger != nullptr) logger->log(nvinfer1::ILogger::Severity::kERROR, text);
}

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

void set_logger_finder(void* finder) noexcept {
  logger_finder = nullptr;
  host_is_10 = finder != nullptr && is_of_10(finder);
  logger_finder = finder;
}

void log_error(const char* plugin, const char* message) noexcept {
  try {
    void* const finder = logger_finder;
    if (finder == nullptr) return;
    const std::string text = std::string(plugin) + ": " + message;
    if (host_is_10) {
      log_to<LoggerFinderOf10>(finder, text.c_str());
    } else {
      log_to<nvinfer1::ILoggerFinder>(finder, text.c_str());
    }
  } catch (...) {  // no memory for the message, or a host that throws: the status says it
  }
}

}  // namespace msda::trt
