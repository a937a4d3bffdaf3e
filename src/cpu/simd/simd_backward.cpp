#include "cpu/simd/simd_backward.h"

#include "core/dtype.h"
#include "cpu/thread_pool.h"
#include "cpu/zero_results.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

namespace msda::simd {
namespace {

// Heads of one batch item lie in the same pages of memory, so several are worked on together; but
// only so many that their records stay in a cache, and so many that all threads have work between
// two barriers.
constexpr std::int64_t kPointsTogether = 1 << 20;
constexpr std::int64_t kHeadsPerThread = 2;

// Whether heads in flight are whole batch items or a part of one: references have sums over all
// heads, and strips are cleared for all.
bool has_whole_items(Problem const& problem, Windows const& windows) {
  return problem.fused() || windows.in_strips;
}

std::int64_t heads_in_flight(Problem const& problem, Windows const& windows,
                             std::int64_t thread_count) {
  std::int64_t const unit = has_whole_items(problem, windows) ? problem.head_count : 1;
  std::int64_t const points = std::max(problem.query_count * problem.point_total, std::int64_t{1});
  std::int64_t count = std::max(kPointsTogether / points, std::int64_t{1});
  if (thread_count > 1) count = std::max(count, kHeadsPerThread * thread_count);
  count = (count + unit - 1) / std::max(unit, std::int64_t{1}) * unit;
  return std::min(count, problem.batch * problem.head_count);
}

// Rows of grad_output are read once a point, from anywhere: a copy of a head's rows has them in few
// pages. It has to pay, and with all else to keep to 24 bytes a point and 8 a value.
constexpr std::int64_t kPointsThatPay = 4;
constexpr std::int64_t kRowsOfPart = 512;
constexpr std::int64_t kReferencesOfPart = 64;
constexpr std::int64_t kBytesOfPoint = 24, kBytesOfValue = 8;

template <typename T>
constexpr std::int64_t bytes_of(std::int64_t count) {
  return count * static_cast<std::int64_t>(sizeof(T));
}

std::int64_t ends_of(Windows const& windows) {
  return windows.chunk_count * (windows.window_count + 1);
}

bool packs_rows(Problem const& problem, Windows const& windows) {
  std::int64_t const allowed =
      kBytesOfPoint * windows.records + kBytesOfValue * problem.token_count * problem.head_dim;
  std::int64_t const needed = bytes_of<Record>(windows.records) +
                              bytes_of<std::uint16_t>(ends_of(windows)) +
                              bytes_of<float>(2 * windows.edge_pixels * problem.head_dim) +
                              bytes_of<float>(problem.query_count * windows.padded_dim);
  bool const pays = problem.point_total >= kPointsThatPay &&
                    !(windows.in_strips && problem.output_dtype == MSDA_DTYPE_F32);
  return pays && needed <= allowed;
}

// The heads and queries that a call has in its workspace at a time. Less of it changes no bit: a
// head's sums and a query's references have one order.
struct InFlight {
  std::int64_t heads;
  std::int64_t sums;  // of windows, that run at the same time
  bool has_copy;      // of grad_output
};

struct Scratch {
  // Scratch of the head at this place among those in flight.
  HeadScratch head(std::int64_t i) const {
    return {records + i * windows.records, ends + i * ends_of(windows), edges + i * edge_floats,
            row_floats == 0 ? nullptr : grad_output + i * row_floats};
  }
  WindowScratch window(std::int64_t i) const {
    return {rows + 2 * i * windows.padded_dim, pixels + i * pixel_floats,
            is_loaded + i * windows.window_pixels};
  }
  StripScratch strips(std::int64_t i) const {
    float* const row = rows + 2 * i * windows.padded_dim;
    return {row, row + windows.padded_dim,
            strip_floats == 0 ? nullptr : strip_sums + i * strip_floats};
  }

  float* references_of(std::int64_t q) const {
    return reference_floats == 0 ? nullptr : references + q * reference_floats;
  }

