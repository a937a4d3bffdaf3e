#include "cuda/sim_kernel.h"

#include "cuda/sim_call.h"
#include "cuda/sim_capability.h"
#include "cuda/sim_memory.h"
#include "cuda/sim_stream.h"

#include <algorithm>
#include <cstring>

namespace simt::cuda {
namespace {

struct Kernels {
  std::map<const KernelInfo*, std::unique_ptr<CUkern_st>> handles;
  std::set<const void*> known_handles;
  std::map<std::pair<const KernelInfo*, int>, KernelChoices> choices;
};

Kernels& kernels() {
  static Kernels* const all = new Kernels;
  return *all;
}

// In simulated time; what a kernel costs on a device is not known.
double kernel_cost_us(Shape const& shape) {
  double const blocks = 1.0 * shape.grid.x * shape.grid.y * shape.grid.z;
  double const threads = 1.0 * shape.block.x * shape.block.y * shape.block.z;
  return 200 + 1e-3 * blocks * threads / state().settings.sm_count;
}

std::shared_ptr<KernelCall> make_call(const KernelInfo& kernel, Shape const& shape,
                                      void* const* arguments) {
  auto call = std::make_shared<KernelCall>();
  std::size_t pieces = 0;
  for (std::size_t const bytes : kernel.parameter_bytes) {
    pieces += (bytes + sizeof(ParameterBytes) - 1) / sizeof(ParameterBytes);
  }
  call->storage.resize(pieces);
  std::size_t piece = 0;
  for (std::size_t i = 0; i < kernel.parameter_bytes.size(); ++i) {
    std::size_t const bytes = kernel.parameter_bytes[i];
    call->parameters.push_back(&call->storage[piece]);
    std::memcpy(static_cast<void*>(&call->storage[piece]), arguments[i], bytes);
    piece += (bytes + sizeof(ParameterBytes) - 1) / sizeof(ParameterBytes);
  }
  Settings const& settings = state().settings;
  call->launch.kernel = &kernel;
  call->launch.grid = shape.grid;
  call->launch.block = shape.block;
  call->launch.cluster = shape.cluster;
  call->launch.dynamic_shared_bytes = shape.dynamic_shared;
  call->launch.overlaps_previous = shape.overlaps_previous;
  call->launch.parameters = call->parameters.data();
  call->launch.device = {settings.capability, settings.sm_count,
                         capability_row(settings.capability).shared_per_block_optin};
  return call;
}

cudaError_t launch(Lock& lock, cudaLaunchConfig_t const& config, const void* function,
                   void** arguments) {
  CUstream_st* stream = nullptr;
  cudaError_t error = find_current_stream_for_work(config.stream, stream);
  if (error != cudaSuccess) return error;
  const KernelInfo* const kernel = find_function(function);
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  Shape shape;
  error = read_config(config, shape);
  if (error == cudaSuccess) error = check_shape(*kernel, shape);
  if (error != cudaSuccess) return error;
  if (arguments == nullptr && !kernel->parameter_bytes.empty()) return cudaErrorInvalidValue;
  Task task;
  task.name = "a kernel";
  task.device = stream->device;
  task.node_type = cudaGraphNodeTypeKernel;
  task.cost_us = kernel_cost_us(shape);
  task.kernel = make_call(*kernel, shape, arguments);
  Given given = {.overlaps_previous = shape.overlaps_previous};
  return give(lock, *stream, std::move(task), given);
}

// A failure that a test asked for, of a kernel whose name has this in it.
cudaError_t injected_failure(const KernelInfo& kernel) {
  for (Injection& failure : state().kernel_failures) {
    bool const is_meant = kernel_name(kernel.entry).find(failure.call) != std::string::npos;
    if (failure.countdown > 0 && is_meant && --failure.countdown == 0) return failure.error;
  }
  return cudaSuccess;
}

}  // namespace

const KernelInfo* find_function(const void* function) {
  if (function == nullptr) return nullptr;
  if (kernels().known_handles.contains(function)) {
    return static_cast<const CUkern_st*>(function)->info;
  }
  return find_kernel(function);
}

KernelChoices& choices_of(const KernelInfo& kernel, int device) {
  return kernels().choices[{&kernel, device}];
}

int registers_per_thread(const KernelInfo& kernel) {
  return std::min(255, kRegistersPerSm / static_cast<int>(kernel.max_threads));
}

std::size_t declared_shared_bytes(const KernelInfo& kernel) {
  return static_shared_bytes(kernel.entry);
}

cudaError_t run_kernel_chain(int device, std::span<const KernelCall* const> chain) {
  std::vector<int> peers;
  std::vector<Launch> launches;
  {
    Lock const lock(state().mutex);
    for (const KernelCall* const call : chain) {
      cudaError_t const error = injected_failure(*call->launch.kernel);
      if (error != cudaSuccess) return error;
      launches.push_back(call->launch);
    }
    auto const& all = state().devices[static_cast<std::size_t>(device)].peers;
    peers.assign(all.begin(), all.end());
  }
  launches.front().overlaps_previous = false;
  OpenMemory const open(device, std::move(peers));
  return run_kernels(launches).has_value() ? cudaErrorLaunchFailure : cudaSuccess;
}

}  // namespace simt::cuda

