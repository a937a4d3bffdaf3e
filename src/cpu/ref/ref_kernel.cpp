#include "cpu/ref/ref_kernel.h"

#include "core/dtype.h"
#include "core/tensor_sizes.h"
#include "cpu/ref/ref_points.h"
#include "cpu/zero_results.h"

#include <algorithm>

namespace msda::ref {
namespace {

void store_optional(msda_dtype dtype, void* array, std::int64_t index, double value) {
  if (array != nullptr) store_element(dtype, array, index, value);
}

// One chunk's row of scratch, and the loads and stores that depend on the problem.
class Worker {
 public:
  Worker(Problem const& problem, Call const& call, double* row)
      : problem_(problem),
        call_(call),
        points_{row, row + problem.point_total, row + 2 * problem.point_total},
        vector_(row + 3 * problem.point_total),
        weight_grad_(vector_ + problem.head_dim) {}

  // Reads the points of a row, which forward() and store_attention() are about.
  void read(std::int64_t b, std::int64_t q, std::int64_t m) {
    read_points(problem_, call_, b, q, m, points_);
  }

  void forward(std::int64_t b, std::int64_t q, std::int64_t m) {
    std::fill_n(vector_, problem_.head_dim, 0.0);
    for (Level const& level : problem_.levels) {
      for (std::int64_t k = level.point_start; k < level.point_start + level.point_count; ++k) {
        Corners const corners = locate(problem_, level, points_.x[k], points_.y[k]);
        if (!corners.finite) continue;
        for (std::int64_t d = 0; d < problem_.head_dim; ++d) {
          double sample = 0;
          for (int i = 0; i < 4; ++i) {
            // Outside corners are zero, not zero times what lies there.
            if (corners.token[i] < 0) continue;
            sample += corners.weight[i] * value_at(b, corners.token[i], m, d);
          }
          vector_[d] += points_.weight[k] * sample;
        }
      }
    }
    for (std::int64_t d = 0; d < problem_.head_dim; ++d) {
      store_element(problem_.output_dtype, call_[Tensor::kOutput], problem_.output.at(b, q, m) + d,
                    vector_[d]);
    }
  }

  void store_attention(std::int64_t b, std::int64_t q, std::int64_t m) {
    std::int64_t const K = problem_.point_total;
    std::int64_t const row = ((b * problem_.query_count + q) * problem_.head_count + m) * K;
    for (std::int64_t k = 0; k < K; ++k) {
      store_element(problem_.weight_dtype, call_[Tensor::kAttention], row + k, points_.weight[k]);
    }
  }

  // Gradients that stay within one query: of coord and weight, or of reference, offset and logit.
  void backward_points(std::int64_t b, std::int64_t q, double* reference_grad) {
    std::int64_t const count =
        static_cast<std::int64_t>(problem_.levels.size()) * problem_.reference_dim;
    std::fill_n(reference_grad, count, 0.0);
    for (std::int64_t m = 0; m < problem_.head_count; ++m) head_backward(b, q, m, reference_grad);
    for (std::int64_t i = 0; i < count; ++i) {
      store_optional(problem_.reference_dtype, call_[Tensor::kGradReference],
                     (b * problem_.query_count + q) * count + i, reference_grad[i]);
    }
  }

  // Adds one query's part to the gradient of value of one head, [S][D].
  void backward_value(std::int64_t b, std::int64_t q, std::int64_t m, double* head_grad) {
    std::int64_t const D = problem_.head_dim;
    double const scale = call_.scale_of(m);
    read_points(problem_, call_, b, q, m, points_);
    read_grad_output(b, q, m);
    for (Level const& level : problem_.levels) {
      for (std::int64_t k = level.point_start; k < level.point_start + level.point_count; ++k) {
        Corners const corners = locate(problem_, level, points_.x[k], points_.y[k]);
        for (int i = 0; i < 4; ++i) {
          if (corners.token[i] < 0) continue;
          double const factor = points_.weight[k] * corners.weight[i] * scale;
          for (std::int64_t d = 0; d < D; ++d) {
            head_grad[corners.token[i] * D + d] += factor * vector_[d];
          }
        }
      }
    }
  }

 private:
  double value_at(std::int64_t b, std::int64_t token, std::int64_t m, std::int64_t d) const {
    if (token < 0) return 0;
    double const scale = call_.scale_of(m);
    return scale * load_element(problem_.value_dtype, call_[Tensor::kValue],
                                problem_.value.at(b, token, m) + d);
  }
  void read_grad_output(std::int64_t b, std::int64_t q, std::int64_t m) {
    for (std::int64_t d = 0; d < problem_.head_dim; ++d) {
      vector_[d] = load_element(problem_.output_dtype, call_[Tensor::kGradOutput],
                                problem_.output.at(b, q, m) + d);
    }
  }

