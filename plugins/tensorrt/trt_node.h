/**
 * @file trt_node.h
 * The two nodes of the operator: their inputs and attributes, and the problem that they are.
 *
 * Letters as in msda.h.
 */
#ifndef MSDA_PLUGINS_TENSORRT_TRT_NODE_H_
#define MSDA_PLUGINS_TENSORRT_TRT_NODE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trt_host.h"

namespace msda::trt {

/** A node. Its inputs are those that lie on the device, in their order: level_hw is not among them.
 */
struct Form {
  const char* name;
  std::vector<const char*> inputs;

  bool is_fused() const { return inputs.size() == 4; }
  /** The input with the queries and points: coord, or offset. */
  std::size_t points() const { return inputs.size() - 2; }
};

const std::array<Form, 2>& forms();

/** What the attributes say. */
struct Settings {
  std::vector<std::int32_t> points;  // of each level; empty: as many on every level
  std::int32_t math_mode = MSDA_MATH_ACCURATE;
  std::int32_t point_locality = MSDA_POINTS_UNKNOWN;
  std::int32_t sampling_mode = MSDA_SAMPLING_BILINEAR;
};

/**
 * The height and width of each level, once they are known. A plugin shares it with its clones:
 * nothing says which of them TensorRT asks for the shapes of outputs, and which it serializes.
 */
class Levels {
 public:
  /** Throws where other sizes are known already. */
  void set(const std::vector<std::int32_t>& level_hw);
  /** Empty: not known yet. */
  std::vector<std::int32_t> get() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::int32_t> level_hw_;
};

/** The names and types of all attributes, for a creator. */
std::vector<nvinfer1::PluginField> field_names();

/** Reads attributes; those of other names are ignored. */
void read_fields(const nvinfer1::PluginFieldCollection& fields, Settings& settings, Levels& levels);

/** What read_fields() makes the same again of. The fields point into the arguments. */
std::vector<nvinfer1::PluginField> fields_of(const Settings& settings,
                                             const std::vector<std::int32_t>& level_hw);

/** The sizes of levels out of the values of a shape input. */
std::vector<std::int32_t> read_levels(const nvinfer1::DimsExprs& values);

/** The shapes of a node's inputs, in the order of the form, as a problem without its types.
 * Dimensions may be unknown. The problem points into the other arguments. */
msda_problem read_problem(const Form& form, const Settings& settings,
                          const std::vector<std::int32_t>& level_hw,
                          const std::vector<Tensor>& inputs);

}  // namespace msda::trt

#endif  // MSDA_PLUGINS_TENSORRT_TRT_NODE_H_
