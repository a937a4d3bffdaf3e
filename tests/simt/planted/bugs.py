"""The bugs that tests/simt/plant_bugs plants, and the tests that have to see them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Unit:
    """What is compiled with a bug in it, and the program that runs it."""

    program: str
    object: str  # a regular expression of the object whose place it takes, or that is compiled in the same way
    source: str = ""  # file that is compiled, or
    text: str = ""  # text: instances of kernels, of which the linker takes these
    kernel: str = ""  # that runs a case of the corpus; else the case is one of the program's own
    sm_count: int = 6  # of the simulated GPU; with 2 a warp works on several rows


@dataclasses.dataclass(frozen=True)
class Bug:
    name: str
    what: str
    unit: str
    file: str
    right: str  # stands once in the file
    wrong: str
    case: str
    mode: str  # that has to find it
    message: str  # regular expression of what is printed then
    quick: bool = False


def kernels(family: str, *instances: str) -> str:
    lines = "".join(f"template void {instance};\n" for instance in instances)
    return f'#include "kernels/{family}/{family}.cuh"\nnamespace msda::{family} {{\n{lines}}}  // namespace\n'


def whole_row(family: str, arguments: str) -> str:
    """All kernels of a row, those among them that are the file's own."""
    return f'#include "kernels/{family}/{family}.cuh"\nMSDA_INSTANTIATE({arguments})\n'


def rows(kind: str) -> str:
    return f"persistent_rows<PersistentConfig<RowsKind{{ValueType::{kind}}}>>(Params, ScheduleParams)"


def tma(kernel: str, kind: str, params: str) -> str:
    return f"{kernel}<{kind}>(Maps, Params, {params})"


KERNELS = r"gen/kernels/.*\.cu\.o$"
CASES = "msda_test_planted"
CACHED = "persistent.sm90.f16.d32.p4.h1c@1"
UNITS = {
    "direct": Unit(CASES, KERNELS, kernel="direct.sm75.f32.d32.p4@1",
                   text=kernels("direct", "forward_rows<RowConfig<ValueType::f32, d32, p4, false, false, true>>(Params)")),
    "pipeline": Unit(CASES, KERNELS, kernel="pipeline.sm80.f16.d32.s3@1",
                     text=kernels("pipeline", "copied_rows<PipelineConfig<ValueType::f16, d32, s3>>(Params, Alignment)")),
    "generic": Unit(CASES, KERNELS, kernel="direct.sm75.f32.dany.pany@3",
                    text=kernels("direct", "forward_any<ValueType::f32, float, false>(Params)")),
    "persistent": Unit(CASES, KERNELS, kernel="persistent.sm80.f32.d32.p4.s1@5",
                       text=kernels("persistent", rows("f32, d32, p4, s1, false, false, true, heads_8, inputs_f32"))),
    "fused": Unit(CASES, KERNELS, kernel="persistent.sm80.f32.d32.p4.s1@5",
                  text=kernels("persistent", rows("f32, d32, p4, s1, true, false, true, heads_8, inputs_f32"))),
    "narrow": Unit(CASES, KERNELS, kernel="persistent.sm80.f16.d32.p4.s1@7",
                   text=kernels("persistent", rows("f16, d32, p4, s1, true, true, true, heads_8, inputs_narrow"))),
    "cached": Unit(CASES, KERNELS, kernel=CACHED,
                   text=kernels("persistent", rows("f16, d32, p4, h1c, false, true, true, heads_8, inputs_f32"),
                                rows("f16, d32, p4, h1c, false, true, true, heads_8, inputs_any"))),
    "boxes": Unit(CASES, KERNELS, kernel="tma.sm90.f32.d32.box.s.p1n4@1",
                  text=kernels("tma", tma("sum_boxes", "TmaConfig<ValueType::f32, d32, box, s, true>", "BoxParams"))),
    "windows": Unit(CASES, KERNELS, kernel="tma.sm90.f16.d32.win.s.p1n4@2",
                    text=kernels("tma", *(tma("sum_windows", f"WindowConfig<ValueType::f16, s, 4, {plain}>", "WindowParams")
                                          for plain in ("false", "true"))), sm_count=2),
    "cached_launch": Unit(CASES, r"/persistent/launch\.cpp\.o$", source="kernels/persistent/launch.cpp", kernel=CACHED),
} | {
    name: Unit("msda_test_ptx", rf"ptx/{name}_test\.cu\.o$", source=f"tests/ptx/{name}_test.cu")
    for name in ("barrier", "bulk", "cluster", "memory")
}

