#include "cuda/sim_memory.h"

#include "cuda/sim_arena.h"
#include "cuda/sim_sanitizers.h"
#include "cuda/sim_state.h"
#include "runtime/kernel_launch.h"

#include <link.h>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <shared_mutex>

namespace simt::cuda {
namespace {

struct Memory {
  std::shared_mutex mutex;
  std::map<std::uintptr_t, Allocation> allocations;  // by begin
  std::atomic<std::uint64_t> generation{1};          // changes when one is given back
  Arena arena;
  std::size_t used[kMaxDevices] = {};
  int open_count[kMaxDevices] = {};
};

Memory& memory() {
  static Memory* const the_memory = new Memory;
  return *the_memory;
}

// What the kernels of this thread may touch while they run.
thread_local const std::vector<int>* t_open_devices = nullptr;

bool is_on_device(Allocation const& a) {
  return a.kind == MemoryKind::kDevice || a.kind == MemoryKind::kManaged;
}

// Called with the lock held.
void show(Allocation const& a, bool to_all) {
  bool const is_open = a.kind == MemoryKind::kManaged || to_all;
  if (is_open) {
    unpoison(a.begin, a.bytes);
  } else {
    poison(a.begin, a.bytes);
  }
}

void show_device(int device, bool to_all) {
  for (auto const& [begin, a] : memory().allocations) {
    if (a.kind == MemoryKind::kDevice && a.device == device) show(a, to_all);
  }
}

const Allocation* find_locked(const void* at) {
  auto const& all = memory().allocations;
  auto const address = reinterpret_cast<std::uintptr_t>(at);
  auto it = all.upper_bound(address);
  if (it == all.begin()) return nullptr;
  --it;
  return address < it->first + it->second.bytes ? &it->second : nullptr;
}

// Numbers that are none at all, that are ordinary in every type, or anything.
void fill_with_garbage(std::byte* at, std::size_t bytes) {
  std::uint64_t const seed = state().settings.seed;
  constexpr int kPatterns[] = {0xff, 0x3c, 0xb8};
  device_fill(at, kPatterns[seed % 3], bytes);
}

void check_surroundings(Allocation const& a) {
  std::ptrdiff_t const changed = Arena::first_changed(a.begin, a.bytes);
  if (changed == 0) return;
  char text[200];
  std::snprintf(text, sizeof(text),
                "memory beside an allocation of device %d was written: %zu bytes at %p, byte %td "
                "was changed",
                a.device, a.bytes, static_cast<void*>(a.begin), changed);
  static_cast<void>(report_failure(text));
}

void give_back(Allocation const& a) {
  Memory& m = memory();
  if (is_on_device(a)) {
    check_surroundings(a);
    m.used[a.device] -= a.bytes;
    m.arena.free(a.begin, a.bytes);
  } else if (a.kind == MemoryKind::kPinned) {
    std::free(a.begin);
  }
  ++m.generation;
}

}  // namespace

Allocation find_allocation(const void* at) {
  std::shared_lock const lock(memory().mutex);
  const Allocation* const found = find_locked(at);
  return found == nullptr ? Allocation{} : *found;
}

cudaError_t allocate(MemoryKind kind, int device, std::size_t bytes, void** pointer) {
  Memory& m = memory();
  std::unique_lock const lock(m.mutex);
  Allocation a{nullptr, bytes, kind, device};
  if (is_on_device(a)) {
    if (bytes >
        state().settings.memory_bytes - std::min(state().settings.memory_bytes, m.used[device])) {
      return cudaErrorMemoryAllocation;
    }
    a.begin = m.arena.allocate(bytes);
    if (a.begin == nullptr) return cudaErrorMemoryAllocation;
    m.used[device] += bytes;
    fill_with_garbage(a.begin, bytes);
    show(a, m.open_count[device] > 0);
  } else {
    void* host = nullptr;
    if (bytes > state().settings.memory_bytes || posix_memalign(&host, 4096, bytes) != 0) {
      return cudaErrorMemoryAllocation;
    }
    a.begin = static_cast<std::byte*>(host);
    fill_with_garbage(a.begin, bytes);
  }
  m.allocations[reinterpret_cast<std::uintptr_t>(a.begin)] = a;
  *pointer = a.begin;
  return cudaSuccess;
}

cudaError_t deallocate(void* pointer, std::initializer_list<MemoryKind> kinds) {
  Memory& m = memory();
  std::unique_lock const lock(m.mutex);
  auto const it = m.allocations.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (it == m.allocations.end()) return cudaErrorInvalidValue;
  Allocation const a = it->second;
  if (std::find(kinds.begin(), kinds.end(), a.kind) == kinds.end()) return cudaErrorInvalidValue;
  m.allocations.erase(it);
  give_back(a);
  return cudaSuccess;
}

cudaError_t register_host(void* pointer, std::size_t bytes, int device) {
  Memory& m = memory();
  std::unique_lock const lock(m.mutex);
  auto* const begin = static_cast<std::byte*>(pointer);
  if (find_locked(begin) != nullptr || find_locked(begin + bytes - 1) != nullptr) {
    return cudaErrorHostMemoryAlreadyRegistered;
  }
  m.allocations[reinterpret_cast<std::uintptr_t>(begin)] = {begin, bytes, MemoryKind::kRegistered,
                                                            device};
  return cudaSuccess;
}

void deallocate_all(int device) {
  Memory& m = memory();
  std::unique_lock const lock(m.mutex);
  for (auto it = m.allocations.begin(); it != m.allocations.end();) {
    Allocation const a = it->second;
    if (a.device != device) {
      ++it;
      continue;
    }
    it = m.allocations.erase(it);
    give_back(a);
  }
}

std::size_t used_bytes(int device) {
  std::shared_lock const lock(memory().mutex);
  return memory().used[device];
}

std::vector<Allocation> live_allocations() {
  std::shared_lock const lock(memory().mutex);
  std::vector<Allocation> all;
  for (auto const& [begin, a] : memory().allocations) all.push_back(a);
  return all;
}

OpenMemory::OpenMemory(int device, std::vector<int> peers) : devices_(std::move(peers)) {
  devices_.push_back(device);
  std::unique_lock const lock(memory().mutex);
  for (int const open : devices_) {
    if (memory().open_count[open]++ == 0) show_device(open, true);
  }
  ++memory().generation;  // of is_device_memory()
  t_open_devices = &devices_;
}

OpenMemory::~OpenMemory() {
  std::unique_lock const lock(memory().mutex);
  for (int const open : devices_) {
    if (--memory().open_count[open] == 0) show_device(open, false);
  }
  ++memory().generation;
  t_open_devices = nullptr;
}

}  // namespace simt::cuda

