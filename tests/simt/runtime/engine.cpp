#include "runtime/engine.h"

#include "runtime/model.h"

#include <algorithm>

namespace simt {
namespace {

void do_as_copier(std::function<void()> const& work) {
  if (!work) return;
  SeenAs const copier(run->host, run->copier);
  work();
}

}  // namespace

bool Engine::step(Random* random) {
  if (operations_.empty()) return false;
  if (random != nullptr) {
    std::swap(operations_.front(), operations_[random->next() % operations_.size()]);
  }
  Operation& operation = operations_.front();
  if (!operation.was_read) {
    operation.was_read = true;
    do_as_copier(operation.read);
    if (operation.after_read) operation.after_read();
    return true;
  }
  Operation const last = std::move(operation);
  operations_.pop_front();
  do_as_copier(last.write);
  if (last.after_write) last.after_write();
  return true;
}

}  // namespace simt