SPREAD = "msda::ValueType::f16, rows::d32, rows::p4, rows::h1, false, false, true"
UNITS["spread"] = Unit(
    CASES, KERNELS, kernel="cluster.sm90.f16.d32.p4.h1.c2@2", sm_count=2,
    text=kernels("cluster", f"cluster_rows<ClusterConfig<ClusterKind{{rows::RowsKind{{{SPREAD}, rows::heads_1,"
                 " rows::inputs_f32}, true}>>(Params, ScheduleParams, CacheParams)"))
UNITS["spread_four"] = Unit(
    CASES, KERNELS, kernel="cluster.sm90.f16.d32.p4.h1.c4@2", sm_count=4,
    text=kernels("cluster", f"cluster_rows<ClusterConfig<ClusterKind{{rows::RowsKind{{{SPREAD}, rows::heads_any,"
                 " rows::inputs_any}, false}>>(Params, ScheduleParams, CacheParams)"))
UNITS |= {f"{name}_few": dataclasses.replace(UNITS[name], sm_count=2)
          for name in ("cached", "direct", "persistent", "pipeline")}

UNITS["attention"] = Unit("msda_test_kernel", KERNELS, text=kernels("attention", "write_attention<float>(Params)"))
UNITS |= {name: Unit("msda_test_kernel", KERNELS, text=whole_row(family, arguments)) for name, family, arguments in (
    ("direct_backward", "direct", "f32, dany, pany, 3, 75"), ("sorted", "sorted", "f32, 4, 80"),
    ("sorted_f16", "sorted", "f16, 4, 80"), ("atomic", "atomic", "f32, 1, 80"))}

UNITS |= {name: Unit("msda_test_kernel", KERNELS,
                     text=kernels("small", f"small_gradients<SmallConfig<ValueType::{dtype}, Loads::vectors, {lanes}, "
                                           f"Rounds::{rounds}>>(Params, SmallParams)"))
          for name, dtype, lanes, rounds in (("small", "f32", 4, "one"), ("small_rounds", "f32", 4, "any"),
                                             ("small_two_rounds", "f32", 4, "two_sampled"),
                                             ("small_two_rounds_f16", "f16", 2, "two_sampled"),
                                             ("small_two_rounds_fused", "f32", 4, "two_fused"))}

SORTED_BINS = "kernels/sorted/bin.cuh"
SMALL = "kernels/small/small.cuh"
PAIRED = "kernels/sorted/points.cuh"
BALLOTS = """    std::uint32_t same = lanes & __ballot_sync(kAllLanes, is_there);
    same = lanes_in_same_tile<kFewTileBits>(same, tile);
    if (!kPlain || s.level_tile_bits > kFewTileBits) {
      same = lanes_in_same_tile<kTileBits - kFewTileBits>(same, tile >> kFewTileBits);
    }
    std::uint32_t const rank = rank_in_tile(mine, same, is_there, tile);
"""
VALUES = "kernels/direct/generic_backward.cuh"
ROW, GENERIC = "kernels/direct/direct.cuh", "kernels/direct/generic.cuh"
SLOTS, ELEMENT = "kernels/rows/slots.cuh", "kernels/rows/row_element.cuh"
ROWS, INPUTS = "kernels/persistent/persistent_rows.cuh", "kernels/rows/row_points.cuh"
COPIED, WEIGHTS = "kernels/pipeline/pipeline.cuh", "kernels/attention/attention.cuh"
STAGES, BOXES, WINDOWS = "kernels/tma/tma_rows.cuh", "kernels/tma/boxes.cuh", "kernels/tma/windows.cuh"
CLUSTER_ROWS = "kernels/cluster/cluster.cuh"
BARRIER, BULK = "tests/ptx/barrier_test.cu", "tests/ptx/bulk_test.cu"
CLUSTER, MEMORY = "tests/ptx/cluster_test.cu", "tests/ptx/memory_test.cu"

ORDER, RANDOM, WARPS, THREADS = "asan order", "asan random:1", "asan warps:1", "tsan order"
RACE = "ThreadSanitizer: data race"
BESIDE = "AddressSanitizer: "
NOWHERE = "simulated device: .*not in device memory"
WRONG = r"CHECK\( compare\(expected"
SAME = r"CHECK\( (std::equal|differing_runs)"

