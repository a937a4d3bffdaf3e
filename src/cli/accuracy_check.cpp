#include "cli/accuracy_check.h"

#include "cli/random_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace msda::cli {
namespace {

constexpr const char* kReferenceKernel = "ref.cpu@1";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The reference's results in float64, not rounded to the types of the problem.
std::vector<NamedArray> run_reference(Case const& input, std::int32_t thread_count) {
  ProblemSpec spec = input.spec;
  spec.output_dtype = spec.backward() ? spec.output_dtype : MSDA_F64;
  spec.grad_value_dtype = MSDA_F64;
  Runner runner(Engine(MSDA_DEVICE_CPU, thread_count), spec, kReferenceKernel);
  auto results = make_results(spec, {});
  runner.bind(input, results);
  runner.execute();
  return results;
}

// The case with |value|, |weight| and |scale|: its output is sum |w c v|. Logits stay: what the
// softmax makes of them is positive.
Case absolute(Case const& input) {
  Case result = input;
  for (const char* const name : {"value", "weight", "value_scale"}) {
    auto const found = result.arrays.find(name);
    if (found == result.arrays.end()) continue;
    std::size_t const step = type_bytes(found->second.type);
    auto& bytes = found->second.bytes;  // little endian: the sign is the top bit of the last byte
    for (std::size_t i = step - 1; i < bytes.size(); i += step) bytes[i] &= std::byte{0x7F};
  }
  return result;
}

// Per [B][L][M][D]: the largest difference of neighbouring pixels, times 4 max(W, H). Outside
// counts as zero, as it does for a sample that straddles the map's edge.
std::vector<double> coordinate_terms(Case const& input) {
  ProblemSpec const& spec = input.spec;
  std::vector<double> value = input.find("value")->decode();
  std::int64_t const row = spec.head_count * spec.head_dim;
  if (Array const* const scale = input.find("value_scale"); scale != nullptr) {
    std::vector<double> const factors = scale->decode();
    for (std::size_t i = 0; i < value.size(); ++i) {
      value[i] *= factors[i / static_cast<std::size_t>(spec.head_dim) % factors.size()];
    }
  }
  std::vector<double> terms(static_cast<std::size_t>(spec.batch * spec.level_count() * row));
  std::int64_t const border = spec.value_border;
  for (std::int64_t b = 0; b < spec.batch; ++b) {
    std::int64_t level_token = b * spec.token_count();
    for (std::int64_t l = 0; l < spec.level_count(); ++l) {
      std::int64_t const height = spec.level_hw[static_cast<std::size_t>(2 * l)];
      std::int64_t const width = spec.level_hw[static_cast<std::size_t>(2 * l + 1)];
      std::int64_t const row_tokens = width + 2 * border;
      double* const term = &terms[static_cast<std::size_t>((b * spec.level_count() + l) * row)];
      auto const pixel = [&](std::int64_t y, std::int64_t x, std::int64_t channel) {
        if (y < 0 || x < 0 || y >= height || x >= width) return 0.0;
        std::int64_t const token = level_token + (y + border) * row_tokens + x + border;
        return value[static_cast<std::size_t>(token * row + channel)];
      };
      for (std::int64_t y = -1; y < height; ++y) {
        for (std::int64_t x = -1; x < width; ++x) {
          for (std::int64_t i = 0; i < row; ++i) {
            double const here = pixel(y, x, i);
            double const difference = std::max(std::fabs(here - pixel(y, x + 1, i)),
                                               std::fabs(here - pixel(y + 1, x, i)));
            // NaN and infinity have no distance; std::max keeps the finite one.
            if (std::isfinite(difference)) term[i] = std::max(term[i], difference);
          }
        }
      }
      for (std::int64_t i = 0; i < row; ++i) {
        term[i] *= 4.0 * static_cast<double>(std::max(height, width));
      }
      level_token += (height + 2 * border) * row_tokens;
    }
  }
  return terms;
}

// Per [B][Q][M][L]: sum of |w| over the level's points, after the softmax of fused input.
std::vector<double> weight_sums(Case const& input) {
  ProblemSpec const& spec = input.spec;
  std::vector<double> const weight = input.find(spec.fused() ? "logit" : "weight")->decode();
  auto const points = static_cast<std::size_t>(spec.point_total());
  auto const levels = static_cast<std::size_t>(spec.level_count());
  std::size_t const rows = points == 0 ? 0 : weight.size() / points;
  std::vector<double> sums(rows * levels);
  for (std::size_t row = 0; row < rows; ++row) {
    double const* const in = &weight[row * points];
    double const largest = *std::max_element(in, in + points);
    double total = spec.fused() ? 0 : 1;
    for (std::size_t k = 0; k < points && spec.fused(); ++k) total += std::exp(in[k] - largest);
    std::size_t k = 0;
    for (std::size_t l = 0; l < levels; ++l) {
      for (std::int32_t p = 0; p < spec.point_counts[l]; ++p, ++k) {
        double const w = spec.fused() ? std::exp(in[k] - largest) / total : std::fabs(in[k]);
        if (std::isfinite(w)) sums[row * levels + l] += w;
      }
    }
  }
  return sums;
}

// What MSDA_MATH_FAST may add to an element's bound for products too small for float16, as
// include/msda.h has it.
double tiny_products(Case const& input) {
  auto const largest_of = [&](const char* name) {
    double largest = 0;
    for (double const x : input.find(name)->decode()) {
      if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
    }
    return largest;
  };
  double const scale = input.find("value_scale") == nullptr ? 1.0 : largest_of("value_scale");
  return static_cast<double>(input.spec.point_total()) * 0x1p-22 * scale *
         (1 + largest_of("value"));
}

void compare(double result, double reference, msda_dtype type, double bound, Accuracy& accuracy) {
  bool const is_same =
      result == round_to_type(type, reference) || (std::isnan(result) && std::isnan(reference));
  double const error = std::fabs(result - reference);
  if (std::isfinite(error)) {
    accuracy.max_error = std::max(accuracy.max_error, error);
  } else if (!is_same) {
    accuracy.max_error = kInfinity;
  }
  double const share = is_same ? 0 : error / bound;
  accuracy.max_bound_share =
      std::max(accuracy.max_bound_share, std::isnan(share) ? kInfinity : share);
  ++accuracy.value_count;
}

Accuracy check_forward(Case const& input, Array const& output, std::int32_t thread_count) {
  Accuracy accuracy;
  if (output.element_count() == 0) return accuracy;
  ProblemSpec const& spec = input.spec;
  std::vector<double> const result = output.decode();
  std::vector<double> const reference = run_reference(input, thread_count)[0].second.decode();
  std::vector<double> const sum = run_reference(absolute(input), thread_count)[0].second.decode();
  std::vector<double> const terms = coordinate_terms(input);
  std::vector<double> const weights = weight_sums(input);
  double const u = unit_roundoff(spec.value_dtype == MSDA_F64 ? MSDA_F64 : MSDA_F32);
  double const products = 4.0 * static_cast<double>(spec.point_total()) + 8.0;
  bool const in_halves = spec.math_mode == MSDA_MATH_FAST &&
                         (spec.value_dtype == MSDA_F16 || spec.value_dtype == MSDA_F8_E4M3);
  double const tiny = in_halves ? tiny_products(input) : 0;
  auto const levels = static_cast<std::size_t>(weights.empty() ? 0 : spec.level_count());
  auto const heads = static_cast<std::size_t>(spec.head_count);
  auto const channels = static_cast<std::size_t>(spec.head_dim);
  auto const item_rows = static_cast<std::size_t>(spec.query_count) * heads;
  for (std::size_t row = 0; row < result.size() / channels; ++row) {  // of [B][Q][M]
    std::size_t const first_term = row / item_rows * static_cast<std::size_t>(spec.level_count());
    for (std::size_t d = 0; d < channels; ++d) {
      double coordinates = 0, steps = 0;
      for (std::size_t l = 0; l < levels; ++l) {
        double const term = weights[row * levels + l] *
                            terms[((first_term + l) * heads + row % heads) * channels + d];
        coordinates += term;
        steps += term / (4.0 * std::max({spec.level_hw[2 * l], spec.level_hw[2 * l + 1], 1}));
      }
      std::size_t const i = row * channels + d;
      double const bound = u * (products * sum[i] + coordinates) +
                           (in_halves ? 0x1p-11 * (12 * sum[i] + 8 * steps) + tiny : 0) +
                           half_ulp(output.type, reference[i]);
      compare(result[i], reference[i], output.type, bound, accuracy);
    }
  }
  return accuracy;
}

Accuracy check_gradient(Array const& gradient, Array const& expected, bool is_f64) {
  Accuracy accuracy;
  std::vector<double> const result = gradient.decode();
  std::vector<double> const reference = expected.decode();
  double largest = 0;
  for (double const value : reference) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  double const tolerance = (is_f64 ? 1e-13 : 1e-5) * largest;
  for (std::size_t i = 0; i < result.size(); ++i) {
    // Both sides may have been rounded to the type.
    double const bound = tolerance + 2 * half_ulp(gradient.type, reference[i]);
    compare(result[i], reference[i], gradient.type, bound, accuracy);
  }
  return accuracy;
}

// `count` of 0 .. limit - 1 in ascending order, the first and last of them always.
std::vector<std::int64_t> choose(std::int64_t limit, std::int64_t count, std::uint64_t seed) {
  std::set<std::int64_t> chosen;
  if (limit > 0) chosen = {0, limit - 1};
  RandomNumbers random(seed);
  while (static_cast<std::int64_t>(chosen.size()) < std::min(limit, count)) {
    chosen.insert(static_cast<std::int64_t>(random.uniform() * static_cast<double>(limit)));
  }
  return {chosen.begin(), chosen.end()};
}

// Copies whole rows of [B][Q].. or items of [B]..
Array gather(Array const& full, std::vector<std::int64_t> const& items,
             std::vector<std::int64_t> const* queries) {
  if (full.bytes.empty()) return full;
  Shape shape = full.shape;
  shape[0] = static_cast<std::int64_t>(items.size());
  if (queries != nullptr) shape[1] = static_cast<std::int64_t>(queries->size());
  Array part(full.type, shape);
  std::size_t const item_bytes = full.bytes.size() / static_cast<std::size_t>(full.shape[0]);
  std::size_t const row_bytes =
      queries == nullptr ? item_bytes : item_bytes / static_cast<std::size_t>(full.shape[1]);
  std::vector<std::int64_t> const whole = {0};
  auto out = part.bytes.begin();
  for (std::int64_t const item : items) {
    for (std::int64_t const row : queries == nullptr ? whole : *queries) {
      auto const begin = full.bytes.begin() +
                         static_cast<std::ptrdiff_t>(static_cast<std::size_t>(item) * item_bytes +
                                                     static_cast<std::size_t>(row) * row_bytes);
      out = std::copy(begin, begin + static_cast<std::ptrdiff_t>(row_bytes), out);
    }
  }
  return part;
}

}  // namespace

