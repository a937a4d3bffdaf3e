#include "core/cuda.h"

#include "core/status.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <string_view>

namespace msda::cuda {
namespace {

// The driver's own function: looking at a pointer must neither load nor start the driver.
using PointerAttribute = int (*)(void* data, int attribute, unsigned long long pointer);
std::atomic<PointerAttribute> known_pointer_attribute{nullptr};

// CU_POINTER_ATTRIBUTE_MEMORY_TYPE and its values; CU_POINTER_ATTRIBUTE_IS_MANAGED.
constexpr int kMemoryType = 2;
constexpr unsigned kDeviceMemory = 2;
constexpr int kIsManaged = 8;
constexpr int kNoCudaMemory = 1;  // CUDA_ERROR_INVALID_VALUE: an address that CUDA knows nothing of

// The driver's answer, or kNotAsked.
constexpr int kNotAsked = -1;
int ask(const void* pointer, int attribute, unsigned& answer) {
  PointerAttribute const attribute_of = known_pointer_attribute.load(std::memory_order_relaxed);
  if (attribute_of == nullptr) return kNotAsked;
  return attribute_of(&answer, attribute, reinterpret_cast<unsigned long long>(pointer));
}

// How many libraries this process had loaded when the driver was last looked for.
std::atomic<unsigned long long> known_loads{0};

struct LoadedDriver {
  std::string path;  // "" where it is not there, or nothing was loaded since the last look
  unsigned long long loads = 0;
};

LoadedDriver find_loaded_driver() {
  LoadedDriver driver;
  auto const visit = [](dl_phdr_info* info, std::size_t, void* found) {
    auto& result = *static_cast<LoadedDriver*>(found);
    result.loads = info->dlpi_adds;
    if (result.loads == known_loads.load(std::memory_order_relaxed)) return 1;
    std::string_view const path = info->dlpi_name;
    if (!path.substr(path.rfind('/') + 1).starts_with("libcuda.so")) return 0;
    result.path = path;
    return 1;
  };
  dl_iterate_phdr(visit, &driver);
  return driver;
}

}  // namespace

// dlopen() by the name alone would search the disk, for 80 us, where no driver is loaded.
void look_for_driver() {
  if (known_pointer_attribute.load(std::memory_order_relaxed) != nullptr) return;
  LoadedDriver const loaded = find_loaded_driver();
  known_loads.store(loaded.loads, std::memory_order_relaxed);
  if (loaded.path.empty()) return;
  void* const driver = dlopen(loaded.path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return;
  known_pointer_attribute.store(
      reinterpret_cast<PointerAttribute>(dlsym(driver, "cuPointerGetAttribute")),
      std::memory_order_relaxed);
}

bool is_unknown_to_cuda(const void* pointer) {
  unsigned type = 0;
  return ask(pointer, kMemoryType, type) == kNoCudaMemory;
}

bool is_device_only(const void* pointer) {
  unsigned type = 0;
  if (ask(pointer, kMemoryType, type) != 0 || type != kDeviceMemory) return false;
  unsigned managed = 0;
  return ask(pointer, kIsManaged, managed) == 0 && managed == 0;
}

#if MSDA_HAS_CUDA

namespace {

// Throws where no device can be opened, saying what is missing.
int device_count(std::int32_t ordinal) {
  auto const refuse = [ordinal](std::string const& why) {
    fail(MSDA_ERROR_CUDA, "handle_options.device is {}: {}; or use MSDA_DEVICE_CPU (-1)", ordinal,
         why);
  };
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) {
    refuse("no CUDA driver was found (libcuda.so.1); " MSDA_LEAST_DRIVER);
  }
  std::string const driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  int count = 0;
  cudaError_t const error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    refuse(fmt::format("the CUDA driver is for CUDA {}; {}", driver, MSDA_LEAST_DRIVER));
  }
  if (error != cudaSuccess) {
    refuse(fmt::format("the CUDA driver (for CUDA {}) found no device it can use: {}", driver,
                       cudaGetErrorString(error)));
  }
  return count;
}

// Every device with clusters runs this many (CUDA C++ Programming Guide, "Thread Block Clusters").
constexpr std::int32_t kPortableClusterBlocks = 8;

int attribute(cudaDeviceAttr which, std::int32_t ordinal) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, ordinal), "reading the device's properties");
  return value;
}

// After these, as the run-time library documents them, nothing runs on the device in this process.
bool ends_the_process(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorExternalDevice:
    case cudaErrorContained:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fail(MSDA_ERROR_CUDA, "{}: {} ({}){}", what, cudaGetErrorString(error), cudaGetErrorName(error),
       ends_the_process(error) ? "; the device failed in work given to it earlier" : "");
}

