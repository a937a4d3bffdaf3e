#include "runtime/fiber.h"

#include "runtime/fresh_memory.h"
#include "runtime/sanitizers.h"

#include <boost/context/detail/fcontext.hpp>

#include <cstdlib>
#include <utility>

namespace simt {
namespace {

namespace context = boost::context::detail;

#if MSDA_SIMT_TSAN
// Only barriers and fences order memory, no switch does.
constexpr unsigned kSwitchWithoutOrder = 1;
#endif

struct Switch {
  Fiber* from = nullptr;
  Fiber* to = nullptr;
};
thread_local Switch last_switch;

void arrive(context::transfer_t transfer) {
#if MSDA_SIMT_ASAN
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(last_switch.to->fake_stack, &bottom, &bytes);
  if (last_switch.from->stack == nullptr) {  // the host's, whose stack is known from here on
    last_switch.from->stack = static_cast<char*>(const_cast<void*>(bottom));
    last_switch.from->stack_bytes = bytes;
  }
#endif
  last_switch.from->context = transfer.fctx;
}

void begin(context::transfer_t transfer) {
  auto const run = reinterpret_cast<void (*)()>(transfer.data);
  arrive(transfer);
  run();
  std::abort();
}

}  // namespace

void create_fiber(Fiber& fiber, char* stack, void (*run)(),
                  [[maybe_unused]] std::string const& name) {
  fiber = {};
  fiber.stack = stack;
  fiber.stack_bytes = kStackBytes;
  fiber.context = context::make_fcontext(stack + kStackBytes, kStackBytes, begin);
  fiber.run = run;
  create_shadow(fiber, name.c_str());
}

void create_shadow([[maybe_unused]] Fiber& fiber, [[maybe_unused]] const char* name) {
#if MSDA_SIMT_TSAN
  end_own_work();  // what the host did before is there for the kernel
  fiber.shadow = __tsan_create_fiber(0);
  begin_own_work();
  __tsan_set_fiber_name(fiber.shadow, name);
#endif
}

void destroy_fiber([[maybe_unused]] Fiber& fiber) {
#if MSDA_SIMT_TSAN
  if (fiber.shadow != nullptr) __tsan_destroy_fiber(fiber.shadow);
  fiber.shadow = nullptr;
#endif
}

void abandon_fiber(Fiber& fiber) { unpoison(fiber.stack, fiber.stack_bytes); }

void become_fiber([[maybe_unused]] Fiber& fiber) {
#if MSDA_SIMT_TSAN
  fiber.shadow = __tsan_get_current_fiber();
#endif
}

void switch_fiber(Fiber& from, Fiber& to) {
  if (&from == &to) return;
  last_switch = {&from, &to};
#if MSDA_SIMT_TSAN
  __tsan_switch_to_fiber(to.shadow, kSwitchWithoutOrder);
#endif
#if MSDA_SIMT_ASAN
  __sanitizer_start_switch_fiber(from.has_ended ? nullptr : &from.fake_stack, to.stack,
                                 to.stack_bytes);
#endif
  arrive(context::jump_fcontext(to.context, reinterpret_cast<void*>(to.run)));
}

SeenAs::SeenAs(Fiber& running, [[maybe_unused]] Fiber& seen) : running_(running) {
#if MSDA_SIMT_TSAN
  __tsan_switch_to_fiber(seen.shadow, kSwitchWithoutOrder);
#endif
}

SeenAs::~SeenAs() {
#if MSDA_SIMT_TSAN
  __tsan_switch_to_fiber(running_.shadow, kSwitchWithoutOrder);
#endif
  static_cast<void>(running_);
}

void Stacks::reserve(std::size_t count) {
  if (count <= count_) return;
  release();
  memory_ = map_fresh(count * kStackBytes);
  count_ = count;
}

void Stacks::swap(Stacks& other) {
  std::swap(memory_, other.memory_);
  std::swap(count_, other.count_);
}

void Stacks::release() {
  if (memory_ == nullptr) return;
  unmap_fresh(memory_, count_ * kStackBytes);
  memory_ = nullptr;
  count_ = 0;
}

}  // namespace simt
