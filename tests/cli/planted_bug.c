/* Preloaded in front of the library: makes every kernel but the reference wrong, in the way that
 * $PLANTED_BUG names, for the tests that `msda` notices. $PLANTED_ELEMENT is the element of the
 * output that becomes wrong; calls with a smaller output stay right. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <msda.h>
#include <stdlib.h>
#include <string.h>

enum { kMostPlans = 1024 };

/* The plans of one process, one after the other; an address may come again. */
static struct {
  const msda_plan* plan;
  long long element_count; /* of its output */
} plans[kMostPlans];
static int plan_count;

MSDA_API msda_status msda_plan_create(msda_handle* handle, const msda_problem* problem,
                                      const msda_plan_options* options, msda_plan** out) {
  msda_status (*create)(msda_handle*, const msda_problem*, const msda_plan_options*, msda_plan**);
  *(void**)&create = dlsym(RTLD_NEXT, "msda_plan_create");
  msda_status status = create(handle, problem, options, out);
  if (status != MSDA_SUCCESS) return status;
  if (plan_count == kMostPlans) abort();
  plans[plan_count].plan = *out;
  plans[plan_count].element_count =
      problem->batch * problem->query_count * problem->head_count * problem->head_dim;
  ++plan_count;
  return status;
}

static long long element_count_of(const msda_plan* plan) {
  for (int i = plan_count; i-- > 0;) {
    if (plans[i].plan == plan) return plans[i].element_count;
  }
  return 0;
}

MSDA_API msda_status msda_execute(const msda_plan* plan, const msda_tensors* tensors,
                                  msda_stream stream) {
  msda_status (*execute)(const msda_plan*, const msda_tensors*, msda_stream);
  *(void**)&execute = dlsym(RTLD_NEXT, "msda_execute");
  msda_plan_info info = {.struct_size = sizeof(info)};
  msda_plan_get_info(plan, &info);
  const char* bug = getenv("PLANTED_BUG");
  const char* place = getenv("PLANTED_ELEMENT");
  long long element = place == NULL ? 5 : atoll(place);
  if (bug == NULL || element >= element_count_of(plan)) return execute(plan, tensors, stream);
  if (strncmp(info.kernel_id, "ref.", 4) == 0) {
    msda_status status = execute(plan, tensors, stream);
    double* exact = tensors->output; /* what is compared with is float64 */
    if (strcmp(bug, "wrong reference") == 0) exact[element] += 1e-9;
    if (strcmp(bug, "unfinished reference") == 0) exact[element] = 0.0 / 0.0;
    return status;
  }
  if (strcmp(bug, "nothing written") == 0) return MSDA_SUCCESS;
  msda_status status = execute(plan, tensors, stream);
  float* attention = tensors->attention;
  if (strcmp(bug, "attention slightly off") == 0) attention[element] *= 1 + 1e-4f;
  float* output = tensors->output != NULL ? tensors->output : tensors->grad_value;
  if (strcmp(bug, "slightly off") == 0) output[element] *= 1 + 1e-3f;
  if (strcmp(bug, "not a number") == 0) output[element] = 0.0f / 0.0f;
  return status;
}
