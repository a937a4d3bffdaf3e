// Copies and fills. What CUDA lets happen later, does: a copy from pageable memory of the host has
// been staged when the call returns and is on the device when the stream has come to it; one from
// pinned memory reads that memory then.
#include "cuda/sim_arena.h"
#include "cuda/sim_call.h"
#include "cuda/sim_capture.h"
#include "cuda/sim_memory.h"
#include "cuda/sim_sanitizers.h"
#include "cuda/sim_stream.h"
#include "runtime/kernel_launch.h"

#include <cstdio>

namespace simt::cuda {
namespace {

// Rows of `width` bytes.
struct Rows {
  void* to = nullptr;
  std::size_t to_pitch = 0;
  const void* from = nullptr;
  std::size_t from_pitch = 0;
  std::size_t width = 0;
  std::size_t height = 0;

  std::size_t to_span() const { return (height - 1) * to_pitch + width; }
  std::size_t from_span() const { return (height - 1) * from_pitch + width; }
};

enum class Side { kHost, kDevice };

bool can_be(Allocation const& a, Side side) {
  if (a.kind == MemoryKind::kUnregistered) return side == Side::kHost;
  return a.kind != MemoryKind::kDevice || side == Side::kDevice;
}

bool is_pageable(Allocation const& a) { return a.kind == MemoryKind::kUnregistered; }

bool fits(Allocation const& a, const void* at, std::size_t bytes) {
  if (is_pageable(a)) return true;
  auto const offset = static_cast<std::size_t>(static_cast<const std::byte*>(at) - a.begin);
  return bytes <= a.bytes - offset;
}

// Both ends as `kind` says; cudaErrorInvalidValue where they are not.
cudaError_t check_ends(Allocation const& to, Allocation const& from, cudaMemcpyKind kind,
                       Rows const& rows) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (kind != cudaMemcpyDefault) {
    bool const to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool const from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (!can_be(to, to_device ? Side::kDevice : Side::kHost)) return cudaErrorInvalidValue;
    if (!can_be(from, from_device ? Side::kDevice : Side::kHost)) return cudaErrorInvalidValue;
  }
  bool const all_fits =
      fits(to, rows.to, rows.to_span()) && fits(from, rows.from, rows.from_span());
  return all_fits ? cudaSuccess : cudaErrorInvalidValue;
}

// At the time of the copy: memory that has been given back, or that is none of the host's.
cudaError_t check_alive(Allocation const& then, const void* at, std::size_t bytes,
                        const char* what) {
  Allocation const now = find_allocation(at);
  bool const is_same = now.begin == then.begin && now.bytes == then.bytes && now.kind == then.kind;
  bool const is_on_device = then.kind == MemoryKind::kDevice;
  if (is_same && (is_on_device || !is_poisoned(at, bytes))) return cudaSuccess;
  char text[200];
  std::snprintf(text, sizeof(text), "%s %zu bytes at %p, which %s", what, bytes, at,
                is_same ? "are poisoned" : "have been given back since");
  static_cast<void>(report_failure(text));
  return cudaErrorIllegalAddress;
}

cudaError_t copy_rows(Rows const& rows, Allocation const& to, Allocation const& from) {
  cudaError_t error = check_alive(to, rows.to, rows.to_span(), "a copy writes");
  if (error == cudaSuccess) error = check_alive(from, rows.from, rows.from_span(), "a copy reads");
  if (error != cudaSuccess) return error;
  for (std::size_t row = 0; row < rows.height; ++row) {
    device_copy(static_cast<std::byte*>(rows.to) + row * rows.to_pitch,
                static_cast<const std::byte*>(rows.from) + row * rows.from_pitch, rows.width);
  }
  return cudaSuccess;
}

double copy_cost_us(std::size_t bytes) { return 2 + 1e-5 * static_cast<double>(bytes); }

// What is on the device, or pinned, is read when the copy's turn has come; what is pageable now.
std::function<cudaError_t()> copier(Rows rows, Allocation const& to, Allocation const& from) {
  if (!is_pageable(from) || is_pageable(to)) {
    return [rows, to, from] { return copy_rows(rows, to, from); };
  }
  auto const staged = std::make_shared<std::vector<std::byte>>(rows.width * rows.height);
  Rows stage = rows;
  stage.to = staged->data();
  stage.to_pitch = rows.width;
  cudaError_t const error = copy_rows(stage, Allocation{}, from);
  if (error != cudaSuccess) return [error] { return error; };
  rows.from = staged->data();
  rows.from_pitch = rows.width;
  return [rows, to, staged] { return copy_rows(rows, to, Allocation{}); };
}

struct Copy {
  Rows rows;
  cudaMemcpyKind kind;
  bool is_async;
};

// Whether the call returns only when the copy is done.
bool waits(Copy const& copy, Allocation const& to, Allocation const& from) {
  if (copy.is_async) return is_pageable(to) && is_pageable(from);
  bool const within_device = to.kind == MemoryKind::kDevice && from.kind == MemoryKind::kDevice;
  bool const is_staged = is_pageable(from) && to.kind == MemoryKind::kDevice;
  return !within_device && !is_staged;
}

cudaError_t copy_in(Lock& lock, Copy const& copy, cudaStream_t handle) {
  Rows const& rows = copy.rows;
  if (rows.width > rows.to_pitch || rows.width > rows.from_pitch) return cudaErrorInvalidPitchValue;
  CUstream_st* stream = nullptr;
  cudaError_t error = find_stream_for_work(handle, stream);
  if (error != cudaSuccess) return error;
  if (rows.width == 0 || rows.height == 0) return cudaSuccess;
  if (rows.to == nullptr || rows.from == nullptr) return cudaErrorInvalidValue;
  Allocation const to = find_allocation(rows.to), from = find_allocation(rows.from);
  error = check_ends(to, from, copy.kind, rows);
  if (error != cudaSuccess) return error;
  bool const is_captured = stream->capture != nullptr;
  if (is_captured && (is_pageable(to) || is_pageable(from))) {
    return break_capture(*stream->capture, cudaErrorStreamCaptureUnsupported);
  }
  int const device = stream->device;
  if (!copy.is_async) complete_stream(lock, *stream);
  Task task;
  task.name = "a copy";
  task.device = device;
  task.node_type = cudaGraphNodeTypeMemcpy;
  task.cost_us = copy_cost_us(rows.width * rows.height);
  task.run = copier(rows, to, from);
  Given given;
  error = give(lock, *stream, std::move(task), given);
  if (error != cudaSuccess || is_captured || !waits(copy, to, from)) return error;
  complete(lock, given.work);
  return state().devices[static_cast<std::size_t>(device)].sticky;
}

struct Fill {
  void* to;
  std::size_t pitch;
  int byte;
  std::size_t width, height;
  bool is_async;
};

cudaError_t fill_in(Lock& lock, Fill const& fill, cudaStream_t handle) {
  if (fill.width > fill.pitch) return cudaErrorInvalidPitchValue;
  CUstream_st* stream = nullptr;
  cudaError_t error = find_current_stream_for_work(handle, stream);
  if (error != cudaSuccess) return error;
  if (fill.width == 0 || fill.height == 0) return cudaSuccess;
  Allocation const to = find_allocation(fill.to);
  std::size_t const span = (fill.height - 1) * fill.pitch + fill.width;
  if (!can_be(to, Side::kDevice) || !fits(to, fill.to, span)) return cudaErrorInvalidValue;
  Task task;
  task.name = "a fill";
  task.device = stream->device;
  task.node_type = cudaGraphNodeTypeMemset;
  task.cost_us = copy_cost_us(fill.width * fill.height);
  task.run = [fill, to, span] {
    cudaError_t const alive = check_alive(to, fill.to, span, "a fill writes");
    for (std::size_t row = 0; alive == cudaSuccess && row < fill.height; ++row) {
      device_fill(static_cast<std::byte*>(fill.to) + row * fill.pitch, fill.byte, fill.width);
    }
    return alive;
  };
  int const device = stream->device;
  Given given;
  error = give(lock, *stream, std::move(task), given);
  // Asynchronous but for memory of the host, or that may be there.
  if (error != cudaSuccess || fill.is_async || to.kind == MemoryKind::kDevice) return error;
  complete(lock, given.work);
  return state().devices[static_cast<std::size_t>(device)].sticky;
}

// One row whose pitch is its width.
Rows row(void* to, const void* from, std::size_t bytes) {
  return {to, bytes, from, bytes, bytes, 1};
}

cudaError_t copy_now(const char* name, Rows const& rows, cudaMemcpyKind kind) {
  return api(name, Needs::kDevice, [&](Lock& lock) {
    // The default stream beside a capture comes first: it is what the error names.
    CUstream_st* stream = nullptr;
    cudaError_t error = find_stream_for_work(nullptr, stream);
    if (error == cudaSuccess) error = forbid_if_capturing();
    return error != cudaSuccess ? error : copy_in(lock, {rows, kind, false}, nullptr);
  });
}

cudaError_t copy_later(const char* name, Rows const& rows, cudaMemcpyKind kind,
                       cudaStream_t stream) {
  return api(name, Needs::kDevice,
             [&](Lock& lock) { return copy_in(lock, {rows, kind, true}, stream); });
}

}  // namespace
}  // namespace simt::cuda

using namespace simt::cuda;

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return copy_now(__func__, row(to, from, bytes), kind);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy_later(__func__, row(to, from, bytes), kind, stream);
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return copy_now(__func__, {to, to_pitch, from, from_pitch, width, height}, kind);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_later(__func__, {to, to_pitch, from, from_pitch, width, height}, kind, stream);
}

// Addresses say which device they are of.
cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t bytes) {
  return copy_now(__func__, row(to, from, bytes), cudaMemcpyDeviceToDevice);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                cudaStream_t stream) {
  return copy_later(__func__, row(to, from, bytes), cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemset(void* to, int byte, std::size_t bytes) {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    return fill_in(lock, {to, bytes, byte, bytes, 1, false}, nullptr);
  });
}

cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t stream) {
  return api(__func__, Needs::kDevice,
             [&](Lock& lock) { return fill_in(lock, {to, bytes, byte, bytes, 1, true}, stream); });
}

cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int byte, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    return fill_in(lock, {to, pitch, byte, width, height, true}, stream);
  });
}
