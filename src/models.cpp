#include "models.h"

namespace msda {

#define MSDA_MODEL(name)           \
  namespace name {                 \
  extern const FamilyModel kModel; \
  }
#include "../kernels/models.inc"
#undef MSDA_MODEL

namespace {

const FamilyModel* const kModels[] = {
#define MSDA_MODEL(name) &name::kModel,
#include "../kernels/models.inc"
#undef MSDA_MODEL
};

}  // namespace

std::span<const FamilyModel* const> family_models() { return kModels; }

ModelRef find_modelled_kernel(std::string_view id) {
  for (const FamilyModel* const model : family_models()) {
    for (Variant const& variant : model->variants) {
      if (variant.id == id) return {model, &variant};
    }
  }
  return {};
}

}  // namespace msda
