// Arena, sizes of tensors, and the texts of errors.

#include "api/objects.h"
#include "command/problem/problem_shape.h"
#include "core/arena.h"
#include "core/numbers.h"
#include "core/status.h"
#include "core/tensor_sizes.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

using namespace msda;
using command::ProblemShape, command::Strides3;

namespace {

Problem small_problem() {
  Problem problem(std::pmr::new_delete_resource());
  problem.batch = 2;
  problem.query_count = 3;
  problem.head_count = 4;
  problem.head_dim = 5;
  problem.token_count = 6;
  problem.point_total = 7;
  Level level;
  level.height = 2;
  level.width = 3;
  level.point_count = 7;
  problem.levels.push_back(level);
  return problem;
}

std::string refusal(Problem const& problem, void (*check)(Problem const&)) {
  try {
    check(problem);
  } catch (StatusError const& error) {
    CHECK(error.status() == MSDA_ERROR_INVALID_ARGUMENT);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an arena counts what it hands out") {
  auto const take = [](Arena& arena) {
    std::vector<std::byte*> blocks;
    blocks.push_back(reinterpret_cast<std::byte*>(arena.take<double>(3)));
    blocks.push_back(reinterpret_cast<std::byte*>(arena.take<std::byte>(257)));
    blocks.push_back(reinterpret_cast<std::byte*>(arena.take<float>(0)));
    blocks.push_back(reinterpret_cast<std::byte*>(arena.take<float>(1)));
    return blocks;
  };
  Arena counting;
  CHECK(take(counting) == std::vector<std::byte*>(4, nullptr));
  alignas(256) static std::byte memory[4096];
  Arena real(memory);
  CHECK(take(real) == std::vector<std::byte*>{memory, memory + 256, memory + 768, memory + 768});
  CHECK(counting.used_bytes() == real.used_bytes());
  CHECK(real.used_bytes() == 1024);
  CHECK(Arena().used_bytes() == 0);
}

TEST_CASE("shapes and packed strides") {
  Problem problem = small_problem();
  problem.value = packed_strides(6, 4, 5);
  TensorShape const value = tensor_shape(problem, Tensor::kValue);
  CHECK(value.name == "value");
  CHECK(value.batch * value.rows * value.heads * value.inner == 2 * 6 * 4 * 5);
  CHECK(value.strides.batch == 120);
  CHECK(value.strides.row == 20);
  CHECK(value.strides.head == 5);
  CHECK(tensor_span_bytes(value) == 240 * 4);
  CHECK(tensor_shape(problem, Tensor::kGradCoord).inner == 14);
  problem.value = {1000, 0, 7};  // rows repeat
  CHECK(tensor_span_bytes(tensor_shape(problem, Tensor::kValue)) == (1000 + 3 * 7 + 5) * 4);
  problem.head_dim = 0;
  CHECK(tensor_is_empty(problem, Tensor::kValue));
  CHECK(tensor_is_empty(problem, Tensor::kGradValue));
  CHECK_FALSE(tensor_is_empty(problem, Tensor::kWeight));
  CHECK(tensor_span_bytes(tensor_shape(problem, Tensor::kValue)) == 0);
}

TEST_CASE("strides of dimensions of 1 change nothing where the rest is packed") {
  ProblemShape shape;
  shape.levels = {{2, 3, 4}};
  shape.batch = 1;
  shape.query_count = 3;
  shape.head_count = 2;
  shape.head_dim = 8;
  auto const coord_strides = [&](Strides3 const& given) {
    shape.coord_strides = given;
    ProblemCopy const view = shape.copy();
    Strides const read = api::canonical_problem(&view.c, std::pmr::new_delete_resource()).coord;
    return Strides3{read.batch, read.row, read.head};
  };
  Strides3 const packed = coord_strides({0, 0, 0});
  CHECK(packed == Strides3{48, 16, 8});
  CHECK(coord_strides({72, 16, 8}) == packed);
  CHECK(coord_strides({72, 24, 8}) == Strides3{72, 24, 8});
  shape.batch = 2;
  CHECK(coord_strides({72, 16, 8}) == Strides3{72, 16, 8});
  shape.batch = shape.query_count = shape.head_count = 1;
  CHECK(coord_strides({5, 6, 7}) == Strides3{8, 8, 8});
}

TEST_CASE("sizes that overflow are refused by the tensor's name") {
  CHECK(refusal(small_problem(), check_packed_sizes) == "");
  for (std::int64_t Problem::* const size :
       {&Problem::batch, &Problem::query_count, &Problem::head_count, &Problem::head_dim,
        &Problem::token_count, &Problem::point_total}) {
    for (std::int64_t const value : {INT64_MAX / 2, std::int64_t{1} << 61, std::int64_t{1} << 60}) {
      Problem problem = small_problem();
      problem.*size = value;
      std::string const message = refusal(problem, check_packed_sizes);
      CHECK(message.starts_with("problem: "));
      std::int64_t const named = size == &Problem::point_total ? 2 * value : value;  // of coord
      CHECK(message.find(std::to_string(named)) != std::string::npos);
      // A zero beside it does not hide it: no product of sizes may overflow.
      problem.batch = problem.batch == value ? value : 0;
      CHECK(refusal(problem, check_packed_sizes) != "");
    }
  }
  Problem strided = small_problem();
  strided.output = {1, 1, INT64_MAX / 2};
  CHECK(refusal(strided, check_strided_sizes).find("output") != std::string::npos);
  strided.output = {INT64_MAX, INT64_MAX, INT64_MAX};
  CHECK(refusal(strided, check_strided_sizes).find("output") != std::string::npos);
  strided.batch = 0;  // nothing is addressed
  CHECK(refusal(strided, check_strided_sizes) == "");
}

TEST_CASE("error texts are kept whole up to their capacity") {
  set_last_error("msda_test", "one");
  CHECK(std::string(last_error()) == "msda_test: one");
  std::string const endless(5000, 'e');
  set_last_error("msda_test", endless);
  CHECK(std::string(last_error()) == ("msda_test: " + endless).substr(0, 1023));
  set_last_error(endless, endless);
  CHECK(std::string(last_error()) == endless.substr(0, 1023));
  set_last_error("", "");
  CHECK(std::string(last_error()) == ": ");
}

TEST_CASE("decimal numbers are read whole and in the C locale") {
  CHECK(parse_decimal("12.5") == 12.5);
  CHECK(parse_decimal("-.25e+2") == -25.0);
  CHECK(parse_decimal("1e999") == std::numeric_limits<double>::infinity());
  for (char const* text : {"", " 1", "1 ", "+1", "0x10", "1,5", "nan", "inf", "1e", "1us", "--1"}) {
    CAPTURE(text);
    CHECK(!parse_decimal(text));
  }
}
