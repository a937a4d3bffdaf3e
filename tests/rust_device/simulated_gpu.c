/* A CUDA device of host memory, for tests of what Rust does with streams and device slices where
 * there is no GPU. It is preloaded. What cudarc calls of the driver is here, done at once;
 * libmsda's handles for CUDA device 0 become handles for the CPU. It checks the order of calls:
 * after an execution the event of each of its buffers is recorded before anything else happens. */
#define _GNU_SOURCE
#include <msda.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;

static _Thread_local int
    records_due; /* buffers of the last execution whose event is not recorded yet */

static int call(char const* name) {
  if (records_due == 0) return 0;
  fprintf(stderr, "simulated GPU: %s before %d events of an execution were recorded\n", name,
          records_due);
  abort();
}

msda_status msda_handle_create(msda_handle_options const* options, msda_handle** out) {
  msda_status (*next)(msda_handle_options const*, msda_handle**);
  *(void**)&next = dlsym(RTLD_NEXT, "msda_handle_create");
  msda_handle_options host = *options;
  if (host.device == 0) host.device = MSDA_DEVICE_CPU;
  return next(&host, out);
}

msda_status msda_execute(msda_plan const* plan, msda_tensors const* tensors, msda_stream stream) {
  msda_status (*next)(msda_plan const*, msda_tensors const*, msda_stream);
  *(void**)&next = dlsym(RTLD_NEXT, "msda_execute");
  call("msda_execute");
  void const* const buffers[] = {
      tensors->value,       tensors->value_scale,    tensors->coord,      tensors->weight,
      tensors->reference,   tensors->offset,         tensors->logit,      tensors->output,
      tensors->grad_output, tensors->grad_value,     tensors->grad_coord, tensors->grad_weight,
      tensors->grad_offset, tensors->grad_reference, tensors->grad_logit, tensors->workspace};
  msda_status const status = next(plan, tensors, NULL);
  if (stream != NULL) {
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); ++i)
      records_due += buffers[i] != NULL;
  }
  return status;
}

/* Distinct and never read. */
static void* token(void) { return malloc(1); }

int cuInit(unsigned flags) { return (void)flags, call("cuInit"); }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, call("cuDeviceGet"); }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return (void)attribute, (void)device, *value = 1, call("cuDeviceGetAttribute");
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  return (void)device, *context = token(), call("cuDevicePrimaryCtxRetain");
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  return (void)device, call("cuDevicePrimaryCtxRelease");
}
static _Thread_local void* current;
/* Recording asks for the context. */
int cuCtxGetCurrent(void** context) { return *context = current, 0; }
int cuCtxSetCurrent(void* context) { return current = context, call("cuCtxSetCurrent"); }
int cuCtxSynchronize(void) { return call("cuCtxSynchronize"); }
int cuStreamCreate(void** stream, unsigned flags) {
  return (void)flags, *stream = token(), call("cuStreamCreate");
}
int cuStreamDestroy_v2(void* stream) { return free(stream), call("cuStreamDestroy"); }
int cuStreamSynchronize(void* stream) { return (void)stream, call("cuStreamSynchronize"); }
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return (void)stream, (void)event, (void)flags, call("cuStreamWaitEvent");
}
int cuEventCreate(void** event, unsigned flags) {
  return (void)flags, *event = token(), call("cuEventCreate");
}
int cuEventDestroy_v2(void* event) { return free(event), call("cuEventDestroy"); }
int cuEventRecord(void* event, void* stream) {
  (void)event, (void)stream;
  if (records_due > 0) --records_due;
  return 0;
}
int cuMemAllocAsync(address* memory, size_t bytes, void* stream) {
  (void)stream, *memory = (address)aligned_alloc(256, (bytes + 255) / 256 * 256);
  return call("cuMemAllocAsync");
}
int cuMemFreeAsync(address memory, void* stream) {
  return (void)stream, free((void*)memory), call("cuMemFreeAsync");
}
int cuMemsetD8Async(address memory, unsigned char value, size_t bytes, void* stream) {
  return (void)stream, memset((void*)memory, value, bytes), call("cuMemsetD8Async");
}
int cuMemcpyHtoDAsync_v2(address to, void const* from, size_t bytes, void* stream) {
  return (void)stream, memcpy((void*)to, from, bytes), call("cuMemcpyHtoDAsync");
}
int cuMemcpyDtoHAsync_v2(void* to, address from, size_t bytes, void* stream) {
  return (void)stream, memcpy(to, (void const*)from, bytes), call("cuMemcpyDtoHAsync");
}
