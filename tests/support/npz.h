// Just enough of .npz (a zip archive of .npy arrays) to read tests/golden.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace msda::test {

struct NpzArray {
  std::vector<std::int64_t> shape;
  std::vector<double> values;  // from float64 or int32
};

// Throws std::runtime_error that names the file and what is wrong with it.
std::map<std::string, NpzArray> read_npz(std::string const& path);

}  // namespace msda::test