using namespace simt::cuda;

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    return config == nullptr ? cudaErrorInvalidValue : launch(lock, *config, function, arguments);
  });
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t dynamic_shared, cudaStream_t stream) {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = dynamic_shared;
    config.stream = stream;
    return launch(lock, config, function, arguments);
  });
}

cudaError_t cudaGetKernel(cudaKernel_t* handle, const void* entry) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    if (handle == nullptr) return cudaErrorInvalidValue;
    const simt::KernelInfo* const kernel = simt::find_kernel(entry);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    auto& known = kernels().handles[kernel];
    if (known == nullptr) {
      known = std::make_unique<CUkern_st>(CUkern_st{kernel});
      kernels().known_handles.insert(known.get());
    }
    *handle = known.get();
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    const simt::KernelInfo* const kernel = find_function(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    KernelChoices const& choices = choices_of(*kernel, current_device());
    std::size_t const declared = declared_shared_bytes(*kernel);
    *attributes = {};
    attributes->sharedSizeBytes = declared;
    attributes->maxThreadsPerBlock = static_cast<int>(kernel->max_threads);
    attributes->numRegs = registers_per_thread(*kernel);
    attributes->ptxVersion = attributes->binaryVersion = state().settings.capability;
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(std::max(
        choices.max_dynamic_shared, kSharedPerBlock - std::min(kSharedPerBlock, declared)));
    attributes->preferredShmemCarveout = choices.carveout;
    attributes->nonPortableClusterSizeAllowed = choices.allows_large_clusters ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    const simt::KernelInfo* const kernel = find_function(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    KernelChoices& choices = choices_of(*kernel, current_device());
    std::size_t const most = capability_row(state().settings.capability).shared_per_block_optin;
    switch (which) {
      case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || static_cast<std::size_t>(value) + declared_shared_bytes(*kernel) > most) {
          return cudaErrorInvalidValue;
        }
        choices.max_dynamic_shared = static_cast<std::size_t>(value);
        return cudaSuccess;
      case cudaFuncAttributePreferredSharedMemoryCarveout:
        if (value < -1 || value > 100) return cudaErrorInvalidValue;
        choices.carveout = value;
        return cudaSuccess;
      case cudaFuncAttributeNonPortableClusterSizeAllowed:
        if (value != 0 && value != 1) return cudaErrorInvalidValue;
        choices.allows_large_clusters = value == 1;
        return cudaSuccess;
      default:
        return cudaErrorInvalidValue;
    }
  });
}
