// The sums of the backward computation, a window at a time: its values and their gradients lie
// together in float32, a head's channels in the lanes. Compiled once a target.

#include "cpu/simd/simd_backward.h"

#define HWY_DISABLED_TARGETS MSDA_SIMD_DISABLED_TARGETS
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/simd_band.cpp"
#include <hwy/foreach_target.h>
// After foreach_target:
#include "cpu/simd/simd_sums-inl.h"

#include "core/dtype.h"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
BandKernels band_kernels(Problem const&) { return {}; }
#else
// A batch of one window, whose `row` and `column` are those of the window.
struct WindowBatch : Batch {
  HWY_ALIGN Record records[kLanes] = {};
  Record* from[kLanes];                  // where they lie
  std::int64_t first_row[kLanes];        // query, of the record's chunk
  HWY_ALIGN std::int32_t pixel[kLanes];  // `row` and `column` as a number
  std::uintptr_t grad_output[kLanes];    // address of the query's channels
  std::uintptr_t value[4][kLanes];       // of the corners', where they are read in place
  // Pixels whose values have to be read before these sums.
  std::int64_t missing_count = 0;
  std::int64_t missing[4 * kLanes];
  std::uintptr_t missing_from[4 * kLanes];
};

HWY_INLINE void store_grad_value(HeadSource const& source, std::int64_t token, float* sum) {
  Problem const& problem = source.problem;
  if (source.scale != 1.0f) {
    // Sums that no point has added to stay zero, even times infinity.
    for (std::int64_t i = 0; i < problem.head_dim; ++i) {
      if (sum[i] != 0) sum[i] *= source.scale;
    }
  }
  store_row(sum, problem.head_dim, problem.grad_value_dtype, source.call[Tensor::kGradValue],
            source.grad_value + token * problem.head_count * problem.head_dim);
}

void pack_rows(HeadSource const& source, std::int64_t first, std::int64_t last,
               Windows const& windows, HeadScratch const& scratch) {
  Problem const& problem = source.problem;
  std::int64_t const D = problem.head_dim, padded = windows.padded_dim;
  std::int64_t const row_bytes = problem.output.row * dtype_bytes(problem.output_dtype);
  for (std::int64_t q = first; q < last; ++q) {
    float* const to = scratch.grad_output + q * padded;
    to_floats(problem.output_dtype,
              GradRows::grad_output_of(source) + static_cast<std::uintptr_t>(q * row_bytes), D, to);
    std::fill_n(to + D, padded - D, 0.0f);
  }
}

// The place from which values of a window's pixels are read: none, if no gradients of points are
// asked for; in a copy of those that points reach; or in the caller's array, which is faster where
// points are few.
enum class Values : std::uint8_t { kNone, kCopied, kInPlace };

// One band of a head. kVectors: of the channels; 0: any number.
template <int kVectors, bool kOfValue, Values kValues>
class BandSum {
 public:
  BandSum(HeadSource const& source, Windows const& windows, LevelWindows const& level,
          std::int64_t band, HeadScratch const& scratch, WindowScratch const& window)
      : source_(source),
        windows_(windows),
        place_(level),
        scratch_(scratch),
        window_scratch_(window),
        first_row_((band - level.first_band) * windows.side) {}

  void run() {
    std::int64_t const first_window =
        place_.first_window + first_row_ / windows_.side * place_.across;
    for (std::int64_t i = 0; i < place_.across; ++i) {
      first_column_ = i * windows_.side;
      columns_ = std::min(windows_.side, level_.width + 1 - first_column_);
      sum_window(first_window + i);
      if (kValues == Values::kCopied && i + 1 < place_.across)
        prefetch_window(first_window + i + 1);
      if constexpr (kOfValue) {
        store_window();
        carry_column();
      }
    }
    if constexpr (kOfValue) {
      for (std::int64_t r = 0; r <= rows_; ++r) zero(pixel_at(r, 0) + grad_at_);
      hwy::FlushStream();
    }
  }

 private:
  static constexpr bool kOfPoints = kValues != Values::kNone;
  static constexpr bool kInPlace = kValues == Values::kInPlace;
  static constexpr std::int64_t kPixelsAhead = 8;  // of those stored, beyond the row's end, too

