// A fuzz of the C interface on the CPU. An input of libFuzzer is read as the choices of one caller:
// a handle, a problem with its arrays, a plan, its bytes, a text of tuning records and the buffers
// of a call. Whatever is wrong with them must end in a status and a message and leave every output
// as it was. Each struct, array and buffer is a block of the heap that has exactly its size, so
// that the address sanitizer sees a byte too many.

#include <msda.h>

#include <fuzzer/FuzzedDataProvider.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace {

using Choices = FuzzedDataProvider;
// For sums and products of sizes that may be larger than an int64.
using Wide = __int128;

constexpr std::int64_t kMaxTensorBytes = 1 << 18;
constexpr std::int64_t kMaxProducts = 1 << 18;
constexpr std::size_t kMaxWorkspaceBytes = 1 << 24;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "msda_fuzz_api: %s; last error: %s\n", what, msda_last_error());
  std::abort();
}

// Returns the status after a look at what every call promises.
msda_status checked(msda_status status) {
  require(status >= MSDA_SUCCESS && status < MSDA_ERROR_INTERNAL, "an unknown status, or a defect");
  require(status == MSDA_SUCCESS || *msda_last_error() != '\0', "a failure without a message");
  require(*msda_status_name(status) != '\0', "a status without a name");
  return status;
}

// ---- memory

