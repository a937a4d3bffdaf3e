// A kernel family is a kernel and its planning. A variant is one instantiation of it, with an
// id of its own. A family defines kModel and kCode in its namespace; the registry joins them.
#pragma once

#include "core/arena.h"
#include "core/call.h"
#include "core/counts.h"
#include "core/device.h"
#include "core/problem.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace msda {

// Why a kernel does not take a problem.
enum class Reason : std::int32_t {
#define MSDA_REASON(reason, text) reason,
#include "core/reasons.inc"
#undef MSDA_REASON
};
inline std::string_view reason_text(Reason reason) {
  constexpr std::string_view kTexts[] = {
#define MSDA_REASON(reason, text) text,
#include "core/reasons.inc"
#undef MSDA_REASON
  };
  auto const index = static_cast<std::size_t>(reason);
  return index < std::size(kTexts) ? kTexts[index] : "unknown reason";
}

struct Variant {
  const char* id;           // family.target.dtype[...]@revision
  msda_dtype value_dtype;   // MSDA_DTYPE_NONE: any
  std::int32_t sm_min = 0;  // 0: CPU
  std::int32_t sm_max = 0;  // 0: open
  // A plan takes it for its predicted time only where the problem says that points are scattered,
  // or local; else for a measured time or by its id. It is faster on some tensors and slower on
  // others of the same shapes.
  bool for_scattered_points = false;
  bool for_local_points = false;
  // No measurement has shown it to be the fastest: a plan takes it for a measured time or by its
  // id.
  bool unproven = false;
  // A plan takes it for its predicted time only where no other kernel may be chosen: it is there
  // for what the others do not take.
  bool last_resort = false;
  // Its bits differ from run to run: it takes no problem that asks for MSDA_DETERMINISTIC.
  bool not_deterministic = false;

  // Whether points of such locality are those that it is for.
  bool suits(msda_point_locality locality) const {
    return (!for_scattered_points || locality == MSDA_POINTS_SCATTERED) &&
           (!for_local_points || locality == MSDA_POINTS_LOCAL);
  }
  // The compute capability alone decides; the device is a GPU.
  bool runs_on(Device const& device) const {
    return device.sm >= sm_min && (sm_max == 0 || device.sm <= sm_max);
  }
};

// A row of a variants.inc: the variant, and what the family knows of it beside, if anything.
template <typename Row = std::monostate>
struct VariantRow {
  Variant variant;
  Row row{};
};
// The rows of a variants.inc.
template <typename Row, std::size_t kCount>
class VariantTable {
 public:
  constexpr explicit VariantTable(const VariantRow<Row> (&rows)[kCount]) {
    for (std::size_t i = 0; i < kCount; ++i) {
      variants_[i] = rows[i].variant;
      rows_[i] = rows[i].row;
    }
  }
  constexpr std::span<const Variant> variants() const { return variants_; }
  // The row of one of variants().
  Row const& operator[](Variant const& variant) const { return rows_[index_of(variant)]; }
  std::size_t index_of(Variant const& variant) const {
    return static_cast<std::size_t>(&variant - &variants_[0]);
  }

 private:
  std::array<Variant, kCount> variants_{};
  std::array<Row, kCount> rows_{};
};

// Tables and function handles that prepare() made for one plan. Destroyed with the plan.
struct Prepared {
  virtual ~Prepared() = default;
  std::int32_t launch_count = 1;  // kernels that one call launches at most
};

// Deletes through the memory resource the object came from.
struct PreparedDeleter {
  std::pmr::memory_resource* memory = nullptr;
  std::size_t bytes = 0;
  std::size_t alignment = 0;
  void operator()(Prepared* prepared) const {
    prepared->~Prepared();
    memory->deallocate(prepared, bytes, alignment);
  }
};
using PreparedPtr = std::unique_ptr<Prepared, PreparedDeleter>;

template <typename T, typename... Arguments>
PreparedPtr make_prepared(std::pmr::memory_resource* memory, Arguments&&... arguments) {
  std::pmr::polymorphic_allocator<> allocator(memory);
  return PreparedPtr(allocator.new_object<T>(std::forward<Arguments>(arguments)...),
                     PreparedDeleter{memory, sizeof(T), alignof(T)});
}

// FamilyCode::prepare of a family whose plans are made by their constructor.
template <typename Plan>
PreparedPtr prepare(Variant const& variant, Problem const& problem, Device const& device,
                    std::pmr::memory_resource* memory) {
  return make_prepared<Plan>(memory, variant, problem, device);
}

// Everything a launch may look at.
struct Launch {
  const Problem& problem;
  const Device& device;
  const Prepared* prepared;
  const Call& call;
};

// A constant of a family's predictions: a row MSDA_COST of its variants.inc.
struct Constant {
  const char* name;
  double value;
};

// The part of a family that needs no device code: enough to choose among its kernels, and to count
// what they do, on a machine that cannot run them.
struct FamilyModel {
  const char* name;
  std::span<const Variant> variants;
  // kNone, or the first reason why this variant cannot run the problem on the device.
  Reason (*reject)(const Variant&, const Problem&, const Device&);
  // Predicted microseconds of one execution. costs: values for `constants`, in their order; null:
  // their own, which were measured.
  double (*predict)(const double* costs, const Variant&, const Problem&, const Device&);
  std::span<const Constant> constants = {};
  // Takes from the arena what launch() will take: run in counting mode for the size query; null:
  // nothing.
  void (*workspace)(const Variant&, const Problem&, const Device&, Arena&) = nullptr;
  // One execution's demands on the device that takes the problem; none where this was not counted.
  // Null: of no kernel of the family.
  std::optional<Counts> (*counts)(const Variant&, const Problem&, const Device&) = nullptr;
  // The numbers behind a reason of reject(), such as bytes asked for and there; null, or "": none.
  std::string (*numbers_of)(Reason, const Variant&, const Problem&, const Device&) = nullptr;

  double cost(Variant const& variant, Problem const& problem, Device const& device) const {
    return predict(nullptr, variant, problem, device);
  }
};

// FamilyModel::predict by a function that takes the constants as a struct (core/costs.inc).
template <typename Costs,
          double (*predicted_us)(Costs const&, Variant const&, Problem const&, Device const&)>
double predict(const double* costs, Variant const& variant, Problem const& problem,
               Device const& device) {
  Costs values;
  if (costs != nullptr) std::memcpy(static_cast<void*>(&values), costs, sizeof values);
  return predicted_us(values, variant, problem, device);
}

// The part that runs on a device.
struct FamilyCode {
  // Everything that is not a launch, once a plan: which kernels its calls start, for the types and
  // sizes of the problem. May return null.
  PreparedPtr (*prepare)(const Variant&, const Problem&, const Device&, std::pmr::memory_resource*);
  // Looks up the kernel for the buffers' alignment and launches it. Never allocates; throws
  // StatusError when the device refuses.
  void (*launch)(const Variant&, const Launch&);
};

struct Family {
  FamilyModel const& model;
  const FamilyCode* code;  // null for a GPU's family in a build without CUDA
};

}  // namespace msda