  float* pixel_at(std::int64_t row, std::int64_t column) const {
    return window_ + (row * pitch_ + column) * pixel_floats_;
  }

  // ---- values in, gradients out

  bool is_inside(std::int64_t row, std::int64_t column) const {
    return row >= 1 && row <= level_.height && column >= 1 && column <= level_.width;
  }
  // Token of a pixel of the map with its border.
  std::int64_t token(std::int64_t row, std::int64_t column) const {
    return level_.origin + (row - 1) * level_.row_tokens + column - 1;
  }
  std::uintptr_t value_at(std::int64_t row, std::int64_t column) const {
    return values_ + static_cast<std::uintptr_t>(token(row, column) * value_row_bytes_);
  }

  // Into the second level: rows of pixels and of queries lie far apart and share a few sets of the
  // first.
  HWY_INLINE void prefetch_value(std::uintptr_t address) const {
    prefetch_lines<2>(address, D_ * value_bytes_);
  }
  HWY_INLINE void prefetch_pixel(std::int64_t row, std::int64_t column) const {
    if (is_inside(row, column)) prefetch_value(value_at(row, column));
  }

  // Asks for the values of the window on the right: of all pixels, or where points are few of
  // theirs. Inlined, for GCC drops a call of what only prefetches.
  HWY_INLINE void prefetch_window(std::int64_t window) const {
    std::int64_t const first = first_column_ + windows_.side;
    std::int64_t const columns = std::min(windows_.side, level_.width + 1 - first);
    std::int64_t count = 0;
    each_segment(window, [&](Record* begin, Record* end, std::int64_t) { count += end - begin; });
    if (count >= (rows_ + 1) * (columns + 1) / 2) {
      for (std::int64_t r = 0; r <= rows_; ++r) {
        for (std::int64_t c = 1; c <= columns; ++c) prefetch_pixel(first_row_ + r, first + c);
      }
      return;
    }
    each_segment(window, [&](Record* begin, Record* end, std::int64_t) {
      for (Record* record = begin; record < end; ++record) {
        auto const column = static_cast<std::int64_t>(record->x + 1.0f);
        auto const row = static_cast<std::int64_t>(record->y + 1.0f);
        prefetch_pixel(row, column);
        prefetch_pixel(row, column + 1);
        prefetch_pixel(row + 1, column);
        prefetch_pixel(row + 1, column + 1);
      }
    });
  }

  // Notes that the values of the four pixels of a cell are needed, and asks for their lines.
  HWY_INLINE void require(std::int64_t record, WindowBatch& batch) {
    std::int64_t const pixel = batch.pixel[record];
    std::int64_t const corner[4] = {pixel, pixel + 1, pixel + pitch_, pixel + pitch_ + 1};
    if (HWY_LIKELY((is_loaded_[corner[0]] & is_loaded_[corner[1]] & is_loaded_[corner[2]] &
                    is_loaded_[corner[3]]) != 0)) {
      return;
    }
    std::int64_t const r = batch.row[record], c = batch.column[record];
    for (int i = 0; i < 4; ++i) {
      if (is_loaded_[corner[i]] != 0) continue;
      is_loaded_[corner[i]] = 1;
      std::int64_t const row = first_row_ + r + i / 2, column = first_column_ + c + i % 2;
      if (!is_inside(row, column)) {
        std::fill_n(window_ + corner[i] * pixel_floats_, padded_, 0.0f);
        continue;
      }
      std::uintptr_t const from = value_at(row, column);
      prefetch_value(from);
      batch.missing[batch.missing_count] = corner[i];
      batch.missing_from[batch.missing_count++] = from;
    }
  }

