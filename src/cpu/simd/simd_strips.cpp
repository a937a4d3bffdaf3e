// The sums of the backward computation of a small problem: a strip of each map at a time, a head's
// channels in the lanes. Compiled once a target.
//
// Sums are formed in the caller's grad_value where that is float32 and stays in a cache, else in a
// buffer. Large ones are stored past the caches, and what they read is asked for ahead.

#include "cpu/simd/simd_backward.h"

#define HWY_DISABLED_TARGETS MSDA_SIMD_DISABLED_TARGETS
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/simd_strips.cpp"
#include <hwy/foreach_target.h>
// After foreach_target:
#include "cpu/simd/simd_sums-inl.h"

#include "core/dtype.h"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
SumStrips strip_kernel(Problem const&) { return nullptr; }
#else
// A batch of one head's strip.
struct StripBatch : Batch {
  std::int64_t head = 0;       // from the first of those that are summed together
  std::int64_t first_row = 0;  // query, of the records' chunk
  Record* records = nullptr;
  HWY_ALIGN std::int32_t token[kLanes];      // of pixel (y0, x0)
  HWY_ALIGN std::int32_t sum[kLanes];        // its element among the sums of the first head
  HWY_ALIGN std::int32_t is_within[kLanes];  // all four corners, the map: not 0
};

// Channels of a point's corners: their values and sums.
template <typename T>
struct CornerRows {
  const T* value[4];
  float* sum[4];
};

// The strips of one level, of some heads. T: of values; kVectors: of the channels; 0: any number.
template <typename T, int kVectors, bool kOfValue, bool kOfPoints>
class StripSums {
 public:
  StripSums(HeadSource const& first_head, Windows const& windows, LevelWindows const& level,
            std::int64_t heads, HeadScratch const& scratch, StripScratch const& rows)
      : first_(first_head),
        windows_(windows),
        place_(level),
        heads_(heads),
        scratch_(scratch),
        rows_(rows) {}

  void run() {
    if (has_buffer_) std::fill_n(sums_, buffer_rows_ * sum_down_, 0.0f);
    for (std::int64_t i = 0; i < place_.band_count; ++i) {
      std::int64_t const first = i * windows_.side;
      if (has_buffer_) {
        first_sum_ = (1 - first) * sum_down_;
      } else {
        first_sum_ = level_.origin * sum_row_;
        if (kOfValue && heads_ == problem_.head_count) clear_rows(first);
      }
      add_strip(place_.first_window + i);
      sum_batch(*before_);
      if (has_buffer_) store_rows(first - 1);
    }
    if (has_buffer_) hwy::FlushStream();
  }

 private:
  // ---- pixels of a strip: `side` rows, and the one above them, which belongs to the strip before
  // as well

  void clear_rows(std::int64_t first) const {
    std::int64_t const last = std::min(first + windows_.side, level_.height);
    for (std::int64_t y = first; y < last; ++y) {
      std::fill_n(sums_ + (level_.origin + y * level_.row_tokens) * sum_row_,
                  level_.width * sum_row_, 0.0f);
    }
  }

  // Stores what the buffer has of rows from `first` on. Its last row becomes the first one of the
  // next strip; behind the last strip it is outside the map.
  void store_rows(std::int64_t first) const {
    std::int64_t const last = std::min(first + windows_.side, level_.height);
    for (std::int64_t y = std::max(first, std::int64_t{0}); y < last; ++y) {
      store_row_of_pixels(sums_ + (y - first) * sum_down_,
                          first_.grad_value + (level_.origin + y * level_.row_tokens) * grad_row_);
    }
    if (last == level_.height) return;
    std::int64_t const carried = windows_.side * sum_down_;
    std::copy_n(sums_ + carried, sum_down_, sums_);
    std::fill_n(sums_ + sum_down_, carried, 0.0f);
  }

  void store_row_of_pixels(const float* from, std::int64_t element) const {
    bool const is_whole = sum_row_ == grad_row_;  // pixels follow one another
    std::int64_t const floats = is_whole ? sum_down_ : sum_row_;
    std::int64_t const pieces = is_whole ? 1 : level_.width;
    for (std::int64_t i = 0; i < pieces; ++i, from += sum_row_, element += grad_row_) {
      store_row(from, floats, problem_.grad_value_dtype, first_.call[Tensor::kGradValue], element,
                true);
    }
  }

  // ---- points of a strip

