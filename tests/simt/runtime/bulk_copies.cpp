// cp.async.bulk and cp.async.bulk.tensor: copies that the engine does, seen by mbarriers or by
// groups.
#include "runtime/model.h"
#include "runtime/shared_memory.h"
#include "runtime/tensor_map.h"

#include <bit>
#include <cstring>

namespace simt {
namespace {

// From and to where bytes go, in pieces: a bulk copy has one, a tile one each 16 bytes. Bytes from
// nowhere are zeros, bytes to nowhere are dropped.
struct Piece {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

void perform(std::vector<Piece> const& pieces) {
  for (Piece const& piece : pieces) {
    if (piece.to == nullptr) continue;
    if (piece.from == nullptr) {
      std::memset(piece.to, 0, piece.bytes);
    } else {
      std::memcpy(piece.to, piece.from, piece.bytes);
    }
  }
}

void check_bulk(const void* global, std::uint32_t shared, std::uint32_t bytes, Where where) {
  if (bytes % 16 != 0 || bytes == 0) {
    fail(where, "a bulk copy of %u bytes; multiples of 16 are allowed", bytes);
  }
  from_shared(shared, bytes, 16, where);
  if (global != nullptr) check_global(global, bytes, 16, where);
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
void give_load(std::vector<Piece> pieces, std::uint32_t bytes, MBarrier& barrier,
               std::shared_ptr<char> sync) {
  run->engine.give({.read = {},
                    .write =
                        [pieces = std::move(pieces), sync = std::move(sync), &barrier] {
                          acquire(sync.get());
                          perform(pieces);
                          release(barrier.sync.at(barrier.phase));
                        },
                    .after_read = {},
                    .after_write = [&barrier, bytes] { complete_bytes(barrier, bytes); }});
}

std::shared_ptr<char> released() {
  begin_own_work();
  auto sync = std::make_shared<char>();
  end_own_work();
  release(sync.get());
  return sync;
}

template <typename MakePieces>
void load_into_ranks(std::uint32_t to, std::uint32_t barrier, std::uint32_t bytes,
                     std::uint16_t ranks, MakePieces const& pieces, Where where) {
  if (ranks == 0) fail(where, "a multicast to no block");
  std::shared_ptr<char> const sync = released();
  OwnWork const work;
  for (std::uint32_t left = ranks; left != 0; left &= left - 1) {
    auto const rank = static_cast<std::uint32_t>(std::countr_zero(left));
    std::uint32_t const end = map_shared_rank(to, rank, where);
    std::uint32_t const signal = map_shared_rank(barrier, rank, where);
    give_load(pieces(end), bytes, barrier_beside(signal, end, where), sync);
  }
}

std::uint16_t own_rank(std::uint32_t address) {
  return static_cast<std::uint16_t>(1u << (address >> kRankShift));
}

// Where byte `at` of a swizzled tile lies: 16-byte pieces change places by the bits of their line.
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

// Of the element at `offset` of a tile that begins at a shared address.
char* in_tile(Tile const& tile, std::uint32_t begin, std::uint32_t offset, Where where) {
  std::uint32_t const at = swizzled(offset_of(begin) + offset, tile.map.swizzle_bytes);
  std::uint32_t const rank = begin & ~((1u << kRankShift) - 1);
  return static_cast<char*>(from_shared(rank | at, tile.map.element_bytes, 1, where));
}

std::vector<Piece> tile_pieces(Tile const& tile, const std::int32_t* at, std::uint32_t shared,
                               bool is_load, Where where) {
  from_shared(shared, tile.bytes, 128, where);
  std::vector<Piece> pieces;
  for_each_element(tile, at, [&](char* global, std::uint32_t offset) {
    char* const inner = in_tile(tile, shared, offset, where);
    std::size_t const bytes = tile.map.element_bytes;
    pieces.push_back(is_load ? Piece{inner, global, bytes} : Piece{global, inner, bytes});
  });
  return pieces;
}

// The two halves of a store: what is read is kept until it is written.
void give_store(std::vector<Piece> pieces, Where where) {
  Thread& thread = running_thread();
  thread.where = where;  // for a report of its end
  Grid& grid = *thread.own_block->cluster->grid;
  BulkGroups& bulk = thread.bulk;
  BulkGroups::Counts& counts = bulk.open();
  ++counts.unread;
  ++counts.unwritten;
  std::uint64_t const number = bulk.open_number();
  std::size_t bytes = 0;
  for (Piece const& piece : pieces) bytes += piece.bytes;
  auto kept = std::make_shared<std::vector<char>>(bytes);
  auto all = std::make_shared<std::vector<Piece>>(std::move(pieces));
  char* const proxy = &thread.own_block->proxy_sync;
  run->engine.give({.read =
                        [=, &bulk] {
                          acquire(proxy);
                          char* at = kept->data();
                          for (Piece& piece : *all) {
                            std::memcpy(at, piece.from, piece.bytes);
                            piece.from = at;
                            at += piece.bytes;
                          }
                          release(&bulk.sync);
                        },
                    .write =
                        [=, &bulk, &grid] {
                          perform(*all);
                          release(&bulk.sync);
                          release(&grid.end_sync);
                        },
                    .after_read = [=, &bulk] { bulk.note_read(number); },
                    .after_write = [=, &bulk] { bulk.note_written(number); }});
}

}  // namespace

BulkGroups::Counts& BulkGroups::open() {
  if (groups.empty()) groups.emplace_back();
  return groups.back();
}

void BulkGroups::note_read(std::uint64_t number) {
  --groups[number - first].unread;
  make_ready(waiters);  // which look again
}

void BulkGroups::note_written(std::uint64_t number) {
  --groups[number - first].unwritten;
  make_ready(waiters);
}

bool BulkGroups::is_done(std::uint64_t groups_left, bool read_only) const {
  for (std::size_t i = 0; i + 1 + groups_left < groups.size(); ++i) {
    if ((read_only ? groups[i].unread : groups[i].unwritten) != 0) return false;
  }
  return true;
}

void bulk_load(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier,
               Where where) {
  bulk_load_multicast(to, from, bytes, barrier, own_rank(to), where);
}

void bulk_load_multicast(std::uint32_t to, const void* from, std::uint32_t bytes,
                         std::uint32_t barrier, std::uint16_t ranks, Where where) {
  check_bulk(from, to, bytes, where);
  auto const pieces = [&](std::uint32_t end) {
    return std::vector<Piece>{{from_shared(end, bytes, 16, where), from, bytes}};
  };
  load_into_ranks(to, barrier, bytes, ranks, pieces, where);
}

void bulk_copy_to_rank(std::uint32_t to, std::uint32_t from, std::uint32_t bytes,
                       std::uint32_t barrier, Where where) {
  check_bulk(nullptr, to, bytes, where);
  const void* const begin = from_own_shared(from, bytes, 16, where);
  auto const pieces = [&](std::uint32_t end) {
    return std::vector<Piece>{{from_shared(end, bytes, 16, where), begin, bytes}};
  };
  load_into_ranks(to, barrier, bytes, own_rank(to), pieces, where);
}

void bulk_store(void* to, std::uint32_t from, std::uint32_t bytes, Where where) {
  check_bulk(to, from, bytes, where);
  const void* const begin = from_own_shared(from, bytes, 16, where);
  OwnWork const work;
  give_store({{to, begin, bytes}}, where);
}

void tensor_load(std::uint32_t to, const void* map, const std::int32_t* at, std::uint32_t rank,
                 std::uint32_t barrier, Where where) {
  tensor_load_multicast(to, map, at, rank, barrier, own_rank(to), where);
}

void tensor_load_multicast(std::uint32_t to, const void* map, const std::int32_t* at,
                           std::uint32_t rank, std::uint32_t barrier, std::uint16_t ranks,
                           Where where) {
  Tile const tile = tile_of(map, at, rank, where);
  auto const pieces = [&](std::uint32_t end) { return tile_pieces(tile, at, end, true, where); };
  load_into_ranks(to, barrier, tile.bytes, ranks, pieces, where);
}

void tensor_store(const void* map, const std::int32_t* at, std::uint32_t rank, std::uint32_t from,
                  Where where) {
  Tile const tile = tile_of(map, at, rank, where);
  for (std::uint32_t i = 0; i < rank; ++i) {
    // An H200 ends other kernels with cudaErrorIllegalInstruction.
    if (at[i] < 0) fail(where, "coordinate %d of dimension %u of a store is negative", at[i], i);
  }
  from_own_shared(from, tile.bytes, 128, where);
  OwnWork const work;
  give_store(tile_pieces(tile, at, from, false, where), where);
}

void commit_bulk_stores(Where where) {
  BulkGroups& bulk = running_thread(where).bulk;
  OwnWork const work;
  static_cast<void>(bulk.open());
  bulk.groups.emplace_back();
}

void wait_bulk_stores(std::uint32_t groups_left, bool read_only, Where where) {
  Thread& thread = running_thread(where);
  BulkGroups& bulk = thread.bulk;
  {
    OwnWork const work;
    static_cast<void>(bulk.open());
    while (!bulk.is_done(groups_left, read_only)) {
      bulk.waiters.push_back(&thread);
      wait("cp.async.bulk.wait_group", groups_left, where);
    }
    while (bulk.groups.size() > 1 && bulk.groups.front().unwritten == 0) {
      bulk.groups.pop_front();
      ++bulk.first;
    }
  }
  acquire(&bulk.sync);
}

}  // namespace simt
