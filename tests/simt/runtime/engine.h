// The copy engine: what it is given it does as late as it may, or at random times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

namespace simt {

class Random;

struct Operation {
  std::function<void()> copy;        // seen as the engine's by sanitizers
  std::function<void()> after_copy;  // the runtime's own work
};

class Engine {
 public:
  void give(Operation operation) { operations_.push_back(std::move(operation)); }
  bool is_idle() const { return operations_.empty(); }
  // Does one operation, the oldest or any; false where there is none. On the host's fiber.
  bool step(Random* random);

 private:
  std::deque<Operation> operations_;
};

}  // namespace simt