  // Heads take turns, for pixels of one head lie in few sets of a cache.
  void add_strip(std::int64_t window) {
    std::int64_t const bins_of_head = (windows_.window_count + 1) * windows_.chunk_count;
    each_chunk(problem_, windows_,
               [&](std::int64_t chunk_ends, std::int64_t record, std::int64_t row) HWY_ATTR {
                 std::span<Record> left[kMaxHeadsTogether];
                 for (std::int64_t h = 0; h < heads_; ++h) {
                   const std::uint16_t* const end =
                       scratch_.ends + chunk_ends + window + h * bins_of_head;
                   Record* const records = scratch_.records + record + h * windows_.records;
                   left[h] = std::span(records + (window == 0 ? 0 : end[-1]), records + *end);
                 }
                 for (bool is_done = false; !is_done;) {
                   is_done = true;
                   for (std::int64_t h = 0; h < heads_; ++h) {
                     if (left[h].empty()) continue;
                     std::int64_t const count = std::min(std::ssize(left[h]), kLanes);
                     add_batch(left[h].data(), count, h, row);
                     left[h] = left[h].subspan(static_cast<std::size_t>(count));
                     is_done = false;
                   }
                 }
               });
  }

  // A batch is prepared before the last one is summed, which then need not wait for it.
  HWY_INLINE void add_batch(Record* records, std::int64_t count, std::int64_t head,
                            std::int64_t first_row) {
    StripBatch& batch = *now_;
    batch.count = count;
    batch.head = head;
    batch.first_row = first_row;
    batch.records = records;
    if (count == kLanes) {
      batch.read(records, per_row_);
    } else {
      HWY_ALIGN Record copy[kLanes] = {};
      std::copy_n(records, count, copy);
      batch.read(copy, per_row_);
    }
    find_tokens(batch);
    if (!windows_.stays_in_cache) prefetch(batch);
    sum_batch(*before_);
    std::swap(now_, before_);
  }

  HWY_INLINE void find_tokens(StripBatch& batch) const {
    const hn::RebindToSigned<Floats> di;
    const hn::RebindToUnsigned<Floats> du;
    auto const set = [&](std::int64_t n)
                         HWY_ATTR { return hn::Set(di, static_cast<std::int32_t>(n)); };
    auto const column = hn::Load(di, batch.column), row = hn::Load(di, batch.row);
    auto const place = [&](std::int64_t first, std::int64_t right, std::int64_t down) HWY_ATTR {
      return hn::Add(set(first), hn::Add(hn::Mul(row, set(down)), hn::Mul(column, set(right))));
    };
    hn::Store(place(level_.origin, 1, level_.row_tokens), di, batch.token);
    hn::Store(place(first_sum_, sum_row_, sum_down_), di, batch.sum);
    // As unsigned numbers the negative ones are beyond every size.
    auto const is_below = [&](auto v, std::int64_t last) HWY_ATTR {
      return hn::Lt(hn::BitCast(du, v), hn::BitCast(du, set(last)));
    };
    auto const is_within =
        hn::And(is_below(column, level_.width - 1), is_below(row, level_.height - 1));
    hn::Store(hn::BitCast(di, hn::VecFromMask(du, is_within)), di, batch.is_within);
  }

