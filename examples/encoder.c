/* The attention of a Deformable-DETR encoder layer on the CPU, forward and backward: each pixel of
 * a pyramid of four feature maps is a query that looks at four points of every map. */
#include <msda.h>
#include <stdio.h>
#include <stdlib.h>

enum { L = 4, P = 4, M = 8, D = 32, S = 16 * 24 + 8 * 12 + 4 * 6 + 2 * 3, Q = S, K = L * P };
enum { VALUE = S * M * D, OFFSET = Q * M * K * 2, LOGIT = Q * M * K, ALL = VALUE + OFFSET + LOGIT };
static const int32_t level_hw[L][2] = {{16, 24}, {8, 12}, {4, 6}, {2, 3}};
/* Inputs: value [S][M][D], offset [Q][M][K][2], logit [Q][M][K]; then grad_output [Q][M][D]. */
static float input[ALL + Q * M * D], gradient[ALL], reference[Q][L][2], output[Q * M * D];

static void check(msda_status status) {
  if (status != MSDA_SUCCESS) puts(msda_last_error()), exit(1);
}

static double dot(const float* a, const float* b, int count) {
  double sum = 0;
  while (count--) sum += (double)*a++ * *b++;
  return sum;
}

int main(void) {
  const float* grad_output = input + ALL;
  for (int i = 0; i < ALL + Q * M * D; ++i) input[i] = 2 * (float)rand() / (float)RAND_MAX - 1;
  for (int l = 0, q = 0; l < L; ++l) /* the reference of a query is the centre of its pixel */
    for (int i = 0, h = level_hw[l][0], w = level_hw[l][1]; i < h * w; ++i, ++q)
      for (int map = 0; map < L; ++map)
        reference[q][map][0] = ((float)(i % w) + 0.5f) / (float)w,
        reference[q][map][1] = ((float)(i / w) + 0.5f) / (float)h;

  msda_handle_options options = MSDA_HANDLE_OPTIONS_INIT;
  options.device = MSDA_DEVICE_CPU;
  msda_handle* handle;
  check(msda_handle_create(&options, &handle));
  msda_problem problem = MSDA_PROBLEM_INIT;
  problem.level_hw = problem.query_hw = level_hw[0]; /* the queries are these pixels, too */
  problem.level_count = problem.query_grid_count = L, problem.point_count = P;
  problem.batch = 1, problem.query_count = Q, problem.head_count = M, problem.head_dim = D;
  problem.value_dtype = MSDA_DTYPE_F32;
  problem.input_mode = MSDA_INPUT_FUSED, problem.reference_dim = 2;
  msda_plan *forward, *backward;
  check(msda_plan_create(handle, &problem, NULL, &forward));
  problem.operation = MSDA_BACKWARD;
  check(msda_plan_create(handle, &problem, NULL, &backward));
  msda_plan_info info = MSDA_PLAN_INFO_INIT;
  check(msda_plan_get_info(backward, &info));
  msda_tensors tensors = MSDA_TENSORS_INIT;
  tensors.value = input, tensors.offset = input + VALUE, tensors.logit = input + VALUE + OFFSET;
  tensors.reference = reference, tensors.output = output, tensors.grad_output = grad_output;
  tensors.grad_value = gradient, tensors.grad_offset = gradient + VALUE;
  tensors.grad_logit = gradient + VALUE + OFFSET, tensors.workspace_bytes = info.workspace_bytes;
  tensors.workspace = aligned_alloc(256, (info.workspace_bytes + 255) / 256 * 256);
  check(msda_execute(forward, &tensors, NULL)); /* a CPU's forward leaves the workspace alone */
  check(msda_execute(backward, &tensors, NULL));

  /* A short step along the gradient raises the loss by the step times the gradient's square. */
  const double loss = dot(output, grad_output, Q * M * D), square = dot(gradient, gradient, ALL);
  for (int i = 0; i < ALL; ++i) input[i] += 1e-4f * gradient[i];
  check(msda_execute(forward, &tensors, NULL));
  const double by_step = (dot(output, grad_output, Q * M * D) - loss) / 1e-4;
  printf("the gradient's square is %.1f, by a step %.1f\n", square, by_step);
  free(tensors.workspace);
  msda_plan_destroy(forward), msda_plan_destroy(backward), msda_handle_destroy(handle);
  return by_step > 0.999 * square && by_step < 1.001 * square ? 0 : 1;
}