class Block {
 public:
  Block() = default;
  explicit Block(std::size_t bytes, std::size_t offset = 0, std::size_t alignment = 16)
      : bytes_(bytes), offset_(offset), alignment_(alignment), memory_(allocate()) {}
  Block(const void* from, std::size_t bytes) : Block(bytes) {
    if (bytes > 0) std::memcpy(data(), from, bytes);
  }
  Block(Block&& other) noexcept { *this = std::move(other); }
  Block& operator=(Block&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(offset_, other.offset_);
    std::swap(alignment_, other.alignment_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~Block() { ::operator delete(memory_, std::align_val_t{alignment_}); }

  std::byte* data() const { return memory_ == nullptr ? nullptr : memory_ + offset_; }
  std::size_t size() const { return bytes_; }
  void fill(int byte) const {
    if (bytes_ > 0) std::memset(data(), byte, bytes_);
  }
  std::string copy() const { return {reinterpret_cast<const char*>(data()), bytes_}; }
  bool is(std::string const& content) const {
    return bytes_ == 0 || std::memcmp(data(), content.data(), bytes_) == 0;
  }

 private:
  std::byte* allocate() const {
    return static_cast<std::byte*>(::operator new(bytes_ + offset_, std::align_val_t{alignment_}));
  }

  std::size_t bytes_ = 0, offset_ = 0, alignment_ = 16;
  std::byte* memory_ = nullptr;
};

// An allocator of the caller's which has little memory, whose n-th call fails, and which counts
// what is not freed. A problem of a few words may ask for more memory than any machine has: then
// the status is MSDA_ERROR_OUT_OF_MEMORY.
struct Allocator {
  static constexpr std::size_t kMaxBytes = 1 << 26;

  int calls_left = -1;  // -1: no call fails
  std::int64_t live_bytes = 0;

  static void* allocate(void* user, std::size_t bytes, std::size_t alignment, std::int32_t) {
    auto& self = *static_cast<Allocator*>(user);
    if (self.calls_left == 0 || bytes > kMaxBytes) return nullptr;
    if (self.calls_left > 0) --self.calls_left;
    self.live_bytes += static_cast<std::int64_t>(bytes);
    alignment = std::max<std::size_t>(alignment, 16);
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  static void free(void* user, void* pointer, std::size_t bytes, std::int32_t) {
    static_cast<Allocator*>(user)->live_bytes -= static_cast<std::int64_t>(bytes);
    std::free(pointer);
  }
};

// ---- numbers and structs

bool seldom(Choices& choices) { return choices.ConsumeIntegral<std::uint8_t>() >= 240; }

// Mostly from 0 to `usual`, seldom anything.
template <typename T>
T number(Choices& choices, T usual) {
  auto const kind = choices.ConsumeIntegral<std::uint8_t>();
  if (kind < 248) return choices.ConsumeIntegralInRange<T>(0, usual);
  if (kind < 252) return choices.ConsumeIntegralInRange<T>(-2, 70);
  return choices.ConsumeIntegral<T>();
}

// A struct with the size that its caller says it has.
template <typename T>
class Struct {
 public:
  Struct(Choices& choices, T fields) {
    std::size_t size = sizeof(T);
    if (seldom(choices)) size = choices.ConsumeIntegralInRange<std::size_t>(0, sizeof(T) + 32);
    fields.struct_size = size;
    block_ = Block(std::max(size, sizeof(size)));
    block_.fill(size > sizeof(T) && seldom(choices) ? 1 : 0);
    std::memcpy(block_.data(), &fields, std::min(block_.size(), sizeof(T)));
    if (seldom(choices)) {  // an uninitialised size
      size = std::numeric_limits<std::size_t>::max();
      std::memcpy(block_.data(), &size, sizeof(size));
    }
  }
  T* get() const { return reinterpret_cast<T*>(block_.data()); }
  Block const& block() const { return block_; }

 private:
  Block block_;
};

// ---- the problem

struct Sizes {
  std::int64_t tokens = 0, points = 0;
};

struct DrawnProblem {
  msda_problem fields{};
  Block level_hw, point_counts, query_hw;
};

Block numbers(Choices& choices, std::int64_t count, std::int32_t usual) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (std::int32_t& value : values) value = number<std::int32_t>(choices, usual);
  return {values.data(), values.size() * sizeof(std::int32_t)};
}

const std::int32_t* pointer(Block const& block) {
  return reinterpret_cast<const std::int32_t*>(block.data());
}

// More entries than there are bytes for would be the caller's lie: a count that is drawn wrong
// comes without an array.
void draw_levels(Choices& choices, DrawnProblem& drawn) {
  msda_problem& p = drawn.fields;
  p.level_count = number<std::int32_t>(choices, seldom(choices) ? 20 : 4);
  p.point_count = number<std::int32_t>(choices, 5);
  if (p.level_count < 0 || p.level_count > 64) return;
  drawn.level_hw = numbers(choices, 2 * std::int64_t{p.level_count}, 7);
  if (!seldom(choices)) p.level_hw = pointer(drawn.level_hw);
  if (choices.ConsumeBool()) return;
  drawn.point_counts = numbers(choices, p.level_count, 5);
  p.point_counts = pointer(drawn.point_counts);
}

void draw_grids(Choices& choices, DrawnProblem& drawn) {
  msda_problem& p = drawn.fields;
  if (choices.ConsumeIntegral<std::uint8_t>() < 200) return;
  p.query_grid_count = number<std::int32_t>(choices, 3);
  if (p.query_grid_count < 0 || p.query_grid_count > 64) return;
  drawn.query_hw = numbers(choices, 2 * std::int64_t{p.query_grid_count}, 4);
  p.query_hw = pointer(drawn.query_hw);
  if (seldom(choices)) return;
  Wide pixels = 0;
  for (std::int32_t g = 0; g < p.query_grid_count; ++g) {
    pixels += Wide{p.query_hw[2 * g]} * p.query_hw[2 * g + 1];
  }
  p.query_count = static_cast<std::int64_t>(pixels);
}

void draw_strides(Choices& choices, std::int64_t (&strides)[3], std::int64_t usual) {
  if (choices.ConsumeIntegral<std::uint8_t>() < 180) return;
  for (std::int64_t& stride : strides) stride = number<std::int64_t>(choices, usual);
}

Sizes sizes_of(msda_problem const& p) {
  Sizes sizes;
  std::int64_t const border = 2 * std::int64_t{p.value_border};
  for (std::int32_t l = 0; l < p.level_count; ++l) {
    sizes.tokens += (p.level_hw[2 * l] + border) * (p.level_hw[2 * l + 1] + border);
    sizes.points += p.point_counts != nullptr ? p.point_counts[l] : p.point_count;
  }
  return sizes;
}

DrawnProblem draw_problem(Choices& choices) {
  DrawnProblem drawn;
  msda_problem& p = drawn.fields;
  draw_levels(choices, drawn);
  p.batch = number<std::int64_t>(choices, 3);
  p.query_count = number<std::int64_t>(choices, 12);
  p.head_count = number<std::int64_t>(choices, 4);
  p.head_dim = number<std::int64_t>(choices, seldom(choices) ? 300 : 40);
  draw_grids(choices, drawn);
  draw_strides(choices, p.value_strides, 700);
  draw_strides(choices, p.coord_strides, 300);
  draw_strides(choices, p.weight_strides, 150);
  draw_strides(choices, p.output_strides, 700);
  p.value_border = number<std::int32_t>(choices, 1);
  p.operation = number<std::int32_t>(choices, MSDA_BACKWARD);
  p.input_mode = number<std::int32_t>(choices, MSDA_INPUT_FUSED);
  p.reference_dim = p.input_mode == MSDA_INPUT_FUSED ? 2 + 2 * choices.ConsumeBool() : 0;
  if (seldom(choices)) p.reference_dim = number<std::int32_t>(choices, 5);
  p.value_dtype = number<std::int32_t>(choices, MSDA_DTYPE_F64);
  if (p.value_dtype == MSDA_DTYPE_NONE && !seldom(choices)) p.value_dtype = MSDA_DTYPE_F32;
  for (msda_dtype* dtype : {&p.coord_dtype, &p.weight_dtype, &p.output_dtype, &p.grad_value_dtype,
                            &p.reference_dtype}) {
    if (choices.ConsumeBool()) *dtype = number<std::int32_t>(choices, MSDA_DTYPE_F64);
  }
  p.math_mode = number<std::int32_t>(choices, MSDA_MATH_FAST);
  p.determinism = number<std::int32_t>(choices, MSDA_NONDETERMINISTIC);
  p.point_locality = number<std::int32_t>(choices, MSDA_POINTS_SCATTERED);
  p.sampling_mode = number<std::int32_t>(choices, MSDA_SAMPLING_NEAREST);
  p.flags = seldom(choices) ? choices.ConsumeIntegral<std::uint32_t>() : 0;
  return drawn;
}

// ---- the buffers of a call

std::int64_t element_bytes(msda_dtype dtype) {
  return dtype == MSDA_DTYPE_F64       ? 8
         : dtype == MSDA_DTYPE_F32     ? 4
         : dtype == MSDA_DTYPE_F8_E4M3 ? 1
                                       : 2;
}

msda_dtype or_else(msda_dtype dtype, msda_dtype otherwise) {
  return dtype == MSDA_DTYPE_NONE ? otherwise : dtype;
}

// Elements from the first one to behind the last one.
Wide extent(const std::int64_t (&dims)[3], const std::int64_t* strides, std::int64_t inner) {
  Wide packed = inner, last = 0;
  bool const is_packed =
      strides == nullptr || (strides[0] == 0 && strides[1] == 0 && strides[2] == 0);
  for (std::int64_t const dim : dims) packed *= dim;
  if (packed == 0 || is_packed) return packed;
  for (int i = 0; i < 3; ++i) last += Wide{dims[i] - 1} * strides[i];
  return last + inner;
}

struct Tensor {
  std::size_t field;  // where the pointer is in msda_tensors
  msda_dtype dtype;
  Wide elements;
  bool is_written;
};

#define MSDA_FUZZ_FIELD(name) offsetof(msda_tensors, name)

// What a plan of the problem takes and makes, by the words of msda.h.
std::vector<Tensor> tensors_of(msda_problem const& p) {
  Sizes const s = sizes_of(p);
  bool const is_f64 = p.value_dtype == MSDA_DTYPE_F64, is_fused = p.input_mode == MSDA_INPUT_FUSED;
  msda_dtype const points = is_f64 ? MSDA_DTYPE_F64 : MSDA_DTYPE_F32;
  msda_dtype const results = p.value_dtype == MSDA_DTYPE_F8_E4M3 ? MSDA_DTYPE_F32 : p.value_dtype;
  msda_dtype const coord = or_else(p.coord_dtype, points), weight = or_else(p.weight_dtype, points);
  msda_dtype const anchor = or_else(p.reference_dtype, coord);
  msda_dtype const output = or_else(p.output_dtype, results);
  std::int64_t const tokens[3] = {p.batch, s.tokens, p.head_count};
  std::int64_t const queries[3] = {p.batch, p.query_count, p.head_count};
  std::int64_t const references[3] = {p.batch, p.query_count, p.level_count};
  Wide const coords = extent(queries, p.coord_strides, 2 * s.points);
  Wide const weights = extent(queries, p.weight_strides, s.points);
  Wide const reference = extent(references, nullptr, p.reference_dim);
  std::vector<Tensor> all = {
      {MSDA_FUZZ_FIELD(value), p.value_dtype, extent(tokens, p.value_strides, p.head_dim), false}};
  if (is_fused) {
    all.push_back({MSDA_FUZZ_FIELD(reference), anchor, reference, false});
    all.push_back({MSDA_FUZZ_FIELD(offset), coord, coords, false});
    all.push_back({MSDA_FUZZ_FIELD(logit), weight, weights, false});
  } else {
    all.push_back({MSDA_FUZZ_FIELD(coord), coord, coords, false});
    all.push_back({MSDA_FUZZ_FIELD(weight), weight, weights, false});
  }
  bool const is_backward = p.operation == MSDA_BACKWARD;
  all.push_back({is_backward ? MSDA_FUZZ_FIELD(grad_output) : MSDA_FUZZ_FIELD(output), output,
                 extent(queries, p.output_strides, p.head_dim), !is_backward});
  if (!is_backward && is_fused) {
    all.push_back({MSDA_FUZZ_FIELD(attention), weight, extent(queries, nullptr, s.points), true});
  }
  if (!is_backward) return all;
  Wide const grad_coords = extent(queries, nullptr, 2 * s.points),
             grad_weights = extent(queries, nullptr, s.points);
  all.push_back({MSDA_FUZZ_FIELD(grad_value), or_else(p.grad_value_dtype, results),
                 extent(tokens, nullptr, p.head_dim), true});
  if (is_fused) {
    all.push_back({MSDA_FUZZ_FIELD(grad_reference), anchor, reference, true});
    all.push_back({MSDA_FUZZ_FIELD(grad_offset), coord, grad_coords, true});
    all.push_back({MSDA_FUZZ_FIELD(grad_logit), weight, grad_weights, true});
  } else {
    all.push_back({MSDA_FUZZ_FIELD(grad_coord), coord, grad_coords, true});
    all.push_back({MSDA_FUZZ_FIELD(grad_weight), weight, grad_weights, true});
  }
  return all;
}

bool is_small(msda_problem const& p, std::vector<Tensor> const& tensors) {
  for (Tensor const& tensor : tensors) {
    if (tensor.elements * element_bytes(tensor.dtype) > kMaxTensorBytes) return false;
  }
  Wide const products = Wide{p.batch} * p.query_count * p.head_count;
  return products <= kMaxProducts &&
         products * sizes_of(p).points * (p.head_dim + 8) <= kMaxProducts &&
         products * p.level_count <= kMaxProducts;
}

// Numbers that break sums and comparisons come as often as usual ones.
constexpr std::array kNumbers = {0.0F,
                                 0.5F,
                                 0.25F,
                                 1.0F,
                                 -0.1F,
                                 1.1F,
                                 0.999999F,
                                 -3.0F,
                                 100.0F,
                                 1e38F,
                                 -1e38F,
                                 1e-40F,
                                 std::numeric_limits<float>::infinity(),
                                 -std::numeric_limits<float>::infinity(),
                                 std::numeric_limits<float>::quiet_NaN(),
                                 2147483648.0F,
                                 9.3e18F};

void fill_numbers(Choices& choices, Block const& block, msda_dtype dtype) {
  auto state = choices.ConsumeIntegral<std::uint32_t>() | 1U;
  auto const usual = choices.ConsumeIntegralInRange<std::size_t>(6, kNumbers.size());
  auto const step = static_cast<std::size_t>(element_bytes(dtype));
  for (std::size_t at = 0; at + step <= block.size(); at += step) {
    state = state * 1664525U + 1013904223U;
    std::array<std::byte, 8> element{};
    if (dtype == MSDA_DTYPE_F32 || dtype == MSDA_DTYPE_F64) {
      float const value = kNumbers[(state >> 16) % usual];
      double const wide = value;
      std::memcpy(element.data(), step == 8 ? static_cast<const void*>(&wide) : &value, step);
    } else {  // any 8 or 16 bits are a number of the small types
      std::memcpy(element.data(), reinterpret_cast<const std::byte*>(&state) + 2, step);
    }
    std::memcpy(block.data() + at, element.data(), step);
  }
}

struct Buffers {
  msda_tensors fields{};
  std::vector<Tensor> tensors;
  std::vector<Block> blocks;  // of each tensor
  Block workspace, scale;
  bool are_right = true;  // false: something was made wrong on purpose

  void*& field(std::size_t offset) {
    return *reinterpret_cast<void**>(reinterpret_cast<std::byte*>(&fields) + offset);
  }
};

void make_wrong(Choices& choices, Buffers& buffers) {
  auto const which = [&] {
    return choices.ConsumeIntegralInRange<std::size_t>(0, buffers.tensors.size() - 1);
  };
  std::size_t const target = buffers.tensors[which()].field;
  buffers.are_right = false;
  switch (choices.ConsumeIntegralInRange<int>(0, 4)) {
    case 0:
      buffers.field(target) = nullptr;
      break;
    case 1:
      buffers.field(target) = buffers.field(buffers.tensors[which()].field);
      break;
    case 2:
      buffers.field(target) = static_cast<std::byte*>(buffers.field(target)) + 1;
      break;
    case 3:
      buffers.fields.workspace = nullptr;
      break;
    default:
      buffers.fields.workspace_bytes -= buffers.fields.workspace_bytes > 0;
      break;
  }
}

Buffers make_buffers(Choices& choices, msda_problem const& p, std::vector<Tensor> tensors,
                     std::size_t workspace_bytes, std::size_t workspace_alignment) {
  Buffers buffers;
  buffers.tensors = std::move(tensors);
  for (Tensor const& tensor : buffers.tensors) {
    auto const step = static_cast<std::size_t>(element_bytes(tensor.dtype));
    std::size_t const offset = step * choices.ConsumeIntegralInRange<std::size_t>(0, 3);
    Block block(static_cast<std::size_t>(tensor.elements) * step, offset);
    if (!tensor.is_written) fill_numbers(choices, block, tensor.dtype);
    // A gradient that is not wanted has no buffer.
    bool const is_wanted = !tensor.is_written || p.operation == MSDA_FORWARD || !seldom(choices);
    buffers.field(tensor.field) = is_wanted ? block.data() : nullptr;
    buffers.blocks.push_back(std::move(block));
  }
  if (p.value_dtype == MSDA_DTYPE_F8_E4M3 && choices.ConsumeBool()) {
    buffers.scale = Block(static_cast<std::size_t>(p.head_count) * sizeof(float));
    fill_numbers(choices, buffers.scale, MSDA_DTYPE_F32);
    buffers.fields.value_scale = reinterpret_cast<const float*>(buffers.scale.data());
  }
  buffers.workspace = Block(workspace_bytes, 0, std::max<std::size_t>(workspace_alignment, 16));
  buffers.workspace.fill(0x5B);
  buffers.fields.workspace = buffers.workspace.data();
  buffers.fields.workspace_bytes = workspace_bytes;
  if (seldom(choices)) make_wrong(choices, buffers);
  return buffers;
}

std::vector<std::string> contents(Buffers const& buffers) {
  std::vector<std::string> copies;
  for (Block const& block : buffers.blocks) copies.push_back(block.copy());
  return copies;
}

void poison(Buffers const& buffers, int byte) {
  for (std::size_t i = 0; i < buffers.blocks.size(); ++i) {
    if (buffers.tensors[i].is_written) buffers.blocks[i].fill(byte);
  }
}

// Runs the call twice on outputs that held something else before: equal bits say that all was
// written.
void execute(Choices& choices, msda_plan const* plan, msda_problem const& p, Buffers& buffers) {
  poison(buffers, 0xA5);
  std::vector<std::string> const before = contents(buffers);
  Struct<msda_tensors> const tensors(choices, buffers.fields);
  auto* const stream = reinterpret_cast<msda_stream>(seldom(choices) ? std::uintptr_t{8} : 0);
  msda_status const status = checked(msda_execute(plan, tensors.get(), stream));
  for (std::size_t i = 0; i < before.size(); ++i) {
    bool const may_change =
        status == MSDA_SUCCESS && (buffers.tensors[i].is_written || !buffers.are_right);
    require(may_change || buffers.blocks[i].is(before[i]),
            "an input, or an output of a failed call, has changed");
  }
  if (status != MSDA_SUCCESS || !buffers.are_right || p.determinism != MSDA_DETERMINISTIC) return;
  std::vector<std::string> const results = contents(buffers);
  poison(buffers, 0x5A);
  require(checked(msda_execute(plan, tensors.get(), stream)) == MSDA_SUCCESS,
          "the second call failed");
  bool const has_gaps =
      p.output_strides[0] != 0 || p.output_strides[1] != 0 || p.output_strides[2] != 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    bool const is_whole = buffers.tensors[i].field != MSDA_FUZZ_FIELD(output) || !has_gaps;
    bool const is_wanted = buffers.field(buffers.tensors[i].field) != nullptr;
    require(!is_whole || !is_wanted || buffers.blocks[i].is(results[i]),
            "two calls give different bits");
  }
}

// ---- texts and bytes

// A text or blob by the protocol of sizes: asked for, too small by one, right. `call` takes a
// pointer and a size.
template <typename Call>
Block fetch(Call call) {
  std::size_t size = 0;
  if (checked(call(nullptr, &size)) != MSDA_SUCCESS) return {};
  require(size > 0, "an empty text");
  Block small(size - 1);
  small.fill(0xA5);
  std::string const before = small.copy();
  std::size_t given = size - 1;
  msda_status const status = checked(call(small.data(), &given));
  if (status == MSDA_ERROR_OUT_OF_MEMORY) return {};
  require(status == MSDA_ERROR_BUFFER_TOO_SMALL && given == size && small.is(before),
          "a buffer that is too small");
  Block whole(size);
  if (checked(call(whole.data(), &given)) != MSDA_SUCCESS) return {};
  require(given == size, "a size that changes");
  return whole;
}

Block plan_bytes(msda_plan const* plan) {
  return fetch(
      [&](std::byte* to, std::size_t* size) { return msda_plan_serialize(plan, to, size); });
}

Block tuning_text(msda_handle const* handle) {
  return fetch([&](std::byte* to, std::size_t* size) {
    return msda_tuning_export(handle, reinterpret_cast<char*>(to), size);
  });
}

// Changes some bytes of a text or blob: one, or eight that are a number.
std::string altered(Choices& choices, std::string bytes) {
  for (auto count = choices.ConsumeIntegralInRange<int>(0, 4); count > 0 && !bytes.empty();
       --count) {
    auto const at = choices.ConsumeIntegralInRange<std::size_t>(0, bytes.size() - 1);
    switch (choices.ConsumeIntegralInRange<int>(0, 4)) {
      case 0:
        bytes[at] = static_cast<char>(choices.ConsumeIntegral<std::uint8_t>());
        break;
      case 1:
        bytes.erase(at, choices.ConsumeIntegralInRange<std::size_t>(1, 40));
        break;
      case 2:
        bytes.insert(at, choices.ConsumeRandomLengthString(20));
        break;
      case 3:
        bytes.replace(at, 1, std::to_string(number<std::int64_t>(choices, 9)));
        break;
      default: {
        auto const value = number<std::int64_t>(choices, 9);
        std::memcpy(bytes.data() + at, &value, std::min(sizeof(value), bytes.size() - at));
      }
    }
  }
  return bytes;
}

// The checksum at a blob's end, as src/plan/blob.cpp has it: without it no altered blob would be
// read.
std::string with_checksum(std::string blob) {
  if (blob.size() < 8) return blob;
  std::uint64_t hash = 14695981039346656037U;
  for (std::size_t i = 0; i + 8 < blob.size(); ++i)
    hash = (hash ^ static_cast<std::uint8_t>(blob[i])) * 1099511628211U;
  std::memcpy(blob.data() + blob.size() - 8, &hash, sizeof(hash));
  return blob;
}

msda_plan* deserialize(msda_handle* handle, std::string const& bytes) {
  Block const blob(bytes.data(), bytes.size());
  auto* const untouched = reinterpret_cast<msda_plan*>(0x5);
  msda_plan* plan = untouched;
  if (checked(msda_plan_deserialize(handle, blob.data(), blob.size(), &plan)) == MSDA_SUCCESS)
    return plan;
  require(plan == untouched, "a failed msda_plan_deserialize has set its output");
  return nullptr;
}

void import_records(Choices& choices, msda_handle* handle) {
  Block const before = tuning_text(handle);
  if (before.size() == 0) return;
  std::string const text = altered(choices, before.copy() + choices.ConsumeRandomLengthString(200));
  Block const given(text.data(), text.size());
  auto const* const letters = reinterpret_cast<const char*>(given.data());
  msda_status const status = checked(msda_tuning_import(handle, letters, given.size()));
  Block const after = tuning_text(handle);
  if (status == MSDA_SUCCESS || after.size() == 0) return;
  require(after.size() == before.size() && after.is(before.copy()),
          "a failed import has added records");
}

// ---- a caller

std::string kernel_id(Choices& choices, msda_handle const* handle) {
  if (seldom(choices)) return choices.ConsumeRandomLengthString(30);
  msda_kernel_info info{};
  Struct<msda_kernel_info> const out(choices, info);
  std::size_t count = 0;
  require(checked(msda_kernel_count(handle, &count)) == MSDA_SUCCESS && count > 0, "no kernels");
  auto const index = number<std::int32_t>(choices, static_cast<std::int32_t>(count));
  std::string const before = out.block().copy();
  if (checked(msda_kernel_get(handle, static_cast<std::size_t>(index), out.get())) ==
      MSDA_SUCCESS) {
    info.kernel_id = nullptr;
    std::memcpy(&info, out.get(), std::min(out.block().size(), sizeof(info)));
    return info.kernel_id == nullptr ? "" : info.kernel_id;
  }
  require(out.block().is(before), "a failed msda_kernel_get has set its output");
  return {};
}

msda_plan* create_plan(Choices& choices, msda_handle* handle, msda_problem const* problem) {
  msda_plan_options options{};
  options.mode = number<std::int32_t>(choices, MSDA_PLAN_FORCED);
  std::string const id = options.mode == MSDA_PLAN_FORCED ? kernel_id(choices, handle) : "";
  Block const letters(id.c_str(), id.size() + 1);
  if (options.mode == MSDA_PLAN_FORCED)
    options.kernel_id = reinterpret_cast<const char*>(letters.data());
  options.workspace_limit_bytes = seldom(choices) ? choices.ConsumeIntegral<std::uint16_t>() : 0;
  options.sm_count_limit = seldom(choices) ? choices.ConsumeIntegral<std::int32_t>() : 0;
  Struct<msda_plan_options> const given(choices, options);
  auto* const untouched = reinterpret_cast<msda_plan*>(0x5);
  msda_plan* plan = untouched;
  msda_status const status = checked(
      msda_plan_create(handle, problem, choices.ConsumeBool() ? given.get() : nullptr, &plan));
  if (status == MSDA_SUCCESS) return plan;
  require(plan == untouched, "a failed msda_plan_create has set its output");
  return nullptr;
}

// What is done with a plan of a problem that the library has accepted.
void use_plan(Choices& choices, msda_handle* handle, msda_problem const& p, msda_plan* plan) {
  msda_plan_info info{};
  info.struct_size = sizeof(info);
  require(checked(msda_plan_get_info(plan, &info)) == MSDA_SUCCESS, "a plan without info");
  std::string const blob = plan_bytes(plan).copy();
  if (msda_plan* const altered_plan = deserialize(handle, with_checksum(altered(choices, blob)))) {
    plan_bytes(altered_plan);
    msda_plan_destroy(altered_plan);
  }
  std::vector<Tensor> tensors = tensors_of(p);
  if (!is_small(p, tensors) || info.workspace_bytes > kMaxWorkspaceBytes) return;
  msda_plan* const again = blob.empty() ? nullptr : deserialize(handle, blob);
  Buffers buffers =
      make_buffers(choices, p, std::move(tensors), info.workspace_bytes, info.workspace_alignment);
  execute(choices, again != nullptr ? again : plan, p, buffers);
  if (again != nullptr) msda_plan_destroy(again);
  if (!buffers.are_right || !seldom(choices)) return;
  Struct<msda_tensors> const sample(choices, buffers.fields);
  Struct<msda_problem> const problem(choices, p);
  msda_plan* tuned = nullptr;
  double const budget_ms = seldom(choices) ? choices.ConsumeFloatingPoint<double>() : 0.01;
  if (!(budget_ms <= 1)) return;
  if (checked(msda_plan_tune(handle, problem.get(), nullptr, sample.get(), nullptr, budget_ms,
                             &tuned)) == MSDA_SUCCESS) {
    msda_plan_destroy(tuned);
  }
}

void use_handle(Choices& choices, msda_handle* handle) {
  while (choices.remaining_bytes() > 0) {
    if (seldom(choices)) {
      std::string const bytes = choices.ConsumeRandomLengthString(300);
      if (msda_plan* const plan = deserialize(handle, bytes)) msda_plan_destroy(plan);
    }
    if (seldom(choices)) import_records(choices, handle);
    DrawnProblem const drawn = draw_problem(choices);
    Struct<msda_problem> const problem(choices, drawn.fields);
    if (seldom(choices)) {
      fetch([&](std::byte* to, std::size_t* size) {
        return msda_explain(handle, problem.get(), reinterpret_cast<char*>(to), size);
      });
    }
    msda_plan* const plan = create_plan(choices, handle, problem.get());
    if (plan == nullptr) continue;
    // Fields behind a shorter struct are zero to the library.
    msda_problem known{};
    std::memcpy(&known, problem.get(), std::min(problem.block().size(), sizeof(known)));
    use_plan(choices, handle, known, plan);
    msda_plan_destroy(plan);
  }
}

void count_letters(void*, msda_log_level, const char* message, std::size_t length) {
  require(std::strlen(message) == length, "a log message of another length");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choices choices(data, size);
  Allocator allocator;
  msda_handle_options options{};
  options.device = seldom(choices) ? choices.ConsumeIntegral<std::int32_t>() : MSDA_DEVICE_CPU;
  options.thread_count = seldom(choices) ? choices.ConsumeIntegralInRange<std::int32_t>(-5, 3) : 1;
  options.log_level = number<std::int32_t>(choices, MSDA_LOG_TRACE);
  if (choices.ConsumeBool()) options.log_fn = count_letters;
  options.alloc_user = &allocator;
  options.alloc_fn = Allocator::allocate;
  options.free_fn = Allocator::free;
  if (seldom(choices)) options.free_fn = nullptr;
  if (seldom(choices)) allocator.calls_left = choices.ConsumeIntegral<std::uint8_t>();
  options.flags = seldom(choices) ? choices.ConsumeIntegral<std::uint32_t>() : 0;
  Struct<msda_handle_options> const given(choices, options);
  auto* const untouched = reinterpret_cast<msda_handle*>(0x5);
  msda_handle* handle = untouched;
  if (checked(msda_handle_create(given.get(), &handle)) == MSDA_SUCCESS) {
    use_handle(choices, handle);
    msda_handle_destroy(handle);
  } else {
    require(handle == untouched, "a failed msda_handle_create has set its output");
  }
  require(allocator.live_bytes == 0, "memory of the caller's allocator is not freed");
  return 0;
}