  // Asks for rows of grad_output, and for the values of points whose corners are all on the map.
  // Inlined, for GCC drops a call of what only prefetches.
  HWY_INLINE void prefetch(StripBatch const& batch) const {
    std::int64_t const row = problem_.value.row, down = level_.row_tokens * row;
    std::int64_t const bytes = D_ * static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t i = 0; i < batch.count; ++i) {
      grads_.prefetch(grad_address(batch, i));
      if (HWY_UNLIKELY(batch.is_within[i] == 0)) continue;
      const T* const value = values_of(batch) + batch.token[i] * row;
      for (const T* const at : {value, value + row, value + down, value + down + row}) {
        prefetch_lines<2>(reinterpret_cast<std::uintptr_t>(at), bytes);
      }
    }
  }

  HWY_NOINLINE void sum_batch(StripBatch& batch) const {
    if (batch.count == 0) return;
    HWY_ALIGN float dots[4 * kLanes] = {};
    if (HWY_UNLIKELY(problem_.nearest())) {
      sum_nearest(batch, dots);
    } else if (HWY_UNLIKELY(!grads_.is_read())) {
      sum_points(batch, [&](std::int64_t i) HWY_ATTR { return channels(batch, i); }, dots);
    } else {
      auto const first = grads_.address(batch.head, batch.first_row);
      sum_points(
          batch,
          [=, query = batch.query, step = grads_.row_bytes()](std::int64_t i) HWY_ATTR {
            return reinterpret_cast<const float*>(first +
                                                  static_cast<std::uintptr_t>(query[i] * step));
          },
          dots);
    }
    if constexpr (kOfPoints) finish_points(batch, dots);
    batch.count = 0;
  }

  // All that the loop needs is in variables, for a vector that is stored might be a member.
  template <class Channels>
  HWY_INLINE void sum_points(StripBatch const& batch, Channels channels, float* dots) const {
    const Floats d;
    std::int64_t const vector_count = vectors();
    std::int64_t const count = batch.count;
    std::int64_t const value_row = problem_.value.row, value_down = level_.row_tokens * value_row;
    std::int64_t const sum_row = sum_row_, sum_down = sum_down_;
    const T* const values = values_of(batch);
    float* const sums = sums_of(batch);
    for (std::int64_t i = 0; i < count; ++i) {
      CornerRows<T> at;
      if (HWY_LIKELY(batch.is_within[i] != 0)) {
        std::int64_t const token = batch.token[i];
        at.value[0] = values + token * value_row;
        at.value[1] = at.value[0] + value_row;
        at.value[2] = at.value[0] + value_down;
        at.value[3] = at.value[2] + value_row;
        if constexpr (kOfValue) {
          at.sum[0] = sums + batch.sum[i];
          at.sum[1] = at.sum[0] + sum_row;
          at.sum[2] = at.sum[0] + sum_down;
          at.sum[3] = at.sum[2] + sum_row;
        }
      } else {
        at = corners(batch, i);
      }
      V const weight[4] = {
          hn::Set(d, batch.corner_weight[0][i]), hn::Set(d, batch.corner_weight[1][i]),
          hn::Set(d, batch.corner_weight[2][i]), hn::Set(d, batch.corner_weight[3][i])};
      add_point<kOfValue, kOfPoints>(channels(i), vector_count, at.value, at.sum, weight,
                                     dots + 4 * i);
    }
  }

  HWY_NOINLINE void sum_nearest(StripBatch const& batch, float* dots) const {
    for (std::int64_t i = 0; i < batch.count; ++i) {
      CornerRows<T> const at = corners(batch, i);
      dots[i] = add_nearest<kOfValue, kOfPoints>(channels(batch, i), vectors(), at.value[0],
                                                 at.sum[0], batch.weight[i]);
    }
  }

  HWY_INLINE std::uintptr_t grad_address(StripBatch const& batch, std::int64_t i) const {
    return grads_.address(batch.head, batch.first_row + batch.query[i]);
  }
  const float* channels(StripBatch const& batch, std::int64_t i) const {
    return grads_.channels(grad_address(batch, i));
  }

  HWY_INLINE std::int64_t vectors() const { return kVectors == 0 ? D_ / kLanes : kVectors; }

  const T* values_of(StripBatch const& batch) const {
    return values_ + batch.head * problem_.value.head;
  }
  float* sums_of(StripBatch const& batch) const {
    return kOfValue ? sums_ + batch.head * D_ : nullptr;
  }

  bool is_inside(StripBatch const& batch, std::int64_t i, int corner) const {
    std::int64_t const x = batch.column[i] + corner % 2, y = batch.row[i] + corner / 2;
    return x >= 0 && x < level_.width && y >= 0 && y < level_.height;
  }

  // Any point's: a corner outside has zeros, and a row that nobody reads.
  HWY_NOINLINE CornerRows<T> corners(StripBatch const& batch, std::int64_t i) const {
    CornerRows<T> at;
    for (int c = 0; c < 4; ++c) {
      std::int64_t const token = batch.token[i] + c % 2 + c / 2 * level_.row_tokens;
      std::int64_t const sum = batch.sum[i] + c % 2 * sum_row_ + c / 2 * sum_down_;
      bool const inside = is_inside(batch, i, c);
      at.value[c] = inside ? values_of(batch) + token * problem_.value.row
                           : reinterpret_cast<const T*>(first_.tables.zeros.data());
      at.sum[c] = kOfValue && inside ? sums_of(batch) + sum : rows_.outside;
    }
    return at;
  }

  HWY_INLINE void finish_points(StripBatch const& batch, const float* dots) const {
    const Floats d;
    HWY_ALIGN Record results[kLanes];
    if (HWY_UNLIKELY(problem_.nearest())) {  // its coordinates have none, whatever the weight
      hn::StoreInterleaved4(hn::Zero(d), hn::Zero(d), hn::Load(d, dots), hn::Load(d, batch.place),
                            d, reinterpret_cast<float*>(results));
    } else {
      PointSums by;
      if (HWY_UNLIKELY(!sum_dots(dots, hn::Load(d, batch.x), hn::Load(d, batch.y), by))) {
        for (std::int64_t i = 0; i < batch.count; ++i) {
          sum_literally(channels(batch, i), D_, corners(batch, i).value, batch.x[i], batch.y[i], i,
                        by);
        }
      }
      store_gradients(batch, by, level_.width, level_.height, first_.scale, results);
    }
    std::copy_n(results, batch.count, batch.records);
  }

  HeadSource const& first_;
  Problem const& problem_ = first_.problem;
  Windows const& windows_;
  LevelWindows const& place_;
  Level const& level_ = problem_.levels[static_cast<std::size_t>(place_.level)];
  std::int64_t heads_;
  HeadScratch const& scratch_;
  StripScratch const& rows_;
  StripBatch batches_[2];
  StripBatch *now_ = &batches_[0], *before_ = &batches_[1];
  std::int64_t D_ = problem_.head_dim;
  float per_row_ = 1.0f / static_cast<float>(problem_.point_total);
  GradRows grads_{first_, windows_, scratch_, rows_.row};
  const T* values_ =
      static_cast<const T*>(first_.call[Tensor::kValue]) + problem_.value.at(first_.b, 0, first_.m);
  std::int64_t grad_row_ = problem_.head_count * D_;  // from a token of grad_value to the next
  // The sums, in grad_value or in the buffer; from a pixel to the next, and to the one below; the
  // element of pixel (0, 0).
  bool has_buffer_ = kOfValue && rows_.sums != nullptr;
  float* sums_ = has_buffer_ ? rows_.sums
                 : kOfValue
                     ? static_cast<float*>(first_.call[Tensor::kGradValue]) + first_.grad_value
                     : nullptr;
  std::int64_t sum_row_ = has_buffer_ ? heads_ * D_ : grad_row_;
  std::int64_t sum_down_ = sum_row_ * (has_buffer_ ? level_.width : level_.row_tokens);
  std::int64_t first_sum_ = 0;
  std::int64_t buffer_rows_ = std::min(windows_.side, level_.height) + 1;
};

