// Memory and streams of the device that a soak runs on: a GPU, or the host.
#pragma once

#include <msda.h>

#include <cstddef>
#include <cstdint>

namespace msda::bench {

class SoakDevice {
 public:
  // MSDA_DEVICE_CPU, or a GPU's number. Throws std::runtime_error where there is no such GPU.
  explicit SoakDevice(std::int32_t number);

  std::int32_t number() const { return number_; }
  bool is_gpu() const { return number_ >= 0; }
  // For the calling thread.
  void make_current() const;
  // Waits for all streams. Of the GPU as a whole; 0 of the host.
  std::int64_t used_bytes() const;

 private:
  std::int32_t number_;
};

class SoakMemory {
 public:
  SoakMemory(SoakDevice const& device, std::size_t bytes);
  ~SoakMemory();
  SoakMemory(SoakMemory&& other) noexcept;
  SoakMemory(SoakMemory const&) = delete;

  void* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  void copy_from(const void* host) const;
  void leak() { data_ = nullptr; }

 private:
  bool is_gpu_;
  std::size_t bytes_;
  void* data_ = nullptr;
};

// Null on the host, where every call has ended when it returns.
class SoakStream {
 public:
  explicit SoakStream(SoakDevice const& device);
  ~SoakStream();
  SoakStream(SoakStream const&) = delete;

  msda_stream get() const { return stream_; }
  // In the order of the stream.
  void poison(SoakMemory const& memory) const;
  void read(SoakMemory const& memory, void* host) const;
  void wait() const;

 private:
  bool is_gpu_;
  msda_stream stream_ = nullptr;
};

}  // namespace msda::bench
