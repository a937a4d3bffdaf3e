#include "contract/c_client.h"

#include <stdlib.h>
#include <string.h>

static msda_status execute(msda_plan* plan, msda_tensors* tensors) {
  msda_plan_info info;
  memset(&info, 0, sizeof(info));
  info.struct_size = sizeof(info);
  msda_status status = msda_plan_get_info(plan, &info);
  if (status != MSDA_SUCCESS) return status;

  unsigned char* memory = malloc(info.workspace_bytes + info.workspace_alignment);
  if (memory == NULL) return MSDA_ERROR_OUT_OF_MEMORY;
  const size_t beyond = (size_t)((uintptr_t)memory % info.workspace_alignment);
  tensors->workspace = memory + (info.workspace_alignment - beyond);
  tensors->workspace_bytes = info.workspace_bytes;
  status = msda_execute(plan, tensors, NULL);
  free(memory);
  return status;
}

static msda_status plan_and_execute(msda_handle* handle, const msda_problem* problem,
                                    msda_tensors* tensors) {
  msda_plan* plan = NULL;
  msda_status status = msda_plan_create(handle, problem, NULL, &plan);
  if (status == MSDA_SUCCESS) status = execute(plan, tensors);
  msda_plan_destroy(plan);
  return status;
}

static msda_status run_with(msda_handle* handle, const c_client_case* input) {
  msda_problem problem = {.struct_size = sizeof(problem)};
  problem.level_hw = input->level_hw;
  problem.point_counts = input->points;
  problem.level_count = input->level_count;
  problem.batch = input->batch;
  problem.query_count = input->query_count;
  problem.head_count = input->head_count;
  problem.head_dim = input->head_dim;
  problem.reference_dim = input->reference_dim;
  problem.input_mode = input->reference_dim == 0 ? MSDA_INPUT_SAMPLED : MSDA_INPUT_FUSED;
  problem.value_dtype = MSDA_DTYPE_F64;

  msda_tensors tensors = {.struct_size = sizeof(tensors)};
  tensors.value = input->value;
  tensors.coord = input->coord;
  tensors.weight = input->weight;
  tensors.reference = input->reference;
  tensors.offset = input->offset;
  tensors.logit = input->logit;
  tensors.output = input->output;
  tensors.grad_output = input->grad_output;
  tensors.grad_value = input->grad_value;
  tensors.grad_coord = input->grad_coord;
  tensors.grad_weight = input->grad_weight;
  tensors.grad_reference = input->grad_reference;
  tensors.grad_offset = input->grad_offset;
  tensors.grad_logit = input->grad_logit;

  msda_status status = plan_and_execute(handle, &problem, &tensors);
  if (status != MSDA_SUCCESS) return status;
  problem.operation = MSDA_BACKWARD;
  return plan_and_execute(handle, &problem, &tensors);
}

msda_status c_client_run(const c_client_case* input) {
  msda_handle_options options = {.struct_size = sizeof(options)};
  options.device = MSDA_DEVICE_CPU;
  options.thread_count = 2;
  msda_handle* handle = NULL;
  msda_status status = msda_handle_create(&options, &handle);
  if (status == MSDA_SUCCESS) status = run_with(handle, input);
  msda_handle_destroy(handle);
  return status;
}
