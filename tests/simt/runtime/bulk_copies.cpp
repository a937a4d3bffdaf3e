// cp.async.bulk and cp.async.bulk.tensor into shared memory: copies that the engine does, seen by
// mbarriers.
#include "runtime/model.h"
#include "runtime/shared_memory.h"
#include "runtime/tensor_map.h"

#include <cstring>
#include <memory>
#include <vector>

namespace simt {
namespace {

// A part of a copy: a bulk copy has one, a tile one an element. Bytes from nowhere are zeros.
struct Part {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

void perform(std::vector<Part> const& parts) {
  for (Part const& part : parts) {
    if (part.from == nullptr) {
      std::memset(part.to, 0, part.bytes);
    } else {
      std::memcpy(part.to, part.from, part.bytes);
    }
  }
}

void check_bulk(const void* global, std::uint32_t shared, std::uint32_t bytes, Where where) {
  if (bytes % 16 != 0 || bytes == 0) {
    fail(where, "a bulk copy of %u bytes; multiples of 16 are allowed", bytes);
  }
  from_shared(shared, bytes, 16, where);
  check_global(global, bytes, 16, where);
}

MBarrier& barrier_beside(std::uint32_t address, std::uint32_t to, Where where) {
  if (address >> kRankShift != to >> kRankShift) {
    fail(where, "the mbarrier %#x and the copy's end %#x are of different blocks", address, to);
  }
  from_shared(address, 8, 8, where);
  Block& block = block_of(running_thread(), address, where);
  auto const found = block.mbarriers.find(offset_of(address));
  if (found == block.mbarriers.end()) {
    fail(where, "no mbarrier was initialised at shared address %#x", address);
  }
  return found->second;
}

// The engine's share of a load: `bytes` count at the barrier. `sync`: what the giver has done.
void give_load(std::vector<Part> parts, std::uint32_t bytes, MBarrier& barrier,
               std::shared_ptr<char> sync) {
  run->engine.give({.copy =
                        [parts = std::move(parts), sync = std::move(sync), &barrier] {
                          acquire(sync.get());
                          perform(parts);
                          release(barrier.sync.at(barrier.phase));
                        },
                    .after_copy = [&barrier, bytes] { complete_bytes(barrier, bytes); }});
}

std::shared_ptr<char> released() {
  begin_own_work();
  auto sync = std::make_shared<char>();
  end_own_work();
  release(sync.get());
  return sync;
}

// The place of byte `at` in a swizzled tile: vecs of 16 bytes change places by the bits of their
// line.
std::uint32_t swizzled(std::uint32_t at, std::uint32_t swizzle_bytes) {
  std::uint32_t const bits = swizzle_bytes / 16 - 1;
  return swizzle_bytes == 0 ? at : at ^ ((at >> 7 & bits) << 4);
}

struct Tile {
  TensorMap map;
  std::uint32_t bytes = 0;
};

Tile tile_of(const void* map_at, const std::int32_t* at, std::uint32_t rank, Where where) {
  if (reinterpret_cast<std::uintptr_t>(map_at) % 64 != 0) {
    fail(where, "the tensor map at %p is no multiple of 64", map_at);
  }
  Tile tile{decode_tensor_map(map_at), 0};
  TensorMap const& map = tile.map;
  if (map.rank != rank) fail(where, "%u coordinates for a tensor of rank %u", rank, map.rank);
  // An H200 ends other kernels with cudaErrorIllegalInstruction.
  if (at[0] * std::int64_t{map.element_bytes} % 16 != 0) {
    fail(where, "coordinate %d of the fastest dimension is no multiple of 16 bytes", at[0]);
  }
  std::uint64_t box = map.element_bytes, last = map.size[0] * map.element_bytes;
  for (std::uint32_t i = 0; i < rank; ++i) box *= map.box[i];
  for (std::uint32_t i = 1; i < rank; ++i) last += (map.size[i] - 1) * map.stride[i - 1];
  check_global(reinterpret_cast<const void*>(map.base), last, 16, where);
  tile.bytes = static_cast<std::uint32_t>(box);
  return tile;
}

// Calls fn(element in global memory or null, its offset in the tile) for each element of the box.
template <typename Fn>
void for_each_element(Tile const& tile, const std::int32_t* at, Fn const& fn) {
  TensorMap const& map = tile.map;
  std::uint32_t const count = tile.bytes / map.element_bytes;
  for (std::uint32_t n = 0; n < count; ++n) {
    std::uint32_t rest = n;
    bool is_inside = true;
    std::uint64_t offset = 0;
    for (std::uint32_t i = 0; i < map.rank; ++i) {
      std::int64_t const index = std::int64_t{at[i]} + rest % map.box[i];
      rest /= map.box[i];
      is_inside = is_inside && index >= 0 && static_cast<std::uint64_t>(index) < map.size[i];
      offset += static_cast<std::uint64_t>(index) *
                (i == 0 ? std::uint64_t{map.element_bytes} : map.stride[i - 1]);
    }
    fn(is_inside ? reinterpret_cast<char*>(map.base + offset) : nullptr, n * map.element_bytes);
  }
}

// The element at `offset` of a tile that begins at a shared address.
char* in_tile(Tile const& tile, std::uint32_t begin, std::uint32_t offset, Where where) {
  std::uint32_t const at = swizzled(offset_of(begin) + offset, tile.map.swizzle_bytes);
  std::uint32_t const rank = begin & ~((1u << kRankShift) - 1);
  return static_cast<char*>(from_shared(rank | at, tile.map.element_bytes, 1, where));
}

std::vector<Part> tile_parts(Tile const& tile, const std::int32_t* at, std::uint32_t shared,
                             Where where) {
  from_shared(shared, tile.bytes, 128, where);
  std::vector<Part> parts;
  for_each_element(tile, at, [&](char* global, std::uint32_t offset) {
    char* const inner = in_tile(tile, shared, offset, where);
    parts.push_back({inner, global, tile.map.element_bytes});
  });
  return parts;
}

}  // namespace

void bulk_load(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier,
               Where where) {
  check_bulk(from, to, bytes, where);
  std::shared_ptr<char> const sync = released();
  OwnWork const work;
  give_load({{from_shared(to, bytes, 16, where), from, bytes}}, bytes,
            barrier_beside(barrier, to, where), sync);
}

void tensor_load(std::uint32_t to, const void* map, const std::int32_t* at, std::uint32_t rank,
                 std::uint32_t barrier, Where where) {
  Tile const tile = tile_of(map, at, rank, where);
  std::shared_ptr<char> const sync = released();
  OwnWork const work;
  give_load(tile_parts(tile, at, to, where), tile.bytes, barrier_beside(barrier, to, where), sync);
}

}  // namespace simt
