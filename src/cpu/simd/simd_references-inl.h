// The references of fused input, each in the lanes of its level's points. Included once a target by
// foreach_target.
#if defined(MSDA_SIMD_REFERENCES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MSDA_SIMD_REFERENCES_INL_H_
#undef MSDA_SIMD_REFERENCES_INL_H_
#else
#define MSDA_SIMD_REFERENCES_INL_H_
#endif

#include "core/dtype.h"
#include "cpu/simd/simd_elements-inl.h"
#include "cpu/simd/simd_kernel.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {

// Reads `count` elements of a tensor from `element` on.
HWY_INLINE void read_elements(HeadSource const& source, Tensor tensor, msda_dtype dtype,
                              std::int64_t element, std::int64_t count, float* to) {
  to_floats(dtype,
            reinterpret_cast<std::uintptr_t>(source.call[tensor]) +
                static_cast<std::uintptr_t>(element * dtype_bytes(dtype)),
            count, to);
}

// References of a block's points, each its level's: of kReference components two are the centre
// and, of four, two more the extent of the box.
template <int kReference>
class BlockReferences {
 public:
  using V = hn::Vec<Floats>;

  HWY_INLINE BlockReferences(HeadSource const& source, PointRange const& range)
      : place_(source.tables.levels[range.first].reference) {
    Problem const& problem = source.problem;
    std::int64_t const of_query = static_cast<std::int64_t>(problem.levels.size()) * kReference;
    std::int64_t const row = source.reference + range.q * of_query;
    std::int64_t const elements = range.rows * of_query;
    is_vector_ = elements <= kLanes;
    if (HWY_LIKELY(is_vector_ && problem.reference_dtype == MSDA_DTYPE_F32)) {
      const auto* const floats = static_cast<const float*>(source.call[Tensor::kReference]);
      all_ = load_first(Floats(), floats + row, elements);
    } else {
      all_ = read(source, row, elements, range);
    }
  }

  // Component n of points [i, i + lanes).
  HWY_INLINE V component(int n, std::int64_t i) const {
    const Floats d;
    const hn::RebindToSigned<Floats> di;
    if (HWY_UNLIKELY(!is_vector_)) return hn::Load(d, spread_[n] + i);
    auto const place = hn::Add(hn::Load(di, place_ + i), hn::Set(di, n));
    return hn::TableLookupLanes(all_, hn::IndicesFromVec(d, place));
  }

 private:
  HWY_NOINLINE V read(HeadSource const& source, std::int64_t row, std::int64_t elements,
                      PointRange const& range) {
    if (!is_vector_) {
      spread(source, row, range.first, range.count);
      return hn::Zero(Floats());
    }
    HWY_ALIGN float copy[kLanes] = {};
    read_elements(source, Tensor::kReference, source.problem.reference_dtype, row, elements, copy);
    return hn::Load(Floats(), copy);
  }

  HWY_INLINE void spread(HeadSource const& source, std::int64_t row, std::int64_t first,
                         std::int64_t count) {
    const Floats d;
    for (Level const& level : source.problem.levels) {
      std::int64_t const from = row;
      row += kReference;
      std::int64_t const begin = std::max(level.point_start - first, std::int64_t{0});
      std::int64_t const end = std::min(level.point_start + level.point_count - first, count);
      if (begin >= end) continue;
      float value[kReference];
      read_elements(source, Tensor::kReference, source.problem.reference_dtype, from, kReference,
                    value);
      // Whole vectors: what runs over is written again by the next level.
      for (std::int64_t i = begin; i < end; i += kLanes) {
        for (int n = 0; n < kReference; ++n) hn::StoreU(hn::Set(d, value[n]), d, spread_[n] + i);
      }
    }
  }

  const std::int32_t* place_;  // of each point's level in all_
  bool is_vector_;  // the references of all levels fit all_; else one row's are in spread_
  V all_;
  HWY_ALIGN float spread_[kReference][kPointBlock + kLanes];
};

// Sampled input has none.
template <>
class BlockReferences<0> {
 public:
  HWY_INLINE BlockReferences(HeadSource const&, PointRange const&) {}
};

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET

#endif  // include guard
