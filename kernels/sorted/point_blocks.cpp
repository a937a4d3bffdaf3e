#include "kernels/sorted/point_blocks.h"

#include "core/dtype.h"
#include "kernels/common/divide_up.h"

#include <algorithm>

namespace msda::sorted {

std::int64_t rounds_of_block(std::int64_t blocks, std::int64_t most, std::int32_t sm_count) {
  return std::clamp<std::int64_t>(blocks / (kBlocksOfSm * sm_count), 1, most);
}

PairedLaunch paired_launch(Params const& p, Kernels const& kernels, std::int32_t sm_count) {
  std::int64_t const heads = heads_together(p.head_count);
  std::int64_t const queries = kernels.paired_rows / heads;  // of a round
  std::int64_t const batches = divide_up(p.point_total, kernels.paired_points);
  std::int64_t const of_chunk = p.batch * (p.head_count / heads) * batches;
  std::int64_t const rounds = divide_up(p.query_count, queries);  // of all chunks
  std::int64_t const of_block = rounds_of_block(of_chunk * rounds, kMaxPairedRounds, sm_count);
  std::int64_t chunks = divide_up(rounds, of_block);
  // Whole waves of blocks: the SMs end together.
  std::int64_t const wave = kPointBlocks * std::int64_t{sm_count};
  if (of_block > 1) chunks = std::max<std::int64_t>(of_chunk * chunks / wave * wave / of_chunk, 1);
  PairedParams params{};
  params.batches = static_cast<std::uint32_t>(batches);
  params.chunks = static_cast<std::uint32_t>(chunks);
  params.rounds = static_cast<std::uint32_t>(rounds / chunks);
  params.longer_chunks = static_cast<std::uint32_t>(rounds % chunks);
  params.coord_step = queries * p.coord_strides.row * dtype_bytes(p.coord_dtype);
  params.weight_step = queries * p.weight_strides.row * dtype_bytes(p.weight_dtype);
  params.grad_step = queries * p.output_strides.row * dtype_bytes(p.output_dtype);
  params.index_step = queries * p.head_count * p.point_total;
  return {params, of_chunk * chunks};
}

}  // namespace msda::sorted
