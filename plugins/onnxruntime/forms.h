/**
 * @file forms.h
 * The operator under the names that models have for it: what their inputs are, and how they become
 * a problem of the library.
 *
 * Letters as in msda.h: B batch, S tokens, M heads, D channels of a head, Q queries, L levels, K
 * points of all levels, R = 2 or 4.
 */
#ifndef MSDA_PLUGINS_ONNXRUNTIME_FORMS_H_
#define MSDA_PLUGINS_ONNXRUNTIME_FORMS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "host.h"

namespace msda::ort {

/** What an input is. */
enum class Role {
  kValue,
  kLevels,
  kStarts,
  kCoord,
  kWeight,
  kReference,
  kOffset,
  kLogit,
  kScale,
  kFifth
};

/** One name of the operator. The output is [B, Q, M, D], or [B, Q, M D] where heads are merged. */
struct Form {
  const char* name;
  std::vector<const char*> domains;
  std::vector<Role> inputs;
  std::size_t needed_count;  // inputs after these may be left out
  bool merges_heads;
  bool runs_on_cuda;
};

const std::vector<Form>& forms();

/** What the node's attributes say. */
struct Attributes {
  std::vector<std::int32_t> points;  // of each level; empty: as many on every level
  msda_math_mode math_mode = MSDA_MATH_ACCURATE;
  msda_point_locality point_locality = MSDA_POINTS_UNKNOWN;
  msda_sampling_mode sampling_mode = MSDA_SAMPLING_BILINEAR;
};

/** The inputs of one call, each at its role. */
struct Inputs {
  Tensor value, levels, starts, coord, weight, reference, offset, logit, scale;
  bool is_fused = false;  // reference, offset and logit instead of coord and weight
  bool is_grouped =
      false;  // reference is [B, Q, 1, 2 G]: point p of each level is at reference p % G
};

/** Puts tensors to their roles. Throws std::invalid_argument where one is missing. */
Inputs sort_inputs(const Form& form, const std::vector<Tensor>& given);

/** A problem with what its pointers point to. */
struct OwnedProblem {
  std::vector<std::int32_t> level_hw;
  std::vector<std::int64_t> level_start;
  msda_problem problem = make<msda_problem>();

  OwnedProblem() = default;
  OwnedProblem(const OwnedProblem&) = delete;
  OwnedProblem& operator=(const OwnedProblem&) = delete;
};

/** Reads levels and shapes, each checked. Throws std::invalid_argument with the input's name, what
 * it is and what it must be. */
void read_problem(const Inputs& inputs, const Attributes& attributes, OwnedProblem& out);

/** The output's dimensions with their names. Those that are not known are -1. */
Tensor output_of(const Form& form, const Inputs& inputs);

}  // namespace msda::ort

#endif  // MSDA_PLUGINS_ONNXRUNTIME_FORMS_H_
