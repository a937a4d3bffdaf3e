// The memory that CUDA knows: of devices, managed, and the host's pinned. The rest is the host's.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simt::cuda {

enum class MemoryKind { kUnregistered, kDevice, kManaged, kPinned, kRegistered };

struct Allocation {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::kUnregistered;
  int device = 0;  // current when it was made
};

// Within one allocation; kUnregistered for what CUDA does not know.
Allocation find_allocation(const void* at);

// Filled with garbage. cudaErrorMemoryAllocation where the device has no more.
cudaError_t allocate(MemoryKind kind, int device, std::size_t bytes, void** pointer);
// cudaErrorInvalidValue for anything but the beginning of an allocation of one of these kinds.
cudaError_t deallocate(void* pointer, std::initializer_list<MemoryKind> kinds);
cudaError_t register_host(void* pointer, std::size_t bytes, int device);
// All that is on a device: cudaDeviceReset().
void deallocate_all(int device);

std::size_t used_bytes(int device);
std::vector<Allocation> live_allocations();

// While one exists, the device's memory can be touched: by the kernels of this thread, or by those
// of another. Without one an address sanitizer reports accesses.
class OpenMemory {
 public:
  // `peers`: other devices whose memory this device's kernels may touch.
  OpenMemory(int device, std::vector<int> peers);
  ~OpenMemory();
  OpenMemory(OpenMemory const&) = delete;
  OpenMemory& operator=(OpenMemory const&) = delete;

 private:
  std::vector<int> devices_;
};

}  // namespace simt::cuda
