// The .npy header of NumPy: a magic number, a version and a Python dictionary of three entries.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include "command/files/stored_array.h"

#include <string>
#include <string_view>

namespace msda::command {

// Reads a whole .npy file, of either byte order and with either index running fastest; `name` is
// for the messages.
StoredArray parse_npy(Bytes file, std::string_view name);

// The header in front of an array's bytes, version 1.0.
std::string npy_header(std::string_view descr, Shape const& shape);
// How a type is spelled in it: bf16 is "<V2", as ml_dtypes writes it.
std::string npy_descr(msda_dtype type);

}  // namespace msda::command
