// Arrays as files hold them, and what their elements are.
#pragma once

#include "command/files/array.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msda::command {

// An array as a file holds it. Some files do not say the whole type: see kinds 'u' and 'V'.
struct StoredArray {
  char kind = 'f';  // 'f' float, 'i' signed, 'u' unsigned, 'b' bool, 'V' raw bytes
  std::size_t item_bytes = 0;
  Shape shape;
  Bytes bytes;                 // little endian, the last index running fastest
  bool is_big_endian = false;  // in the file

  std::string descr() const;  // "<f4", as NumPy spells what is in the file
};

// The user's words about a tensor's elements in a file that does not tell them itself.
struct TypeWish {
  msda_dtype stored = MSDA_DTYPE_NONE;  // NONE: nothing
  std::string flag;                     // that says it, for messages; empty: none can
  bool takes_scaled = true;             // whether it may be of a type that value alone can have
};
// `label` is the file and array for messages.
std::vector<std::int64_t> to_integers(StoredArray const& array, std::string const& label);
Array to_floats(StoredArray array, TypeWish const& wish, std::string const& label);

// (H, W) pairs or point counts as the library takes them.
std::vector<std::int32_t> to_sizes(std::vector<std::int64_t> const& values,
                                   std::string const& label);

// A .npy file is a magic number, a version, a Python dictionary of three entries, and the bytes.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

// Reads a whole .npy file, of either byte order and with either index running fastest; `name` is
// for the messages.
StoredArray parse_npy(Bytes file, std::string_view name);

// The header in front of an array's bytes, version 1.0.
std::string npy_header(std::string_view descr, Shape const& shape);
// How a type is spelled in it: bf16 is "<V2", as ml_dtypes writes it.
std::string npy_descr(msda_dtype type);

}  // namespace msda::command
