#include "registry.h"

#include "core/build_config.h"

#include <vector>

namespace msda {

// Each family defines its own kModel and kCode. MSDA_FAMILIES is kernels/families.inc; the tests
// have a list with more. The code of a GPU's family is there where CUDA is; a program that runs no
// kernel has the models of GPUs alone (MSDA_MODELS_ONLY).
#if MSDA_MODELS_ONLY
#define MSDA_CPU_FAMILY(name)
#else
#define MSDA_CPU_FAMILY(name) MSDA_ROW(name, &name::kCode)
#endif
#if MSDA_HAS_CUDA && !MSDA_MODELS_ONLY
#define MSDA_FAMILY(name) MSDA_ROW(name, &name::kCode)
#else
#define MSDA_FAMILY(name) MSDA_ROW(name, nullptr)
#endif

#define MSDA_ROW(name, code)       \
  namespace name {                 \
  extern const FamilyModel kModel; \
  extern const FamilyCode kCode;   \
  }
#include MSDA_FAMILIES
#undef MSDA_ROW

namespace {

const Family kFamilies[] = {
#define MSDA_ROW(name, code) {name::kModel, code},
#include MSDA_FAMILIES
#undef MSDA_ROW
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

std::span<const KernelRef> all_kernels() {
  // Never freed: programs call the library while they end, too.
  static auto const& kernels = *new std::vector<KernelRef>([] {
    std::vector<KernelRef> list;
    for (Family const& family : families()) {
      if (family.code == nullptr) continue;
      for (Variant const& variant : family.model.variants) list.push_back({&family, &variant});
    }
    return list;
  }());
  return kernels;
}

KernelRef find_kernel(std::string_view id) {
  for (KernelRef const& kernel : all_kernels()) {
    if (kernel.variant->id == id) return kernel;
  }
  return {};
}

}  // namespace msda
