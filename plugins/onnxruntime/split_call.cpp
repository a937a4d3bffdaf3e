#include "split_call.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

namespace msda::ort {
namespace {

using plugins::Prepared;

// Never ends: at the end of the process the driver may be gone before it.
plugins::PlanCache& cache() {
  static auto& plans = *new plugins::PlanCache;
  return plans;
}

msda_handle_options one_thread_of_cpu() {
  auto options = make<msda_handle_options>();
  options.device = MSDA_DEVICE_CPU;
  options.thread_count = 1;
  return options;
}

// A part takes some 50 us: 2^18 products of a channel and a point.
constexpr double kWorkOfPart = 262144.0;
constexpr std::int64_t kPartsOfThread =
    4;  // so that a thread that comes late does not delay the end by much

std::int64_t queries_of_part(const msda_problem& problem, std::int64_t points) {
  static const std::int64_t threads = std::max(1U, std::thread::hardware_concurrency());
  const double work = static_cast<double>(problem.query_count) *
                      static_cast<double>(problem.head_count) *
                      static_cast<double>(problem.head_dim) * static_cast<double>(points);
  const double most =
      static_cast<double>(threads * kPartsOfThread) / static_cast<double>(problem.batch);
  const auto parts = static_cast<std::int64_t>(std::ceil(std::min(most, work / kWorkOfPart)));
  return (problem.query_count + std::max<std::int64_t>(parts, 1) - 1) /
         std::max<std::int64_t>(parts, 1);
}

const char* at(const Tensor& tensor, std::int64_t element) {
  return static_cast<const char*>(tensor.data) +
         static_cast<std::size_t>(element) * item_bytes(dtype_of(tensor.type));
}

float to_float(const Tensor& tensor, std::int64_t element) {
  const char* const place = at(tensor, element);
  const auto bits = [place] {
    std::uint16_t half = 0;
    std::memcpy(&half, place, sizeof(half));
    return half;
  };
  const auto from_bits = [](std::uint32_t word) {
    float number = 0;
    std::memcpy(&number, &word, sizeof(number));
    return number;
  };
  switch (dtype_of(tensor.type)) {
    case MSDA_DTYPE_F64: {
      double number = 0;
      std::memcpy(&number, place, sizeof(number));
      return static_cast<float>(number);
    }
    case MSDA_DTYPE_BF16:
      return from_bits(std::uint32_t{bits()} << 16);
    case MSDA_DTYPE_F16: {
      const std::uint32_t sign = (bits() & 0x8000U) << 16;
      const std::uint32_t rest = bits() & 0x7FFFU;
      if (rest >= 0x7C00U) return from_bits(sign | 0x7F800000U | (rest & 0x3FFU) << 13);
      const float magnitude = from_bits(rest << 13) * 0x1p112F;  // normal or not
      return sign == 0 ? magnitude : -magnitude;
    }
    default: {
      float number = 0;
      std::memcpy(&number, place, sizeof(number));
      return number;
    }
  }
}

// The locations and weights of `count` rows (b, q) from `first` on, where references come in
// groups.
struct Locations {
  std::vector<float> coord, weight;

  Locations(const Inputs& inputs, const msda_problem& problem, std::int64_t first,
            std::int64_t count) {
    const std::int64_t points = problem.point_count, total = points * problem.level_count;
    const std::int64_t groups = inputs.reference.shape[3] / 2, heads = problem.head_count;
    coord.reserve(static_cast<std::size_t>(count * heads * total * 2));
    weight.reserve(static_cast<std::size_t>(count * heads * total));
    for (std::int64_t row = first; row < first + count; ++row) {
      for (std::int64_t head = row * heads; head < (row + 1) * heads; ++head) {
        for (std::int64_t k = 0; k < total; ++k) {
          for (std::int64_t axis = 0; axis < 2; ++axis) {
            const std::int32_t size = problem.level_hw[2 * (k / points) + 1 - axis];
            coord.push_back(
                to_float(inputs.reference, 2 * (row * groups + k % points % groups) + axis) +
                to_float(inputs.offset, 2 * (head * total + k) + axis) / static_cast<float>(size));
          }
        }
        add_softmax(inputs.logit, head * total, total);
      }
    }
  }

 private:
  void add_softmax(const Tensor& logit, std::int64_t first, std::int64_t count) {
    float most = -INFINITY, sum = 0;
    for (std::int64_t k = 0; k < count; ++k) most = std::max(most, to_float(logit, first + k));
    for (std::int64_t k = 0; k < count; ++k) {
      weight.push_back(std::exp(to_float(logit, first + k) - most));
      sum += weight.back();
    }
    for (auto one = weight.end() - count; one != weight.end(); ++one) *one /= sum;
  }
};

// A job is shared by all parts of a call.
struct Job {
  const Inputs& inputs;
  const msda_problem& problem;  // the whole
  std::int64_t points;          // of all levels
  std::int64_t part_queries;
  std::int64_t parts_of_batch;
  char* output;
  std::shared_ptr<const Prepared> part, last;  // the last part of a batch may be smaller

  std::mutex mutex;
  std::exception_ptr failure;

