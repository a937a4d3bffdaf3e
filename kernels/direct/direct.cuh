// One row of variants.inc as an Instance. Included in a CUDA file a row, which ends in
// MSDA_INSTANTIATE(type, channels, points).
#pragma once

#include "kernels/common/choose.h"
#include "kernels/direct/direct.h"
#include "kernels/direct/generic_backward.cuh"
#include "kernels/direct/row.cuh"

#include <algorithm>

namespace msda::direct {

// ---- the generic kernels
// ---------------------------------------------------------------------------------

// Warps that share the tokens of all heads, about enough to fill any device.
inline constexpr std::int64_t kBandWarps = 8192;

inline std::int64_t blocks_for(std::int64_t items, std::int64_t items_per_block, How how) {
  return std::min((items + items_per_block - 1) / items_per_block, how.max_blocks);
}

inline Bands bands_of(Params const& p) {
  std::int64_t const heads = p.batch * p.head_count;
  std::int64_t const wanted = std::clamp<std::int64_t>(kBandWarps / heads, 1, p.token_count);
  std::int64_t const tokens = (p.token_count + wanted - 1) / wanted;
  return {tokens, (p.token_count + tokens - 1) / tokens};
}

template <ValueType kType, typename Real>
void launch_backward_value(Params const& p, How how, cudaStream_t stream) {
  using Sum = typename ValueTraits<kType>::Sum;
  std::int64_t const elements = p.batch * p.token_count * p.head_count * p.head_dim;
  if (p.grad_value == nullptr || elements == 0) return;
  void* const sums = p.sums != nullptr ? p.sums : p.grad_value;
  cuda::check(cudaMemsetAsync(sums, 0, static_cast<std::size_t>(elements) * sizeof(Sum), stream),
              "clearing grad_value");
  if (p.query_count * p.point_total > 0) {
    Bands const bands = bands_of(p);
    launch_kernel<backward_value<kType, Real>>(
        {blocks_for(p.batch * p.head_count * bands.count, kWarpsPerBlock, how), kThreads}, stream,
        p, bands);
  }
  if (p.sums != nullptr) {
    launch_kernel<store_sums<Sum>>({blocks_for(elements, kThreads, how), kThreads}, stream, p);
  }
}

template <ValueType kType, typename Real>
void launch_any(Params const& p, How how, cudaStream_t stream) {
  if (!how.backward) {
    std::int64_t const elements = p.batch * p.query_count * p.head_count * p.head_dim;
    launch_kernel<forward_any<kType, Real>>({blocks_for(elements, kThreads, how), kThreads}, stream,
                                            p);
    return;
  }
  launch_backward_value<kType, Real>(p, how, stream);
  if (p.grad_coord != nullptr || p.grad_weight != nullptr || p.grad_reference != nullptr) {
    launch_kernel<backward_points<kType, Real>>(
        {blocks_for(p.batch * p.query_count, kWarpsPerBlock, how), kThreads}, stream, p);
  }
}

template <ValueType kType, typename Real>
void load_any(bool backward) {
  if (!backward) {
    load_kernel<forward_any<kType, Real>>();
    return;
  }
  load_kernel<backward_value<kType, Real>>();
  load_kernel<backward_points<kType, Real>>();
  load_kernel<store_sums<typename ValueTraits<kType>::Sum>>();
}

// ---- the row kernel
// --------------------------------------------------------------------------------------

// Calls fn with the RowConfig for what is known at run time.
template <ValueType kType, Channels kMax, Points kPoints, class Fn>
void with_config(How how, Fn fn) {
  constexpr bool kCanSplit = is_half_line(kMax, sizeof(typename ValueTraits<kType>::Element));
  with_bool(how.fused, [&](auto fused) {
    with_bool(how.aligned, [&](auto aligned) {
      with_bool(how.split, [&](auto split) {
        fn(RowConfig<kType, kMax, kPoints, fused, split && kCanSplit, aligned>());
      });
    });
  });
}

// ---- instances
// -------------------------------------------------------------------------------------------

template <ValueType kType, Channels kMax, Points kPoints>
struct InstanceOf {
  static void load(How how) {
    if constexpr (kMax == dany) {
      if constexpr (kType != ValueType::f64) {
        if (!how.wide) return load_any<kType, float>(how.backward);
      }
      load_any<kType, double>(how.backward);
    } else {
      for (bool const aligned : {false, true}) {
        how.aligned = aligned;
        with_config<kType, kMax, kPoints>(
            how, [](auto config) { load_kernel<forward_rows<decltype(config)>>(); });
      }
    }
  }
  static void launch(Params const& p, How how, cudaStream_t stream) {
    if constexpr (kMax == dany) {
      if constexpr (kType != ValueType::f64) {
        if (!how.wide) return launch_any<kType, float>(p, how, stream);
      }
      launch_any<kType, double>(p, how, stream);
    } else {
      std::int64_t const rows = p.batch * p.query_count * p.head_count;
      with_config<kType, kMax, kPoints>(how, [&](auto config) {
        using Config = decltype(config);
        launch_kernel<forward_rows<Config>>(
            {(rows + Config::kSlots - 1) / Config::kSlots, Config::kThreads}, stream, p);
      });
    }
  }
};

}  // namespace msda::direct

#define MSDA_INSTANTIATE(type, channels, points, revision)    \
  namespace msda::direct {                                    \
  template <>                                                 \
  Instance instance<ValueType::type, channels, points>() {    \
    using Of = InstanceOf<ValueType::type, channels, points>; \
    return {Of::load, Of::launch};                            \
  }                                                           \
  }
