// One row of variants.inc as an Instance. Included in a CUDA file a row, which ends in
// MSDA_INSTANTIATE(type, channels, points, spread, revision).
#pragma once

#include "kernels/common/choose.h"
#include "kernels/common/launch.cuh"
#include "kernels/persistent/persistent.h"
#include "kernels/persistent/rows.cuh"

namespace msda::persistent {

// Calls fn with the RowsConfig for what is known at run time.
template <ValueType kType, Channels kMost, Points kPoints, Spread kSpread, class Fn>
void with_config(How how, Fn fn) {
  constexpr bool kCanGroup = heads_of_line(kMost, sizeof(typename ValueTraits<kType>::Element)) > 1;
  with_bool(how.fused, [&](auto fused) {
    with_bool(how.aligned, [&](auto aligned) {
      with_bool(how.grouped, [&](auto grouped) {
        fn(RowsConfig<kType, kMost, kPoints, kSpread, fused, grouped && kCanGroup, aligned>());
      });
    });
  });
}

template <ValueType kType, Channels kMost, Points kPoints, Spread kSpread>
struct InstanceOf {
  static void load(How how) {
    for (bool const aligned : {false, true}) {
      how.aligned = aligned;
      with_config<kType, kMost, kPoints, kSpread>(
          how, [](auto config) { load_kernel<persistent_rows<decltype(config)>>(); });
    }
  }

  static void launch(Params const& p, Work const& work, How how, cudaStream_t stream) {
    with_config<kType, kMost, kPoints, kSpread>(how, [&](auto config) {
      using Config = decltype(config);
      launch_kernel<persistent_rows<Config>>(work.blocks.divisor, Config::kThreads, stream, p,
                                             work);
    });
  }
};

}  // namespace msda::persistent

#define MSDA_INSTANTIATE(type, channels, points, spread, revision)    \
  namespace msda::persistent {                                        \
  template <>                                                         \
  Instance instance<ValueType::type, channels, points, spread>() {    \
    using Of = InstanceOf<ValueType::type, channels, points, spread>; \
    return {Of::load, Of::launch};                                    \
  }                                                                   \
  }
