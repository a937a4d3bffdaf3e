/* The attention of a Deformable-DETR encoder layer on the CPU, forward and backward: each pixel of
 * a pyramid of four feature maps is a query that looks at four points of every map. The loss is the
 * sum of all outputs times numbers g. The largest gradient by each input is checked against the
 * difference that a small change of that element makes to the loss. */
#include <math.h>
#include <msda.h>
#include <stdio.h>
#include <stdlib.h>

enum { L = 4, P = 4, M = 8, D = 32, S = 16 * 24 + 8 * 12 + 4 * 6 + 2 * 3, Q = S, K = L * P };
static const int32_t level_hw[L][2] = {{16, 24}, {8, 12}, {4, 6}, {2, 3}};
static float value[S * M * D], reference[Q * L * 2], offset[Q * M * K * 2], logit[Q * M * K];
static float output[Q * M * D], g[Q * M * D];
static float grad_value[S * M * D], grad_offset[Q * M * K * 2], grad_logit[Q * M * K];

static void check(msda_status status) {
  if (status == MSDA_SUCCESS) return;
  fprintf(stderr, "%s\n", msda_last_error());
  exit(1);
}

static void fill(float* x, int count, float largest) {
  for (int i = 0; i < count; ++i) x[i] = largest * (2 * (float)rand() / (float)RAND_MAX - 1);
}

/* Is the largest gradient by x what the loss says? */
static int check_gradient(const char* name, float* x, const float* gradient, int count,
                          const msda_plan* forward, const msda_tensors* tensors) {
  int at = 0;
  for (int i = 1; i < count; ++i)
    if (fabsf(gradient[i]) > fabsf(gradient[at])) at = i;
  const float was = x[at], change = 1e-3f;
  double loss[2] = {0, 0};
  for (int side = 0; side < 2; ++side) {
    x[at] = side == 0 ? was - change : was + change;
    check(msda_execute(forward, tensors, NULL));
    for (int i = 0; i < Q * M * D; ++i) loss[side] += (double)output[i] * g[i];
  }
  x[at] = was;
  const double difference = (loss[1] - loss[0]) / (2 * change);
  printf("grad_%s[%d] is %.4f, by differences %.4f\n", name, at, gradient[at], difference);
  return fabs(gradient[at] - difference) <= 0.01 * fabs(difference);
}

int main(void) {
  fill(value, S * M * D, 1), fill(offset, Q * M * K * 2, 3), fill(logit, Q * M * K, 2);
  fill(g, Q * M * D, 1);
  for (int l = 0, q = 0; l < L; ++l) /* of each query: the centre of its pixel, 0 to 1 */
    for (int i = 0; i < level_hw[l][0] * level_hw[l][1]; ++i, ++q)
      for (int on = 0; on < L; ++on) {
        reference[2 * (q * L + on)] = ((float)(i % level_hw[l][1]) + 0.5f) / (float)level_hw[l][1];
        reference[2 * (q * L + on) + 1] =
            ((float)(i / level_hw[l][1]) + 0.5f) / (float)level_hw[l][0];
      }

  msda_handle_options options = MSDA_HANDLE_OPTIONS_INIT;
  options.device = MSDA_DEVICE_CPU;
  msda_handle* handle;
  check(msda_handle_create(&options, &handle));

  msda_problem problem = MSDA_PROBLEM_INIT;
  problem.level_hw = problem.query_hw = &level_hw[0][0]; /* the queries are these pixels, too */
  problem.level_count = problem.query_grid_count = L;
  problem.batch = 1;
  problem.query_count = Q;
  problem.head_count = M;
  problem.head_dim = D;
  problem.point_count = P;
  problem.value_dtype = MSDA_DTYPE_F32;
  problem.input_mode = MSDA_INPUT_FUSED;
  problem.reference_dim = 2;
  msda_plan *forward, *backward;
  check(msda_plan_create(handle, &problem, NULL, &forward));
  problem.operation = MSDA_BACKWARD;
  check(msda_plan_create(handle, &problem, NULL, &backward));

  msda_plan_info info[2] = {MSDA_PLAN_INFO_INIT, MSDA_PLAN_INFO_INIT};
  check(msda_plan_get_info(forward, &info[0]));
  check(msda_plan_get_info(backward, &info[1]));
  printf("forward %s, backward %s\n", info[0].kernel_id, info[1].kernel_id);

  msda_tensors tensors = MSDA_TENSORS_INIT; /* serves both plans */
  tensors.value = value, tensors.reference = reference;
  tensors.offset = offset, tensors.logit = logit;
  tensors.output = output, tensors.grad_output = g;
  tensors.grad_value = grad_value, tensors.grad_offset = grad_offset;
  tensors.grad_logit = grad_logit;
  for (int i = 0; i < 2; ++i)
    if (info[i].workspace_bytes > tensors.workspace_bytes)
      tensors.workspace_bytes = info[i].workspace_bytes;
  tensors.workspace = aligned_alloc(256, (tensors.workspace_bytes + 255) / 256 * 256);
  check(msda_execute(backward, &tensors, NULL));

  const int right =
      check_gradient("value", value, grad_value, S * M * D, forward, &tensors) &
      check_gradient("offset", offset, grad_offset, Q * M * K * 2, forward, &tensors) &
      check_gradient("logit", logit, grad_logit, Q * M * K, forward, &tensors);
  free(tensors.workspace);
  msda_plan_destroy(forward);
  msda_plan_destroy(backward);
  msda_handle_destroy(handle);
  return right ? 0 : 1;
}
