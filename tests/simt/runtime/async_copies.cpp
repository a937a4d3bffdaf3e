// cp.async: copies of one thread, done when it waits for them at the latest.
#include "runtime/model.h"
#include "runtime/shared_memory.h"

#include <cstring>

namespace simt {
namespace {

void perform(AsyncCopy const& copy, void* to) {
  std::memcpy(to, copy.from, copy.from_bytes);
  std::memset(static_cast<char*>(to) + copy.from_bytes, 0, copy.bytes - copy.from_bytes);
}

void* destination(AsyncCopy const& copy) {
  return from_own_shared(copy.to, copy.bytes, copy.bytes, copy.where);
}

void finish(std::uint64_t first_kept_group) {
  Thread& thread = running_thread();
  std::size_t done = 0;
  while (done < thread.copies.size() && thread.copies[done].group < first_kept_group) {
    perform(thread.copies[done], destination(thread.copies[done]));
    ++done;
  }
  OwnWork const work;
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + static_cast<long>(done));
}

}  // namespace

void copy_async(std::uint32_t to, const void* from, std::size_t bytes, std::size_t from_bytes,
                Where where) {
  Thread& thread = running_thread(where);
  if (bytes != 4 && bytes != 8 && bytes != 16) fail(where, "cp.async of %zu bytes", bytes);
  if (from_bytes > bytes) fail(where, "cp.async of %zu bytes from %zu", bytes, from_bytes);
  AsyncCopy const copy{to, from, bytes, from_bytes, thread.copy_group, where};
  void* const at = destination(copy);
  if (from_bytes > 0) check_global(from, from_bytes, bytes, where);
  note_read(from, from_bytes);  // may be copied at once
  note_write(at, bytes);
  Scheduler& scheduler = run->scheduler;
  if (scheduler.is_random() && scheduler.random().one_in(4)) perform(copy, at);
  OwnWork const work;
  thread.copies.push_back(copy);
}

void commit_async_copies(Where where) { ++running_thread(where).copy_group; }

void wait_async_copies(std::uint32_t groups_left, Where where) {
  std::uint64_t const next = running_thread(where).copy_group;
  finish(next > groups_left ? next - groups_left : 0);
}

void wait_all_async_copies(Where where) { finish(running_thread(where).copy_group + 1); }

}  // namespace simt
