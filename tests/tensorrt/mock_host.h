/**
 * @file mock_host.h
 * What TensorRT hands to a plugin, made without it: expressions of dimensions, a logger,
 * descriptions of tensors.
 */
#ifndef MSDA_TESTS_TENSORRT_MOCK_HOST_H_
#define MSDA_TESTS_TENSORRT_MOCK_HOST_H_

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "NvInferRuntime.h"
#include "msda.hpp"

using namespace nvinfer1;

inline int faults = 0;
inline void check(bool is_so, const char* what, int line) {
  if (is_so) return;
  ++faults;
  std::printf("line %d: not so: %s\n", line, what);
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__, __LINE__)

/** A dimension: a number, or none that is known when the engine is built. */
class Expr final : public IDimensionExpr {
 public:
  Expr(bool is_constant, std::int64_t value) : impl_(is_constant, value) { mImpl = &impl_; }
  ~Expr() noexcept override = default;

 private:
  struct Impl final : apiv::VDimensionExpr {
    Impl(bool is_constant, std::int64_t its_value) : constant(is_constant), value(its_value) {}
    bool isConstant() const override { return constant; }
    std::int64_t getConstantValue() const override { return constant ? value : INT64_MIN; }
    bool isSizeTensor() const override { return false; }
    bool constant;
    std::int64_t value;
  };
  Impl impl_;
};

constexpr std::int64_t kAny = -1;  // a dimension that is not known, for Builder::dims()

class Builder final : public IExprBuilder {
 public:
  Builder() : impl_(*this) { mImpl = &impl_; }
  ~Builder() noexcept override = default;

  DimsExprs dims(const std::vector<std::int64_t>& sizes) {
    DimsExprs result{};
    result.nbDims = static_cast<std::int32_t>(sizes.size());
    for (std::size_t i = 0; i < sizes.size() && i < Dims::MAX_DIMS; ++i) {
      result.d[i] = &made_.emplace_back(sizes[i] != kAny, sizes[i]);
    }
    return result;
  }

 private:
  struct Impl final : apiv::VExprBuilder {
    explicit Impl(Builder& its_builder) : builder(its_builder) {}
    const IDimensionExpr* constant(std::int64_t value) override {
      return &builder.made_.emplace_back(true, value);
    }
    const IDimensionExpr* operation(DimensionOperation, const IDimensionExpr&,
                                    const IDimensionExpr&) override {
      return nullptr;
    }
    const IDimensionExpr* declareSizeTensor(std::int32_t, const IDimensionExpr&,
                                            const IDimensionExpr&) override {
      return nullptr;
    }
    Builder& builder;
  };
  Impl impl_;
  std::deque<Expr> made_;
};

/** Keeps what it was told. */
struct Log final : ILogger {
  std::vector<std::string> lines;
  void log(Severity severity, const char* message) noexcept override {
    lines.push_back(std::to_string(static_cast<int>(severity)) + " " + message);
  }
  /** The only line since the last call, or "". */
  std::string take() {
    const std::string line = lines.size() == 1 ? lines[0] : "";
    lines.clear();
    return line;
  }
};

struct Finder final : ILoggerFinder {
  Log log;
  bool throws = false;
  ILogger* findLogger() override {
    if (throws) throw std::runtime_error("no logger for this thread");
    return &log;
  }
};

/** The finder to hand to a plugin: that of the library of TensorRT 10 which MOCK_NVINFER names,
 * whose calls come to `finder`; else `finder` itself. */
inline void* finder_of_major(Finder& finder) {
  const char* const path = std::getenv("MOCK_NVINFER");
  if (path == nullptr) return &finder;
  static Finder* own = nullptr;
  own = &finder;
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  using Make = void* (*)(void (*)(), void (*)(std::int32_t, const char*));
  return reinterpret_cast<Make>(dlsym(library, "findThrough"))(
      [] { own->findLogger(); },
      [](std::int32_t severity, const char* message) {
        own->log.log(static_cast<ILogger::Severity>(severity), message);
      });
}

