#include "registry.h"

#include "core/build_config.h"

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

KernelRef find_kernel(std::string_view id) {
  for (Family const& family : families()) {
    if (family.code == nullptr) continue;
    for (Variant const& variant : family.model.variants) {
      if (variant.id == id) return {&family, &variant};
    }
  }
  return {};
}

std::size_t kernel_count() {
  std::size_t count = 0;
  for (Family const& family : families()) {
    if (family.code != nullptr) count += family.model.variants.size();
  }
  return count;
}

KernelRef kernel_at(std::size_t index) {
  for (Family const& family : families()) {
    if (family.code == nullptr) continue;
    if (index < family.model.variants.size()) return {&family, &family.model.variants[index]};
    index -= family.model.variants.size();
  }
  return {};
}

}  // namespace msda
