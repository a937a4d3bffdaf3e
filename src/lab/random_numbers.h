// Random numbers that are the same on every machine: the distributions of <random> are not.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace msda::lab {

class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : state_(seed) {}

  // SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014).
  std::uint64_t bits() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // In [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  // Standard normal, by Box and Muller: every call after an odd one is the pair's other half.
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double const radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    double const angle = 2.0 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  std::uint64_t state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace msda::lab
