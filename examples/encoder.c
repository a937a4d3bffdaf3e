/* The attention of a Deformable-DETR encoder layer on the CPU, forward and backward: each pixel of
 * a pyramid of four feature maps is a query that looks at four points of every map. */
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

static double dot(const float* a, const float* b, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += (double)a[i] * b[i];
  return sum;
}

int main(void) {
  fill(value, S * M * D, 1), fill(offset, Q * M * K * 2, 3), fill(logit, Q * M * K, 2);
  fill(g, Q * M * D, 1);
  for (int l = 0, q = 0; l < L; ++l) /* of each query: the centre of its pixel, 0 to 1 */
    for (int i = 0; i < level_hw[l][0] * level_hw[l][1]; ++i, ++q)
      for (int xy = 0; xy < 2 * L; ++xy) {
        const int width = level_hw[l][1], at = xy % 2 ? i / width : i % width;
        reference[2 * q * L + xy] = ((float)at + 0.5f) / (float)(xy % 2 ? level_hw[l][0] : width);
      }

  msda_handle_options options = MSDA_HANDLE_OPTIONS_INIT;
  options.device = MSDA_DEVICE_CPU;
  msda_handle* handle;
  check(msda_handle_create(&options, &handle));

  msda_problem problem = MSDA_PROBLEM_INIT;
  problem.level_hw = problem.query_hw = &level_hw[0][0]; /* the queries are these pixels, too */
  problem.level_count = problem.query_grid_count = L;
  problem.batch = 1, problem.query_count = Q, problem.head_count = M, problem.head_dim = D;
  problem.point_count = P, problem.value_dtype = MSDA_DTYPE_F32;
  problem.input_mode = MSDA_INPUT_FUSED, problem.reference_dim = 2;
  msda_plan *forward, *backward;
  check(msda_plan_create(handle, &problem, NULL, &forward));
  problem.operation = MSDA_BACKWARD;
  check(msda_plan_create(handle, &problem, NULL, &backward));

  msda_plan_info info = MSDA_PLAN_INFO_INIT;
  check(msda_plan_get_info(backward, &info)); /* a CPU's forward needs no workspace */
  msda_tensors tensors = MSDA_TENSORS_INIT;
  tensors.value = value, tensors.reference = reference, tensors.offset = offset;
  tensors.logit = logit, tensors.output = output, tensors.grad_output = g;
  tensors.grad_value = grad_value, tensors.grad_offset = grad_offset;
  tensors.grad_logit = grad_logit, tensors.workspace_bytes = info.workspace_bytes;
  tensors.workspace = aligned_alloc(256, (info.workspace_bytes + 255) / 256 * 256);
  check(msda_execute(backward, &tensors, NULL));
  check(msda_execute(forward, &tensors, NULL));

  /* The output is linear in value, a number added to all logits of a row changes nothing, and how
   * it changes by an offset a small step says. */
  const double loss = dot(output, g, Q * M * D), by_value = dot(value, grad_value, S * M * D);
  double by_row = 0;
  for (int i = 0; i < K; ++i) by_row += grad_logit[i];
  const float step = 1e-3f;
  int at = 0;
  for (int i = 1; i < Q * M * K * 2; ++i)
    if (fabsf(grad_offset[i]) > fabsf(grad_offset[at])) at = i;
  offset[at] += step;
  check(msda_execute(forward, &tensors, NULL));
  const double by_step = (dot(output, g, Q * M * D) - loss) / step;
  printf("sum of output * g %.4f, of value * its gradient %.4f\n", loss, by_value);
  printf("grad_offset[%d] is %.4f, by a step %.4f\n", at, grad_offset[at], by_step);
  free(tensors.workspace);
  msda_plan_destroy(forward), msda_plan_destroy(backward), msda_handle_destroy(handle);
  printf("sum of a row's grad_logit %.6f\n", by_row);
  return !(fabs(by_value - loss) <= 1e-3 * (1 + fabs(loss)) && fabs(by_row) <= 1e-4 &&
           fabs(grad_offset[at] - by_step) <= 0.01 * fabs(by_step));
}
