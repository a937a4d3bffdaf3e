// Tuning on the caller's tensors and its records. Arguments are checked as they will be; the work
// itself comes with a later version and says so.

#include "api/guard.h"
#include "api/objects.h"
#include "api/structs.h"

#include <cmath>

using namespace msda;
using namespace msda::api;

namespace {

[[noreturn]] void not_yet() {
  fail(MSDA_ERROR_UNSUPPORTED, "tuning is not in libmsda {}.{}: it comes with a later version",
       MSDA_VERSION_MAJOR, MSDA_VERSION_MINOR);
}

}  // namespace

msda_status msda_plan_tune(msda_handle* handle, const msda_problem* problem,
                           const msda_plan_options* options, const msda_tensors* sample,
                           msda_stream stream, double budget_ms, msda_plan** out) {
  return guard("msda_plan_tune", log_of(handle), [&] {
    required(handle, "handle");
    required(out, "out");
    check_plan_options(read_optional_struct(options, "msda_plan_options"), handle->device);
    Problem const canonical = canonical_problem(problem, std::pmr::new_delete_resource());
    canonical_call(canonical, 0, sample, stream, handle->device);
    if (!(std::isfinite(budget_ms) && budget_ms > 0)) {
      invalid("budget_ms is {}: must be a finite number greater than 0", budget_ms);
    }
    not_yet();
  });
}

msda_status msda_tuning_export(const msda_handle* handle, char* text, size_t* text_size) {
  return guard("msda_tuning_export", log_of(handle), [&] {
    required(handle, "handle");
    required(text_size, "text_size");
    static_cast<void>(text);
    not_yet();
  });
}

msda_status msda_tuning_import(msda_handle* handle, const char* text, size_t text_size) {
  return guard("msda_tuning_import", log_of(handle), [&] {
    required(handle, "handle");
    required(text, "text");
    static_cast<void>(text_size);
    not_yet();
  });
}