  // Finds the values of the four pixels of a cell where the caller has them, and asks for their
  // lines.
  HWY_INLINE void find_values(std::int64_t record, WindowBatch& batch) const {
    std::int64_t const row = first_row_ + batch.row[record];
    std::int64_t const column = first_column_ + batch.column[record];
    if (HWY_LIKELY(is_inside(row, column) && is_inside(row + 1, column + 1))) {
      auto const right = static_cast<std::uintptr_t>(value_row_bytes_);
      auto const down = static_cast<std::uintptr_t>(level_.row_tokens) * right;
      std::uintptr_t const value = value_at(row, column);
      batch.value[0][record] = value;
      batch.value[1][record] = value + right;
      batch.value[2][record] = value + down;
      batch.value[3][record] = value + down + right;
    } else {
      for (int i = 0; i < 4; ++i) {
        bool const inside = is_inside(row + i / 2, column + i % 2);
        batch.value[i][record] = inside ? value_at(row + i / 2, column + i % 2) : zeros_;
      }
    }
    // A prefetch a vector, whose number is compiled in: with prefetch_value(), and an address by
    // products for each corner, dec takes 1.1 times as long.
    for (int i = 0; i < 4; ++i) {
      auto const* const value = reinterpret_cast<const float*>(batch.value[i][record]);
      for (std::int64_t v = 0; v < vectors(); ++v) __builtin_prefetch(value + v * kLanes, 0, 2);
    }
  }

  HWY_INLINE void load_missing(WindowBatch& batch) {
    const Floats d;
    for (std::int64_t i = 0; i < batch.missing_count; ++i) {
      float* const to = window_ + batch.missing[i] * pixel_floats_;
      if (HWY_LIKELY(windows_.takes_values)) {
        auto const* const from = reinterpret_cast<const float*>(batch.missing_from[i]);
        for (std::int64_t v = 0; v < vectors(); ++v) {
          hn::Store(hn::LoadU(d, from + v * kLanes), d, to + v * kLanes);
        }
      } else {
        to_floats(problem_.value_dtype, batch.missing_from[i], D_, to);
        std::fill_n(to + D_, padded_ - D_, 0.0f);
      }
    }
    batch.missing_count = 0;
  }

  HWY_INLINE std::int64_t vectors() const { return kVectors == 0 ? padded_ / kLanes : kVectors; }
  HWY_INLINE void zero(float* to) const {
    const Floats d;
    for (std::int64_t v = 0; v < vectors(); ++v) hn::Store(hn::Zero(d), d, to + v * kLanes);
  }

  // The pixels right of a window are the first column of the next, which adds to them.
  void carry_column() {
    const Floats d;
    for (std::int64_t r = 0; r <= rows_; ++r) {
      float* const to = pixel_at(r, 0) + grad_at_;
      float* const from = pixel_at(r, columns_) + grad_at_;
      for (std::int64_t v = 0; v < vectors(); ++v) {
        hn::Store(hn::Load(d, from + v * kLanes), d, to + v * kLanes);
      }
      zero(from);
    }
  }

  float* edge_at(std::int64_t row, std::int64_t column, int half) const {
    std::int64_t const edge =
        place_.first_edge + (row / windows_.side - 1) * level_.width + column - 1;
    return scratch_.edges + (2 * edge + half) * D_;
  }

  // All pixels but the last column, and zeros in their place.
  void store_window() {
    std::int64_t const first = first_column_ == 0 ? 1 : 0;
    for (std::int64_t r = 0; r <= rows_; ++r) {
      if (first == 1) zero(pixel_at(r, 0) + grad_at_);
      float* const sums = pixel_at(r, first) + grad_at_;
      std::int64_t const row = first_row_ + r, column = first_column_ + first;
      if (row == 0 || row > level_.height) {
        for (std::int64_t c = 0; c < columns_ - first; ++c) zero(sums + c * pixel_floats_);
      } else if (r == 0 || r == rows_) {
        store_edge(edge_at(row, column, r == 0 ? 1 : 0), columns_ - first, sums);
      } else if (HWY_LIKELY(streams_)) {
        stream_row(token(row, column), columns_ - first, sums);
      } else {
        store_pixels(token(row, column), columns_ - first, sums);
      }
    }
  }

  void store_edge(float* to, std::int64_t count, float* sums) const {
    for (std::int64_t c = 0; c < count; ++c, sums += pixel_floats_, to += 2 * D_) {
      std::memcpy(to, sums, static_cast<std::size_t>(D_) * sizeof(float));
      zero(sums);
    }
  }

