// Lanes of a warp that meet.
#include "runtime/model.h"

#include <algorithm>
#include <cstring>

namespace simt {
namespace {

// A call of memcpy() would be intercepted by a sanitizer, and take a quarter of a kernel's time.
void copy_exchanged(void* to, const void* from, std::size_t bytes) {
  switch (bytes) {
    case 0:
      return;
    case 1:
      __builtin_memcpy(to, from, 1);
      return;
    case 2:
      __builtin_memcpy(to, from, 2);
      return;
    case 4:
      __builtin_memcpy(to, from, 4);
      return;
    case 8:
      __builtin_memcpy(to, from, 8);
      return;
    default:
      std::memcpy(to, from, bytes);
  }
}

LaneGroup& group_of(Warp& warp, std::uint32_t mask) {
  auto const found =
      std::ranges::find_if(warp.groups, [&](LaneGroup const& group) { return group.mask == mask; });
  if (found != warp.groups.end()) return *found;
  LaneGroup& group = warp.groups.emplace_back();
  group.mask = mask;
  group.waiters.reserve(32);
  return group;
}

void complete(LaneGroup& group) {
  group.present[group.phase & 1] = group.arrived;
  group.arrived = 0;
  ++group.phase;
  make_ready(group.waiters);
}

void check_same(LaneGroup const& group, const char* what, Where where) {
  if (group.arrived == 0) return;
  bool const is_same = group.what == what || std::strcmp(group.what, what) == 0;
  if (is_same && is_same_place(group.where, where)) return;
  fail(where, "lanes of a warp meet in different places: %s at %s:%u, and %s here", group.what,
       group.where.file_name(), group.where.line(), what);
}

}  // namespace

Exchange meet(std::uint32_t mask, const void* mine, std::size_t bytes, const char* what,
              bool orders_memory, Where where) {
  Thread& thread = running_thread(where);
  Warp& warp = *thread.warp;
  if ((mask >> thread.lane & 1) == 0) {
    fail(where, "%s: lane %u is not in the mask %#x that it names", what, thread.lane, mask);
  }
  begin_own_work();
  LaneGroup& group = group_of(warp, mask);
  check_same(group, what, where);
  group.what = what;
  group.where = where;
  std::uint64_t const phase = group.phase;
  copy_exchanged(group.table[phase & 1] + thread.lane * kMaxExchangedBytes, mine, bytes);
  group.arrived |= 1u << thread.lane;
  end_own_work();
  if (orders_memory) release(group.sync.at(phase));
  {
    OwnWork const work;
    if ((group.arrived & warp.alive) == (mask & warp.alive)) {
      complete(group);
    } else {
      group.waiters.push_back(&thread);
      wait(what, mask, where);
    }
  }
  if (orders_memory) acquire(group.sync.at(phase));
  return {group.present[phase & 1], group.table[phase & 1]};
}

void take(Exchange const& exchange, std::uint32_t lane, void* to, std::size_t bytes) {
  copy_exchanged(to, exchange.table + lane * kMaxExchangedBytes, bytes);
}

void leave_warp(Thread& thread) {
  Warp& warp = *thread.warp;
  warp.alive &= ~(1u << thread.lane);
  for (LaneGroup& group : warp.groups) {
    std::uint32_t const expected = group.mask & warp.alive;
    if (group.arrived != 0 && (group.arrived & warp.alive) == expected) complete(group);
  }
}

}  // namespace simt
