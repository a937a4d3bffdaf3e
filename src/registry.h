// The kernel registry: all families in one table. Listing, selection, explain, tests, benchmark and
// docs all walk it.
#pragma once

#include "core/family.h"

#include <span>
#include <string_view>

namespace msda {

// All families, in the order of kernels/families.inc, those without code too.
std::span<const Family> families();

struct KernelRef {
  const Family* family = nullptr;
  const Variant* variant = nullptr;
};

// The kernels of families that have code: those that this library can run.
std::span<const KernelRef> all_kernels();
// The one with this id, or nulls.
KernelRef find_kernel(std::string_view id);

}  // namespace msda
