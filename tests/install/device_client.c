/* A C client that wants the GPU, and says in a line why it cannot have it. */
#include <msda.h>
#include <stdio.h>

int main(void) {
  msda_handle_options options = {0};
  msda_handle* handle = NULL;

  options.struct_size = sizeof(options);
  options.device = 0;
  if (msda_handle_create(&options, &handle) != MSDA_SUCCESS) {
    fprintf(stderr, "%s\n", msda_last_error());
    return 1;
  }
  msda_handle_destroy(handle);
  return 0;
}
