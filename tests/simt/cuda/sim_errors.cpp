// Names and texts of errors: those that this library returns, and those that libmsda and its tests
// know by name.
#include <cuda.h>
#include <cuda_runtime_api.h>

namespace simt::cuda {
namespace {

struct ErrorText {
  int error;
  const char* name;
  const char* text;
};

#define MSDA_SIMT_ERROR(name, text) {name, #name, text}
constexpr ErrorText kErrors[] = {
    MSDA_SIMT_ERROR(cudaSuccess, "no error"),
    MSDA_SIMT_ERROR(cudaErrorInvalidValue, "invalid argument"),
    MSDA_SIMT_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    MSDA_SIMT_ERROR(cudaErrorInitializationError, "initialization error"),
    MSDA_SIMT_ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    MSDA_SIMT_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    MSDA_SIMT_ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    MSDA_SIMT_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    MSDA_SIMT_ERROR(cudaErrorInsufficientDriver,
                    "CUDA driver version is insufficient for CUDA runtime version"),
    MSDA_SIMT_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    MSDA_SIMT_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    MSDA_SIMT_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    MSDA_SIMT_ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
    MSDA_SIMT_ERROR(cudaErrorNoKernelImageForDevice,
                    "no kernel image is available for execution on the device"),
    MSDA_SIMT_ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    MSDA_SIMT_ERROR(cudaErrorPeerAccessUnsupported,
                    "peer access is not supported between these two devices"),
    MSDA_SIMT_ERROR(cudaErrorNvlinkUncorrectable,
                    "uncorrectable NVLink error detected during the execution"),
    MSDA_SIMT_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    MSDA_SIMT_ERROR(cudaErrorIllegalState,
                    "the operation cannot be performed in the present state"),
    MSDA_SIMT_ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    MSDA_SIMT_ERROR(cudaErrorNotReady, "device not ready"),
    MSDA_SIMT_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    MSDA_SIMT_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    MSDA_SIMT_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    MSDA_SIMT_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    MSDA_SIMT_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    MSDA_SIMT_ERROR(cudaErrorContextIsDestroyed, "context is destroyed"),
    MSDA_SIMT_ERROR(cudaErrorAssert, "device-side assert triggered"),
    MSDA_SIMT_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                    "part or all of the requested memory range is already mapped"),
    MSDA_SIMT_ERROR(cudaErrorHostMemoryNotRegistered,
                    "pointer does not correspond to a registered memory region"),
    MSDA_SIMT_ERROR(cudaErrorHardwareStackError, "hardware stack error"),
    MSDA_SIMT_ERROR(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    MSDA_SIMT_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    MSDA_SIMT_ERROR(cudaErrorInvalidAddressSpace,
                    "operation not supported on global/shared address space"),
    MSDA_SIMT_ERROR(cudaErrorInvalidPc, "invalid program counter"),
    MSDA_SIMT_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    MSDA_SIMT_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    MSDA_SIMT_ERROR(cudaErrorNotSupported, "operation not supported"),
    MSDA_SIMT_ERROR(cudaErrorStreamCaptureUnsupported,
                    "operation not permitted when stream is capturing"),
    MSDA_SIMT_ERROR(cudaErrorStreamCaptureInvalidated,
                    "operation failed due to a previous error during capture"),
    MSDA_SIMT_ERROR(cudaErrorStreamCaptureMerge,
                    "operation would result in a merge of separate capture sequences"),
    MSDA_SIMT_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream"),
    MSDA_SIMT_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    MSDA_SIMT_ERROR(cudaErrorStreamCaptureIsolation,
                    "dependency created on uncaptured work in another stream"),
    MSDA_SIMT_ERROR(cudaErrorStreamCaptureImplicit,
                    "operation would make the legacy stream depend on a capturing blocking stream"),
    MSDA_SIMT_ERROR(cudaErrorCapturedEvent,
                    "operation not permitted on an event last recorded in a capturing stream"),
    MSDA_SIMT_ERROR(cudaErrorStreamCaptureWrongThread,
                    "attempt to terminate a thread-local capture sequence from another thread"),
    MSDA_SIMT_ERROR(cudaErrorInvalidClusterSize, "cluster misconfiguration"),
    MSDA_SIMT_ERROR(cudaErrorExternalDevice, "external device has caused an error"),
    MSDA_SIMT_ERROR(cudaErrorContained, "invalid memory access, contained to the process"),
    MSDA_SIMT_ERROR(cudaErrorUnknown, "unknown error"),
};

constexpr ErrorText kDriverErrors[] = {
    MSDA_SIMT_ERROR(CUDA_SUCCESS, "no error"),
    MSDA_SIMT_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    MSDA_SIMT_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    MSDA_SIMT_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    MSDA_SIMT_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    MSDA_SIMT_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    MSDA_SIMT_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    MSDA_SIMT_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
};
#undef MSDA_SIMT_ERROR

template <std::size_t kCount>
const ErrorText* find(const ErrorText (&errors)[kCount], int error) {
  for (ErrorText const& known : errors) {
    if (known.error == error) return &known;
  }
  return nullptr;
}

constexpr const char* kNone = "unrecognized error code";

CUresult driver_text(CUresult error, const char** text, bool is_name) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* const known = find(kDriverErrors, error);
  *text = known == nullptr ? nullptr : is_name ? known->name : known->text;
  return known == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace
}  // namespace simt::cuda

using namespace simt::cuda;

const char* cudaGetErrorName(cudaError_t error) {
  const auto* const known = find(kErrors, error);
  return known == nullptr ? kNone : known->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* const known = find(kErrors, error);
  return known == nullptr ? kNone : known->text;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  return driver_text(error, text, true);
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  return driver_text(error, text, false);
}