  HWY_INLINE void stream_row(std::int64_t first, std::int64_t count, float* sums) const {
    const Floats d;
    std::int64_t const vector_count = vectors(), from_pixel = pixel_floats_, to_token = grad_row_;
    float* to = static_cast<float*>(source_.call[Tensor::kGradValue]) + source_.grad_value +
                first * grad_row_;
    bool const begins_line = is_line(to);
    for (std::int64_t c = 0; c < count; ++c, sums += from_pixel, to += to_token) {
      if (HWY_UNLIKELY(!begins_line)) {
        // The lines at both ends have to be read before they can be written.
        __builtin_prefetch(to + kPixelsAhead * to_token, 1);
        __builtin_prefetch(to + kPixelsAhead * to_token + padded_ - 1, 1);
        stream_within_lines(sums, padded_, to);
        zero(sums);
        continue;
      }
      for (std::int64_t v = 0; v < vector_count; ++v) {
        hn::Stream(hn::Load(d, sums + v * kLanes), d, to + v * kLanes);
        hn::Store(hn::Zero(d), d, sums + v * kLanes);
      }
    }
  }

  void store_pixels(std::int64_t first, std::int64_t count, float* sums) const {
    for (std::int64_t c = 0; c < count; ++c, sums += pixel_floats_) {
      store_grad_value(source_, first + c, sums);
      zero(sums);
    }
  }

  // ---- records

  // Calls fn(first record, behind the last, first query of the chunk) for each chunk's points of a
  // window.
  template <class Fn>
  HWY_INLINE void each_segment(std::int64_t window, Fn fn) const {
    each_chunk(problem_, windows_,
               [&](std::int64_t chunk_ends, std::int64_t record, std::int64_t row) HWY_ATTR {
                 const std::uint16_t* const end = scratch_.ends + chunk_ends + window;
                 Record* const records = scratch_.records + record;
                 fn(records + (window == 0 ? 0 : end[-1]), records + *end, row);
               });
  }

  void sum_window(std::int64_t window) {
    if constexpr (kValues == Values::kCopied) {
      std::memset(is_loaded_, 0, static_cast<std::size_t>((rows_ + 1) * pitch_));
    }
    WindowBatch batches[2];
    WindowBatch *now = &batches[0], *before = &batches[1];
    each_segment(window, [&](Record* begin, Record* end, std::int64_t first_row) {
      for (Record* record = begin; record < end; ++record) {
        now->records[now->count] = *record;
        now->from[now->count] = record;
        now->first_row[now->count++] = first_row;
        if (now->count < kLanes) continue;
        prepare(*now);
        if (before->count > 0) sum_batch(*before);
        std::swap(now, before);
      }
    });
    if (now->count > 0) prepare(*now);
    if (before->count > 0) sum_batch(*before);
    if (now->count > 0) sum_batch(*now);
  }

  HWY_NOINLINE void prepare(WindowBatch& batch) {
    batch.read(batch.records, per_row_);
    const hn::RebindToSigned<Floats> di;
    auto const column = hn::Sub(hn::Load(di, batch.column),
                                hn::Set(di, static_cast<std::int32_t>(first_column_ - 1)));
    auto const row =
        hn::Sub(hn::Load(di, batch.row), hn::Set(di, static_cast<std::int32_t>(first_row_ - 1)));
    hn::Store(row, di, batch.row);
    hn::Store(column, di, batch.column);
    hn::Store(hn::Add(hn::Mul(row, hn::Set(di, static_cast<std::int32_t>(pitch_))), column), di,
              batch.pixel);
    for (std::int64_t i = 0; i < batch.count; ++i) {
      batch.grad_output[i] = grads_.address(0, batch.first_row[i] + batch.query[i]);
      grads_.prefetch(batch.grad_output[i]);
      if constexpr (kValues == Values::kCopied) require(i, batch);
      if constexpr (kInPlace) find_values(i, batch);
    }
  }

