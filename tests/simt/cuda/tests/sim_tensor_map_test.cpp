// cuTensorMapEncodeTiled(): each rule, and what is written.
#include "cuda/tests/sim_fixture.h"
#include "runtime/tensor_map.h"

#include <cuda.h>

#include <algorithm>
#include <string>

using namespace simt::cuda::test;

namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// An image of 50 rows of 40 pixels of 8 heads of 32 halves, of which a box has one head.
struct Map {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  cuuint32_t rank = 4;
  std::uintptr_t address = 0x10000;
  cuuint64_t sizes[5] = {32, 8, 40, 50, 1};
  cuuint64_t strides[4] = {64, 512, 20480, 1024000};
  cuuint32_t box[5] = {32, 1, 16, 16, 1};
  cuuint32_t element_strides[5] = {1, 1, 1, 1, 1};
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;

  CUresult encode(CUtensorMap* to) const {
    // As a library that does not link the driver finds it.
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    REQUIRE(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 13000,
                                             cudaEnableDefault, &found) == cudaSuccess);
    REQUIRE(found == cudaDriverEntryPointSuccess);
    return reinterpret_cast<Encode>(function)(to, type, rank, reinterpret_cast<void*>(address),
                                              sizes, strides, box, element_strides, interleave,
                                              swizzle, promotion, fill);
  }
  CUresult encode() const {
    CUtensorMap map;
    return encode(&map);
  }
};

// Refused with these words.
void check_refused(Map const& map, std::string const& words,
                   CUresult error = CUDA_ERROR_INVALID_VALUE) {
  CAPTURE(words);
  CHECK(map.encode() == error);
  CAPTURE(simt::cuda::tensor_map_refusal());
  CHECK(simt::cuda::tensor_map_refusal().find(words) != std::string::npos);
}

template <typename Change>
Map with(Change change) {
  Map map;
  change(map);
  return map;
}

}  // namespace

