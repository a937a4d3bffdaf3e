/* Runs golden vectors through the installed library, as a C program would:
 *
 *   golden_client FILE.f64...     written by tests/golden/flatten.py
 *
 * Forward and backward in float64, forward in float32. Exit status 1 if a result is off. */
#include <msda.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The arrays of tests/golden/flatten.py: inputs, then what is computed from them. */
enum { VALUE, COORD, WEIGHT, REFERENCE, OFFSET, LOGIT, OUTPUT, GRAD_OUTPUT, GRADS, ARRAYS = 14 };
static const char* const names[ARRAYS] = {
    "value",       "coord",          "weight",      "reference",  "offset",
    "logit",       "output",         "grad_output", "grad_value", "grad_coord",
    "grad_weight", "grad_reference", "grad_offset", "grad_logit"};

typedef struct {
  msda_problem problem;
  int32_t *level_hw, *points;
  size_t counts[ARRAYS];        /* 0 where the case has none */
  const double* arrays[ARRAYS]; /* within the file */
} golden;

static void fail(const char* what, const char* why) {
  fprintf(stderr, "golden_client: %s: %s\n", what, why);
  exit(1);
}

static void* get(size_t bytes, size_t alignment) {
  void* memory = NULL;
  if (alignment < sizeof(void*)) alignment = sizeof(void*);
  memory = aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
  if (memory == NULL) fail("memory", "there is none");
  return memory;
}

static double* read_file(const char* path, size_t* count) {
  FILE* file = fopen(path, "rb");
  long bytes = 0;
  double* numbers = NULL;
  if (file == NULL) fail(path, "cannot be opened");
  fseek(file, 0, SEEK_END);
  bytes = ftell(file);
  rewind(file);
  *count = (size_t)bytes / sizeof(double);
  numbers = get((size_t)bytes, sizeof(double));
  if (fread(numbers, sizeof(double), *count, file) != *count) fail(path, "cannot be read");
  fclose(file);
  return numbers;
}

static golden parse(const char* path, const double* at, size_t count) {
  const double* const end = at + count;
  golden it;
  int64_t tokens = 0, points = 0, rows = 0;
  int32_t i = 0;
  memset(&it, 0, sizeof(it));
  if (count < 6) fail(path, "is too short");
  it.problem.struct_size = sizeof(it.problem);
  it.problem.level_count = (int32_t)at[0];
  it.problem.batch = (int64_t)at[1];
  it.problem.query_count = (int64_t)at[2];
  it.problem.head_count = (int64_t)at[3];
  it.problem.head_dim = (int64_t)at[4];
  it.problem.reference_dim = (int32_t)at[5];
  it.problem.input_mode = it.problem.reference_dim == 0 ? MSDA_INPUT_SAMPLED : MSDA_INPUT_FUSED;
  at += 6;
  it.level_hw = get(2 * sizeof(int32_t) * (size_t)it.problem.level_count, 4);
  it.points = get(sizeof(int32_t) * (size_t)it.problem.level_count, 4);
  for (i = 0; i < 2 * it.problem.level_count; ++i) it.level_hw[i] = (int32_t)*at++;
  for (i = 0; i < it.problem.level_count; ++i) {
    it.points[i] = (int32_t)*at++;
    points += it.points[i];
    tokens += (int64_t)it.level_hw[2 * i] * it.level_hw[2 * i + 1];
  }
  it.problem.level_hw = it.level_hw;
  it.problem.point_counts = it.points;
  rows = it.problem.batch * it.problem.query_count * it.problem.head_count;
  it.counts[VALUE] =
      (size_t)(it.problem.batch * tokens * it.problem.head_count * it.problem.head_dim);
  it.counts[OUTPUT] = it.counts[GRAD_OUTPUT] = (size_t)(rows * it.problem.head_dim);
  it.counts[it.problem.reference_dim == 0 ? COORD : OFFSET] = (size_t)(rows * points * 2);
  it.counts[it.problem.reference_dim == 0 ? WEIGHT : LOGIT] = (size_t)(rows * points);
  it.counts[REFERENCE] = (size_t)(it.problem.batch * it.problem.query_count *
                                  it.problem.level_count * it.problem.reference_dim);
  for (i = 0; i < OUTPUT; ++i) it.counts[GRADS + i] = it.counts[i];
  for (i = 0; i < ARRAYS; ++i) {
    it.arrays[i] = at;
    at += it.counts[i];
  }
  if (at != end) fail(path, "has another length than its sizes say");
  return it;
}

/* The numbers in the type of the problem. */
static void* stored(const double* numbers, size_t count, msda_dtype dtype) {
  void* const memory = get(count * sizeof(double), 64);
  size_t i = 0;
  if (dtype == MSDA_DTYPE_F64) return memcpy(memory, numbers, count * sizeof(double));
  for (i = 0; i < count; ++i) ((float*)memory)[i] = (float)numbers[i];
  return memory;
}