/** The CUDA driver, or the mock whose device is the CPU (mock_driver.c), with device 0's primary
 * context current and a stream. */
class Driver {
 public:
  explicit Driver(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_GLOBAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
    call("cuInit", 0U);
    call("cuDevicePrimaryCtxRetain", &context_, 0);
    make_current(true);
    call("cuStreamCreate", &stream_, 1U);  // CU_STREAM_NON_BLOCKING
  }

  ~Driver() { call("cuStreamDestroy_v2", stream_); }
  Driver(const Driver&) = delete;

  /** Throws where the function is missing or fails. */
  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(handle_, name));
    if (function == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
    if (const int failure = function(arguments...); failure != 0) {
      throw std::runtime_error(std::string(name) + "() returned " + std::to_string(failure));
    }
  }
  void make_current(bool is_current) const {
    call("cuCtxSetCurrent", is_current ? context_ : static_cast<void*>(nullptr));
  }
  int device() const {
    int device = 0;
    call("cuCtxGetDevice", &device);
    return device;
  }
  msda_stream stream() const { return stream_; }
  /** What the mock gives for the current device; null: this is a driver. */
  int* mock_device() const { return static_cast<int*>(dlsym(handle_, "mock_device")); }

 private:
  void* handle_;
  void* context_ = nullptr;
  msda_stream stream_ = nullptr;
};

/** Memory of the device with the bytes of the host. */
class DeviceArray {
 public:
  DeviceArray(const Driver& driver, const std::vector<char>& bytes) : driver_(driver) {
    driver.call("cuMemAlloc_v2", &address_, bytes.size() + 1);  // no memory of 0 bytes
    driver.call("cuMemcpyHtoD_v2", address_, static_cast<const void*>(bytes.data()), bytes.size());
    driver.call("cuCtxSynchronize");
  }
  ~DeviceArray() { driver_.call("cuMemFree_v2", address_); }
  DeviceArray(const DeviceArray&) = delete;

  void* data() const { return reinterpret_cast<void*>(address_); }
  /** After the stream's work. */
  void read(std::vector<char>& bytes) const {
    driver_.call("cuStreamSynchronize", driver_.stream());
    driver_.call("cuMemcpyDtoH_v2", static_cast<void*>(bytes.data()), address_, bytes.size());
  }

 private:
  const Driver& driver_;
  unsigned long long address_ = 0;
};

/** The plugin's library, loaded as IPluginRegistry::loadLibrary() does it. */
class Library {
 public:
  explicit Library(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
    set_logger_finder = symbol<void (*)(void*)>("setLoggerFinder");
    const auto get = symbol<IPluginCreatorInterface* const* (*)(std::int32_t&)>("getCreators");
    std::int32_t count = 0;
    IPluginCreatorInterface* const* const list = get(count);
    for (std::int32_t i = 0; i < count; ++i) {
      creators.push_back(static_cast<IPluginCreatorV3One*>(list[i]));
    }
  }
  void (*set_logger_finder)(void*);
  std::vector<IPluginCreatorV3One*> creators;

 private:
  template <typename Function>
  Function symbol(const char* name) const {
    void* const found = dlsym(handle_, name);
    if (found == nullptr) throw std::runtime_error(std::string("no symbol ") + name);
    return reinterpret_cast<Function>(found);
  }
  void* handle_;
};

inline PluginTensorDesc desc(DataType type, const std::vector<std::int64_t>& sizes) {
  PluginTensorDesc result{};
  result.dims.nbDims = static_cast<std::int32_t>(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) result.dims.d[i] = sizes[i];
  result.type = type;
  result.format = TensorFormat::kLINEAR;
  return result;
}

#endif  // MSDA_TESTS_TENSORRT_MOCK_HOST_H_