  template <typename T>
  T* take(std::int64_t count) const {
    return arena.take<T>(static_cast<std::size_t>(count));
  }

  Problem const& problem;
  Windows const& windows;
  InFlight in_flight;
  Arena& arena;
  std::int64_t heads = in_flight.heads;
  std::int64_t sums = std::min(heads * windows.band_count, in_flight.sums);
  std::int64_t edge_floats = 2 * windows.edge_pixels * problem.head_dim;
  std::int64_t pixel_floats = 2 * windows.window_pixels * windows.padded_dim;
  std::int64_t strip_floats = windows.strip_pixels * problem.head_dim *
                              std::min({heads, problem.head_count, kMaxHeadsTogether});
  std::int64_t row_floats = in_flight.has_copy ? problem.query_count * windows.padded_dim : 0;
  // Floats of a query; 0 where all heads of a batch item are in flight.
  std::int64_t reference_floats =
      problem.fused() && heads < problem.head_count
          ? static_cast<std::int64_t>(problem.levels.size()) * problem.reference_dim
          : 0;
  Record* records = take<Record>(heads * windows.records);
  std::uint16_t* ends = take<std::uint16_t>(heads * ends_of(windows));
  float* edges = take<float>(heads * edge_floats);
  float* grad_output = take<float>(heads * row_floats);
  // [Q][L][reference_dim]: gradients by the heads so far.
  float* references = take<float>(problem.query_count * reference_floats);
  float* rows = take<float>(2 * sums * windows.padded_dim);
  float* pixels = take<float>(sums * pixel_floats);
  float* strip_sums = take<float>(sums * strip_floats);
  unsigned char* is_loaded = take<unsigned char>(sums * windows.window_pixels);
};

std::int64_t whole_heads(Problem const& problem, Windows const& windows, std::int64_t count) {
  std::int64_t const M = problem.head_count;
  return has_whole_items(problem, windows) && count > M ? count / M * M : count;
}

// As many heads as fit workspace_limit_bytes. Where one is too many, it does without the copy of
// grad_output, then with the window of one thread.
InFlight choose_in_flight(Problem const& problem, Windows const& windows, Device const& device) {
  InFlight const most{heads_in_flight(problem, windows, device.thread_count), device.thread_count,
                      packs_rows(problem, windows)};
  std::size_t const limit = device.workspace_limit_bytes;
  auto const bytes = [&](InFlight const& in_flight) {
    Arena arena;
    [[maybe_unused]] Scratch const scratch{problem, windows, in_flight, arena};
    return arena.used_bytes();
  };
  for (bool const has_copy : {most.has_copy, false}) {
    auto const of_heads = [&](std::int64_t count) {
      return InFlight{whole_heads(problem, windows, count), most.sums, has_copy};
    };
    InFlight const less = of_heads(most_that_fit(
        most.heads, limit, [&](std::int64_t count) { return bytes(of_heads(count)); }));
    if (limit == 0 || bytes(less) <= limit) return less;
  }
  std::int64_t const sums =
      most_that_fit(most.sums, limit, [&](std::int64_t count) { return bytes({1, count, false}); });
  return {std::min<std::int64_t>(most.heads, 1), sums, false};
}

// Some heads of one call, from the first to the last pass.
class Heads {
 public:
  Heads(Launch const& launch, Scratch const& scratch, std::int64_t first, std::int64_t count)
      : launch_(launch), scratch_(scratch), first_(first), count_(count) {}

  void run() const {
    if (windows_.in_strips) {
      sum_strips();
    } else {
      sum_windows();
    }
    if (call_.wants_points()) store_points();
  }

 private:
  template <typename Item>
  void each(std::int64_t count, Item item) const {
    launch_.device.pool->run(count, item);
  }

  // Items one by one, each on the scratch that its thread has taken.
  template <typename Take, typename Item>
  void each_with(std::int64_t count, Take take, Item item) const {
    std::atomic<std::int64_t> next{0};
    each(scratch_.sums, [&](std::int64_t sum) {
      auto const scratch = take(sum);
      for (;;) {
        std::int64_t const i = next.fetch_add(1, std::memory_order_relaxed);
        if (i >= count) return;
        item(i, scratch);
      }
    });
  }