  struct PointGrad {
    double x, y, weight;
  };
  PointGrad point_grad(Level const& level, std::int64_t b, std::int64_t m, std::int64_t k) const {
    Corners const corners = locate(problem_, level, points_.x[k], points_.y[k]);
    PointGrad grad{0, 0, 0};
    if (!corners.any_inside) return grad;
    for (std::int64_t d = 0; d < problem_.head_dim; ++d) {
      double v[4];
      double sample = 0;
      for (int i = 0; i < 4; ++i) {
        v[i] = value_at(b, corners.token[i], m, d);
        if (corners.token[i] >= 0) sample += corners.weight[i] * v[i];
      }
      double const by_fx = (1 - corners.fy) * (v[1] - v[0]) + corners.fy * (v[3] - v[2]);
      double const by_fy = (1 - corners.fx) * (v[2] - v[0]) + corners.fx * (v[3] - v[1]);
      grad.x += vector_[d] * by_fx;
      grad.y += vector_[d] * by_fy;
      grad.weight += vector_[d] * sample;
    }
    if (problem_.nearest()) return {0, 0, grad.weight};
    grad.x *= points_.weight[k] * static_cast<double>(level.width);
    grad.y *= points_.weight[k] * static_cast<double>(level.height);
    return grad;
  }

  void store_fused(std::int64_t l, std::int64_t k, std::int64_t row, std::int64_t reference_row,
                   PointGrad const& grad, double* reference_grad) {
    Level const& level = problem_.levels[static_cast<std::size_t>(l)];
    std::int64_t const R = problem_.reference_dim;
    // d coord / d offset, by axis.
    double scale[2] = {1 / static_cast<double>(level.width), 1 / static_cast<double>(level.height)};
    double* const sum = reference_grad + l * R;
    if (R == 4) {
      for (int i = 0; i < 2; ++i) {
        double const size = load_element(problem_.reference_dtype, call_[Tensor::kReference],
                                         (reference_row + l) * R + 2 + i);
        double const per_point = 0.5 / static_cast<double>(level.point_count);
        double const offset =
            load_element(problem_.coord_dtype, call_[Tensor::kOffset], row + 2 * k + i);
        scale[i] = size * per_point;
        double const coord_grad = i == 0 ? grad.x : grad.y;
        if (coord_grad != 0) sum[2 + i] += coord_grad * offset * per_point;
      }
    }
    sum[0] += grad.x;
    sum[1] += grad.y;
    // A zero gradient stays zero where the map is empty and the scale infinite.
    points_.x[k] = grad.x == 0 ? 0 : grad.x * scale[0];
    points_.y[k] = grad.y == 0 ? 0 : grad.y * scale[1];
  }

  // The softmax's own derivative: w_k (g_k - sum_j w_j g_j).
  void store_logit_grad(std::int64_t to) {
    double mean = 0;
    for (std::int64_t k = 0; k < problem_.point_total; ++k)
      mean += points_.weight[k] * weight_grad_[k];
    for (std::int64_t k = 0; k < problem_.point_total; ++k) {
      store_optional(problem_.weight_dtype, call_[Tensor::kGradLogit], to + k,
                     points_.weight[k] * (weight_grad_[k] - mean));
    }
  }

  void head_backward(std::int64_t b, std::int64_t q, std::int64_t m, double* reference_grad) {
    std::int64_t const to_coord = problem_.grad_coord.at(b, q, m);
    std::int64_t const to_weight = problem_.grad_weight.at(b, q, m);
    std::int64_t const coord_row = problem_.coord.at(b, q, m);
    auto const level_count = static_cast<std::int64_t>(problem_.levels.size());
    std::int64_t const reference_row = (b * problem_.query_count + q) * level_count;
    read_points(problem_, call_, b, q, m, points_);
    read_grad_output(b, q, m);
    void* const coord_out = call_[problem_.fused() ? Tensor::kGradOffset : Tensor::kGradCoord];
    for (std::int64_t l = 0; l < level_count; ++l) {
      Level const& level = problem_.levels[static_cast<std::size_t>(l)];
      for (std::int64_t k = level.point_start; k < level.point_start + level.point_count; ++k) {
        PointGrad const grad = point_grad(level, b, m, k);
        weight_grad_[k] = grad.weight;
        points_.x[k] = grad.x;
        points_.y[k] = grad.y;
        if (problem_.fused()) store_fused(l, k, coord_row, reference_row, grad, reference_grad);
        store_optional(problem_.coord_dtype, coord_out, to_coord + 2 * k, points_.x[k]);
        store_optional(problem_.coord_dtype, coord_out, to_coord + 2 * k + 1, points_.y[k]);
        if (problem_.fused()) continue;
        store_optional(problem_.weight_dtype, call_[Tensor::kGradWeight], to_weight + k,
                       grad.weight);
      }
    }
    if (problem_.fused()) store_logit_grad(to_weight);
  }

