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

// Of a value, sign-extended; of a pointer its address; of a text its index in text_values().
using Rule = std::function<Verdict(std::int64_t)>;
using Rules = std::map<std::string, Rule>;

// Texts that a `const char*` field is set to; the first stands for NULL.
inline constexpr const char* kTextValues[] = {nullptr,       "",         "ref.cpu@1",
                                              "ref.cpu@999", "nonsense", "%s%n"};
inline constexpr std::int64_t kRightText = 2;

Rules handle_options_rules();
// Of the sampled float32 forward problem that the tests start from.
Rules problem_rules();
// Of options that force ref.cpu@1, which needs this much workspace.
Rules plan_options_rules(std::size_t workspace_bytes);
// Structs that the library fills: it looks at their size alone.
Rules plan_info_rules();
Rules kernel_info_rules();
enum class TensorsOf { kForward, kBackward, kFused };
Rules tensors_rules(TensorsOf call, std::size_t workspace_bytes);

}  // namespace msda::test
