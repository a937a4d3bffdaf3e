// Turns a bool known at run time into one known when compiled.
#pragma once

#include <type_traits>

namespace msda {

// Calls fn with std::true_type or std::false_type; with_bools() with both.
template <class Fn>
void with_bool(bool value, Fn fn) {
  if (value) {
    fn(std::true_type());
  } else {
    fn(std::false_type());
  }
}

template <class Fn>
void with_bools(Fn fn) {
  fn(std::false_type());
  fn(std::true_type());
}

}  // namespace msda
