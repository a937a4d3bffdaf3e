/* A libcuda.so.1 whose current device is the one that the test says; -1 is the library's number for
 * the CPU. */
int mock_device = -1, mock_failure = 0;

int cuCtxGetDevice(int* device) {
  *device = mock_device;
  return mock_failure;
}
