// What a warp has while it works: a part for each role.
#pragma once

#include "kernels/persistent/gather.cuh"
#include "kernels/persistent/schedule.cuh"
#include "kernels/persistent/softmax.cuh"

namespace msda::persistent {

template <class Config>
struct WarpState {
  using Table = RecordTable<Config>;

  Lane<Config> lane;
  JobQueue<Config> jobs;
  RowSoftmax<Config> softmax;
  std::uint32_t put;  // the lane's record, in shared memory
  Gather<Config> gather;
  RowSums<Config> sums;

  __device__ WarpState(Params const& p, ScheduleParams const& schedule, Shared<Config>& shared)
      : lane(p, schedule, shared) {
    auto const records = static_cast<std::uint32_t>(
        __cvta_generic_to_shared(&shared.records[threadIdx.x / 32][0][0]));
    gather.records = records + lane.slot() * Table::kRecordBytes;
    put = Config::kInLines ? records + lane.prepared_slot(0) * Table::kRecordBytes +
                                 static_cast<unsigned>(lane.first_point(0)) * Table::kRowBytes
                           : gather.records + lane.j * Table::kRowBytes;
    // A shuffle's result has to be held, the formula would be computed again for each access.
    put = __shfl_sync(0xffffffffu, put, lane.index);
    gather.records = __shfl_sync(0xffffffffu, gather.records, lane.index);
  }
};

}  // namespace msda::persistent
