// Devices: which there are, which is current, what they are like, and access to each other's
// memory.
#include "cuda/sim_call.h"
#include "cuda/sim_capability.h"
#include "cuda/sim_capture.h"
#include "cuda/sim_memory.h"
#include "cuda/sim_stream.h"

#include <cstdio>
#include <cstring>
#include <limits>

namespace simt::cuda {
namespace {

constexpr int kVersion = 13000;
constexpr int kClockKhz = 1'500'000;
constexpr int kMaxInt = std::numeric_limits<int>::max();

bool is_device(int device) { return device >= 0 && device < state().settings.device_count; }

cudaDeviceProp properties_of(int device) {
  Settings const& settings = state().settings;
  Capability const& row = capability_row(settings.capability);
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof(p.name), "simulated device %d", device);
  p.uuid.bytes[0] = static_cast<char>(device + 1);
  p.totalGlobalMem = settings.memory_bytes;
  p.sharedMemPerBlock = kSharedPerBlock;
  p.sharedMemPerBlockOptin = row.shared_per_block_optin;
  p.sharedMemPerMultiprocessor = row.shared_per_sm;
  p.reservedSharedMemPerBlock = settings.capability >= 80 ? kReservedShared : 0;
  p.regsPerBlock = p.regsPerMultiprocessor = kRegistersPerSm;
  p.warpSize = 32;
  p.memPitch = kMaxInt;
  p.maxThreadsPerBlock = kMaxThreadsPerBlock;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = kMaxInt;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 64 << 10;
  p.major = settings.capability / 10;
  p.minor = settings.capability % 10;
  p.multiProcessorCount = settings.sm_count;
  p.maxThreadsPerMultiProcessor = row.threads_per_sm;
  p.maxBlocksPerMultiProcessor = row.blocks_per_sm;
  p.clusterLaunch = row.has_clusters ? 1 : 0;
  p.l2CacheSize = 4 << 20;
  p.memoryBusWidth = 1024;
  p.concurrentKernels = p.unifiedAddressing = p.canMapHostMemory = 1;
  p.asyncEngineCount = 2;
  p.managedMemory = p.concurrentManagedAccess = 1;
  p.pageableMemoryAccess = 0;
  p.cooperativeLaunch = p.streamPrioritiesSupported = p.memoryPoolsSupported = 1;
  p.hostRegisterSupported = p.canUseHostPointerForRegisteredMem = 1;
  p.computePreemptionSupported = p.globalL1CacheSupported = p.localL1CacheSupported = 1;
  p.pciBusID = device + 1;
  p.textureAlignment = 512;
  return p;
}

// Limits of sizes and numbers; -1 for what this file does not know.
int limit_of(cudaDeviceAttr which, cudaDeviceProp const& p) {
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
      return p.maxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX:
      return p.maxThreadsDim[0];
    case cudaDevAttrMaxBlockDimY:
      return p.maxThreadsDim[1];
    case cudaDevAttrMaxBlockDimZ:
      return p.maxThreadsDim[2];
    case cudaDevAttrMaxGridDimX:
      return p.maxGridSize[0];
    case cudaDevAttrMaxGridDimY:
      return p.maxGridSize[1];
    case cudaDevAttrMaxGridDimZ:
      return p.maxGridSize[2];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(p.sharedMemPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(p.sharedMemPerBlockOptin);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(p.sharedMemPerMultiprocessor);
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return static_cast<int>(p.reservedSharedMemPerBlock);
    case cudaDevAttrTotalConstantMemory:
      return static_cast<int>(p.totalConstMem);
    case cudaDevAttrWarpSize:
      return p.warpSize;
    case cudaDevAttrMaxPitch:
      return static_cast<int>(p.memPitch);
    case cudaDevAttrMaxRegistersPerBlock:
      return p.regsPerBlock;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return p.regsPerMultiprocessor;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return p.maxThreadsPerMultiProcessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return p.maxBlocksPerMultiProcessor;
    case cudaDevAttrMultiProcessorCount:
      return p.multiProcessorCount;
    case cudaDevAttrL2CacheSize:
      return p.l2CacheSize;
    case cudaDevAttrGlobalMemoryBusWidth:
      return p.memoryBusWidth;
    case cudaDevAttrAsyncEngineCount:
      return p.asyncEngineCount;
    case cudaDevAttrClockRate:
      return kClockKhz;
    case cudaDevAttrMemoryClockRate:
      return kClockKhz;
    case cudaDevAttrComputeCapabilityMajor:
      return p.major;
    case cudaDevAttrComputeCapabilityMinor:
      return p.minor;
    case cudaDevAttrPciBusId:
      return p.pciBusID;
    default:
      return -1;
  }
}

int ability_of(cudaDeviceAttr which, cudaDeviceProp const& p) {
  switch (which) {
    case cudaDevAttrIntegrated:
      return p.integrated;
    case cudaDevAttrCanMapHostMemory:
      return p.canMapHostMemory;
    case cudaDevAttrComputeMode:
      return cudaComputeModeDefault;
    case cudaDevAttrConcurrentKernels:
      return p.concurrentKernels;
    case cudaDevAttrEccEnabled:
      return p.ECCEnabled;
    case cudaDevAttrUnifiedAddressing:
      return p.unifiedAddressing;
    case cudaDevAttrManagedMemory:
      return p.managedMemory;
    case cudaDevAttrConcurrentManagedAccess:
      return p.concurrentManagedAccess;
    case cudaDevAttrPageableMemoryAccess:
      return p.pageableMemoryAccess;
    case cudaDevAttrStreamPrioritiesSupported:
      return p.streamPrioritiesSupported;
    case cudaDevAttrCooperativeLaunch:
      return p.cooperativeLaunch;
    case cudaDevAttrHostRegisterSupported:
      return p.hostRegisterSupported;
    case cudaDevAttrMemoryPoolsSupported:
      return p.memoryPoolsSupported;
    case cudaDevAttrClusterLaunch:
      return p.clusterLaunch;
    case cudaDevAttrKernelExecTimeout:
      return 0;
    default:
      return -1;
  }
}

}  // namespace
}  // namespace simt::cuda

