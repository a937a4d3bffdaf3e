// The kernel registry: all families in one table. Listing, selection, explain, tests, benchmark and
// docs all walk it.
#pragma once

#include "core/family.h"

#include <cstddef>
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

// The kernel with this id, or nulls.
KernelRef find_kernel(std::string_view id);
std::size_t kernel_count();
KernelRef kernel_at(std::size_t index);

}  // namespace msda
