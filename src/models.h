// Families as far as they need no device code: for planning and counting where no GPU is.
#pragma once

#include "core/family.h"

#include <span>
#include <string_view>

namespace msda {

// In the order of kernels/models.inc.
std::span<const FamilyModel* const> family_models();

struct ModelRef {
  const FamilyModel* model = nullptr;
  const Variant* variant = nullptr;
};

// The kernel with this id, or nulls.
ModelRef find_modelled_kernel(std::string_view id);

}  // namespace msda
