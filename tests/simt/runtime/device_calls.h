// What kernels do to the simulated device; cuda_header.h and ptx/ give these functions CUDA's
// names. All are called by a thread of a kernel, of which there is one fiber each.
#pragma once

#include "runtime/where.h"

#include <vector_types.h>

#include <cstddef>
#include <cstdint>

// Variables of a library that a program is linked with are found without a call.
#define MSDA_SIMT_TLS __thread __attribute__((tls_model("initial-exec")))

// The running thread's.
extern MSDA_SIMT_TLS uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace simt {

// What a thread knows of itself; the rest is in threadIdx and its kin.
struct Site {
  uint3 thread, block;
  std::uint32_t cluster_rank = 0;
  std::uint32_t lane = 0;
  std::uint32_t capability = 0;
};
// The running thread's site; null outside kernels. No fiber changes its thread of the host.
extern MSDA_SIMT_TLS Site* self;

// Ends the kernel with a report that names it, the block, the thread, and the place.
[[noreturn]] void fail(Where where, const char* format, ...) __attribute__((format(printf, 2, 3)));

// ---- shared memory: an arena a block, addressed by 32 bits as in PTX (the block's rank in its
// cluster above bit 24); what lies between variables is poisoned, fresh variables are garbage.

// Memory of one __shared__ declaration, which `tag` stands for.
void* shared_variable(const void* tag, std::size_t bytes, std::size_t alignment, Where where);
void* dynamic_shared(Where where);
std::uint32_t to_shared(const void* generic, Where where);
// Checks that `bytes` at the address are variables of a block that has not ended, and aligned.
void* from_shared(std::uint32_t address, std::size_t bytes, std::size_t alignment, Where where);
// Checks an address that must be in the thread's own block.
void* from_own_shared(std::uint32_t address, std::size_t bytes, std::size_t alignment, Where where);
std::uint32_t cluster_blocks();
std::uint32_t map_shared_rank(std::uint32_t address, std::uint32_t rank, Where where);
// Device memory, aligned.
void check_global(const void* at, std::size_t bytes, std::size_t alignment, Where where);

// ---- lanes of a warp

inline constexpr std::size_t kMaxExchangedBytes = 32;

// What each lane of `mask` gave, read through take(); valid until the lanes meet again.
struct Exchange {
  std::uint32_t present;
  const std::byte* table;
};
// Returns when all lanes of `mask` that have not exited are there, with the same `what` and place.
Exchange meet(std::uint32_t mask, const void* mine, std::size_t bytes, const char* what,
              bool orders_memory, Where where);
void take(Exchange const& exchange, std::uint32_t lane, void* to, std::size_t bytes);

// ---- barriers

void sync_block(Where where);
void arrive_cluster(Where where);
void wait_cluster(Where where);

// ---- mbarrier objects, in shared memory by their address

void mbarrier_init(std::uint32_t address, std::uint32_t count, Where where);
// The number of the phase that it arrives in.
std::uint64_t mbarrier_arrive(std::uint32_t address, std::uint32_t count, Where where);
void mbarrier_expect(std::uint32_t address, std::uint32_t bytes, Where where);
// Returns when the phase of that parity is complete.
void mbarrier_wait_parity(std::uint32_t address, std::uint32_t parity, Where where);

// ---- asynchronous copies: each is done at some time between here and the wait for it

// cp.async: the last `bytes - from_bytes` are zeros.
void copy_async(std::uint32_t to, const void* from, std::size_t bytes, std::size_t from_bytes,
                Where where);
void commit_async_copies(Where where);
void wait_async_copies(std::uint32_t groups_left, Where where);
void wait_all_async_copies(Where where);

// cp.async.bulk into shared memory completes transactions of an mbarrier beside it.
void bulk_load(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier,
               Where where);
// Tiles of a tensor: `map` is a CUtensorMap; `rank` coordinates, the fastest dimension's first.
void tensor_load(std::uint32_t to, const void* map, const std::int32_t* at, std::uint32_t rank,
                 std::uint32_t barrier, Where where);

// ---- order of memory

// __threadfence() and its kin: what other threads see of atomic operations carries it along.
void fence();
// Before an atomic operation; a thread that does many without a pause lets others go on.
void before_atomic(const void* at);
void after_atomic(const void* at);

// Lets others go on; a thread that keeps polling gives way to what it may wait for.
void pause();

// ---- programmatic dependent launch

void launch_dependents();
void wait_for_previous_grid(Where where);

}  // namespace simt