  HeadSource source(std::int64_t head) const {
    std::int64_t const i = first_ + head, M = problem_.head_count;
    return {problem_, call_, tables_.points, i / M, i % M};
  }

  void bin(std::int64_t head, std::int64_t chunk) const {
    tables_.bin(source(head), windows_, tables_.windows_of_points, chunk, scratch_.head(head));
  }

  // Each thread owns the sums of some heads of a batch item, and waits for no other.
  void sum_strips() const {
    std::int64_t const M = problem_.head_count, threads = launch_.device.thread_count;
    std::int64_t const together =
        std::min({(count_ + threads - 1) / threads, M, kMaxHeadsTogether});
    bool const in_place = scratch_.strip_floats == 0 && call_[Tensor::kGradValue] != nullptr;
    if (in_place && together < M) clear_items();
    auto const take = [this](std::int64_t sum) { return scratch_.strips(sum); };
    each_with(count_, take, [this, M, together](std::int64_t head, StripScratch const& strips) {
      std::int64_t const m = (first_ + head) % M, before = m % together;
      if (before > 0 && head > 0) return;  // with a head before
      std::int64_t const heads = std::min({together - before, M - m, count_ - head});
      for (std::int64_t h = head; h < head + heads; ++h) {
        for (std::int64_t c = 0; c < windows_.chunk_count; ++c) bin(h, c);
        if (scratch_.row_floats > 0) pack(h, 0, problem_.query_count);
      }
      tables_.sum_strips(source(head), windows_, heads, scratch_.head(head), strips);
    });
  }

  // Whole batch items, with the first of their heads.
  void clear_items() const {
    constexpr std::int64_t kPart = 256 * 1024;
    std::int64_t const M = problem_.head_count, item = first_ / M;
    if (first_ % M != 0) return;
    std::int64_t const item_bytes = bytes_of<float>(problem_.token_count * M * problem_.head_dim);
    std::int64_t const bytes = std::max(count_ / M, std::int64_t{1}) * item_bytes;
    auto* const begin = static_cast<std::byte*>(call_[Tensor::kGradValue]) + item * item_bytes;
    each((bytes + kPart - 1) / kPart, [=](std::int64_t i) {
      std::int64_t const size = std::min(kPart, bytes - i * kPart);
      std::memset(begin + i * kPart, 0, static_cast<std::size_t>(size));
    });
  }

  void sum_windows() const {
    // Here and in store_points() the heads of a chunk follow one another: where rows do not begin
    // lines, two heads share one.
    each(count_ * windows_.chunk_count, [this](std::int64_t i) { bin(i % count_, i / count_); });
    if (scratch_.row_floats > 0) pack_rows();
    sum_bands();
    if (call_[Tensor::kGradValue] != nullptr) {
      each(count_ * windows_.band_count, [this](std::int64_t i) {
        std::int64_t const head = i / windows_.band_count;
        tables_.band.join_edge(source(head), windows_, i % windows_.band_count,
                               scratch_.head(head));
      });
    }
  }

  void pack_rows() const {
    std::int64_t const Q = problem_.query_count;
    std::int64_t const parts = (Q + kRowsOfPart - 1) / kRowsOfPart;
    each(count_ * parts, [this, Q, parts](std::int64_t i) {
      std::int64_t const first = i % parts * kRowsOfPart;
      pack(i / parts, first, std::min(first + kRowsOfPart, Q));
    });
  }

  void pack(std::int64_t head, std::int64_t first, std::int64_t last) const {
    tables_.band.pack(source(head), first, last, windows_, scratch_.head(head));
  }

