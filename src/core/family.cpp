#include "core/family.h"

#include <iterator>

namespace msda {

std::string_view reason_text(Reason reason) {
  constexpr std::string_view kTexts[] = {
#define MSDA_REASON(reason, text) text,
#include "core/reasons.inc"
#undef MSDA_REASON
  };
  auto const index = static_cast<std::size_t>(reason);
  return index < std::size(kTexts) ? kTexts[index] : "unknown reason";
}

}  // namespace msda
