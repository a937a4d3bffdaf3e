#include "registry.h"

#include "core/build_config.h"

namespace msda {

// Each family defines its own kFamily; those of GPUs are there where CUDA is. MSDA_FAMILIES is
// kernels/families.inc; the tests have a list with one more.
#if MSDA_HAS_CUDA
#define MSDA_FAMILY(name) MSDA_CPU_FAMILY(name)
#else
#define MSDA_FAMILY(name)
#endif

#define MSDA_CPU_FAMILY(name)  \
  namespace name {             \
  extern const Family kFamily; \
  }
#include MSDA_FAMILIES
#undef MSDA_CPU_FAMILY

namespace {

const Family* const kFamilies[] = {
#define MSDA_CPU_FAMILY(name) &name::kFamily,
#include MSDA_FAMILIES
#undef MSDA_CPU_FAMILY
};

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

KernelRef find_kernel(std::string_view id) {
  for (const Family* const family : families()) {
    for (Variant const& variant : family->variants) {
      if (variant.id == id) return {family, &variant};
    }
  }
  return {};
}

std::size_t kernel_count() {
  std::size_t count = 0;
  for (const Family* const family : families()) count += family->variants.size();
  return count;
}

KernelRef kernel_at(std::size_t index) {
  for (const Family* const family : families()) {
    if (index < family->variants.size()) return {family, &family->variants[index]};
    index -= family->variants.size();
  }
  return {};
}

}  // namespace msda
