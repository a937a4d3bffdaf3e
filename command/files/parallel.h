#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace msda::command {

inline unsigned hardware_threads() { return std::max(1u, std::thread::hardware_concurrency()); }

// Calls work(chunk, first, length) for every chunk of `count` elements, on all
// threads of the machine. An exception ends the program.
template <typename Work>
void for_chunks(std::size_t count, std::size_t chunk_length, Work const& work) {
  std::size_t const chunk_count = (count + chunk_length - 1) / chunk_length;
  std::atomic<std::size_t> next = 0;
  auto const take_chunks = [&] {
    for (std::size_t chunk; (chunk = next++) < chunk_count;) {
      std::size_t const first = chunk * chunk_length;
      work(chunk, first, std::min(chunk_length, count - first));
    }
  };
  std::vector<std::jthread> helpers(
      std::min<std::size_t>(hardware_threads() - 1, chunk_count > 1 ? chunk_count - 1 : 0));
  for (std::jthread& helper : helpers) helper = std::jthread(take_chunks);
  take_chunks();
}

}  // namespace msda::command
