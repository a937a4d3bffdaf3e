#include "support/host_tensor.h"

#include <fmt/core.h>

#include <string>

namespace msda::test {

std::int64_t TensorLayout::span() const {
  if (element_count() == 0) return 0;
  std::int64_t last = dims[3] - 1;
  for (std::size_t i = 0; i < 3; ++i) last += (dims[i] - 1) * strides[i];
  return last + 1;
}

std::array<std::int64_t, 3> packed(std::array<std::int64_t, 4> const& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3]};
}

HostTensor::HostTensor(TensorLayout const& layout, Placement placement)
    : layout_(layout),
      buffer_(static_cast<std::size_t>(layout.span()) * element_bytes(layout.dtype),
              element_bytes(layout.dtype), placement.against,
              static_cast<std::size_t>(placement.shift_elements) * element_bytes(layout.dtype)) {
  poison();
}

std::byte* HostTensor::at(std::int64_t element) const {
  return buffer_.data() + static_cast<std::size_t>(element) * element_bytes(layout_.dtype);
}

template <typename Visit>
void HostTensor::for_each(Visit visit) const {
  if (layout_.element_count() == 0) return;  // other dimensions may be huge
  auto const& [batch, rows, heads, inner] = layout_.dims;
  std::size_t index = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t h = 0; h < heads; ++h) {
        std::int64_t const row =
            b * layout_.strides[0] + r * layout_.strides[1] + h * layout_.strides[2];
        for (std::int64_t i = 0; i < inner; ++i) visit(index++, row + i);
      }
    }
  }
}

std::vector<double> HostTensor::values() const {
  std::vector<double> result(static_cast<std::size_t>(layout_.element_count()));
  for_each([&](std::size_t i, std::int64_t e) { result[i] = decode(layout_.dtype, at(e)); });
  return result;
}

std::vector<std::uint64_t> HostTensor::bits() const {
  std::vector<std::uint64_t> result(static_cast<std::size_t>(layout_.element_count()));
  for_each([&](std::size_t i, std::int64_t e) { result[i] = raw_bits(layout_.dtype, at(e)); });
  return result;
}

void HostTensor::set_values(std::vector<double> const& values) {
  for_each([&](std::size_t i, std::int64_t e) { encode(layout_.dtype, at(e), values.at(i)); });
}

void HostTensor::poison() {
  std::uint64_t const poison = poison_bits(layout_.dtype);
  for (std::int64_t e = 0, end = layout_.span(); e < end; ++e) {
    store_bits(layout_.dtype, at(e), poison);
  }
}

std::string HostTensor::check_written() const {
  std::uint64_t const poison = poison_bits(layout_.dtype);
  std::vector<bool> belongs(static_cast<std::size_t>(layout_.span()));
  std::string wrong;
  for_each([&](std::size_t i, std::int64_t e) {
    belongs[static_cast<std::size_t>(e)] = true;
    if (wrong.empty() && raw_bits(layout_.dtype, at(e)) == poison) {
      wrong = fmt::format("element {} was not written", i);
    }
  });
  for (std::int64_t e = 0, end = layout_.span(); wrong.empty() && e < end; ++e) {
    if (!belongs[static_cast<std::size_t>(e)] && raw_bits(layout_.dtype, at(e)) != poison) {
      wrong = fmt::format("the gap at element {} was written", e);
    }
  }
  if (wrong.empty() && !buffer_.surroundings_intact()) wrong = "memory beside it was written";
  return wrong;
}

std::string HostTensor::check_untouched() const {
  std::uint64_t const poison = poison_bits(layout_.dtype);
  for (std::int64_t e = 0, end = layout_.span(); e < end; ++e) {
    if (raw_bits(layout_.dtype, at(e)) != poison) {
      return fmt::format("element {} was written", e);
    }
  }
  return buffer_.surroundings_intact() ? "" : "memory beside it was written";
}

}  // namespace msda::test
