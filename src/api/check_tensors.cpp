// From msda_tensors to the canonical Call: presence, alignment, overlap and workspace, all checked
// before the first byte is touched.

#include "api/objects.h"
#include "api/structs.h"
#include "core/cuda.h"
#include "core/dtype.h"
#include "core/tensor_sizes.h"

#include <array>
#include <cstdint>

namespace msda::api {
namespace {

enum class Use : std::uint8_t { kUnused, kRead, kReadOptional, kWrite, kWriteOptional };

struct Buffer {
  Use use;
  TensorShape shape;
  const void* pointer;
  std::uintptr_t begin;
  std::uintptr_t end;  // == begin where nothing will be touched

  bool written() const { return use == Use::kWrite || use == Use::kWriteOptional; }
};

// Those that this call has. What is not looked at costs nothing.
struct CallBuffers {
  std::array<Buffer, kTensorCount + 1> items;  // the workspace last
  int count = 0;

  void add(Problem const& problem, Tensor tensor, Use use, const void* pointer) {
    if (use == Use::kUnused) return;
    bool const optional = use == Use::kReadOptional || use == Use::kWriteOptional;
    if (optional && pointer == nullptr) return;
    items[static_cast<std::size_t>(count++)] = {use, tensor_shape(problem, tensor), pointer, 0, 0};
  }
};

// A gradient of inputs that the plan does not have would silently stay unwritten.
void check_gradients_asked(Problem const& problem, msda_tensors const& t) {
  if (!problem.backward()) return;
  struct Asked {
    std::string_view name;
    const void* pointer;
    bool fused;
  };
  for (Asked const& grad :
       {Asked{"grad_coord", t.grad_coord, false}, Asked{"grad_weight", t.grad_weight, false},
        Asked{"grad_reference", t.grad_reference, true}, Asked{"grad_offset", t.grad_offset, true},
        Asked{"grad_logit", t.grad_logit, true}}) {
    if (grad.pointer == nullptr || grad.fused == problem.fused()) continue;
    invalid("tensors.{} is {}: must be NULL, the plan's input_mode is {}", grad.name, grad.pointer,
            problem.fused() ? "MSDA_INPUT_FUSED" : "MSDA_INPUT_SAMPLED");
  }
}

CallBuffers list_buffers(Problem const& problem, msda_tensors const& t) {
  Use const sampled = problem.fused() ? Use::kUnused : Use::kRead;
  Use const fused = problem.fused() ? Use::kRead : Use::kUnused;
  Use const scale = problem.value_dtype == MSDA_F8_E4M3 ? Use::kReadOptional : Use::kUnused;
  Use const forward = problem.backward() ? Use::kUnused : Use::kWrite;
  Use const backward = problem.backward() ? Use::kRead : Use::kUnused;
  Use const grad = problem.backward() ? Use::kWriteOptional : Use::kUnused;
  Use const grad_sampled = problem.fused() ? Use::kUnused : grad;
  Use const grad_fused = problem.fused() ? grad : Use::kUnused;
  CallBuffers buffers;
  buffers.add(problem, Tensor::kValue, Use::kRead, t.value);
  buffers.add(problem, Tensor::kCoord, sampled, t.coord);
  buffers.add(problem, Tensor::kWeight, sampled, t.weight);
  buffers.add(problem, Tensor::kReference, fused, t.reference);
  buffers.add(problem, Tensor::kOffset, fused, t.offset);
  buffers.add(problem, Tensor::kLogit, fused, t.logit);
  buffers.add(problem, Tensor::kValueScale, scale, t.value_scale);
  buffers.add(problem, Tensor::kOutput, forward, t.output);
  buffers.add(problem, Tensor::kGradOutput, backward, t.grad_output);
  buffers.add(problem, Tensor::kGradValue, grad, t.grad_value);
  buffers.add(problem, Tensor::kGradCoord, grad_sampled, t.grad_coord);
  buffers.add(problem, Tensor::kGradWeight, grad_sampled, t.grad_weight);
  buffers.add(problem, Tensor::kGradReference, grad_fused, t.grad_reference);
  buffers.add(problem, Tensor::kGradOffset, grad_fused, t.grad_offset);
  buffers.add(problem, Tensor::kGradLogit, grad_fused, t.grad_logit);
  return buffers;
}

void set_end(Buffer& buffer, std::uintptr_t bytes) {
  if (UINTPTR_MAX - buffer.begin < bytes) {
    invalid("tensors.{} is {}: {} bytes from there exceed the address space", buffer.shape.name,
            buffer.pointer, bytes);
  }
  buffer.end = buffer.begin + bytes;
}

// Presence and alignment; fills the address range.
void check_buffer(Buffer& buffer) {
  std::int64_t const bytes = tensor_span_bytes(buffer.shape);
  if (buffer.pointer == nullptr) {
    if (bytes == 0) return;
    invalid("tensors.{} is NULL: must point to {} bytes", buffer.shape.name, bytes);
  }
  buffer.begin = reinterpret_cast<std::uintptr_t>(buffer.pointer);
  auto const alignment = static_cast<std::uintptr_t>(dtype_bytes(buffer.shape.dtype));
  if (buffer.begin % alignment != 0) {
    invalid("tensors.{} is {}: must be aligned to {} bytes, the size of one {} element",
            buffer.shape.name, buffer.pointer, alignment, dtype_name(buffer.shape.dtype));
  }
  set_end(buffer, static_cast<std::uintptr_t>(bytes));
}

Buffer workspace_buffer(std::size_t needed_bytes, msda_tensors const& tensors) {
  Buffer buffer{};
  if (tensors.workspace == nullptr) {
    invalid("tensors.workspace is NULL: must point to {} bytes aligned to {}", needed_bytes,
            Arena::kAlignment);
  }
  if (tensors.workspace_bytes < needed_bytes) {
    fail(MSDA_ERROR_BUFFER_TOO_SMALL, "tensors.workspace_bytes is {}: must be at least {}",
         tensors.workspace_bytes, needed_bytes);
  }
  buffer.use = Use::kWrite;
  buffer.shape.name = "workspace";
  buffer.pointer = tensors.workspace;
  buffer.begin = reinterpret_cast<std::uintptr_t>(tensors.workspace);
  if (buffer.begin % Arena::kAlignment != 0) {
    invalid("tensors.workspace is {}: must be aligned to {} bytes", tensors.workspace,
            Arena::kAlignment);
  }
  set_end(buffer, needed_bytes);
  return buffer;
}

// A written buffer may share no byte with any other.
void check_overlap(CallBuffers const& buffers) {
  for (int i = 0; i < buffers.count; ++i) {
    Buffer const& a = buffers.items[static_cast<std::size_t>(i)];
    if (a.begin == a.end) continue;
    for (int j = i + 1; j < buffers.count; ++j) {
      Buffer const& b = buffers.items[static_cast<std::size_t>(j)];
      if (b.begin == b.end || (!a.written() && !b.written())) continue;
      if (a.begin >= b.end || b.begin >= a.end) continue;
      invalid(
          "tensors.{} ({}) and tensors.{} ({}) overlap: a buffer that is written must share no "
          "byte with another",
          a.shape.name, a.pointer, b.shape.name, b.pointer);
    }
  }
}

// Where the driver can tell: a GPU must not be given the host's memory, nor the CPU a GPU's.
void check_memory(CallBuffers const& buffers, Device const& device) {
  for (int i = 0; i < buffers.count; ++i) {
    Buffer const& buffer = buffers.items[static_cast<std::size_t>(i)];
    if (buffer.begin == buffer.end) continue;
    if (device.is_cpu() && cuda::is_device_only(buffer.pointer)) {
      invalid("tensors.{} is {}: must be host memory, the handle's device is the CPU",
              buffer.shape.name, buffer.pointer);
    }
    if (!device.is_cpu() && !device.reads_host_memory && cuda::is_unknown_to_cuda(buffer.pointer)) {
      invalid("tensors.{} is {}: must be memory that CUDA device {} can reach, this is the host's",
              buffer.shape.name, buffer.pointer, device.ordinal);
    }
  }
}

}  // namespace

Call canonical_call(Problem const& problem, std::size_t workspace_bytes,
                    const msda_tensors* tensors, msda_stream stream, Device const& device) {
  msda_tensors const t = read_struct(tensors, "msda_tensors");
  if (device.is_cpu() && stream != nullptr) {
    invalid("stream is {}: must be NULL on a CPU handle", static_cast<void*>(stream));
  }
  if (t.value_scale != nullptr && problem.value_dtype != MSDA_F8_E4M3) {
    invalid(
        "tensors.value_scale is {}: must be NULL, value_dtype is {} and only F8_E4M3 has a scale",
        static_cast<const void*>(t.value_scale), dtype_name(problem.value_dtype));
  }
  check_gradients_asked(problem, t);
  CallBuffers buffers = list_buffers(problem, t);
  for (int i = 0; i < buffers.count; ++i) check_buffer(buffers.items[static_cast<std::size_t>(i)]);
  if (workspace_bytes > 0) {
    buffers.items[static_cast<std::size_t>(buffers.count++)] = workspace_buffer(workspace_bytes, t);
  }
  check_overlap(buffers);
  check_memory(buffers, device);

  Call call;
  call.value = t.value;
  call.coord = t.coord;
  call.weight = t.weight;
  call.reference = t.reference;
  call.offset = t.offset;
  call.logit = t.logit;
  call.value_scale = t.value_scale;
  call.output = t.output;
  call.grad_output = t.grad_output;
  call.grad_value = t.grad_value;
  call.grad_coord = t.grad_coord;
  call.grad_weight = t.grad_weight;
  call.grad_reference = t.grad_reference;
  call.grad_offset = t.grad_offset;
  call.grad_logit = t.grad_logit;
  call.workspace = static_cast<std::byte*>(t.workspace);
  call.workspace_bytes = t.workspace_bytes;
  call.stream = stream;
  return call;
}

}  // namespace msda::api
