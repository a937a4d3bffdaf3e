// Between the two halves of the simulated device: the fake CUDA library (tests/simt/cuda) knows
// streams, memory and errors; the runtime (the other files of this folder) runs kernels.
//
// A kernel is an ordinary function, compiled by g++. What CUDA passes around as `const void*` is
// the address of that function; kernel_entry() also keeps how it is called with an array of
// pointers to its arguments.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace simt {

// ---- kernels

// Calls the kernel; `parameters` are pointers to its arguments, as for cudaLaunchKernel().
using Invoker = void (*)(const void* entry, void* const* parameters);

struct KernelInfo {
  const void* entry = nullptr;
  Invoker invoke = nullptr;
  // Bytes of each parameter, in order: cudaLaunchKernelExC() copies arguments when called, and what
  // it runs later reads the copies.
  std::span<const std::size_t> parameter_bytes;
  std::size_t max_threads = 1024;  // of a block
};

// The same entry may be registered again. Any thread.
void register_kernel(KernelInfo const& info);
// Null for an address that is no kernel's: cudaErrorInvalidDeviceFunction. What it returns stays.
const KernelInfo* find_kernel(const void* entry);
// Demangled, "kernel at 0x..." where no sanitizer knows it.
std::string kernel_name(const void* entry);
// Bytes of __shared__ variables that the kernel declares: known once it has run, 0 before.
std::size_t static_shared_bytes(const void* entry);

// kernels/common/params.h calls it where nvcc would take the address of the kernel.
template <typename... Parameters>
const void* kernel_entry(void (*kernel)(Parameters...)) {
  static constexpr std::size_t kBytes[] = {sizeof(Parameters)..., 0};
  auto const* const entry = reinterpret_cast<const void*>(kernel);
  Invoker const invoke = [](const void* function, void* const* parameters) {
    auto const call = reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(function));
    [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
      call(*static_cast<Parameters const*>(parameters[kIndex])...);
    }(std::index_sequence_for<Parameters...>{});
  };
  register_kernel({entry, invoke, std::span(kBytes).first(sizeof...(Parameters))});
  return entry;
}

// ---- launches

// What kernels can tell of the device that runs them.
struct DeviceLimits {
  std::int32_t capability = 90;  // as __CUDA_ARCH__ / 10
  std::int32_t sm_count = 132;
  std::size_t shared_bytes_per_block = 227 << 10;  // static and dynamic together, with opt-in
};

struct Launch {
  const KernelInfo* kernel = nullptr;
  dim3 grid, block, cluster;  // cluster: in blocks; 1 x 1 x 1 is none
  std::size_t dynamic_shared_bytes = 0;
  // The stream's previous kernel may still run (programmatic serialization): see run_kernels().
  bool overlaps_previous = false;
  void* const* parameters = nullptr;
  DeviceLimits device;
};

// A wrong use that ended a kernel, as it was printed: several lines, the first says what.
struct Failure {
  std::string report;
  const KernelInfo* kernel = nullptr;
};

// Runs kernels of one stream to their end on the calling thread; other threads may run others
// meanwhile. The caller has checked the shape (grid, block, shared memory) against the device.
//
// More than one launch: a chain in which each but the first has `overlaps_previous`. The runtime
// then begins a kernel as early as its predecessor allows (griddepcontrol.launch_dependents, or the
// end of it), and griddepcontrol.wait returns when the predecessor has ended. A library that runs
// work when it is given may pass chains of one, which is allowed but sees fewer bugs.
//
// A wrong use prints its report on stderr and aborts the process, except while failures are
// returned: then the grid is left where it stands, and a real device would say
// cudaErrorLaunchFailure from here on.
std::optional<Failure> run_kernels(std::span<const Launch> chain);

// Process-wide; tests of wrong uses switch it on. At first off.
void return_failures(bool on);

// A wrong use that is found outside a kernel, such as a copy into memory of another device: prints
// `report` and aborts, or gives it back while failures are returned.
Failure report_failure(std::string report);

// ---- memory, which the fake CUDA library knows

// Whether all `bytes` lie in one allocation that a kernel of the current launch may touch: device,
// managed or mapped host memory; or among the program's static variables. The runtime asks at each
// asynchronous copy and each load and store in PTX, from many threads: some ten nanoseconds at
// most.
bool is_device_memory(const void* at, std::size_t bytes);

}  // namespace simt
