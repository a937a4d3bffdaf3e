/* Generated from include/msda.h by tools/generate; do not edit.
 * Links only if the library has every function of its header. */
#include <msda.h>
#include <stdio.h>

typedef void (*function)(void);

int main(void) {
  function functions[19];
  int i, missing = 0;
  functions[0] = (function)&msda_version;
  functions[1] = (function)&msda_abi_version;
  functions[2] = (function)&msda_build_info;
  functions[3] = (function)&msda_status_name;
  functions[4] = (function)&msda_last_error;
  functions[5] = (function)&msda_handle_create;
  functions[6] = (function)&msda_handle_destroy;
  functions[7] = (function)&msda_kernel_count;
  functions[8] = (function)&msda_kernel_get;
  functions[9] = (function)&msda_explain;
  functions[10] = (function)&msda_plan_create;
  functions[11] = (function)&msda_plan_tune;
  functions[12] = (function)&msda_plan_get_info;
  functions[13] = (function)&msda_plan_serialize;
  functions[14] = (function)&msda_plan_deserialize;
  functions[15] = (function)&msda_plan_destroy;
  functions[16] = (function)&msda_execute;
  functions[17] = (function)&msda_tuning_export;
  functions[18] = (function)&msda_tuning_import;
  for (i = 0; i < 19; ++i) missing += functions[i] == NULL;
  printf("19 functions, %d missing\n", missing);
  return missing != 0;
}