namespace simt {
namespace {

// Whether it lies in a program's or a library's own data, where __device__ variables are. The
// host's static variables lie there, too, and are not told apart.
bool is_static_data(std::uintptr_t begin, std::size_t bytes) {
  struct Range {
    std::uintptr_t begin, end;
  };
  static std::vector<Range> const ranges = [] {
    std::vector<Range> found;
    dl_iterate_phdr(
        [](dl_phdr_info* object, std::size_t, void* out) {
          for (int i = 0; i < object->dlpi_phnum; ++i) {
            auto const& segment = object->dlpi_phdr[i];
            if (segment.p_type != PT_LOAD) continue;
            std::uintptr_t const start = object->dlpi_addr + segment.p_vaddr;
            static_cast<std::vector<Range>*>(out)->push_back({start, start + segment.p_memsz});
          }
          return 0;
        },
        &found);
    return found;
  }();
  return std::any_of(ranges.begin(), ranges.end(), [&](Range const& range) {
    return begin >= range.begin && begin + bytes <= range.end;
  });
}

}  // namespace

// The last few allocations that this thread asked for, a kernel's tensors, are nearly always the
// next ones.
bool is_device_memory(const void* at, std::size_t bytes) {
  using namespace simt::cuda;
  struct Known {
    std::uintptr_t begin = 0, end = 0;
  };
  constexpr unsigned kKnown = 8;
  thread_local Known known[kKnown];
  thread_local unsigned next_known = 0;
  thread_local std::uint64_t known_generation = 0;
  auto const begin = reinterpret_cast<std::uintptr_t>(at);
  std::uint64_t const generation = memory().generation.load(std::memory_order_acquire);
  if (generation != known_generation) {
    std::fill(known, known + kKnown, Known{});
    known_generation = generation;
  }
  for (Known const& range : known) {
    if (begin >= range.begin && begin + bytes <= range.end) return true;
  }
  std::shared_lock const lock(memory().mutex);
  const Allocation* const a = find_locked(at);
  if (a == nullptr) return is_static_data(begin, bytes);
  if (begin + bytes > reinterpret_cast<std::uintptr_t>(a->begin) + a->bytes) return false;
  if (a->kind == MemoryKind::kDevice && t_open_devices != nullptr &&
      std::find(t_open_devices->begin(), t_open_devices->end(), a->device) ==
          t_open_devices->end()) {
    return false;
  }
  auto const first = reinterpret_cast<std::uintptr_t>(a->begin);
  known[next_known++ % kKnown] = {first, first + a->bytes};
  return true;
}

}  // namespace simt
