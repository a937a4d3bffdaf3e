/* A libcuda.so.1 whose current device is the one that the test says; -1 is the library's number for
 * the CPU, whose memory its calls give. It has what mock_host.h calls, and no more. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int mock_device = -1;
static void* context = NULL;

int cuInit(unsigned flags) { return (int)flags; }
int cuDevicePrimaryCtxRetain(void** out, int device) {
  *out = &mock_device;
  return device;
}
int cuCtxSetCurrent(void* its_context) {
  context = its_context;
  return 0;
}
int cuCtxGetDevice(int* device) {
  *device = mock_device;
  return context == NULL ? 201 : 0; /* CUDA_ERROR_INVALID_CONTEXT */
}
int cuCtxSynchronize(void) { return 0; }
int cuStreamCreate(void** stream, unsigned flags) {
  *stream = NULL; /* calls on the CPU take no other */
  return flags > 1;
}
int cuStreamDestroy_v2(void* stream) { return stream != NULL; }
int cuStreamSynchronize(void* stream) { return stream != NULL; }
int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  void* const memory = malloc(bytes);
  *address = (size_t)memory;
  return memory == NULL;
}
int cuMemFree_v2(unsigned long long address) {
  free((void*)(size_t)address);
  return 0;
}
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, size_t bytes) {
  memcpy((void*)(size_t)to, from, bytes);
  return 0;
}
int cuMemcpyDtoH_v2(void* to, unsigned long long from, size_t bytes) {
  memcpy(to, (const void*)(size_t)from, bytes);
  return 0;
}