BUGS = (
    # ---- synchronisation of a block and of a warp
    Bug("no_block_barrier", "`__syncthreads()` behind the table of places is missing", "direct", ROW,
        "  ptx::wait_for_previous_grid();\n  __syncthreads();\n", "  ptx::wait_for_previous_grid();\n", "encoder", THREADS,
        RACE, quick=True),
    Bug("some_at_barrier", "40 threads of 256 reach `__syncthreads()`", "direct", ROW,
        "  ptx::wait_for_previous_grid();\n  __syncthreads();\n",
        "  ptx::wait_for_previous_grid();\n  if (threadIdx.x < 40) __syncthreads();\n",
        "encoder", ORDER, r"simulated device: .*__syncthreads\(\)"),
    Bug("no_warp_barrier", "`__syncwarp()` between storing and reading records is missing", "direct", ROW,
        "      __syncwarp();\n      gather_chunk", "      gather_chunk", "encoder", ORDER, NOWHERE),
    Bug("no_warp_barrier_rows", "the same in `persistent`", "persistent", ROWS,
        "        __syncwarp();\n        if constexpr (Config::kSums", "        if constexpr (Config::kSums",
        "encoder", ORDER, NOWHERE),
    Bug("no_warp_barrier_before", "`__syncwarp()` before records are stored anew is missing", "cached_few", ROWS,
        "      __syncwarp();  // the records before have been read\n", "", "kept_fast", THREADS, RACE),
    Bug("one_record_buffer", "records are stored into the buffer that is still read", "direct", ROW,
        "      buffer ^= Config::kRecords;\n", "", "encoder", THREADS, RACE),
    Bug("stale_records", "records of the chunk before are read", "direct", ROW,
        "      gather_chunk(buffer, k0);", "      gather_chunk(k0 > 0 ? buffer ^ Config::kRecords : buffer, k0);",
        "encoder", ORDER, WRONG),
    Bug("absent_lane", "a shuffle reads a lane that takes no part", "persistent", ROWS,
        "    n = __shfl_sync(0xffffffffu, n, 0);", "    if (lane.index != 0) n = __shfl_sync(0xfffffffeu, n, 0);",
        "encoder", ORDER, "simulated device: .*reads lane 0", quick=True),
    Bug("lane_skips_shuffle", "lane 5 leaves out a shuffle that its warp waits in", "persistent", ROWS,
        "    n = __shfl_sync(0xffffffffu, n, 0);", "    if (lane.index != 5) n = __shfl_sync(0xffffffffu, n, 0);",
        "encoder", ORDER, "simulated device: "),
    Bug("no_barrier_for_count", "the count of jobs is used before it is cleared", "persistent", ROWS,
        "  if (threadIdx.x < 2) shared.fetched[threadIdx.x] = 0;\n  ptx::wait_for_previous_grid();\n  __syncthreads();\n",
        "  ptx::wait_for_previous_grid();\n  __syncthreads();\n  if (threadIdx.x < 2) shared.fetched[threadIdx.x] = 0;\n",
        "encoder", THREADS, RACE),
    # ---- levels in shared memory
    Bug("no_copy_wait", "`cp.async` is not waited for", "cached", ROWS,
        "  ptx::wait_for_copies();\n", "", "fast", ORDER, "simulated device: |compare", quick=True),
    Bug("no_barrier_behind_copy", "the barrier behind copied levels is missing", "cached", ROWS,
        "clear_other_count(lane.shared);\n        __syncthreads();\n", "clear_other_count(lane.shared);\n",
        "fast", THREADS, RACE),
    Bug("no_barrier_before_copy", "the barrier before levels are copied anew is missing", "cached_few", ROWS,
        "        __syncthreads();  // the levels before have been read\n", "", "fast", THREADS, RACE),
    Bug("wrong_level_base", "all levels are copied to where the first one belongs", "cached", ROWS,
        "cache_begin() + schedule.places[l].origin * kVecBytes;", "cache_begin();", "fast", ORDER, WRONG),
    Bug("copy_beyond_level", "a level is copied one vec too far", "cached", ROWS,
        "at < schedule.cached_bytes[l];", "at <= schedule.cached_bytes[l];", "fast", ORDER,
        NOWHERE),
    Bug("little_shared_memory", "a launch asks for too little shared memory, by 256 bytes", "cached_launch",
        "kernels/persistent/launch.cpp", "rows.caches_levels ? schedule.shared_bytes : 0",
        "rows.caches_levels ? schedule.shared_bytes - 256 : 0", "fast", ORDER,
        "simulated device: .*shared"),
    # ---- stages of copies
    Bug("one_group_late", "the values of a point are summed while they may be on their way", "pipeline", COPIED,
        "      ptx::wait_for_copy_groups<kAhead>();\n", "      ptx::wait_for_copy_groups<kAhead + 1>();\n", "encoder", ORDER,
        "simulated device: |compare", quick=True),
    Bug("no_copy_group_wait", "no group of copies is waited for", "pipeline", COPIED,
        "      ptx::wait_for_copy_groups<kAhead>();\n", "", "encoder", ORDER, "simulated device: |compare"),
    Bug("stage_too_soon", "values are copied into the stage that is summed next", "pipeline", COPIED,
        "    copy_to_ = next_stage(copy_to_);\n", "    copy_to_ = next_stage(next_stage(copy_to_));\n", "encoder", ORDER, WRONG),
    Bug("short_ring", "records are stored where those of points on their way lie", "pipeline", COPIED,
        "kRing = ring_of(kLanes, kStages);", "kRing = kLanes;", "encoder", ORDER, f"{WRONG}|{BESIDE}|static"),
    Bug("no_barrier_behind_records", "`__syncwarp()` between storing and reading records is missing", "pipeline", COPIED,
        "    record(k0 + lane_) = located;\n    __syncwarp();\n", "    record(k0 + lane_) = located;\n", "encoder", ORDER,
        f"{BESIDE}|compare|simulated device"),
    # ---- levels spread over the blocks of a cluster
    Bug("no_levels_arrival", "nobody arrives at the mbarrier of a tile's levels", "spread", CLUSTER_ROWS,
        "  if (lane.index == 0) ptx::arrive_and_expect(barrier, bytes);\n", "", "spread_even", ORDER,
        "simulated device: ", quick=True),
    Bug("no_phase_flip", "the mbarrier of the levels is waited for without its phase", "spread", CLUSTER_ROWS,
        "full[buffer_]), fills_before % 2);", "full[buffer_]), 0);", "spread_even", ORDER, f"simulated device: |{WRONG}"),
    Bug("short_levels", "the mbarrier expects a line less than is copied", "spread", CLUSTER_ROWS,
        "ptx::arrive_and_expect(barrier, bytes);", "ptx::arrive_and_expect(barrier, bytes - 128);", "spread_even", ORDER,
        f"simulated device: |{WRONG}"),
    Bug("early_remote_read", "levels of other blocks are read before they are there", "spread", CLUSTER_ROWS,
        "      ptx::sync_cluster();  // the levels are there in all blocks\n", "      __syncthreads();\n", "spread_even", RANDOM,
        f"simulated device: |{WRONG}"),
    Bug("early_refill", "levels are copied to where other blocks still read", "spread", CLUSTER_ROWS,
        "        ptx::wait_cluster();  // the levels before have been read\n        copy(tile, 0);\n      }\n",
        "        copy(tile, 0);\n        ptx::wait_cluster();\n      }\n", "spread_alone", THREADS, RACE),
    Bug("early_end", "a block ends while other blocks read its levels", "spread", CLUSTER_ROWS,
        "    ptx::sync_cluster();  // no block ends while its levels are read\n", "", "spread_alone", RANDOM,
        "simulated device: .*has ended"),
    Bug("wrong_block", "with clusters of four the odd row is looked for in the block behind the even one's", "spread_four",
        CLUSTER_ROWS, "(is_lower ? rank - 1 : rank + 1) & lane.size_mask()", "(rank + 1) & lane.size_mask()", "spread_odd",
        ORDER, WRONG),
    Bug("rows_not_swapped", "the weights of a split level's rows are not swapped with the rows", "spread",
        "kernels/cluster/cluster_points.cuh", "bool const swaps_rows = rows.is_lower;",
        "bool const swaps_rows = false;", "spread_odd", ORDER, WRONG),
    Bug("job_of_all_blocks", "the blocks of a cluster have the same jobs", "spread", CLUSTER_ROWS,
        "(n << lane.size_shift()) + lane.rank;", "n;", "spread_even", THREADS, RACE),
    # ---- addresses
    Bug("shared_overflow", "records of each second chunk are stored one place too far", "direct", ROW,
        "records_[buffer + threadIdx.x % 32] =", "records_[buffer + threadIdx.x % 32 + (buffer != 0)] =", "encoder", ORDER,
        BESIDE, quick=True),
    Bug("read_beyond", "coordinates and weights are read one point too far", "direct", ROW,
        "    std::int64_t const at = slot_.row * K_ + k;\n", "    std::int64_t const at = slot_.row * K_ + k + 1;\n",
        "encoder", ORDER, BESIDE),
    Bug("write_beyond", "the output is stored one element too far", "generic", GENERIC,
        "p.output_strides.at(row.b, row.q, m) + d,", "p.output_strides.at(row.b, row.q, m) + d + 1,", "encoder",
        ORDER, BESIDE, quick=True),
    Bug("rows_beyond", "slots behind the last row store, too", "direct", SLOTS,
        "is_there = slot < p.batch * p.query_count * p.head_count;", "is_there = true;", "encoder_grid", ORDER, BESIDE),
    Bug("misaligned_vector", "coordinates are loaded in vectors 4 bytes too far", "persistent", INPUTS,
        "ptx::stream_global<8 * kGroup>(coord + std::uint64_t{first} * 8, inputs.coord);",
        "ptx::stream_global<8 * kGroup>(coord + std::uint64_t{first} * 8 + 4, inputs.coord);", "encoder", ORDER,
        "simulated device: .*is not a multiple of 16", quick=True),
    Bug("narrow_offset", "the offset of a value is cut to 16 bits, as one of 2^31 would be to 32", "generic", ELEMENT,
        "value + corners.first * p.value_strides.row;",
        "value + static_cast<std::int16_t>(corners.first * p.value_strides.row);", "encoder", ORDER,
        f"{BESIDE}|compare"),
    # ---- numbers
    Bug("swapped_corners", "the upper right and the lower left pixel have each other's weight", "direct", ROW,
        "multiply_add<Config>(sum_[n], upper * fx, value[u][1][n]);\n"
        "          multiply_add<Config>(sum_[n], lower * (1.0f - fx), value[u][2][n]);",
        "multiply_add<Config>(sum_[n], lower * (1.0f - fx), value[u][1][n]);\n"
        "          multiply_add<Config>(sum_[n], upper * fx, value[u][2][n]);", "encoder", ORDER, WRONG),
    Bug("swapped_axes", "x and y are swapped", "direct", ROW,
        "return {xy.x, xy.y, load_element", "return {xy.y, xy.x, load_element", "encoder", ORDER, WRONG),
    Bug("last_query_dropped", "the last row is not computed", "generic", GENERIC,
        "p.batch * p.query_count * M * p.head_dim;", "p.batch * p.query_count * M * p.head_dim - p.head_dim;",
        "encoder", ORDER, WRONG),
    Bug("level_skipped", "the last level is left out", "generic", ELEMENT,
        "l < p.level_count;", "l < p.level_count - 1;", "encoder", ORDER, WRONG),
    Bug("no_renormalisation", "sums are not divided by the sum of powers", "fused", ROWS,
        "      state_.sums.multiply(Config::kSumsPowersEarly ? inverse : inverse_of_powers(state_));\n", "",
        "decoder", ORDER, WRONG),
    Bug("narrow_of_other_type", "offsets and logits of float16 are taken for bfloat16", "narrow",
        "kernels/rows/warp_rows.cuh", "return Config::kDtype;", "return MSDA_DTYPE_BF16;",
        "autocast_f16", ORDER, WRONG),
    # ---- schedule
    Bug("tile_twice", "each second tile is worked on twice, the others never", "persistent", ROWS,
        "(round * schedule.blocks + block)", "(round * schedule.blocks + block / 2 * 2)", "encoder", ORDER, WRONG),
    Bug("job_twice", "a block's first job is done by two warps, with the same result", "persistent", ROWS,
        "    n = __shfl_sync(0xffffffffu, n, 0);", "    n = max(__shfl_sync(0xffffffffu, n, 0), 1u) - 1;",
        "encoder", THREADS, RACE),
    # ---- backward
    Bug("tile_added_twice", "a tile is added in two of the four launches", "direct_backward", VALUES,
        "if (turn_of_tile(p, s, tile) != turn) continue;",
        "if ((turn_of_tile(p, s, tile) & 1) != (turn & 1)) continue;", "direct backward: chunks*", ORDER, WRONG),
    Bug("chunk_end_lost", "the last point of a chunk is lost", "direct_backward", VALUES,
        "? first + s.chunk_points : s.points;", "? first + s.chunk_points - 1 : s.points;",
        "direct backward: chunks*", ORDER, WRONG),
    Bug("cell_lost", "the pixels of a cell are not stored before those of the next", "direct_backward", VALUES,
        "          store();\n", "", "direct backward: chunks*", ORDER, WRONG),
    Bug("border_added_twice", "the border of the tile on the left is added twice", "sorted",
        "kernels/sorted/join.cuh", "  add(sum, left);", "  add(sum, left);\n  add(sum, left);",
        "sorted backward: chunks*", ORDER, WRONG),
    Bug("unstable_bin", "points of a chunk have the ranks in which their threads come, not their own order", "sorted",
        SORTED_BINS, BALLOTS, "    std::uint32_t const rank = is_there ? mine[tile]++ : 0u;\n",
        "the same bits backward of a batch item*GPU", ORDER, SAME),
    Bug("record_lost", "the last point of each warp in a chunk has no record", "sorted", SORTED_BINS,
        "static_cast<std::int32_t>(of_warp) - lane_of());", "static_cast<std::int32_t>(of_warp) - 1 - lane_of());",
        "sorted backward: chunks*", ORDER, WRONG),
    Bug("segment_cut", "records of a segment are not found beyond a word of bits", "sorted",
        "kernels/sorted/sum_lists.cuh", "at = (at | (kWarp - 1)) + 1", "at = end", "sorted backward: chunks*", ORDER,
        f"{WRONG}|simulated device: |AddressSanitizer"),
    Bug("next_row_weighs", "the logits of the next row are the weights of this one", "sorted_f16", PAIRED,
        "narrow_of(p.weight_dtype, given[n])", "narrow_of(p.weight_dtype, bits[n])",
        "sorted backward: fused rows of logits*", ORDER, SAME),
    Bug("first_logits_again", "a lane's logits behind its fourth are the first ones", "sorted", "kernels/points/fused.cuh",
        "loaded[i] = bits(first + i);", "loaded[i] = bits(i);", "sorted backward: fused rows of any*", ORDER, WRONG),
    Bug("never_shifted", "no row is shifted by its largest logit, however large", "sorted_f16", "kernels/common/powers.cuh",
        "return !(largest <= kLargestLogit && (largest >= -kLargestLogit || largest == -INFINITY));", "return false;",
        "sorted backward: fused rows of logits*", ORDER, WRONG),
    Bug("neighbours_shifted", "all rows of a warp are shifted where one has to be", "sorted", SORTED_BINS,
        "shifts[j] = shift_by_largest(largest_of_lanes(powers[j], row_lanes_));",
        "shifts[j] = largest_of_lanes(powers[j], row_lanes_);",
        "a fused query has the same bits beside*GPU", ORDER, r"CHECK\( result\.bits\[kGradValue\]"),
    Bug("corners_unsynced", "`__syncwarp()` between storing and loading corners is missing", "sorted_f16", PAIRED,
        "    }\n    __syncwarp();\n  }\n", "    }\n  }\n", "sorted backward: a row that is no number*", ORDER,
        r"simulated device: .*not a multiple of 16"),
    Bug("lane_of_softmax", "each lane divides by the sum of its own points' powers", "attention", WEIGHTS,
        "    sum = join_lanes<kWarp>(sum, [](Real a, Real b) { return a + b; });\n", "",
        "attention weights of odd logits on the GPU", ORDER, r"CHECK\( compare\(softmax_of"),
    Bug("largest_of_softmax", "the largest logit of a row is 0 at least", "attention", WEIGHTS,
        "Real largest = -INFINITY;", "Real largest = 0;",
        "attention weights of odd logits on the GPU", ORDER, r"CHECK\( compare\(softmax_of"),
    Bug("left_derivative", "on a pixel line the derivative is the left-hand one", "direct_backward",
        "kernels/common/sampling.cuh", "  Real const left = floor(point.x);\n", "  Real const left = ceil(point.x) - 1;\n",
        "on a pixel line*on the GPU", ORDER, r"CHECK\( sides\.right\.compared_with"),
    Bug("slots_beyond_add", "slots behind the last row add, too", "atomic", "kernels/atomic/atomic.cuh",
        "has[i] = row.is_there && channel(i) < p.head_dim;", "has[i] = channel(i) < p.head_dim;",
        "atomic backward: every number of channels", ORDER, WRONG),
    # ---- a small problem's tiles: scan, order, add, round after round
    Bug("tile_without_left_cells", "points left of a tile's first pixel are not scanned", "small", SMALL,
        "left >= static_cast<float>(tile_.x - 1)", "left >= static_cast<float>(tile_.x)",
        "small backward: tiles*", ORDER, WRONG, quick=True),
    Bug("weights_unsynced", "weights of fused points are used before all lanes have found theirs", "small_rounds", SMALL,
        "weigh<kRounds>(q, lanes, count);\n      __syncwarp();\n", "weigh<kRounds>(q, lanes, count);\n",
        "small backward: fused*", ORDER, f"{WRONG}|AddressSanitizer|simulated device: "),
    Bug("rows_skipped", "a warp weighs and scans every other of its groups of fused rows", "small_rounds", SMALL,
        "q <= last; q += kWarps * rows) {", "q <= last; q += 2 * kWarps * rows) {", "small backward: fused*", ORDER,
        f"{WRONG}|AddressSanitizer"),
    Bug("first_part_twice", "all slots of a row take the points of its first part", "small", SMALL,
        "std::int32_t k = part_of_slot<Config>(s) * s.part_points + own;", "std::int32_t k = own;",
        "small backward: tiles*", ORDER, "grad_coord: element .* was not written"),
    Bug("sum_of_part", "a slot sums up the gradients of its own part of a fused row", "small", SMALL,
        "    softmax.add_again();\n", "", "small backward: fused*", ORDER, WRONG),
    Bug("parts_unsynced", "gradients of other parts are read before they are there", "small", SMALL,
        "    __syncwarp();\n    softmax.add_again();\n", "    softmax.add_again();\n", "small backward: fused*", ORDER,
        f"{WRONG}|AddressSanitizer|simulated device: "),
    Bug("absent_points_added", "points behind a row's last one add gradients that nothing has written", "small", SMALL,
        "(points - Config::own_point() + Config::kPoints - 1)", "(points + Config::kPoints - 1)", "small backward: fused*", ORDER,
        WRONG),
    Bug("cells_unordered", "records of a cell stay in the order in which threads have put them there", "small", SMALL,
        "> number(record); --at", "> number(record) + 0xffff; --at",
        "small backward: cells*", ORDER, SAME),
    Bug("cells_of_one_warp", "all warps order the cells of the first one", "small", SMALL,
        "base + lane_of() * kWarps + warp_of();", "base + lane_of() * kWarps;", "small backward: cells*", ORDER, SAME),
    Bug("bits_left_set", "a cell of many records is ordered by bits that another one has left", "small",
        "kernels/common/warp.cuh", "word += kWarp) bits[word] = 0;", "word += kWarp) bits[word] |= 0;",
        "small backward: cells*", ORDER, f"{WRONG}|AddressSanitizer"),
    Bug("pixel_half_joined", "every other slot's part of a pixel of many records is left out", "small", SMALL,
        "for (int distance = Config::kLanes; distance < kWarp; distance *= 2) {",
        "for (int distance = 2 * Config::kLanes; distance < kWarp; distance *= 2) {", "small backward: cells*", ORDER, WRONG),
    Bug("pixels_of_kind", "pixels of a kind that are a warp's neighbours replace each other in the list", "small", SMALL,
        "__popc(same & lanes_before());", "0 * __popc(same & lanes_before());",
        "small backward: tiles*", ORDER, f"{WRONG}|AddressSanitizer"),
    Bug("sums_of_half", "half of a lane's channels get the other half's sums of the rounds before", "small_rounds", SMALL,
        "from = s.sums + at + c;", "from = s.sums + at;", "small backward: rounds*", ORDER, WRONG),
    Bug("round_unsynced", "the next round begins while pixels of this one are added", "small_rounds", SMALL,
        "    if (!is_last) __syncthreads();", "    if (is_last) __syncthreads();", "small backward: rounds*", WARPS,
        f"{WRONG}|AddressSanitizer"),
    Bug("two_rounds_joined", "the sum of the second of two rounds goes on with that of the first", "small_two_rounds", SMALL,
        "PixelRecords<2>(tile, shared, pixel, round), 0, 1, of_round);",
        "PixelRecords<2>(tile, shared, pixel, round), 0, 1, sums);", "small backward: two rounds at once: sampled", ORDER, SAME),
    Bug("two_rounds_unordered", "records of two rounds stay in the order in which threads have put them there",
        "small_two_rounds", SMALL, "record : shared.records[record].query;", "record : 0u;",
        "small backward: two rounds at once: sampled", ORDER, SAME),
    Bug("crowd_of_two_rounds", "pixels of more records of two rounds than a slot adds up are left out",
        "small_two_rounds_f16", SMALL, "if (kRounds == 2 && of_warps != 0) return false;", "",
        "small backward: two rounds of points*", ORDER, "grad_value: element .* was not written"),
    Bug("weights_of_other_warp", "a warp's weights of fused rows of two rounds lie where its neighbour's do",
        "small_two_rounds_fused", SMALL, "warp_of() * kWarpLogits + i % kWarpLogits",
        "warp_of() / 2 * kWarpLogits + i % kWarpLogits",
        "small backward: two rounds at once: fused", WARPS, WRONG),
    Bug("never_two_rounds", "the second round's records of a tile's first cell seem to begin with the first round's",
        "small_two_rounds_f16", SMALL, "shared.bounds[0] = second;", "shared.bounds[0] = 0;",
        "small backward: two rounds at once: sampled", ORDER, r"CHECK\( calls < 8 \)"),
    # ---- stages of tensor maps' boxes and windows
    Bug("box_missing_arrival", "a consumer does not say that it has left a stage", "boxes", BOXES,
        "      if (lane == 0) ring.leave(at);\n", "", "encoder", ORDER, r"simulated device: .*deadlock", quick=True),
    Bug("box_no_phase_flip", "a stage is used again without the other parity", "boxes", STAGES,
        "    stage_ -= stages_;\n    parity_ ^= 1;\n", "    stage_ -= stages_;\n", "encoder", ORDER,
        "simulated device: |CHECK|AddressSanitizer"),
    Bug("box_short_expect", "a stage expects the bytes of one box less", "boxes", BOXES,
        "__popc(boxes) * 4 * schedule.pixel_bytes", "(__popc(boxes) - 1) * 4 * schedule.pixel_bytes", "encoder", ORDER,
        "simulated device: "),
    Bug("window_missing_arrival", "a warp without rows leaves a window without saying so", "windows", WINDOWS,
        "kWarp == 0) ptx::arrive", "kWarp == 0 && is_busy(slots, 0)) ptx::arrive", "encoder", ORDER,
        r"simulated device: .*deadlock"),
    Bug("window_no_wait", "a window is filled before all warps have left it", "windows", WINDOWS,
        "      ptx::wait_parity_in_block(shared_address(&shared_.empty[i]), (turn + 1) % 2);\n", "", "encoder", ORDER,
        "simulated device: |CHECK"),
    Bug("window_not_placed", "points are located before it is known where their windows lie", "windows", WINDOWS,
        "      ptx::wait_parity_in_block(shared_address(&shared_.placed[turn % 2]), turn / 2 % 2);\n", "", "encoder", THREADS,
        "ThreadSanitizer"),
    Bug("window_short_expect", "a window's barrier expects the bytes of one row less", "windows", WINDOWS,
        "window.columns * window.rows * kPixel", "window.columns * (window.rows - 1) * kPixel", "encoder", ORDER,
        "simulated device: "),
    Bug("window_not_full", "points are gathered before their window is full", "windows", WINDOWS,
        "      ptx::wait_parity_in_block(shared_address(&shared_.full[i]), turn % 2);\n", "", "encoder", ORDER,
        "simulated device: |CHECK|AddressSanitizer"),
    Bug("window_records_unsynced", "records are read before all lanes have stored theirs", "windows", WINDOWS,
        "      __syncwarp();\n      next = after;\n", "      next = after;\n", "encoder", THREADS, "ThreadSanitizer"),
    # ---- what no kernel of the library does yet, in kernels of tests/ptx
    Bug("wrong_phase", "a consumer waits for the phase before", "barrier", BARRIER,
        "      ptx::wait_parity(is_full, item % 2);", "      ptx::wait_parity(is_full, (item + 1) % 2);",
        "ptx: phases of mbarriers*", THREADS, "ThreadSanitizer|CHECK|simulated device"),
    Bug("missing_arrival", "consumers do not arrive at the mbarrier that producers wait for", "barrier", BARRIER,
        "      ptx::arrive_mbarrier(is_empty);\n", "", "ptx: phases of mbarriers*", ORDER,
        r"simulated device: .*deadlock", quick=True),
    Bug("short_expect", "the mbarrier expects half of the bytes that come", "bulk", BULK,
        "    ptx::arrive_and_expect(barrier, sizeof(Tile));\n",
        "    ptx::arrive_and_expect(barrier, sizeof(Tile) / 2);\n", "ptx: bulk copies go in*", ORDER,
        "simulated device: |CHECK", quick=True),
    Bug("remote_read_after_end", "a block ends while another one reads its memory", "cluster", CLUSTER,
        "  ptx::sync_cluster();\n  std::uint32_t* const end", "  std::uint32_t* const end",
        "ptx: blocks of a cluster reach*", RANDOM, "simulated device: .*has ended|CHECK"),
    Bug("no_grid_wait", "a dependent grid reads before the one before has ended", "cluster", CLUSTER,
        "  ptx::wait_for_previous_grid();\n", "", "ptx: a dependent grid*", THREADS, RACE),
    Bug("no_call_wait_rows", "a call begins to read and write before the one before has ended", "persistent_few", ROWS,
        "  ptx::wait_for_previous_grid();\n", "", "encoder", THREADS, RACE),
    Bug("no_call_wait_direct", "the same in `direct`", "direct_few", ROW, "  ptx::wait_for_previous_grid();\n", "",
        "encoder", THREADS, RACE),
    Bug("no_call_wait_pipeline", "the same in `pipeline`", "pipeline_few", COPIED, "  ptx::wait_for_previous_grid();\n", "",
        "encoder", THREADS, RACE),
    Bug("late_copy_group", "the last group of `cp.async` is not waited for", "memory", MEMORY,
        "    ptx::wait_for_copy_groups<1>();\n", "    ptx::wait_for_copy_groups<2>();\n", "ptx: groups of cp.async*",
        ORDER, "simulated device: "),
)
