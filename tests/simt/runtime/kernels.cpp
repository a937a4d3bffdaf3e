#include "runtime/kernels.h"

#include "runtime/kernel_launch.h"
#include "runtime/sanitizers.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace simt {
namespace {

struct Known {
  KernelInfo info;
  std::map<const void*, SharedVariable> variables;  // by tag
  std::uint32_t end = 0;
  std::size_t bytes = 0;
};

struct Kernels {
  std::shared_mutex mutex;
  std::unordered_map<const void*, Known> of;
};

Kernels& kernels() {
  static Kernels all;
  return all;
}

}  // namespace

void register_kernel(KernelInfo const& info) {
  Kernels& all = kernels();
  std::unique_lock const lock(all.mutex);
  all.of.try_emplace(info.entry).first->second.info = info;
}

const KernelInfo* find_kernel(const void* entry) {
  Kernels& all = kernels();
  std::shared_lock const lock(all.mutex);
  auto const found = all.of.find(entry);
  return found == all.of.end() ? nullptr : &found->second.info;
}

std::string kernel_name(const void* entry) {
  char text[1024] = "";
#if MSDA_SIMT_ASAN || MSDA_SIMT_TSAN
  // As for a return address: one is subtracted.
  __sanitizer_symbolize_pc(const_cast<char*>(static_cast<const char*>(entry) + 1), "%f", text,
                           sizeof(text));
#endif
  if (text[0] == 0) std::snprintf(text, sizeof(text), "kernel at %p", entry);
  return text;
}

std::size_t static_shared_bytes(const void* entry) {
  Kernels& all = kernels();
  std::shared_lock const lock(all.mutex);
  auto const found = all.of.find(entry);
  return found == all.of.end() ? 0 : found->second.bytes;
}

SharedVariable variable_of(const void* entry, const void* tag, std::size_t bytes,
                           std::size_t alignment, std::uint32_t gap) {
  Kernels& all = kernels();
  {
    std::shared_lock const lock(all.mutex);
    Known const& known = all.of.at(entry);
    auto const found = known.variables.find(tag);
    if (found != known.variables.end()) {
      SharedVariable variable = found->second;
      variable.total_bytes = known.bytes;
      return variable;
    }
  }
  std::unique_lock const lock(all.mutex);
  Known& known = all.of.at(entry);
  auto const [place, is_new] = known.variables.try_emplace(tag);
  if (is_new) {
    std::size_t const at = (known.end + gap + alignment - 1) / alignment * alignment;
    place->second = {static_cast<std::uint32_t>(known.variables.size() - 1),
                     static_cast<std::uint32_t>(at), 0};
    known.end = static_cast<std::uint32_t>(at + bytes);
    known.bytes = (known.bytes + alignment - 1) / alignment * alignment + bytes;
  }
  SharedVariable variable = place->second;
  variable.total_bytes = known.bytes;
  return variable;
}

}  // namespace simt