void Accuracy::merge(Accuracy const& other) {
  value_count += other.value_count;
  max_error = std::max(max_error, other.max_error);
  max_bound_share = std::max(max_bound_share, other.max_bound_share);
}

Accuracy check_accuracy(Case const& input, std::vector<NamedArray> const& results,
                        std::int32_t thread_count) {
  if (!input.spec.backward()) return check_forward(input, results[0].second, thread_count);
  Accuracy accuracy;
  auto const reference = run_reference(input, thread_count);
  for (auto const& [name, gradient] : results) {
    for (auto const& [reference_name, expected] : reference) {
      if (name != reference_name) continue;
      accuracy.merge(check_gradient(gradient, expected, input.spec.value_dtype == MSDA_F64));
    }
  }
  return accuracy;
}

Subset take_subset(Case const& input, std::int64_t query_count, std::uint64_t seed) {
  Subset subset;
  ProblemSpec const& full = input.spec;
  subset.batch_items = choose(full.batch, 2, seed);
  subset.queries = choose(full.query_count, query_count, seed);
  subset.input.spec = full;
  subset.input.spec.query_hw.clear();
  subset.input.spec.batch = static_cast<std::int64_t>(subset.batch_items.size());
  subset.input.spec.query_count = static_cast<std::int64_t>(subset.queries.size());
  for (TensorRow const& row : tensor_table()) {
    Array const* const array = input.find(row.name);
    if (array == nullptr) continue;
    bool const has_queries = row.axes.starts_with("BQ");
    subset.input.arrays.emplace(
        row.name, row.axes.starts_with("B")
                      ? gather(*array, subset.batch_items, has_queries ? &subset.queries : nullptr)
                      : *array);
  }
  return subset;
}

Accuracy check_subset(Case const& input, std::vector<NamedArray> const& results,
                      Engine const& engine, std::string const& kernel_id, Subset const& subset,
                      std::int32_t thread_count) {
  if (!input.spec.backward()) {
    Array const rows = gather(results[0].second, subset.batch_items, &subset.queries);
    return check_forward(subset.input, rows, thread_count);
  }
  Runner runner(engine, subset.input.spec, kernel_id);
  auto part = make_results(subset.input.spec, {});
  runner.bind(subset.input, part);
  runner.execute();
  runner.fetch();
  return check_accuracy(subset.input, part, thread_count);
}

}  // namespace msda::cli
