// How much of a result is compared with the exact one.
#pragma once

namespace msda::cli {

enum class CheckMode { kNone, kSample, kAll };

}  // namespace msda::cli
