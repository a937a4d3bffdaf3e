// Memory with inaccessible pages on both sides. Reading or writing one element too far is a crash,
// and the bytes between the buffer and the pages are checked to be what they were.
#pragma once

#include <cstddef>
#include <utility>

namespace msda::test {

enum class Against { kLowPage, kHighPage };  // which of the two pages the buffer lies against

class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  // The buffer lies `shift_bytes` away from its page, or a little more where alignment needs it.
  GuardedBuffer(std::size_t bytes, std::size_t alignment, Against against = Against::kHighPage,
                std::size_t shift_bytes = 0);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept { swap(other); }
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  // Writing becomes a crash too, or possible again.
  void set_read_only(bool read_only);
  // Whether nobody wrote beside the buffer.
  bool surroundings_intact() const;

 private:
  void swap(GuardedBuffer& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(mapping_bytes_, other.mapping_bytes_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  std::byte* inner_begin() const;
  std::byte* inner_end() const;

  std::byte* mapping_ = nullptr;  // page, the accessible pages, page
  std::size_t mapping_bytes_ = 0;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace msda::test