Device open_device(std::int32_t ordinal, std::string& name) {
  int const count = device_count(ordinal);
  if (ordinal >= count) {
    invalid("handle_options.device is {}: must be 0 to {} (CUDA devices) or MSDA_DEVICE_CPU (-1)",
            ordinal, count - 1);
  }
  Device device;
  device.ordinal = ordinal;
  device.has_others = count > 1;
  device.sm = 10 * attribute(cudaDevAttrComputeCapabilityMajor, ordinal) +
              attribute(cudaDevAttrComputeCapabilityMinor, ordinal);
  device.sm_count = attribute(cudaDevAttrMultiProcessorCount, ordinal);
  device.reads_host_memory = attribute(cudaDevAttrPageableMemoryAccess, ordinal) != 0;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "reading the device's properties");
  device.shared_bytes_per_block = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  device.shared_bytes_per_sm = static_cast<std::int64_t>(properties.sharedMemPerMultiprocessor);
  device.max_cluster_blocks = properties.clusterLaunch != 0 ? kPortableClusterBlocks : 0;
  device.has_async_copy = device.sm >= 80;
  device.has_bulk_copy = device.sm >= 90;
  name = fmt::format("{}, sm_{}, {} SMs", properties.name, device.sm, device.sm_count);
  device.name = name;
  return device;
}

void* allocate(std::size_t bytes) {
  void* pointer = nullptr;
  cudaError_t const error = cudaMalloc(&pointer, bytes);
  if (error == cudaErrorMemoryAllocation) return nullptr;
  check(error, "allocating device memory");
  return pointer;
}

void deallocate(void* pointer) noexcept { static_cast<void>(cudaFree(pointer)); }

void copy_to_device(void* to, const void* from, std::size_t bytes) {
  constexpr const char* kWhat = "copying a plan's data to the device";
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), kWhat);
  // cudaMemcpy() may return when the bytes of memory that is not pinned have been read. Kernels on
  // streams that do not wait for the default one could begin before they have arrived.
  check(cudaStreamSynchronize(nullptr), kWhat);
}

void forget_error() noexcept { static_cast<void>(cudaGetLastError()); }

bool is_capturing(msda_stream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaError_t const error = cudaStreamIsCapturing(stream, &status);
  if (error == cudaErrorStreamCaptureImplicit) {  // the default stream, beside a capture
    forget_error();
    return true;
  }
  check(error, "asking whether the stream is capturing");
  return status != cudaStreamCaptureStatusNone;
}

void check_stream(Device const& device, msda_stream stream) {
  if (!device.has_others || stream == nullptr || stream == cudaStreamLegacy ||
      stream == cudaStreamPerThread) {
    return;
  }
  if (is_capturing(stream)) return;  // to ask would end the capture
  int ordinal = -1;
  check(cudaStreamGetDevice(stream, &ordinal), "asking for the stream's device");
  if (ordinal == device.ordinal) return;
  fail(MSDA_ERROR_CUDA, "stream is of device {}: must be of device {}, which the plan is for ({})",
       ordinal, device.ordinal, cudaGetErrorName(cudaErrorInvalidResourceHandle));
}

StreamTimer::StreamTimer(Device const& device, msda_stream stream)
    : on_gpu_(!device.is_cpu()), clock_(device.clock), stream_(stream) {
  if (!on_gpu_) return;
  check(cudaEventCreate(&start_), "creating an event");
  cudaError_t const error = cudaEventCreate(&stop_);
  if (error == cudaSuccess) return;
  static_cast<void>(cudaEventDestroy(start_));
  check(error, "creating an event");
}

StreamTimer::~StreamTimer() {
  if (!on_gpu_) return;
  static_cast<void>(cudaEventDestroy(start_));
  static_cast<void>(cudaEventDestroy(stop_));
}

void StreamTimer::start() {
  begin_us_ = clock_();
  if (on_gpu_) check(cudaEventRecord(start_, stream_), "recording an event");
}

double StreamTimer::stop_us() {
  if (!on_gpu_) return clock_() - begin_us_;
  check(cudaEventRecord(stop_, stream_), "recording an event");
  check(cudaEventSynchronize(stop_), "running a kernel");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start_, stop_), "reading the time of a kernel");
  return 1e3 * static_cast<double>(milliseconds);
}

void StreamTimer::drain() noexcept {
  if (on_gpu_) static_cast<void>(cudaStreamSynchronize(stream_));
}

CurrentDevice::CurrentDevice(Device const& device) {
  if (device.is_cpu()) return;
  int before = 0;
  check(cudaGetDevice(&before), "reading the current device");
  if (before == device.ordinal) return;
  check(cudaSetDevice(device.ordinal), "making the plan's device current");
  before_ = before;
}

CurrentDevice::~CurrentDevice() {
  if (before_ >= 0) static_cast<void>(cudaSetDevice(before_));
}

#else

Device open_device(std::int32_t ordinal, std::string&) {
  fail(MSDA_ERROR_CUDA,
       "handle_options.device is {}: this library has no CUDA backend ({}); use "
       "MSDA_DEVICE_CPU (-1)",
       ordinal, MSDA_BUILD_CUDA);
}

void* allocate(std::size_t) { return nullptr; }
void deallocate(void*) noexcept {}
void copy_to_device(void*, const void*, std::size_t) {}

void forget_error() noexcept {}

void check_stream(Device const&, msda_stream) {}

bool is_capturing(msda_stream) { return false; }

StreamTimer::StreamTimer(Device const& device, msda_stream stream)
    : on_gpu_(false), clock_(device.clock), stream_(stream) {}
StreamTimer::~StreamTimer() = default;
void StreamTimer::start() { begin_us_ = clock_(); }
double StreamTimer::stop_us() { return clock_() - begin_us_; }
void StreamTimer::drain() noexcept {}

CurrentDevice::CurrentDevice(Device const&) {}
CurrentDevice::~CurrentDevice() = default;

#endif

}  // namespace msda::cuda
