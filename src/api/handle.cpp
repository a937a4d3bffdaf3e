// msda_handle: creation, destruction and the list of kernels.

#include "api/guard.h"
#include "api/objects.h"
#include "api/structs.h"
#include "core/cuda.h"
#include "cpu/simd_targets.h"

#include <thread>

namespace msda::api {
namespace {

constexpr std::int32_t kLargestThreadCount = 1024;

void check_options(msda_handle_options const& options) {
  if ((options.alloc_fn == nullptr) != (options.free_fn == nullptr)) {
    invalid("handle_options.{} is NULL: alloc_fn and free_fn must be given together or not at all",
            options.alloc_fn == nullptr ? "alloc_fn" : "free_fn");
  }
  if (options.log_level < MSDA_LOG_OFF || options.log_level > MSDA_LOG_TRACE) {
    invalid("handle_options.log_level is {}: must be {} (MSDA_LOG_OFF) to {} (MSDA_LOG_TRACE)",
            options.log_level, MSDA_LOG_OFF, MSDA_LOG_TRACE);
  }
  if (options.device < MSDA_DEVICE_CPU) {
    invalid("handle_options.device is {}: must be a CUDA ordinal or MSDA_DEVICE_CPU (-1)",
            options.device);
  }
  if (options.thread_count < 0 || options.thread_count > kLargestThreadCount) {
    invalid("handle_options.thread_count is {}: must be 0 (all hardware threads) to {}",
            options.thread_count, kLargestThreadCount);
  }
  if (options.flags != 0) invalid("handle_options.flags is {}: must be 0", options.flags);
}

void start_cpu(msda_handle& handle, msda_handle_options const& options) {
  std::int32_t threads = options.thread_count;
  if (threads == 0) threads = static_cast<std::int32_t>(std::thread::hardware_concurrency());
  handle.device.ordinal = MSDA_DEVICE_CPU;
  handle.device.thread_count = std::clamp(threads, 1, kLargestThreadCount);
  handle.device.name = "cpu";
  handle.device.vector_unit = simd_target();
  handle.pool.emplace(handle.device.thread_count);
  handle.device.pool = &*handle.pool;
  handle.log.write(MSDA_LOG_INFO, "handle: CPU backend, {} threads", handle.device.thread_count);
}

void start_device(msda_handle& handle, msda_handle_options const& options) {
  handle.log = {options.log_fn, options.log_user, options.log_level};
  if (options.device == MSDA_DEVICE_CPU) {
    start_cpu(handle, options);
    return;
  }
  handle.device = cuda::open_device(options.device, handle.device_name);
  handle.device_memory =
      CallerMemory(options.alloc_fn, options.free_fn, options.alloc_user, options.device);
  handle.device.memory = &handle.device_memory;
  handle.log.write(MSDA_LOG_INFO, "handle: CUDA device {}, {}", options.device, handle.device_name);
}

// Ends and frees a handle through the allocator it came from.
void destroy(msda_handle* handle) noexcept {
  CallerMemory memory = handle->memory;
  std::pmr::polymorphic_allocator<>(&memory).delete_object(handle);
}

msda_handle* create(msda_handle_options const& options) {
  CallerMemory memory(options.alloc_fn, options.free_fn, options.alloc_user);
  auto* const handle = std::pmr::polymorphic_allocator<>(&memory).new_object<msda_handle>(memory);
  try {
    start_device(*handle, options);
  } catch (...) {
    destroy(handle);
    throw;
  }
  return handle;
}

}  // namespace

void release(msda_handle* handle) noexcept {
  if (handle->holds.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(handle);
}

}  // namespace msda::api

using namespace msda;
using namespace msda::api;

msda_status msda_handle_create(const msda_handle_options* options, msda_handle** out) {
  return guard("msda_handle_create", nullptr, [&] {
    msda_handle*& result = required(out, "out");
    msda_handle_options const checked = read_optional_struct(options, "msda_handle_options");
    check_options(checked);
    result = create(checked);
  });
}

void msda_handle_destroy(msda_handle* handle) {
  if (handle != nullptr) release(handle);
}

msda_status msda_kernel_count(const msda_handle* handle, size_t* out) {
  return guard("msda_kernel_count", log_of(handle), [&] {
    required(handle, "handle");
    required(out, "out") = all_kernels().size();
  });
}

msda_status msda_kernel_get(const msda_handle* handle, size_t index, msda_kernel_info* out) {
  return guard("msda_kernel_get", log_of(handle), [&] {
    required(handle, "handle");
    std::span<const KernelRef> const kernels = all_kernels();
    if (index >= kernels.size()) {
      invalid("index is {}: must be less than the kernel count, which is {}", index,
              kernels.size());
    }
    KernelRef const& kernel = kernels[index];
    msda_kernel_info info{};
    info.kernel_id = kernel.variant->id;
    info.family = kernel.family->model.name;
    info.sm_min = kernel.variant->sm_min;
    info.sm_max = kernel.variant->sm_max;
    write_struct(out, info, "msda_kernel_info");
  });
}
