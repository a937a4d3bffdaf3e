// msda_execute: check the buffers, launch.

#include "api/guard.h"
#include "api/objects.h"
#include "api/structs.h"
#include "core/cuda.h"

using namespace msda;
using namespace msda::api;

void msda::api::check_process(Device const& device, std::string_view object) {
  if (!device.is_cpu() || device.pool->usable_in_this_process()) return;
  invalid("{} was created before fork(): its threads are not in this process; create a handle here",
          object);
}

msda_status msda_execute(const msda_plan* plan, const msda_tensors* tensors, msda_stream stream) {
  return guard("msda_execute", log_of(plan), [&] {
    required(plan, "plan");
    Device const& device = plan->device;
    Call const call = plan->rules->check(tensors, stream);
    check_process(device, "plan belongs to a handle that");
    cuda::CurrentDevice const current(device);
    cuda::check_stream(device, stream);
    plan->handle.log.write(MSDA_LOG_TRACE, "execute: {}", plan->kernel.variant->id);
    plan->kernel.family->code->launch(*plan->kernel.variant,
                                      {plan->problem, device, plan->prepared.get(), call});
  });
}
