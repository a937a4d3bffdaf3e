// A custom call of XLA that does nothing, beside which bench/jax_calls.py measures those of
// libmsda_jax.so.
#include "xla/ffi/api/c_api.h"

extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* msda_bench_empty_call(
    XLA_FFI_CallFrame* frame) {
  const XLA_FFI_Extension_Base* const extension = frame->extension_start;
  if (extension != nullptr && extension->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata& metadata =
        *reinterpret_cast<const XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata.api_version.major_version = XLA_FFI_API_MAJOR;
    metadata.api_version.minor_version = XLA_FFI_API_MINOR;
  }
  return nullptr;
}