  HWY_NOINLINE void sum_batch(WindowBatch& batch) {
    const Floats d;
    if constexpr (kValues == Values::kCopied) load_missing(batch);
    if (HWY_UNLIKELY(problem_.nearest())) return sum_nearest(batch);
    // In variables, for a vector that is stored might be a member.
    float* const window = window_;
    std::int64_t const right = pixel_floats_, down = pitch_ * pixel_floats_, grad_at = grad_at_;
    std::int64_t const vector_count = vectors(), count = batch.count;
    HWY_ALIGN float dots[4 * kLanes] = {};
    for (std::int64_t i = 0; i < count; ++i) {
      const float* const grad = grads_.channels(batch.grad_output[i]);
      float* const upper = window + batch.pixel[i] * right;
      float* sum[4] = {upper, upper + right, upper + down, upper + down + right};
      const float* value[4];
      for (int c = 0; c < 4; ++c) {
        value[c] = kInPlace ? reinterpret_cast<const float*>(batch.value[c][i]) : sum[c];
        sum[c] += grad_at;
      }
      V const weight[4] = {
          hn::Set(d, batch.corner_weight[0][i]), hn::Set(d, batch.corner_weight[1][i]),
          hn::Set(d, batch.corner_weight[2][i]), hn::Set(d, batch.corner_weight[3][i])};
      add_point<kOfValue, kOfPoints>(grad, vector_count, value, sum, weight, dots + 4 * i);
    }
    if constexpr (kOfPoints) finish_points(batch, dots);
    batch.count = 0;
  }

  HWY_NOINLINE void sum_nearest(WindowBatch& batch) {
    for (std::int64_t i = 0; i < batch.count; ++i) {
      float* const pixel = window_ + batch.pixel[i] * pixel_floats_;
      const float* const value =
          kInPlace ? reinterpret_cast<const float*>(batch.value[0][i]) : pixel;
      float const dot =
          add_nearest<kOfValue, kOfPoints>(grads_.channels(batch.grad_output[i]), vectors(), value,
                                           pixel + grad_at_, batch.weight[i]);
      if constexpr (kOfPoints) {
        Record& result = *batch.from[i];
        result.x = result.y = 0.0f;
        result.weight = dot * source_.scale;
      }
    }
    batch.count = 0;
  }

  // ---- gradients of the points

  HWY_INLINE void finish_points(WindowBatch& batch, const float* dots) {
    const Floats d;
    PointSums by;
    if (HWY_UNLIKELY(!sum_dots(dots, hn::Load(d, batch.x), hn::Load(d, batch.y), by))) {
      for (std::int64_t i = 0; i < batch.count; ++i) sum_point_literally(batch, i, by);
    }
    HWY_ALIGN Record results[kLanes];
    store_gradients(batch, by, level_.width, level_.height, source_.scale, results);
    for (std::int64_t i = 0; i < batch.count; ++i) *batch.from[i] = results[i];
  }

  HWY_NOINLINE void sum_point_literally(WindowBatch const& batch, std::int64_t i,
                                        PointSums& by) const {
    const float* value[4];
    for (int c = 0; c < 4; ++c) {
      value[c] = kInPlace ? reinterpret_cast<const float*>(batch.value[c][i])
                          : pixel_at(batch.row[i] + c / 2, batch.column[i] + c % 2);
    }
    sum_literally(grads_.channels(batch.grad_output[i]), D_, value, batch.x[i], batch.y[i], i, by);
  }

