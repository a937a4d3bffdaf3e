// From msda_tensors to the canonical Call: presence, alignment, overlap and workspace, all checked
// before the first byte is touched.
#include "api/check_tensors.h"

#include "api/structs.h"
#include "core/arena.h"
#include "core/cuda.h"
#include "core/dtype.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

namespace msda::api {
namespace {

Call call_of(msda_tensors const& t, msda_stream stream) {
  Call call;
  auto const* const fields = reinterpret_cast<const std::byte*>(&t);
  for (std::size_t i = 0; i < kTensorCount; ++i) {
    std::memcpy(&call.buffers[i], fields + kTensors[i].field, sizeof(void*));
  }
  call.workspace = static_cast<std::byte*>(t.workspace);
  call.workspace_bytes = t.workspace_bytes;
  call.stream = stream;
  return call;
}

// A result of inputs that the plan does not have would silently stay unwritten.
void check_results_asked(bool is_backward, bool is_fused, Call const& call) {
  for (TensorInfo const& info : kTensors) {
    bool const is_of_other_inputs =
        info.belongs_to(is_backward, !is_fused) && !info.belongs_to(is_backward, is_fused);
    if (!info.is_result() || !is_of_other_inputs || call[info.id] == nullptr) continue;
    invalid("tensors.{} is {}: must be NULL, the plan's input_mode is {}", info.name, call[info.id],
            is_fused ? "MSDA_INPUT_FUSED" : "MSDA_INPUT_SAMPLED");
  }
}

// The part of a call's buffer that will be touched.
struct Span {
  std::string_view name;
  const void* pointer;
  std::uintptr_t begin;
  std::uintptr_t end;  // == begin where nothing will be
  bool is_written;
  const TensorShape* shape = nullptr;  // null: the workspace
};

Span span_from(std::string_view name, const void* pointer, std::uintptr_t bytes, bool is_written) {
  auto const begin = reinterpret_cast<std::uintptr_t>(pointer);
  if (UINTPTR_MAX - begin < bytes) {
    invalid("tensors.{} is {}: {} bytes from there exceed the address space", name, pointer, bytes);
  }
  return {name, pointer, begin, begin + bytes, is_written};
}

Span span_of(BufferRule const& rule, const void* pointer) {
  if (pointer == nullptr && rule.bytes != 0) {
    invalid("tensors.{} is NULL: must point to {} bytes", rule.info->name, rule.bytes);
  }
  // A power of two.
  if ((reinterpret_cast<std::uintptr_t>(pointer) & (rule.alignment - 1)) != 0) {
    invalid("tensors.{} is {}: must be aligned to {} bytes, the size of one {} element",
            rule.info->name, pointer, rule.alignment, dtype_name(rule.shape.dtype));
  }
  Span span = span_from(rule.info->name, pointer, static_cast<std::uintptr_t>(rule.bytes),
                        rule.info->is_result());
  span.shape = &rule.shape;
  return span;
}

Span workspace_of(msda_tensors const& t, std::size_t least_bytes) {
  if (t.workspace == nullptr) {
    invalid("tensors.workspace is NULL: must point to {} bytes aligned to {}", least_bytes,
            Arena::kAlignment);
  }
  if (t.workspace_bytes < least_bytes) {
    fail(MSDA_ERROR_BUFFER_TOO_SMALL, "tensors.workspace_bytes is {}: must be at least {}",
         t.workspace_bytes, least_bytes);
  }
  if (reinterpret_cast<std::uintptr_t>(t.workspace) % Arena::kAlignment != 0) {
    invalid("tensors.workspace is {}: must be aligned to {} bytes", t.workspace, Arena::kAlignment);
  }
  return span_from("workspace", t.workspace, least_bytes, true);
}

// Whether two gradients are parts that follow one another again and again: of each row, or of each
// head of it. In dimensions where both have the same stride they must be so far apart that a part
// of each fits between neighbours; in the others, all of them lie in the part.
bool take_turns(Span const& a, Span const& b) {
  if (!a.is_written || !b.is_written || a.shape == nullptr || b.shape == nullptr) return false;
  struct Dimension {
    std::int64_t count = 1, stride = 0;
  };
  std::array<Dimension, 3> shared;
  std::size_t shared_count = 0;
  std::int64_t of_a = dtype_bytes(a.shape->dtype) * a.shape->inner;
  std::int64_t of_b = dtype_bytes(b.shape->dtype) * b.shape->inner;
  auto const add = [&](std::int64_t a_count, std::int64_t b_count, std::int64_t a_stride,
                       std::int64_t b_stride) {
    a_stride *= dtype_bytes(a.shape->dtype);
    b_stride *= dtype_bytes(b.shape->dtype);
    if (a_count == b_count && a_stride == b_stride) {
      if (a_count > 1) shared[shared_count++] = {a_count, a_stride};
      return;
    }
    of_a += (a_count - 1) * a_stride;
    of_b += (b_count - 1) * b_stride;
  };
  add(a.shape->batch, b.shape->batch, a.shape->strides.batch, b.shape->strides.batch);
  add(a.shape->rows, b.shape->rows, a.shape->strides.row, b.shape->strides.row);
  add(a.shape->heads, b.shape->heads, a.shape->strides.head, b.shape->strides.head);
  bool const a_first = a.begin <= b.begin;
  auto const apart = static_cast<std::int64_t>(a_first ? b.begin - a.begin : a.begin - b.begin);
  if (apart < (a_first ? of_a : of_b)) return false;
  std::int64_t extent = apart + (a_first ? of_b : of_a);
  std::ranges::sort(shared, {}, &Dimension::stride);
  for (Dimension const& dimension : shared) {
    if (dimension.count <= 1) continue;
    if (dimension.stride < extent) return false;
    extent += dimension.stride * (dimension.count - 1);
  }
  return true;
}

// A written buffer may share no byte with any other.
void check_overlap(std::span<const Span> spans) {
  for (std::size_t i = 0; i < spans.size(); ++i) {
    Span const& a = spans[i];
    if (a.begin == a.end) continue;
    for (std::size_t j = i + 1; j < spans.size(); ++j) {
      Span const& b = spans[j];
      if (b.begin == b.end || (!a.is_written && !b.is_written)) continue;
      if (a.begin >= b.end || b.begin >= a.end || take_turns(a, b)) continue;
      invalid(
          "tensors.{} ({}) and tensors.{} ({}) overlap: a buffer that is written must share no "
          "byte with another",
          a.name, a.pointer, b.name, b.pointer);
    }
  }
}

// A GPU must not be given the host's memory, nor the CPU a GPU's, where the driver can tell.
void check_memory(Span const& span, std::int32_t ordinal, bool reads_host_memory,
                  std::atomic<const void*>& accepted) {
  if (span.begin == span.end) return;
  if (ordinal < 0) {
    if (!cuda::is_device_only(span.pointer)) return;
    invalid("tensors.{} is {}: must be host memory, the handle's device is the CPU", span.name,
            span.pointer);
  }
  // To ask costs as much as all other checks of a call.
  if (reads_host_memory || accepted.load(std::memory_order_relaxed) == span.pointer) return;
  if (cuda::is_unknown_to_cuda(span.pointer)) {
    invalid("tensors.{} is {}: must be memory that CUDA device {} can reach, this is the host's",
            span.name, span.pointer, ordinal);
  }
  accepted.store(span.pointer, std::memory_order_relaxed);
}

}  // namespace

CallRules::CallRules(Problem const& problem, std::size_t workspace_bytes, Device const& device)
    : workspace_bytes_(workspace_bytes),
      ordinal_(device.ordinal),
      reads_host_memory_(device.reads_host_memory),
      is_backward_(problem.backward()),
      is_fused_(problem.fused()),
      value_dtype_(problem.value_dtype) {
  for (TensorInfo const& info : kTensors) {
    if (!info.belongs_to(is_backward_, is_fused_)) continue;
    if (info.id == Tensor::kValueScale && !is_scaled(value_dtype_)) continue;
    TensorShape const shape = tensor_shape(problem, info.id);
    rules_[count_++] = {&info, shape, tensor_span_bytes(shape),
                        static_cast<std::uintptr_t>(dtype_bytes(shape.dtype))};
  }
}

Call CallRules::check(const msda_tensors* tensors, msda_stream stream) const {
  msda_tensors const t = read_struct(tensors, "msda_tensors");
  if (ordinal_ < 0 && stream != nullptr) {
    invalid("stream is {}: must be NULL on a CPU handle", static_cast<void*>(stream));
  }
  if (t.value_scale != nullptr && !is_scaled(value_dtype_)) {
    std::string scaled;
    for (DtypeInfo const& info : kDtypes) {
      if (info.is_scaled) scaled += fmt::format("{}{}", scaled.empty() ? "" : " or ", info.name);
    }
    invalid("tensors.value_scale is {}: must be NULL, value_dtype is {} and only {} has a scale",
            static_cast<const void*>(t.value_scale), dtype_name(value_dtype_), scaled);
  }
  Call const call = call_of(t, stream);
  check_results_asked(is_backward_, is_fused_, call);

  std::array<Span, kTensorCount + 1> spans;  // the workspace last
  std::size_t count = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    BufferRule const& rule = rules_[i];
    const void* const pointer = call[rule.info->id];
    if (pointer != nullptr || !rule.info->may_be_null()) spans[count++] = span_of(rule, pointer);
  }
  if (workspace_bytes_ > 0) spans[count++] = workspace_of(t, workspace_bytes_);
  check_overlap({spans.data(), count});
  for (std::size_t i = 0; i < count; ++i) {
    check_memory(spans[i], ordinal_, reads_host_memory_, accepted_[i]);
  }
  return call;
}

}  // namespace msda::api
