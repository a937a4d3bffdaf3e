/**
 * @file split_call.h
 * Runs a problem on the tensors of a call, on the host's threads or its CUDA stream.
 */
#ifndef MSDA_PLUGINS_ONNXRUNTIME_SPLIT_CALL_H_
#define MSDA_PLUGINS_ONNXRUNTIME_SPLIT_CALL_H_

#include <memory>

#include "common/plan_cache.h"
#include "forms.h"

namespace msda::ort {

/**
 * On the CPU: the queries are split over the session's threads. Each part is a problem of one
 * thread, with the kernel that the whole problem has, so an output has the bits that msda_execute()
 * gives for the whole.
 */
void run_on_cpu(const OrtApi& api, const OrtKernelContext* context, const Inputs& inputs,
                const OwnedProblem& owned, void* output);

/** On a CUDA device: on the stream of the call. Returns the plan, for a graph that captures the
 * call. */
std::shared_ptr<const plugins::Prepared> run_on_cuda(const OrtApi& api,
                                                     const OrtKernelContext* context,
                                                     const Inputs& inputs,
                                                     const OwnedProblem& owned, void* output);

}  // namespace msda::ort

#endif  // MSDA_PLUGINS_ONNXRUNTIME_SPLIT_CALL_H_