using namespace simt::cuda;

cudaError_t cudaDriverGetVersion(int* version) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = kVersion;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaGetDeviceCount(int* count) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = state().settings.device_count;
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    set_current_device(device);
    return state().devices[static_cast<std::size_t>(device)].sticky;
  });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return api(__func__, Needs::kNothing,
             [&](Lock&) { return is_device(device) ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t cudaDeviceSynchronize() {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    cudaError_t error = forbid_on_device(current_device());
    if (error == cudaSuccess) error = forbid_if_capturing();
    if (error == cudaSuccess) complete_device(lock, current_device());
    return error;
  });
}

// All that the device has is given back, and an error that stayed is gone.
cudaError_t cudaDeviceReset() {
  return api(__func__, Needs::kNothing, [&](Lock& lock) {
    int const device = current_device();
    complete_device(lock, device);
    deallocate_all(device);
    DeviceState& the_device = state().devices[static_cast<std::size_t>(device)];
    the_device.sticky = cudaSuccess;
    the_device.peers.clear();
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    if (value == nullptr) return cudaErrorInvalidValue;
    cudaDeviceProp const p = properties_of(device);
    int const limit = limit_of(which, p);
    int const found = limit >= 0 ? limit : ability_of(which, p);
    if (found < 0) return cudaErrorInvalidValue;  // none that the simulated device knows
    *value = found;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    if (properties == nullptr) return cudaErrorInvalidValue;
    *properties = properties_of(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (!is_device(device) || !is_device(peer)) return cudaErrorInvalidDevice;
    if (can == nullptr) return cudaErrorInvalidValue;
    *can = device != peer && state().settings.has_peer_access ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    int const device = current_device();
    if (!is_device(peer) || peer == device) return cudaErrorInvalidDevice;
    if (flags != 0) return cudaErrorInvalidValue;
    if (!state().settings.has_peer_access) return cudaErrorPeerAccessUnsupported;
    bool const is_new = state().devices[static_cast<std::size_t>(device)].peers.insert(peer).second;
    return is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    DeviceState& device = state().devices[static_cast<std::size_t>(current_device())];
    return device.peers.erase(peer) == 1 ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}
