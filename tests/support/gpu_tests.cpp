#include "support/gpu_tests.h"

#include <msda.h>

#include <string>

namespace msda::test {
namespace {

int& counter() {
  static int count = 0;
  return count;
}

struct Probe {
  bool available = false;
  std::string absence;

  Probe() {
    msda_handle_options options{};
    options.struct_size = sizeof(options);
    msda_handle* handle = nullptr;
    available = msda_handle_create(&options, &handle) == MSDA_SUCCESS;
    if (!available) absence = msda_last_error();
    msda_handle_destroy(handle);
  }
};

Probe const& probe() {
  static Probe const result;
  return result;
}

}  // namespace

bool gpu_available() { return probe().available; }
const char* gpu_absence() { return probe().absence.c_str(); }

doctest::skip needs_gpu() {
  ++counter();
  return doctest::skip(!gpu_available());
}

int gpu_test_count() { return counter(); }

}  // namespace msda::test
