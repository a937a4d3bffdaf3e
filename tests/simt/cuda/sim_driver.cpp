// The driver's own functions, and looking them up.
#include "cuda/sim_capability.h"
#include "cuda/sim_memory.h"
#include "cuda/sim_state.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <string_view>

namespace simt::cuda {
namespace {

template <typename Value>
CUresult answer(void* data, Value value) {
  std::memcpy(data, &value, sizeof(value));
  return CUDA_SUCCESS;
}

bool is_host(Allocation const& a) {
  return a.kind == MemoryKind::kPinned || a.kind == MemoryKind::kRegistered;
}

CUresult attribute_of(void* data, CUpointer_attribute attribute, CUdeviceptr pointer,
                      Allocation const& a) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return answer<unsigned>(data, is_host(a) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return answer<unsigned>(data, a.kind == MemoryKind::kManaged ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return answer<int>(data, a.device);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return answer(data, pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (a.kind == MemoryKind::kDevice) return CUDA_ERROR_INVALID_VALUE;
      return answer(data, pointer);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return answer(data, reinterpret_cast<CUdeviceptr>(a.begin));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return answer(data, a.bytes);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;  // none that the simulated driver knows
  }
}

struct Entry {
  std::string_view name;
  void* function;
};

template <typename Function>
Entry entry(std::string_view name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

void* find_entry(std::string_view name) {
#define MSDA_SIMT_ENTRY(name) entry(#name, name)
  static Entry const entries[] = {
      MSDA_SIMT_ENTRY(cuInit),
      MSDA_SIMT_ENTRY(cuDriverGetVersion),
      MSDA_SIMT_ENTRY(cuDeviceGetCount),
      MSDA_SIMT_ENTRY(cuGetErrorName),
      MSDA_SIMT_ENTRY(cuGetErrorString),
      MSDA_SIMT_ENTRY(cuPointerGetAttribute),
      MSDA_SIMT_ENTRY(cuTensorMapEncodeTiled),
      MSDA_SIMT_ENTRY(cuTensorMapReplaceAddress),
  };
#undef MSDA_SIMT_ENTRY
  for (Entry const& known : entries) {
    if (known.name == name) return known.function;
  }
  return nullptr;
}

cudaError_t look_up(const char* symbol, void** function, unsigned version,
                    cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return cudaErrorInvalidValue;
  *function = find_entry(symbol);
  auto result = cudaDriverEntryPointSuccess;
  if (*function == nullptr) {
    result = cudaDriverEntryPointSymbolNotFound;
  } else if (version < 12000) {  // as old as the youngest of them
    result = cudaDriverEntryPointVersionNotSufficent;
    *function = nullptr;
  }
  if (status != nullptr) *status = result;
  // Without a place for the reason, the reason is the error.
  return status != nullptr || *function != nullptr ? cudaSuccess : cudaErrorSymbolNotFound;
}

}  // namespace
}  // namespace simt::cuda

using namespace simt::cuda;

CUresult cuInit(unsigned flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuDriverGetVersion(int* version) {
  return cudaDriverGetVersion(version) == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Lock const lock(state().mutex);
  *count = state().settings.device_count;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  return static_cast<CUresult>(cudaStreamSynchronize(stream));  // errors have the same numbers
}

// Takes no lock of streams, allocates nothing, answers in any thread at any time.
CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Allocation const a = find_allocation(reinterpret_cast<const void*>(pointer));
  if (a.kind == MemoryKind::kUnregistered) return CUDA_ERROR_INVALID_VALUE;
  return attribute_of(data, attribute, pointer, a);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  return look_up(symbol, function, version, status);
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                    cudaDriverEntryPointQueryResult* status) {
  return look_up(symbol, function, CUDART_VERSION, status);
}