  void run(std::int64_t index) noexcept {
    try {
      const std::int64_t batch = index / parts_of_batch,
                         first = index % parts_of_batch * part_queries;
      const std::int64_t count = std::min(part_queries, problem.query_count - first);
      execute(count == part_queries ? *part : *last, batch, batch * problem.query_count + first,
              count);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  }

 private:
  // Rows are pairs (b, q).
  void execute(const Prepared& prepared, std::int64_t batch, std::int64_t row,
               std::int64_t count) const {
    const std::int64_t heads = problem.head_count, dim = problem.head_dim;
    auto tensors = make<msda_tensors>();
    std::unique_ptr<Locations> locations;
    tensors.value = at(inputs.value, batch * problem.token_count * heads * dim);
    tensors.value_scale = static_cast<const float*>(inputs.scale.data);
    if (inputs.is_grouped) {
      locations = std::make_unique<Locations>(inputs, problem, row, count);
      tensors.coord = locations->coord.data();
      tensors.weight = locations->weight.data();
    } else if (inputs.is_fused) {
      tensors.reference = at(inputs.reference, row * problem.level_count * problem.reference_dim);
      tensors.offset = at(inputs.offset, row * heads * points * 2);
      tensors.logit = at(inputs.logit, row * heads * points);
    } else {
      tensors.coord = at(inputs.coord, row * heads * points * 2);
      tensors.weight = at(inputs.weight, row * heads * points);
    }
    const msda_dtype value_dtype = problem.value_dtype;
    const std::size_t item = value_dtype == MSDA_DTYPE_F8_E4M3 ? 4 : item_bytes(value_dtype);
    tensors.output = output + static_cast<std::size_t>(row * heads * dim) * item;
    Workspace workspace(prepared.plan);
    workspace.attach(tensors);
    prepared.plan.execute(tensors);
  }
};

std::int64_t point_total(const msda_problem& problem) {
  if (problem.point_counts == nullptr)
    return std::int64_t{problem.point_count} * problem.level_count;
  std::int64_t total = 0;
  for (std::int32_t l = 0; l < problem.level_count; ++l) total += problem.point_counts[l];
  return total;
}

// Memory of the host's arena. It is given back in the order of the stream, so it may be before the
// work is done.
class Scratch {
 public:
  Scratch(const OrtApi& api, const OrtKernelContext* context, const OrtMemoryInfo* memory,
          std::size_t bytes)
      : api_(api) {
    if (bytes == 0) return;
    check(api.KernelContext_GetAllocator(context, memory, &allocator_));
    if (OrtStatus* const failure = api.AllocatorAlloc(allocator_, bytes, &data_)) {
      api.ReleaseAllocator(allocator_);
      check(failure);
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (allocator_ == nullptr) return;
    if (OrtStatus* const failure = api_.AllocatorFree(allocator_, data_))
      api_.ReleaseStatus(failure);
    api_.ReleaseAllocator(allocator_);
  }
  void* data() const noexcept { return data_; }

 private:
  const OrtApi& api_;
  OrtAllocator* allocator_ = nullptr;
  void* data_ = nullptr;
};

void run_part(void* job, std::size_t index) {
  static_cast<Job*>(job)->run(static_cast<std::int64_t>(index));
}

}  // namespace

void run_on_cpu(const OrtApi& api, const OrtKernelContext* context, const Inputs& inputs,
                const OwnedProblem& owned, void* output) {
  const msda_problem& problem = owned.problem;
  const msda_handle_options device = one_thread_of_cpu();
  const auto whole = cache().get(problem, make<msda_plan_options>(), device);
  if (problem.batch == 0 || problem.query_count == 0 || problem.head_count == 0 ||
      problem.head_dim == 0)
    return;

  auto options = make<msda_plan_options>();
  options.mode = MSDA_PLAN_FORCED;
  options.kernel_id = whole->info.kernel_id;
  const std::int64_t points = point_total(problem), queries = queries_of_part(problem, points);
  const auto part_of = [&](std::int64_t count) {
    msda_problem part = problem;
    part.batch = 1;
    part.query_count = count;
    return cache().get(part, options, device);
  };
  const std::int64_t parts = (problem.query_count + queries - 1) / queries;
  Job job{inputs,
          problem,
          points,
          queries,
          parts,
          static_cast<char*>(output),
          part_of(queries),
          problem.query_count % queries == 0 ? nullptr : part_of(problem.query_count % queries),
          {},
          {}};
  const std::int64_t count = problem.batch * parts;
  if (count == 1) {
    job.run(0);
  } else {
    check(
        api.KernelContext_ParallelFor(context, run_part, static_cast<std::size_t>(count), 0, &job));
  }
  if (job.failure) std::rethrow_exception(job.failure);
}

std::shared_ptr<const Prepared> run_on_cuda(const OrtApi& api, const OrtKernelContext* context,
                                            const Inputs& inputs, const OwnedProblem& owned,
                                            void* output) {
  const OrtMemoryInfo* memory = nullptr;
  check(api.GetTensorMemoryInfo(inputs.value.value, &memory));
  auto device = make<msda_handle_options>();
  int ordinal = 0;
  check(api.MemoryInfoGetId(memory, &ordinal));
  device.device = ordinal;
  void* stream = nullptr;
  check(api.KernelContext_GetGPUComputeStream(context, &stream));
  auto prepared = cache().get(owned.problem, make<msda_plan_options>(), device);

  auto tensors = make<msda_tensors>();
  tensors.value = inputs.value.data;
  tensors.coord = inputs.coord.data;
  tensors.weight = inputs.weight.data;
  tensors.reference = inputs.reference.data;
  tensors.offset = inputs.offset.data;
  tensors.logit = inputs.logit.data;
  tensors.value_scale = static_cast<const float*>(inputs.scale.data);
  tensors.output = output;
  tensors.workspace_bytes = prepared->info.workspace_bytes;
  const Scratch scratch(api, context, memory, tensors.workspace_bytes);
  tensors.workspace = scratch.data();
  prepared->plan.execute(tensors, static_cast<msda_stream>(stream));
  return prepared;
}

}  // namespace msda::ort
