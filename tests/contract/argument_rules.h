// For every field of every struct of the header: what the library must answer to a value of it. The
// fields come from tests/abi/abi.json, which is generated from the header; a field without a rule
// here fails the test that walks them.
#pragma once

#include <msda.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace msda::test {

struct Verdict {
  msda_status status;
  // A word of the message; "": the field's own name.
  std::string names = "";
};

// A rule gets a value, sign-extended, a pointer's address, or a text's index in text_values().
using Rule = std::function<Verdict(std::int64_t)>;
using Rules = std::map<std::string, Rule>;

// Texts that a `const char*` field is set to; the first stands for NULL.
inline constexpr const char* kTextValues[] = {
    nullptr, "", "ref.cpu@1", "ref.cpu@999", "nonsense", "%s%n", "direct.sm75.f32.dany.pany@3"};
// Indices of the kernels that take every float32 problem on the CPU and on a GPU.
inline constexpr std::int64_t kCpuText = 2;
inline constexpr std::int64_t kGpuText = 6;

Rules handle_options_rules();
// Rules of the sampled float32 forward problem that the tests start from.
Rules problem_rules();
// Options that force kTextValues[right_text], which needs this much workspace, on the CPU or on
// a GPU.
Rules plan_options_rules(std::int64_t right_text, std::size_t workspace_bytes);
// Options for tuning, where there is a kernel that needs no workspace.
Rules tuning_options_rules(std::int64_t right_text);
// Structs that the library fills: it looks at their size alone.
Rules plan_info_rules();
Rules kernel_info_rules();
enum class TensorsOf { kForward, kFusedForward, kBackward, kFusedBackward };
// A call that needs so much workspace; elements of grad_value have so many bytes.
Rules tensors_rules(TensorsOf call, std::size_t workspace_bytes, std::int64_t grad_value_bytes);
// A sample to tune a forward problem with, where there is a kernel that needs no workspace.
// Kernels that need more than the sample has are left out; without one, no number of bytes may be
// given.
Rules sample_rules(bool has_workspace);

}  // namespace msda::test
