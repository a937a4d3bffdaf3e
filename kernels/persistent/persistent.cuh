// A row of variants.inc as its kernels. Included in CUDA files, which go on with
// MSDA_INSTANTIATE(type, channels, points, spread, revision, sm) for each of their rows.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/persistent/persistent_rows.cuh"

namespace msda::persistent {

// Whether there is code for inputs_narrow, which models have under autocast: most of them have 4 or
// 8 points.
template <ValueType kType, Points kPoints, Spread kSpread, bool kFused>
consteval bool has_narrow_inputs() {
  return kFused && (kType == ValueType::f16 || kType == ValueType::bf16) && kPoints > 0 &&
         slots_of(kSpread) == 1;
}

// Calls fn with the PersistentConfig for what is known at run time.
template <ValueType kType, Channels kMax, Points kPoints, Spread kSpread, bool kFused,
          bool kGrouped, bool kAligned, class Fn>
void with_heads(KernelOptions options, Fn fn) {
#define MSDA_CONFIG(heads, inputs)                                                            \
  PersistentConfig<RowsKind{kType, kMax, kPoints, kSpread, kFused, kGrouped, kAligned, heads, \
                            inputs}>()
  if constexpr (kAligned && kMax == d32) {
    constexpr bool kOnePerLine =
        heads_of_line(kMax, sizeof(typename ValueTraits<kType>::Element)) == 1;
    if constexpr (kGrouped || kOnePerLine) {
      if (options.heads == heads_8 && options.inputs == inputs_f32)
        return fn(MSDA_CONFIG(heads_8, inputs_f32));
      if constexpr (has_narrow_inputs<kType, kPoints, kSpread, kFused>()) {
        if (options.heads == heads_8 && options.inputs == inputs_narrow)
          return fn(MSDA_CONFIG(heads_8, inputs_narrow));
      }
      if (options.heads == heads_8) return fn(MSDA_CONFIG(heads_8, inputs_any));
    }
    if constexpr (!kGrouped) {
      if (options.heads == heads_1 && options.inputs == inputs_f32)
        return fn(MSDA_CONFIG(heads_1, inputs_f32));
      if (options.heads == heads_1) return fn(MSDA_CONFIG(heads_1, inputs_any));
    }
  }
  // Kernels that cache levels know the heads.
  if constexpr (!caches_levels(kSpread) || !kAligned) fn(MSDA_CONFIG(heads_any, inputs_any));
#undef MSDA_CONFIG
}

template <ValueType kType, Channels kMax, Points kPoints, Spread kSpread, class Fn>
void with_config(KernelOptions options, Fn fn) {
  constexpr bool kCanGroup = heads_of_line(kMax, sizeof(typename ValueTraits<kType>::Element)) > 1;
  auto const with_fused = [](bool fused, auto then) {
    if constexpr (caches_levels(kSpread)) {
      then(std::bool_constant<is_for_fused(kSpread)>());
    } else {
      with_bool(fused, then);
    }
  };
  with_fused(options.fused, [&](auto fused) {
    with_bool(options.aligned, [&](auto aligned) {
      with_bool(options.grouped, [&](auto grouped) {
        with_heads<kType, kMax, kPoints, kSpread, fused, grouped && kCanGroup, aligned>(options,
                                                                                        fn);
      });
    });
  });
}

// The threads of a block in the code that was loaded, which is not what the host sees of the
// kernel.
template <class Config>
std::int32_t threads_of_code(std::int32_t code_sm) {
#ifdef MSDA_SIMULATED
  code_sm = kCodeSm;
#endif
  return threads_of(Config::kBlock, code_sm);
}

template <ValueType kType, Channels kMax, Points kPoints, Spread kSpread>
Kernels load_kernels(KernelOptions options) {
  Kernels kernels;
  InputTypes const inputs = options.inputs;
  for (bool const aligned : {false, true}) {
    for (bool const wide : {false, true}) {
      options.aligned = aligned;
      options.inputs = wide ? inputs : inputs_any;
      with_config<kType, kMax, kPoints, kSpread>(options, [&](auto config) {
        using Config = decltype(config);
        auto const kernel =
            load_kernel(persistent_rows<Config>, Config::kCachesLevels ? kMaxCachedBytes : 0);
        kernels[aligned][wide] = {kernel, threads_of_code<Config>(kernel.code_sm),
                                  Config::kCachesLevels};
      });
    }
  }
  return kernels;
}

}  // namespace msda::persistent

#define MSDA_INSTANTIATE(type, channels, points, spread, revision, sm)                    \
  template msda::persistent::Kernels                                                      \
      msda::persistent::load_kernels<msda::ValueType::type, msda::persistent::channels,   \
                                     msda::persistent::points, msda::persistent::spread>( \
          KernelOptions);
