#include "cuda/tests/sim_fixture.h"

#include "cuda/sim_arena.h"

namespace simt::cuda::test {

std::vector<int> Ints::now() const {
  std::vector<int> values(kCount);
  device_copy(values.data(), data, kBytes);
  return values;
}

}  // namespace simt::cuda::test
