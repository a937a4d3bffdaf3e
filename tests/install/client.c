/* A C client of the installed library: one forward call on the CPU. */
#include <msda.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  const int32_t level_hw[2] = {2, 2};
  const float value[4] = {1, 2, 3, 4}, coord[2] = {0.5f, 0.5f}, weight[1] = {2};
  float output[1] = {0};
  msda_handle_options options = MSDA_HANDLE_OPTIONS_INIT;
  msda_problem problem = MSDA_PROBLEM_INIT;
  msda_tensors tensors = MSDA_TENSORS_INIT;
  msda_handle* handle = NULL;
  msda_plan* plan = NULL;
  msda_plan_info info = MSDA_PLAN_INFO_INIT;
  char* memory = NULL;

  options.device = MSDA_DEVICE_CPU;
  problem.level_hw = level_hw;
  problem.level_count = 1;
  problem.point_count = 1;
  problem.batch = problem.query_count = problem.head_count = problem.head_dim = 1;
  problem.value_dtype = MSDA_DTYPE_F32;
  tensors.value = value;
  tensors.coord = coord;
  tensors.weight = weight;
  tensors.output = output;
  if (msda_handle_create(&options, &handle) != MSDA_SUCCESS ||
      msda_plan_create(handle, &problem, NULL, &plan) != MSDA_SUCCESS ||
      msda_plan_get_info(plan, &info) != MSDA_SUCCESS) {
    fprintf(stderr, "%s\n", msda_last_error());
    return 1;
  }
  memory = malloc(info.workspace_bytes + info.workspace_alignment);
  if (memory == NULL) return 1;
  tensors.workspace = memory + info.workspace_alignment - (size_t)memory % info.workspace_alignment;
  tensors.workspace_bytes = info.workspace_bytes;
  if (msda_execute(plan, &tensors, NULL) != MSDA_SUCCESS) {
    fprintf(stderr, "%s\n", msda_last_error());
    return 1;
  }
  printf("C client: twice the mean of 1 2 3 4 is %g\n", output[0]);
  free(memory);
  msda_plan_destroy(plan);
  msda_handle_destroy(handle);
  return output[0] == 5 ? 0 : 1;
}