  HeadSource const& source_;
  Problem const& problem_ = source_.problem;
  Windows const& windows_;
  LevelWindows const& place_;
  Level const& level_ = problem_.levels[static_cast<std::size_t>(place_.level)];
  HeadScratch const& scratch_;
  WindowScratch const& window_scratch_;
  GradRows grads_{source_, windows_, scratch_, window_scratch_.row};
  unsigned char* is_loaded_ = window_scratch_.is_loaded;
  float* window_ = window_scratch_.pixels;  // [rows_ + 1][pitch_][value and gradient][padded_]
  std::int64_t D_ = problem_.head_dim;
  std::int64_t padded_ = windows_.padded_dim;
  // The gradient in a pixel's floats: behind its values, where they are.
  std::int64_t grad_at_ = kOfPoints ? padded_ : 0;
  std::int64_t pixel_floats_ = kOfValue ? grad_at_ + padded_ : padded_;
  std::int64_t first_row_;  // of the band, with border
  std::int64_t rows_ = std::min(windows_.side, level_.height + 1 - first_row_);  // of cells
  std::int64_t pitch_ = std::min(windows_.side, level_.width + 1) + 1;  // pixels from row to row
  float per_row_ = 1.0f / static_cast<float>(problem_.point_total);
  std::int64_t grad_row_ = problem_.head_count * D_;  // from a token of grad_value to the next
  bool streams_ =  // grad_value past the caches: whole lines of it
      problem_.grad_value_dtype == MSDA_DTYPE_F32 && D_ * 4 % 64 == 0 && source_.scale == 1.0f &&
      source_.streams_value &&
      may_stream(static_cast<const float*>(source_.call[Tensor::kGradValue]));
  std::int64_t value_bytes_ = dtype_bytes(problem_.value_dtype);
  std::int64_t value_row_bytes_ = problem_.value.row * value_bytes_;
  std::uintptr_t zeros_ = reinterpret_cast<std::uintptr_t>(source_.tables.zeros.data());
  std::uintptr_t values_ = zeros_ + static_cast<std::uintptr_t>(source_.value);
  std::int64_t first_column_ = 0;  // of the window, with border
  std::int64_t columns_ = 0;       // of cells
};

template <int kVectors, Values kValues>
void sum_band_of(HeadSource const& source, Windows const& windows, LevelWindows const& level,
                 std::int64_t band, HeadScratch const& scratch, WindowScratch const& window) {
  if (source.call[Tensor::kGradValue] == nullptr) {
    BandSum<kVectors, false, kValues>(source, windows, level, band, scratch, window).run();
  } else {
    BandSum<kVectors, true, kValues>(source, windows, level, band, scratch, window).run();
  }
}

template <int kVectors>
void sum_band(HeadSource const& source, Windows const& windows, std::int64_t band,
              HeadScratch const& scratch, WindowScratch const& window) {
  LevelWindows const& level = windows.level_of(band);
  std::fill_n(window.row, windows.padded_dim, 0.0f);
  if (!source.call.wants_points()) {
    BandSum<kVectors, true, Values::kNone>(source, windows, level, band, scratch, window).run();
  } else if (level.has_few_points && windows.takes_values) {
    sum_band_of<kVectors, Values::kInPlace>(source, windows, level, band, scratch, window);
  } else {
    sum_band_of<kVectors, Values::kCopied>(source, windows, level, band, scratch, window);
  }
}

void join_edge(HeadSource const& source, Windows const& windows, std::int64_t band,
               HeadScratch const& scratch) {
  LevelWindows const& place = windows.level_of(band);
  Level const& level = source.problem.levels[static_cast<std::size_t>(place.level)];
  std::int64_t const D = source.problem.head_dim, index = band - place.first_band;
  if (index == 0) return;
  std::int64_t const row = index * windows.side - 1;
  for (std::int64_t x = 0; x < level.width; ++x) {
    float* const above = scratch.edges + 2 * (place.first_edge + (index - 1) * level.width + x) * D;
    for (std::int64_t d = 0; d < D; ++d) above[d] += above[D + d];
    store_grad_value(source, level.origin + row * level.row_tokens + x, above);
  }
}

BandKernels band_kernels(Problem const& problem) {
  switch ((problem.head_dim + kLanes - 1) / kLanes) {
    case 1:
      return {kLanes, pack_rows, sum_band<1>, join_edge};
    case 2:
      return {kLanes, pack_rows, sum_band<2>, join_edge};
    case 4:
      return {kLanes, pack_rows, sum_band<4>, join_edge};
    default:
      return {kLanes, pack_rows, sum_band<0>, join_edge};
  }
}
#endif  // HWY_TARGET

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msda::simd {

HWY_EXPORT(band_kernels);
BandKernels choose_band(Problem const& problem) {
  return HWY_DYNAMIC_DISPATCH(band_kernels)(problem);
}

}  // namespace msda::simd
#endif