  // Bands from the last on: those of the coarse levels have the most points.
  void sum_bands() const {
    auto const take = [this](std::int64_t sum) {
      WindowScratch const window = scratch_.window(sum);
      std::fill_n(window.pixels, scratch_.pixel_floats, 0.0f);
      return window;
    };
    each_with(count_ * windows_.band_count, take,
              [this](std::int64_t i, WindowScratch const& window) {
                std::int64_t const head = i % count_;
                std::int64_t const band = windows_.band_count - 1 - i / count_;
                tables_.band.sum(source(head), windows_, band, scratch_.head(head), window);
              });
  }

  // References, which have sums over all heads, are stored with the points, while these are near;
  // but where threads would have nothing to do, after them.
  void store_points() const {
    std::int64_t const groups = windows_.chunk_count / windows_.chunks_of_row;
    std::int64_t const together = std::min(problem_.head_count, count_);
    std::int64_t const items = count_ / together * groups;
    bool const has_references = problem_.fused() && call_[Tensor::kGradReference] != nullptr;
    if (has_references && items >= launch_.device.thread_count) {
      each(items, [=, this](std::int64_t i) {
        std::int64_t const head = i / groups * together, group = i % groups;
        for (std::int64_t h = head; h < head + together; ++h) store_rows(h, group);
        Chunk const chunk = chunk_of(group);
        store_references(head, chunk.first_row, chunk.first_row + chunk.row_count);
      });
      return;
    }
    each(count_ * groups, [this](std::int64_t i) { store_rows(i % count_, i / count_); });
    if (!has_references) return;
    std::int64_t const Q = problem_.query_count,
                       parts = (Q + kReferencesOfPart - 1) / kReferencesOfPart;
    each(count_ / together * parts, [=, this](std::int64_t i) {
      std::int64_t const first = i % parts * kReferencesOfPart;
      store_references(i / parts * together, first, std::min(first + kReferencesOfPart, Q));
    });
  }

  Chunk chunk_of(std::int64_t group) const {
    return windows_.chunk(problem_, group * windows_.chunks_of_row);
  }

  // A head's rows of a chunk, or of the chunks of a longer row.
  void store_rows(std::int64_t head, std::int64_t group) const {
    for (std::int64_t c = 0; c < windows_.chunks_of_row; ++c) {
      unbin(head, group * windows_.chunks_of_row + c);
    }
    Chunk const rows = chunk_of(group);
    tables_.point_grads.store(source(head), rows.first_row, rows.first_row + rows.row_count,
                              row_of(head, rows.first_row));
  }

  // Stores those of queries [first, last), by all heads of a batch item that are in flight, from
  // `head` on.
  void store_references(std::int64_t head, std::int64_t first, std::int64_t last) const {
    HeadSource const first_source = source(head);
    for (std::int64_t q = first; q < last; ++q) {
      QueryHeads const heads{row_of(head, q), windows_.records,
                             (first_ + head) % problem_.head_count,
                             std::min(problem_.head_count, count_), scratch_.references_of(q)};
      tables_.point_grads.store_reference(first_source, q, heads);
    }
  }

  const Record* row_of(std::int64_t head, std::int64_t q) const {
    return scratch_.head(head).records + q * problem_.point_total;
  }

  // Puts the points of a chunk back into the order of rows.
  void unbin(std::int64_t head, std::int64_t index) const {
    Chunk const chunk = windows_.chunk(problem_, index);
    Record* const records = scratch_.head(head).records + chunk.first_record;
    Record rows[kChunkPoints];
    std::int64_t const count = chunk.record_count();
    for (std::int64_t i = 0; i < count; ++i) rows[records[i].place] = records[i];
    std::memcpy(records, rows, static_cast<std::size_t>(count) * sizeof(Record));
  }