static void compare(const char* path, int array, const golden* it, const void* found,
                    msda_dtype dtype) {
  const double* const expected = it->arrays[array];
  double largest = 0, worst = 0, tolerance = dtype == MSDA_DTYPE_F64 ? 1e-10 : 1e-4;
  size_t i = 0;
  for (i = 0; i < it->counts[array]; ++i) largest = fmax(largest, fabs(expected[i]));
  for (i = 0; i < it->counts[array]; ++i) {
    double const number =
        dtype == MSDA_DTYPE_F64 ? ((const double*)found)[i] : ((const float*)found)[i];
    double const error = fabs(number - expected[i]);
    if (!(error <= worst)) worst = error; /* NaN too */
  }
  if (worst <= tolerance * largest) return;
  fprintf(stderr, "golden_client: %s: %s is off by %g, its largest element is %g\n", path,
          names[array], worst, largest);
  exit(1);
}

static void check(const char* path, msda_handle* handle, golden it, msda_operation operation,
                  msda_dtype dtype) {
  const int first = operation == MSDA_FORWARD ? OUTPUT : GRADS;
  const int last = operation == MSDA_FORWARD ? OUTPUT : ARRAYS - 1;
  msda_plan* plan = NULL;
  msda_plan_info info;
  msda_tensors tensors;
  void* memory[ARRAYS] = {0};
  int i = 0;
  it.problem.operation = operation;
  it.problem.value_dtype = dtype;
  memset(&info, 0, sizeof(info));
  info.struct_size = sizeof(info);
  if (msda_plan_create(handle, &it.problem, NULL, &plan) != MSDA_SUCCESS ||
      msda_plan_get_info(plan, &info) != MSDA_SUCCESS) {
    fail(path, msda_last_error());
  }
  for (i = 0; i < ARRAYS; ++i) {
    if (it.counts[i] == 0) continue;
    memory[i] = i < OUTPUT || i == GRAD_OUTPUT
                    ? stored(it.arrays[i], it.counts[i], dtype)
                    : memset(get(it.counts[i] * sizeof(double), 64), 0xff,
                             it.counts[i] * sizeof(double)); /* NaN */
  }
  memset(&tensors, 0, sizeof(tensors));
  tensors.struct_size = sizeof(tensors);
  tensors.value = memory[VALUE];
  tensors.coord = memory[COORD];
  tensors.weight = memory[WEIGHT];
  tensors.reference = memory[REFERENCE];
  tensors.offset = memory[OFFSET];
  tensors.logit = memory[LOGIT];
  tensors.output = memory[OUTPUT];
  tensors.grad_output = memory[GRAD_OUTPUT];
  tensors.grad_value = memory[GRADS];
  tensors.grad_coord = memory[GRADS + 1];
  tensors.grad_weight = memory[GRADS + 2];
  tensors.grad_reference = memory[GRADS + 3];
  tensors.grad_offset = memory[GRADS + 4];
  tensors.grad_logit = memory[GRADS + 5];
  tensors.workspace = get(info.workspace_bytes, info.workspace_alignment);
  tensors.workspace_bytes = info.workspace_bytes;
  if (msda_execute(plan, &tensors, NULL) != MSDA_SUCCESS) fail(path, msda_last_error());
  for (i = first; i <= last; ++i) compare(path, i, &it, memory[i], dtype);
  for (i = 0; i < ARRAYS; ++i) free(memory[i]);
  free(tensors.workspace);
  msda_plan_destroy(plan);
}

int main(int argc, char** argv) {
  msda_handle_options options;
  msda_handle* handle = NULL;
  int i = 0;
  if (argc < 2) fail("usage", "golden_client FILE.f64...");
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.device = MSDA_DEVICE_CPU;
  if (msda_handle_create(&options, &handle) != MSDA_SUCCESS) fail("handle", msda_last_error());
  for (i = 1; i < argc; ++i) {
    size_t count = 0;
    double* const numbers = read_file(argv[i], &count);
    const golden it = parse(argv[i], numbers, count);
    check(argv[i], handle, it, MSDA_FORWARD, MSDA_DTYPE_F64);
    check(argv[i], handle, it, MSDA_BACKWARD, MSDA_DTYPE_F64);
    check(argv[i], handle, it, MSDA_FORWARD, MSDA_DTYPE_F32);
    free(it.level_hw);
    free(it.points);
    free(numbers);
  }
  msda_handle_destroy(handle);
  printf("%d golden vectors, forward and backward: right\n", argc - 1);
  return 0;
}
