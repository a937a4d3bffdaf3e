/**
 * @file plan_cache.h
 * The plans of a plugin: made once for each problem, options and device, used by any thread.
 *
 *     static auto& cache = *new msda::plugins::PlanCache;  // never ends: the driver may before it
 *     const auto prepared = cache.get(problem, options, device);   // throws msda::Error
 *     ...                                                          //
 * prepared->info.workspace_bytes prepared->plan.execute(tensors, stream);
 */
#ifndef MSDA_PLUGINS_PLAN_CACHE_H_
#define MSDA_PLUGINS_PLAN_CACHE_H_

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "msda.hpp"

namespace msda::plugins {

/** A plan and what the library says of it. */
struct Prepared {
  Plan plan;
  msda_plan_info info;
};

/** All that msda_plan_create() looks at, as bytes: what pointers point to in the place of pointers.
 */
inline std::string plan_key(const msda_problem& problem, const msda_plan_options& options,
                            const msda_handle_options& device) {
  std::string key;
  const auto append_bytes = [&key](const void* data, std::size_t bytes) {
    key.append(static_cast<const char*>(data), bytes);
  };
  const auto append = [&](const auto& plain) {  // without padding: equal structs have equal bytes
    static_assert(std::has_unique_object_representations_v<std::decay_t<decltype(plain)>>);
    append_bytes(&plain, sizeof(plain));
  };
  const auto append_array = [&](const auto* array, std::int64_t count) {
    key.push_back(array == nullptr ? '\0' : '\1');
    if (array != nullptr && count > 0) {
      append_bytes(array, static_cast<std::size_t>(count) * sizeof(*array));
    }
  };

  msda_problem sizes = problem;
  sizes.level_hw = sizes.point_counts = sizes.query_hw = nullptr;
  sizes.level_start = nullptr;
  msda_plan_options limits = options;
  limits.kernel_id = nullptr;
  append(sizes);
  append(limits);
  append(device);
  append_array(problem.level_hw, std::int64_t{2} * problem.level_count);
  append_array(problem.point_counts, problem.level_count);
  append_array(problem.query_hw, std::int64_t{2} * problem.query_grid_count);
  append_array(problem.level_start, problem.level_count);
  const char* const id = options.kernel_id;
  append_array(id, id == nullptr ? 0 : static_cast<std::int64_t>(std::strlen(id)));
  return key;
}

/**
 * Keeps at most `limit` plans, those used last among them, and the handle of each device.
 *
 * There are two generations of limit / 2 plans. A plan that is used moves to the young one; when
 * that is full it becomes the old one, whose plans are dropped. A dropped plan lives as long as
 * somebody holds it: who captures a call into a CUDA graph keeps the plan as long as the graph.
 */
class PlanCache {
 public:
  explicit PlanCache(std::size_t limit = 256) : half_(limit < 2 ? 1 : limit / 2) {}

  /** Returns the plan of the problem, which is made where there is none. Throws Error. */
  std::shared_ptr<const Prepared> get(const msda_problem& problem, const msda_plan_options& options,
                                      const msda_handle_options& device) {
    const std::string key = plan_key(problem, options, device);
    if (auto found = use(key, nullptr)) return found;
    // Made without the lock: a plan may take milliseconds, and other threads have theirs.
    Plan plan(*handle(device), problem, options);
    const msda_plan_info info = plan.info();
    return use(key, std::make_shared<const Prepared>(Prepared{std::move(plan), info}));
  }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return young_.size() + old_.size();
  }

 private:
  using Plans = std::unordered_map<std::string, std::shared_ptr<const Prepared>>;

  /** The plan of the key: one that is there, else `made`. */
  std::shared_ptr<const Prepared> use(const std::string& key,
                                      std::shared_ptr<const Prepared> made) {
    Plans dropped;  // is destroyed after the lock: the end of a CUDA plan may block
    const std::lock_guard lock(mutex_);
    if (const auto found = young_.find(key); found != young_.end()) return found->second;
    if (const auto found = old_.find(key); found != old_.end()) {
      made = std::move(found->second);
      old_.erase(found);
    }
    if (made == nullptr) return nullptr;
    if (young_.size() >= half_) {
      dropped = std::exchange(old_, std::exchange(young_, {}));
    }
    young_.emplace(key, made);
    return made;
  }

  std::shared_ptr<const Handle> handle(const msda_handle_options& device) {
    const std::string key(reinterpret_cast<const char*>(&device), sizeof(device));
    const std::lock_guard lock(handles_mutex_);
    auto& found = handles_[key];
    if (found == nullptr) found = std::make_shared<const Handle>(device);
    return found;
  }

  const std::size_t half_;
  mutable std::mutex mutex_;
  Plans young_, old_;
  std::mutex handles_mutex_;
  std::map<std::string, std::shared_ptr<const Handle>> handles_;
};

}  // namespace msda::plugins

#endif  // MSDA_PLUGINS_PLAN_CACHE_H_
