#include "runtime/engine.h"

#include "runtime/model.h"

#include <algorithm>

namespace simt {
bool Engine::step(Random* random) {
  if (operations_.empty()) return false;
  if (random != nullptr) {
    std::swap(operations_.front(), operations_[random->next() % operations_.size()]);
  }
  Operation const operation = std::move(operations_.front());
  operations_.pop_front();
  {
    SeenAs const copier(run->host, run->copier);
    operation.copy();
  }
  operation.after_copy();
  return true;
}

}  // namespace simt
