// Allocating memory, giving it back, and asking what an address is.
#include "cuda/sim_call.h"
#include "cuda/sim_memory.h"
#include "cuda/sim_stream.h"

namespace simt::cuda {
namespace {

cudaError_t allocate_for(const char* name, MemoryKind kind, void** pointer, std::size_t bytes) {
  return api(name, Needs::kUnsafe, [&](Lock&) {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    if (bytes == 0) {
      *pointer = nullptr;
      return kind == MemoryKind::kManaged ? cudaErrorInvalidValue : cudaSuccess;
    }
    return allocate(kind, current_device(), bytes, pointer);
  });
}

// Waits until nothing can be using it.
cudaError_t free_after_all(const char* name, void* pointer,
                           std::initializer_list<MemoryKind> kinds) {
  return api(name, Needs::kUnsafe, [&](Lock& lock) {
    if (pointer == nullptr) return cudaSuccess;
    Allocation const a = find_allocation(pointer);
    if (a.kind != MemoryKind::kUnregistered) complete_device(lock, a.device);
    return deallocate(pointer, kinds);
  });
}

}  // namespace
}  // namespace simt::cuda

using namespace simt::cuda;

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return allocate_for(__func__, MemoryKind::kDevice, pointer, bytes);
}

cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned flags) {
  if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) {
    return api(__func__, Needs::kNothing, [](Lock&) { return cudaErrorInvalidValue; });
  }
  return allocate_for(__func__, MemoryKind::kManaged, pointer, bytes);
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return allocate_for(__func__, MemoryKind::kPinned, pointer, bytes);
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  return allocate_for(__func__, MemoryKind::kPinned, pointer, bytes);
}

cudaError_t cudaFree(void* pointer) {
  return free_after_all(__func__, pointer, {MemoryKind::kDevice, MemoryKind::kManaged});
}

cudaError_t cudaFreeHost(void* pointer) {
  return free_after_all(__func__, pointer, {MemoryKind::kPinned});
}

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  return api(__func__, Needs::kUnsafe, [&](Lock&) {
    if (pointer == nullptr || bytes == 0) return cudaErrorInvalidValue;
    return register_host(pointer, bytes, current_device());
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return api(__func__, Needs::kUnsafe, [&](Lock& lock) {
    complete_device(lock, current_device());
    cudaError_t const error = deallocate(pointer, {MemoryKind::kRegistered});
    return error == cudaSuccess ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* pointer, unsigned flags) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    MemoryKind const kind = find_allocation(pointer).kind;
    bool const is_mapped = kind == MemoryKind::kPinned || kind == MemoryKind::kRegistered;
    if (device_pointer == nullptr || flags != 0 || !is_mapped) return cudaErrorInvalidValue;
    *device_pointer = pointer;
    return cudaSuccess;
  });
}

// The memory is there when the stream has come to the allocation; it is the caller's from the call
// on here, which only a use from another stream would tell. In a capture it is not simulated.
cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t handle) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    CUstream_st* stream = nullptr;
    cudaError_t const error = find_current_stream_for_work(handle, stream);
    if (error != cudaSuccess) return error;
    if (stream->capture != nullptr) return cudaErrorNotSupported;
    if (pointer == nullptr) return cudaErrorInvalidValue;
    return allocate(MemoryKind::kDevice, stream->device, bytes, pointer);
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    CUstream_st* stream = nullptr;
    cudaError_t const error = find_current_stream_for_work(handle, stream);
    if (error != cudaSuccess) return error;
    if (stream->capture != nullptr) return cudaErrorNotSupported;
    Allocation const a = find_allocation(pointer);
    if (a.kind != MemoryKind::kDevice || a.begin != pointer) return cudaErrorInvalidValue;
    Task task;
    task.name = "giving back memory";
    task.device = stream->device;
    task.run = [pointer] { return deallocate(pointer, {MemoryKind::kDevice}); };
    Given given;
    return give(lock, *stream, std::move(task), given);
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    if (free_bytes == nullptr || total_bytes == nullptr) return cudaErrorInvalidValue;
    *total_bytes = state().settings.memory_bytes;
    *free_bytes = *total_bytes - used_bytes(current_device());
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    Allocation const a = find_allocation(pointer);
    auto* const address = const_cast<void*>(pointer);
    *attributes = {};
    attributes->device = a.device;
    attributes->devicePointer = attributes->hostPointer = address;
    switch (a.kind) {
      case MemoryKind::kUnregistered:
        attributes->type = cudaMemoryTypeUnregistered;
        attributes->device = cudaInvalidDeviceId;
        attributes->devicePointer = nullptr;
        break;
      case MemoryKind::kDevice:
        attributes->type = cudaMemoryTypeDevice;
        attributes->hostPointer = nullptr;
        break;
      case MemoryKind::kManaged:
        attributes->type = cudaMemoryTypeManaged;
        break;
      case MemoryKind::kPinned:
      case MemoryKind::kRegistered:
        attributes->type = cudaMemoryTypeHost;
        break;
    }
    return cudaSuccess;
  });
}
