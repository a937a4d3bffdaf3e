// The .npy header of NumPy: a magic number, a version and a Python dictionary of three entries.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include "lab/array.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msda::lab {

// An array as a file holds it. Some files do not say the whole type: see kinds 'u' and 'V'.
struct StoredArray {
  char kind = 'f';  // 'f' float, 'i' signed, 'u' unsigned, 'b' bool, 'V' raw bytes
  std::size_t item_bytes = 0;
  Shape shape;
  std::vector<std::byte> bytes;

  std::string descr() const;  // "<f4", as NumPy spells it
};

// Reads a whole .npy file; `name` is for the messages.
StoredArray parse_npy(std::vector<std::byte> file, std::string_view name);

// The header in front of an array's bytes, version 1.0.
std::string npy_header(std::string_view descr, Shape const& shape);
// How a type is spelled in it: bf16 is "<V2", as ml_dtypes writes it.
std::string npy_descr(msda_dtype type);

}  // namespace msda::lab
