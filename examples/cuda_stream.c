/* A forward call on a GPU from C: device memory, two streams that run one plan at once, and a CUDA
 * graph that repeats a call. The outputs of all three have the same bits, and are those of the CPU
 * within the rounding of float32. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <msda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L = 2, P = 4, M = 8, D = 32, S = 32 * 48 + 16 * 24, Q = 300, K = L * P };
static const int32_t level_hw[L][2] = {{32, 48}, {16, 24}};
static float value[S * M * D], coord[Q * M * K * 2], weight[Q * M * K];
static float expected[Q * M * D], output[3][Q * M * D];

static void check(msda_status status) {
  if (status == MSDA_SUCCESS) return;
  fprintf(stderr, "%s\n", msda_last_error());
  exit(1);
}

static void check_cuda(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  exit(1);
}

static void* to_device(const void* host, size_t bytes) {
  void* device;
  check_cuda(cudaMalloc(&device, bytes));
  check_cuda(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
  return device;
}

/* A plan of device, a CUDA ordinal or MSDA_DEVICE_CPU. It stays good without its handle. */
static msda_plan* make_plan(int32_t device) {
  msda_handle_options options = MSDA_HANDLE_OPTIONS_INIT;
  options.device = device;
  msda_handle* handle;
  check(msda_handle_create(&options, &handle));
  msda_problem problem = MSDA_PROBLEM_INIT;
  problem.level_hw = &level_hw[0][0];
  problem.level_count = L;
  problem.batch = 1;
  problem.query_count = Q;
  problem.head_count = M;
  problem.head_dim = D;
  problem.point_count = P;
  problem.value_dtype = MSDA_DTYPE_F32;
  msda_plan* plan;
  check(msda_plan_create(handle, &problem, NULL, &plan));
  msda_handle_destroy(handle);
  return plan;
}

static msda_tensors on_cpu(void) {
  msda_tensors tensors = MSDA_TENSORS_INIT;
  tensors.value = value;
  tensors.coord = coord;
  tensors.weight = weight;
  tensors.output = expected;
  return tensors;
}

int main(void) {
  for (int i = 0; i < S * M * D; ++i) value[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  for (int i = 0; i < Q * M * K * 2; ++i) coord[i] = (float)rand() / (float)RAND_MAX;
  for (int i = 0; i < Q * M * K; ++i) weight[i] = (float)rand() / (float)RAND_MAX / K;

  msda_tensors tensors = on_cpu();
  msda_plan* cpu_plan = make_plan(MSDA_DEVICE_CPU);
  check(msda_execute(cpu_plan, &tensors, NULL));
  msda_plan_destroy(cpu_plan);

  msda_plan* plan = make_plan(0);
  msda_plan_info info = MSDA_PLAN_INFO_INIT;
  check(msda_plan_get_info(plan, &info));
  tensors.value = to_device(value, sizeof(value));
  tensors.coord = to_device(coord, sizeof(coord));
  tensors.weight = to_device(weight, sizeof(weight));
  tensors.workspace_bytes = info.workspace_bytes;

  /* One plan on two streams at once: each call has an output and a workspace of its own. */
  cudaStream_t stream[2];
  msda_tensors call[3];
  for (int i = 0; i < 3; ++i) {
    call[i] = tensors;
    check_cuda(cudaMalloc(&call[i].output, sizeof(expected)));
    if (info.workspace_bytes > 0) check_cuda(cudaMalloc(&call[i].workspace, info.workspace_bytes));
  }
  for (int i = 0; i < 2; ++i) {
    check_cuda(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
    check(msda_execute(plan, &call[i], stream[i])); /* returns before the work is done */
  }

  /* A call that a stream captures runs when the graph is launched, as often as that is. */
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  check_cuda(cudaStreamBeginCapture(stream[0], cudaStreamCaptureModeThreadLocal));
  check(msda_execute(plan, &call[2], stream[0]));
  check_cuda(cudaStreamEndCapture(stream[0], &graph));
  check_cuda(cudaGraphInstantiate(&runnable, graph, 0));
  for (int i = 0; i < 2; ++i) check_cuda(cudaGraphLaunch(runnable, stream[0]));
  check_cuda(cudaDeviceSynchronize());

  double error = 0;
  for (int i = 0; i < 3; ++i)
    check_cuda(cudaMemcpy(output[i], call[i].output, sizeof(expected), cudaMemcpyDeviceToHost));
  for (int i = 0; i < Q * M * D; ++i) error = fmax(error, fabs(output[0][i] - expected[i]));
  const int same = memcmp(output[0], output[1], sizeof(expected)) == 0 &&
                   memcmp(output[0], output[2], sizeof(expected)) == 0;
  printf("%s: two streams and a graph have %s bits; at most %.1e from the CPU\n", info.kernel_id,
         same ? "the same" : "DIFFERENT", error);

  check_cuda(cudaGraphExecDestroy(runnable));
  check_cuda(cudaGraphDestroy(graph));
  for (int i = 0; i < 2; ++i) check_cuda(cudaStreamDestroy(stream[i]));
  for (int i = 0; i < 3; ++i) check_cuda(cudaFree(call[i].output)), cudaFree(call[i].workspace);
  check_cuda(cudaFree((void*)tensors.value));
  check_cuda(cudaFree((void*)tensors.coord));
  check_cuda(cudaFree((void*)tensors.weight));
  msda_plan_destroy(plan);
  return same && error < 1e-5 ? 0 : 1;
}
