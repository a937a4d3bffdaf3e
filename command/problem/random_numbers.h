// Random numbers that are the same on every machine and compiler: the distributions of <random> are
// not.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>

namespace msda::command {

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}

  // SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014).
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double uniform(double low, double high) { return low + (high - low) * unit(); }
  // Two standard normal numbers, by Box and Muller.
  std::array<double, 2> normal_pair() {
    double const radius = std::sqrt(-2 * std::log(1 - unit()));
    double const angle = 2 * std::numbers::pi * unit();
    return {radius * std::cos(angle), radius * std::sin(angle)};
  }
  double normal() { return normal_pair()[0]; }
  // Both ends included.
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(double probability) { return unit() < probability; }
  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[integer(0, static_cast<std::int64_t>(choices.size()) - 1)];
  }

 private:
  std::uint64_t state_;
};

}  // namespace msda::command