  Problem const& problem_;
  Call const& call_;
  Points points_;
  double* vector_;       // [D]: output or grad_output of one row
  double* weight_grad_;  // [K]
};

template <typename Item>
void for_items(std::int64_t count, Scratch const& scratch, ThreadPool& pool, Item item) {
  std::int64_t const chunks = std::min(count, scratch.chunk_count);
  if (chunks == 0) return;
  std::int64_t const share = count / chunks, extra = count % chunks;
  auto chunk = [&](std::int64_t i) {
    double* const row = scratch.rows + i * scratch.row_size;
    std::int64_t const begin = i * share + std::min(i, extra);
    std::int64_t const end = begin + share + (i < extra ? 1 : 0);
    for (std::int64_t j = begin; j < end; ++j) item(j, row);
  };
  pool.run(chunks, chunk);
}

void backward_value(Problem const& problem, Call const& call, Scratch const& scratch,
                    ThreadPool& pool) {
  if (tensor_is_empty(problem, Tensor::kGradValue)) return;
  std::int64_t const S = problem.token_count, M = problem.head_count, D = problem.head_dim;
  // A head of a batch item is summed by one thread in the order of the queries: the same bits every
  // run.
  for_items(problem.batch * M, scratch, pool, [&](std::int64_t item, double* row) {
    std::int64_t const b = item / M, m = item % M;
    double* const head_grad = scratch.grad_value + item * S * D;
    std::fill_n(head_grad, S * D, 0.0);
    Worker worker(problem, call, row);
    for (std::int64_t q = 0; q < problem.query_count; ++q) {
      worker.backward_value(b, q, m, head_grad);
    }
    for (std::int64_t s = 0; s < S; ++s) {
      for (std::int64_t d = 0; d < D; ++d) {
        store_element(problem.grad_value_dtype, call[Tensor::kGradValue],
                      ((b * S + s) * M + m) * D + d, head_grad[s * D + d]);
      }
    }
  });
}

}  // namespace

Scratch take_scratch(Problem const& problem, Arena& arena) {
  Scratch scratch;
  bool const has_rows =
      problem.has_points() || (!problem.backward() && !tensor_is_empty(problem, Tensor::kOutput));
  if (!has_rows) return scratch;
  std::int64_t const rows = problem.batch * problem.query_count * problem.head_count;
  std::int64_t const heads = problem.batch * problem.head_count;
  scratch.chunk_count = std::min(rows, kLargestChunkCount);
  scratch.row_size = 4 * problem.point_total + problem.head_dim +
                     static_cast<std::int64_t>(problem.levels.size()) * problem.reference_dim;
  scratch.rows =
      arena.take<double>(static_cast<std::size_t>(scratch.chunk_count * scratch.row_size));
  if (problem.backward()) {
    scratch.grad_value = arena.take<double>(
        static_cast<std::size_t>(heads * problem.token_count * problem.head_dim));
  }
  return scratch;
}

void run_forward(Problem const& problem, Call const& call, Scratch const& scratch,
                 ThreadPool& pool) {
  std::int64_t const Q = problem.query_count, M = problem.head_count;
  bool const has_output = !tensor_is_empty(problem, Tensor::kOutput);
  bool const has_attention =
      problem.fused() && problem.has_points() && call[Tensor::kAttention] != nullptr;
  if (!has_output && !has_attention) return;
  for_items(problem.batch * Q * M, scratch, pool, [&](std::int64_t item, double* row) {
    Worker worker(problem, call, row);
    std::int64_t const b = item / M / Q, q = item / M % Q, m = item % M;
    worker.read(b, q, m);
    if (has_output) worker.forward(b, q, m);
    if (has_attention) worker.store_attention(b, q, m);
  });
}

void run_backward(Problem const& problem, Call const& call, Scratch const& scratch,
                  ThreadPool& pool) {
  if (!problem.has_points()) return zero_results(problem, call);
  std::int64_t const Q = problem.query_count;
  if (call[Tensor::kGradValue] != nullptr) backward_value(problem, call, scratch, pool);
  if (!call.wants_points()) return;
  for_items(problem.batch * Q, scratch, pool, [&](std::int64_t item, double* row) {
    double* const reference_grad = row + 4 * problem.point_total + problem.head_dim;
    Worker(problem, call, row).backward_points(item / Q, item % Q, reference_grad);
  });
}

}  // namespace msda::ref
