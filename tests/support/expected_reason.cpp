#include "support/expected_reason.h"

#include "support/tolerance.h"

#include <stdexcept>

namespace msda::test {
namespace {

std::string family_of(std::string const& kernel_id) {
  return kernel_id.substr(0, kernel_id.find('.'));
}

// "simd.cpu.bf16@1" -> BF16; the ids say "f8" for F8_E4M3.
msda_dtype dtype_of(std::string const& kernel_id) {
  std::size_t const begin = kernel_id.rfind('.') + 1;
  std::string const name = kernel_id.substr(begin, kernel_id.find('@') - begin);
  for (msda_dtype const dtype : kAllDtypes) {
    if (type_name(dtype) == name || (name == "f8" && dtype == MSDA_F8_E4M3)) return dtype;
  }
  throw std::runtime_error("no dtype in kernel id " + kernel_id);
}

}  // namespace

std::string expected_reason(std::string const& kernel_id, ProblemShape const& shape) {
  std::string const family = family_of(kernel_id);
  if (family == "ref") return "";
  if (family == "simd") {
    if (shape.backward()) return "does not do this operation";
    if (shape.value_dtype != dtype_of(kernel_id)) return "does not take this value_dtype";
    return "";
  }
  throw std::runtime_error("say in expected_reason.cpp what " + kernel_id + " refuses");
}

Arithmetic arithmetic_of(std::string const& kernel_id) {
  return family_of(kernel_id) == "ref" ? Arithmetic::kFloat64 : Arithmetic::kFloat32;
}

}  // namespace msda::test