template <typename T, int kVectors>
void sum_strips(HeadSource const& first_head, Windows const& windows, std::int64_t heads,
                HeadScratch const& scratch, StripScratch const& rows) {
  Call const& call = first_head.call;
  std::fill_n(rows.outside, windows.padded_dim, 0.0f);
  for (LevelWindows const& level : windows.levels) {
    if (call[Tensor::kGradValue] == nullptr) {
      StripSums<T, kVectors, false, true>(first_head, windows, level, heads, scratch, rows).run();
    } else if (call.wants_points()) {
      StripSums<T, kVectors, true, true>(first_head, windows, level, heads, scratch, rows).run();
    } else {
      StripSums<T, kVectors, true, false>(first_head, windows, level, heads, scratch, rows).run();
    }
  }
}

// Heads of 32 channels have a kernel of their own, of float32 those of other sizes, too.
template <typename T>
SumStrips strips_of(Problem const& problem) {
  constexpr bool kHasAll = std::is_same_v<T, float>;
  std::int64_t const vectors = problem.head_dim / kLanes;
  if (problem.head_dim == 32) return sum_strips<T, 32 / kLanes>;
  if constexpr (kHasAll) {
    if (vectors == 1) return sum_strips<T, 1>;
    if (vectors == 2) return sum_strips<T, 2>;
    if (vectors == 4) return sum_strips<T, 4>;
  }
  return sum_strips<T, 0>;
}

SumStrips strip_kernel(Problem const& problem) {
  switch (problem.value_dtype) {
    case MSDA_DTYPE_F32:
      return strips_of<float>(problem);
    case MSDA_DTYPE_F16:
      return strips_of<F16>(problem);
    case MSDA_DTYPE_BF16:
      return strips_of<Bf16>(problem);
    default:
      return nullptr;
  }
}
#endif  // HWY_TARGET

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msda::simd {

HWY_EXPORT(strip_kernel);
SumStrips choose_strips(Problem const& problem) {
  return HWY_DYNAMIC_DISPATCH(strip_kernel)(problem);
}

}  // namespace msda::simd
#endif
