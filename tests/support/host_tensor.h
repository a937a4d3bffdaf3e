// One tensor of a call in guarded memory: typed, strided, every element reachable as float64.
#pragma once

#include "support/element_formats.h"
#include "support/guarded_buffer.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace msda::test {

struct TensorLayout {
  msda_dtype dtype = MSDA_DTYPE_F32;
  // batch, row (query or token), head, and the contiguous rest.
  std::array<std::int64_t, 4> dims = {0, 0, 0, 0};
  std::array<std::int64_t, 3> strides = {0, 0, 0};  // elements; as used, never "0 0 0 = packed"

  std::int64_t element_count() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  std::int64_t span() const;  // elements from the first to behind the last
};

std::array<std::int64_t, 3> packed(std::array<std::int64_t, 4> const& dims);

// Where to place a tensor between its guard pages.
struct Placement {
  Against against = Against::kHighPage;
  std::int64_t shift_elements = 0;
};

class HostTensor {
 public:
  HostTensor() = default;
  // Every element is poisoned.
  explicit HostTensor(TensorLayout const& layout, Placement placement = {});

  TensorLayout const& layout() const { return layout_; }
  void* data() const { return buffer_.data(); }
  GuardedBuffer& buffer() { return buffer_; }

  // Elements in the order of the dimensions, packed, whatever the strides.
  std::vector<double> values() const;
  std::vector<std::uint64_t> bits() const;
  void set_values(std::vector<double> const& values);

  void poison();
  // "" or what is wrong: an element not written, a gap between rows or the surroundings written.
  std::string check_written() const;
  // Such a check of a tensor that nobody may have touched since poison().
  std::string check_untouched() const;

 private:
  std::byte* at(std::int64_t element) const;
  template <typename Visit>
  void for_each(Visit visit) const;  // visit(index in packed order, element in memory)

  TensorLayout layout_;
  GuardedBuffer buffer_;
};

}  // namespace msda::test
