// Reading and writing the caller's size-prefixed structs, and the text and blob size protocol.
#pragma once

#include "core/status.h"

#include <msda.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace msda::api {

// No version of any struct will be larger; a larger struct_size is an uninitialised one.
inline constexpr std::size_t kLargestStruct = 4096;

// The size that a struct had first, which is the least that a client may have: the fields behind it
// are zero then.
template <typename T>
inline constexpr std::size_t kFirstSize = sizeof(T);
template <>
inline constexpr std::size_t kFirstSize<msda_problem> = offsetof(msda_problem, point_locality);
template <>
inline constexpr std::size_t kFirstSize<msda_tensors> = offsetof(msda_tensors, attention);

// Checks the size and that fields of a newer version are zero.
template <typename T>
void check_struct(const T* caller, std::string_view name) {
  if (caller == nullptr) invalid("{0} is NULL: must point to a {0}", name);
  if (caller->struct_size < kFirstSize<T> || caller->struct_size > kLargestStruct) {
    invalid("{}.struct_size is {}: must be sizeof({}), which is {} in this version", name,
            caller->struct_size, name, sizeof(T));
  }
  auto const* const bytes = reinterpret_cast<const unsigned char*>(caller);
  for (std::size_t i = sizeof(T); i < caller->struct_size; ++i) {
    if (bytes[i] == 0) continue;
    fail(
        MSDA_ERROR_ABI_MISMATCH,
        "{}.struct_size is {} and its byte {} is not zero: this library knows {} bytes, the caller "
        "uses a field of a newer version",
        name, caller->struct_size, i, sizeof(T));
  }
}

// A copy of the caller's struct as this version knows it.
template <typename T>
T read_struct(const T* caller, std::string_view name) {
  check_struct(caller, name);
  T known{};
  std::memcpy(&known, caller, std::min(caller->struct_size, sizeof(T)));
  return known;
}

// Reads a struct for which NULL stands for a zeroed one.
template <typename T>
T read_optional_struct(const T* caller, std::string_view name) {
  return caller == nullptr ? T{} : read_struct(caller, name);
}

// Fills what this version knows and keeps the caller's struct_size.
template <typename T>
void write_struct(T* caller, T filled, std::string_view name) {
  static_assert(kFirstSize<T> == sizeof(T), "all of the struct is written");
  check_struct(caller, name);
  filled.struct_size = caller->struct_size;
  *caller = filled;
}

template <typename T>
T& required(T* pointer, std::string_view name) {
  if (pointer == nullptr) invalid("{} is NULL: must not be", name);
  return *pointer;
}

// NULL buffer: only sets the size. Too small: sets the size and leaves the buffer alone.
inline void copy_out(const void* content, std::size_t bytes, void* buffer, std::size_t* size,
                     std::string_view name) {
  if (size == nullptr) invalid("{}_size is NULL: must point to the size of {}", name, name);
  std::size_t const capacity = *size;
  *size = bytes;
  if (buffer == nullptr) return;
  if (capacity < bytes) {
    fail(MSDA_ERROR_BUFFER_TOO_SMALL, "{}_size is {}: must be at least {}", name, capacity, bytes);
  }
  std::memcpy(buffer, content, bytes);
}

}  // namespace msda::api
