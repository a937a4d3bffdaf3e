// Compiled once a target by foreach_target: the loop over tiles, heads and queries, and the dispatch.

#include "cpu/simd/simd_forward.h"

#include "cpu/thread_pool.h"

// Vectors of unknown size cannot be members of arrays, which the gather keeps its sums in. SSSE3 without
// SSE4 is not worth the time to compile it.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/simd_forward.cpp"
#include <hwy/foreach_target.h>
// After foreach_target:
#include "cpu/simd/simd_gather-inl.h"

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One head of one tile of queries.
template <typename T>
class TileRun {
 public:
  TileRun(Launch const& launch, Tables const& tables, std::int64_t b, std::int64_t m)
      : problem_(launch.problem), call_(launch.call), tables_(tables), b_(b), m_(m) {
    base_ = static_cast<const T*>(call_.value) + b * problem_.value.batch + m * problem_.value.head;
    auto const distance = reinterpret_cast<std::intptr_t>(tables.zeros.data()) -
                          reinterpret_cast<std::intptr_t>(base_);
    outside_ = static_cast<std::int64_t>(distance) / static_cast<std::int64_t>(sizeof(T));
    scale_ = call_.value_scale == nullptr ? 1.0f : call_.value_scale[m];
  }

  template <class D>
  HWY_INLINE void run(D d, Tile const& tile) const {
    // While one row is summed, the corners of the next are known and its lines on their way. With several
    // blocks of points there is no such pipeline: every block is located where it is summed.
    Corners corners[2];
    bool const one_block = problem_.point_total <= kPointBlock;
    std::int64_t const count = tile.rows * tile.columns;
    int now = 0;
    prepare(query_of(tile, 0), 0, corners[now]);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t const q = query_of(tile, i);
      bool const pipelined = one_block && i + 1 < count;
      if (pipelined) prepare(query_of(tile, i + 1), 0, corners[1 - now]);
      auto const corners_of = [&](std::int64_t block) HWY_ATTR -> Corners const& {
        if (!one_block) prepare(q, block, corners[now]);
        return corners[now];
      };
      Ahead const ahead{&corners[1 - now], pipelined && tables_.prefetch ? row_bytes() : 0};
      gather_row(d, base_, problem_.point_total, problem_.head_dim, corners_of, ahead, output(q));
      if (one_block) now = 1 - now;
    }
  }

 private:
  static std::int64_t query_of(Tile const& tile, std::int64_t i) {
    return tile.first_query + i / tile.columns * tile.pitch + i % tile.columns;
  }
  std::int64_t row_bytes() const {
    return problem_.head_dim * static_cast<std::int64_t>(sizeof(T));
  }
  Output output(std::int64_t q) const {
    return {problem_.output_dtype, call_.output,
            b_ * problem_.output.batch + q * problem_.output.row + m_ * problem_.output.head, scale_};
  }
  HWY_INLINE void prepare(std::int64_t q, std::int64_t block, Corners& corners) const {
    find_corners(problem_, call_, tables_, row_of(problem_, b_, q, m_), outside_, block, corners);
  }

  Problem const& problem_;
  Call const& call_;
  Tables const& tables_;
  std::int64_t b_;
  std::int64_t m_;
  const T* base_;
  std::int64_t outside_;
  float scale_;
};

template <typename T, class D>
HWY_NOINLINE void run_lanes(Launch const& launch, Tables const& tables, D d) {
  Problem const& problem = launch.problem;
  std::int64_t const M = problem.head_count;
  std::int64_t const tile_count = tables.tiles.count();
  auto chunk = [&](std::int64_t i) HWY_ATTR {
    Tile const tile = tables.tiles[i / M % tile_count];
    TileRun<T> const run(launch, tables, i / M / tile_count, i % M);
    run.run(d, tile);
  };
  launch.device.pool->run(problem.batch * tile_count * M, chunk);
}

// The widest vector that a head fills; fewer channels than that take a narrower one.
template <typename T>
void run_type(Launch const& launch, Tables const& tables) {
  const hn::ScalableTag<float> full;
  std::int64_t const D = launch.problem.head_dim;
  if (D >= static_cast<std::int64_t>(hn::Lanes(full))) return run_lanes<T>(launch, tables, full);
  if (D >= 4) return run_lanes<T>(launch, tables, hn::CappedTag<float, 4>());
  return run_lanes<T>(launch, tables, hn::CappedTag<float, 1>());
}

void forward(Launch const& launch, Tables const& tables) {
  switch (launch.problem.value_dtype) {
    case MSDA_F32: return run_type<float>(launch, tables);
    case MSDA_F16: return run_type<F16>(launch, tables);
    case MSDA_BF16: return run_type<Bf16>(launch, tables);
    default: return run_type<F8>(launch, tables);
  }
}

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msda::simd {

HWY_EXPORT(forward);

void run_forward(Launch const& launch, Tables const& tables) {
  HWY_DYNAMIC_DISPATCH(forward)(launch, tables);
}

}  // namespace msda::simd
#endif