TEST_CASE("a map holds what it was made of") {
  CUtensorMap encoded;
  Map map;
  map.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
  REQUIRE(map.encode(&encoded) == CUDA_SUCCESS);
  simt::TensorMap const decoded = simt::decode_tensor_map(&encoded);
  CHECK(decoded.base == 0x10000);
  CHECK(decoded.rank == 4);
  CHECK(decoded.element_bytes == 2);
  CHECK(decoded.swizzle_bytes == 64);
  CHECK(decoded.size[3] == 50);
  CHECK(decoded.stride[2] == 20480);
  CHECK(decoded.box[2] == 16);
  CHECK(cuTensorMapReplaceAddress(&encoded, reinterpret_cast<void*>(0x20000)) == CUDA_SUCCESS);
  CHECK(simt::decode_tensor_map(&encoded).base == 0x20000);
  CHECK(cuTensorMapReplaceAddress(&encoded, reinterpret_cast<void*>(0x20008)) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("each rule of a tensor map") {
  check_refused(with([](Map& m) { m.rank = 0; }), "tensorRank");
  check_refused(with([](Map& m) { m.rank = 6; }), "tensorRank");
  check_refused(with([](Map& m) { m.address = 0x10008; }), "globalAddress");
  check_refused(with([](Map& m) { m.address = 0; }), "null");
  check_refused(with([](Map& m) { m.sizes[1] = 0; }), "globalDim[1]");
  check_refused(with([](Map& m) { m.sizes[3] = (1ull << 32) + 1; }), "globalDim[3]");
  check_refused(with([](Map& m) { m.strides[1] = 520; }), "globalStrides[1]");
  check_refused(with([](Map& m) { m.strides[2] = 1ull << 40; }), "globalStrides[2]");
  check_refused(with([](Map& m) { m.box[3] = 0; }), "boxDim[3]");
  check_refused(with([](Map& m) { m.box[2] = 257; }), "boxDim[2]");
  check_refused(with([](Map& m) { m.box[0] = 4; }), "boxDim[0]");
  check_refused(with([](Map& m) { m.element_strides[1] = 9; }), "elementStrides[1]");
  check_refused(with([](Map& m) { m.element_strides[0] = 0; }), "elementStrides[0]");
  check_refused(with([](Map& m) { m.swizzle = CU_TENSOR_MAP_SWIZZLE_32B; }), "swizzle");
  check_refused(with([](Map& m) {
                  m.type = CU_TENSOR_MAP_DATA_TYPE_UINT16;
                  m.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
                }),
                "oobFill");
  check_refused(with([](Map& m) {
                  m.rank = 2;
                  m.interleave = CU_TENSOR_MAP_INTERLEAVE_16B;
                }),
                "interleave");
  check_refused(with([](Map& m) { m.interleave = CU_TENSOR_MAP_INTERLEAVE_32B; }), "interleave");
  alignas(64) CUtensorMap maps[2];
  CHECK(Map().encode(reinterpret_cast<CUtensorMap*>(reinterpret_cast<char*>(maps) + 16)) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("the largest that is allowed") {
  Map map;
  map.sizes[3] = 1ull << 32;
  map.strides[2] = (1ull << 40) - 16;
  map.box[0] = 256;
  map.element_strides[0] = 8;  // ignored
  CHECK(map.encode() == CUDA_SUCCESS);
  map.rank = 1;
  CHECK(map.encode() == CUDA_SUCCESS);
}

TEST_CASE("dimensions in the order of the shape instead of the fastest first") {
  check_refused(with([](Map& m) {
                  m.rank = 2;  // 64 rows of 32 halves
                  m.sizes[0] = 64;
                  m.sizes[1] = 32;
                  m.strides[0] = 64;
                  m.box[0] = m.box[1] = 16;
                }),
                "innermost dimension first");
  check_refused(with([](Map& m) {
                  cuuint64_t const sizes[] = {50, 40, 8, 32}, strides[] = {20480, 512, 64};
                  std::copy_n(sizes, 4, m.sizes);
                  std::copy_n(strides, 3, m.strides);
                  m.box[0] = 16;
                }),
                "innermost dimension first");
  // Heads last: another order of dimensions, and a good one.
  CHECK(with([](Map& m) {
          m.rank = 4;
          cuuint64_t const sizes[] = {32, 40, 50, 8}, strides[] = {512, 20480, 64};
          std::copy_n(sizes, 4, m.sizes);
          std::copy_n(strides, 3, m.strides);
        }).encode() == CUDA_SUCCESS);
}

TEST_CASE("what is allowed and not simulated says so") {
  auto const check = [](Map const& map) {
    check_refused(map, "is not simulated", CUDA_ERROR_NOT_SUPPORTED);
  };
  check(with([](Map& m) { m.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B; }));
  check(with([](Map& m) { m.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; }));
  check(with([](Map& m) { m.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B; }));
  check(with([](Map& m) { m.element_strides[2] = 2; }));
  check(with([](Map& m) { m.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; }));
}

TEST_CASE("devices without tensor maps") {
  simt::cuda::Settings s = simt::cuda::settings();
  s.capability = 89;
  simt::cuda::ScopedSettings const scope(s);
  check_refused(Map(), "no tensor maps", CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("functions of the driver that there are not") {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSuccess;
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncode", &function, 13000, cudaEnableDefault,
                                         &found) == cudaSuccess);
  CHECK(found == cudaDriverEntryPointSymbolNotFound);
  CHECK(function == nullptr);
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 11000,
                                         cudaEnableDefault, &found) == cudaSuccess);
  CHECK(found == cudaDriverEntryPointVersionNotSufficent);
  CHECK(cudaGetDriverEntryPointByVersion("cuNothing", &function, 13000, cudaEnableDefault,
                                         nullptr) == cudaErrorSymbolNotFound);
}