  Launch const& launch_;
  Problem const& problem_ = launch_.problem;
  Call const& call_ = launch_.call;
  BackwardTables const& tables_ = static_cast<BackwardTables const&>(*launch_.prepared);
  Windows const& windows_ = tables_.windows;
  Scratch const& scratch_;
  std::int64_t first_;
  std::int64_t count_;
};

// See Problem::has_samples().
void run_without_samples(Launch const& launch) {
  Problem const& problem = launch.problem;
  zero_results(problem, launch.call);
  if (!problem.has_points() || launch.call[Tensor::kGradLogit] == nullptr) return;
  auto const& tables = static_cast<BackwardTables const&>(*launch.prepared);
  std::int64_t const M = problem.head_count;
  auto store_head = [&](std::int64_t i) {
    HeadSource const source(problem, launch.call, tables.points, i / M, i % M);
    tables.point_grads.store(source, 0, problem.query_count, nullptr);
  };
  launch.device.pool->run(problem.batch * M, store_head);
}

// The gradients of one batch item's tokens that are no pixels of a window: gaps between levels,
// borders, and levels without points.
void zero_tokens(Problem const& problem, Windows const& windows, std::byte* item) {
  auto const bytes = static_cast<std::size_t>(problem.head_count * problem.head_dim *
                                              dtype_bytes(problem.grad_value_dtype));
  auto const zero = [&](std::int64_t first, std::int64_t count) {
    std::memset(item + static_cast<std::size_t>(first) * bytes, 0,
                static_cast<std::size_t>(count) * bytes);
  };
  for (TokenRange const& gap : windows.gaps) zero(gap.begin, gap.end - gap.begin);
  std::size_t next = 0;
  std::int64_t const border = problem.value_border;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    bool const summed =
        next < windows.levels.size() && windows.levels[next].level == static_cast<std::int64_t>(l);
    if (!summed) {
      zero(level.token_start, level.token_count);
      continue;
    }
    ++next;
    if (border == 0) continue;
    zero(level.token_start, level.row_tokens);
    for (std::int64_t y = 1; y <= level.height; ++y) {
      std::int64_t const row = level.token_start + y * level.row_tokens;
      zero(row, 1);
      zero(row + level.row_tokens - 1, 1);
    }
    zero(level.token_start + (level.height + 1) * level.row_tokens, level.row_tokens);
  }
}

}  // namespace

BackwardTables::BackwardTables(Problem const& problem, std::pmr::memory_resource* memory)
    : points(problem, nullptr, memory),
      bin(choose_bin()),
      band(choose_band(problem)),
      sum_strips(choose_strips(problem)),
      point_grads(choose_point_grads(problem)),
      windows(problem, band.lanes, memory),
      windows_of_points(point_windows(problem, windows, points.read.rows, memory)) {}

void take_backward(Problem const& problem, Device const& device, Arena& arena) {
  if (!problem.has_samples()) return;
  Windows const windows(problem, choose_band(problem).lanes, std::pmr::get_default_resource());
  [[maybe_unused]] Scratch const scratch{problem, windows,
                                         choose_in_flight(problem, windows, device), arena};
}

void run_backward(Launch const& launch) {
  Problem const& problem = launch.problem;
  auto const& windows = static_cast<BackwardTables const&>(*launch.prepared).windows;
  std::int64_t const heads = problem.batch * problem.head_count;
  if (!problem.has_samples()) return run_without_samples(launch);
  if (launch.call[Tensor::kGradValue] == nullptr && !launch.call.wants_points()) return;
  if (auto* const grad_value = static_cast<std::byte*>(launch.call[Tensor::kGradValue])) {
    std::int64_t const item = problem.token_count * problem.head_count * problem.head_dim *
                              dtype_bytes(problem.grad_value_dtype);
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      zero_tokens(problem, windows, grad_value + b * item);
    }
  }
  Arena arena(launch.call.workspace);
  Scratch const scratch{problem, windows, choose_in_flight(problem, windows, launch.device), arena};
  // A part of a batch item's heads ends with them.
  bool const has_parts = has_whole_items(problem, windows) && scratch.heads < problem.head_count;
  std::int64_t count = 0;
  for (std::int64_t first = 0; first < heads; first += count) {
    std::int64_t const left =
        has_parts ? problem.head_count - first % problem.head_count : heads - first;
    count = std::min(scratch.heads, left);
    Heads(launch, scratch, first, count).run();
  }
}

}  // namespace msda::simd
