// A C++ client of the installed library.
#include <msda.hpp>

#include <cstdio>

int main() {
  try {
    const msda::Handle handle = msda::Handle::cpu(1);
    for (const msda_kernel_info& kernel : handle.kernels()) std::puts(kernel.kernel_id);
    auto problem = msda::make<msda_problem>();
    problem.batch = -1;
    msda::Plan(handle, problem);
  } catch (const msda::Error& error) {
    std::printf("C++ client: %s\n", error.what());
    return error.status() == MSDA_ERROR_INVALID_ARGUMENT ? 0 : 1;
  }
  return 1;
}
