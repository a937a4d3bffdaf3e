// The three pictures of examples/photo through the C API: reads the tensors that photo.py wrote,
// runs them on the CPU backend, writes the result as raw float32 and, as a picture, as PNG.
//
//   example_photo CASE_DIR PREFIX      reads CASE_DIR/case.txt, writes PREFIX.bin and PREFIX.png

#include <msda.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void check(msda_status status) {
  if (status != MSDA_SUCCESS) throw std::runtime_error(msda_last_error());
}

// The sizes of a case: one "name number..." a line.
using Sizes = std::map<std::string, std::vector<std::int32_t>>;

Sizes read_sizes(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read; run photo.py first");
  Sizes sizes;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (std::int32_t number; words >> number;) sizes[name].push_back(number);
  }
  for (const char* name : {"level_hw", "points", "queries", "heads", "channels", "picture"}) {
    if (sizes[name].empty()) throw std::runtime_error(path + ": has no " + name);
  }
  return sizes;
}

std::vector<float> read_floats(const std::string& path, std::size_t count) {
  std::vector<float> values(count);
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  auto const bytes = static_cast<std::streamsize>(count * sizeof(float));
  if (!file || file.tellg() != bytes) {
    throw std::runtime_error(path + ": must be a file of " + std::to_string(bytes) + " bytes");
  }
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()), bytes);
  return values;
}

// The first three channels of head 0 are red, green and blue, 0 to 1.
void write_png(const std::string& path, const std::vector<float>& output, std::int32_t height,
               std::int32_t width, std::size_t pixel_stride) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3);
  for (std::size_t pixel = 0; pixel * pixel_stride < output.size(); ++pixel) {
    for (std::size_t c = 0; c < 3; ++c) {
      float const level = std::clamp(output[pixel * pixel_stride + c], 0.0f, 1.0f) * 255.0f;
      bytes.push_back(static_cast<std::uint8_t>(std::lround(level)));
    }
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  if (!png_image_write_to_file(&image, path.c_str(), 0, bytes.data(), 0, nullptr)) {
    throw std::runtime_error(path + ": " + image.message);
  }
}

// A handle and a plan that end themselves.
struct Session {
  msda_handle* handle = nullptr;
  msda_plan* plan = nullptr;
  ~Session() {
    msda_plan_destroy(plan);
    msda_handle_destroy(handle);
  }
};

std::vector<float> run(const std::string& folder, Sizes& sizes) {
  std::int64_t tokens = 0, points = 0;
  auto const level_count = static_cast<std::int32_t>(sizes["points"].size());
  for (std::int32_t l = 0; l < level_count; ++l) {
    auto const i = static_cast<std::size_t>(l);
    tokens += std::int64_t{sizes["level_hw"].at(2 * i)} * sizes["level_hw"].at(2 * i + 1);
    points += sizes["points"][i];
  }
  std::int64_t const Q = sizes["queries"][0], M = sizes["heads"][0], D = sizes["channels"][0];
  bool const fused = sizes.count("reference") != 0;
  auto const read = [&](const char* name, std::int64_t count) {
    return read_floats(folder + "/" + name + ".bin", static_cast<std::size_t>(count));
  };

  msda_problem problem{};
  problem.struct_size = sizeof(problem);
  problem.level_hw = sizes["level_hw"].data();
  problem.point_counts = sizes["points"].data();
  problem.query_hw = sizes["picture"].data();  // the queries are the pixels of the picture
  problem.query_grid_count = 1;
  problem.batch = 1;
  problem.query_count = Q;
  problem.head_count = M;
  problem.head_dim = D;
  problem.level_count = level_count;
  problem.value_dtype = MSDA_DTYPE_F32;
  problem.input_mode = fused ? MSDA_INPUT_FUSED : MSDA_INPUT_SAMPLED;
  problem.reference_dim = fused ? 2 : 0;

  Session session;
  msda_handle_options options{};
  options.struct_size = sizeof(options);
  options.device = MSDA_DEVICE_CPU;
  check(msda_handle_create(&options, &session.handle));
  check(msda_plan_create(session.handle, &problem, nullptr, &session.plan));
  msda_plan_info info{};
  info.struct_size = sizeof(info);
  check(msda_plan_get_info(session.plan, &info));

  std::vector<float> const value = read("value", tokens * M * D);
  std::vector<float> const where = read(fused ? "offset" : "coord", Q * M * points * 2);
  std::vector<float> const weight = read(fused ? "logit" : "weight", Q * M * points);
  std::vector<float> const reference =
      fused ? read("reference", Q * level_count * 2) : std::vector<float>();
  std::vector<float> output(static_cast<std::size_t>(Q * M * D));
  std::vector<std::byte> workspace(info.workspace_bytes + info.workspace_alignment);
  auto const address = reinterpret_cast<std::uintptr_t>(workspace.data());

  msda_tensors tensors{};
  tensors.struct_size = sizeof(tensors);
  tensors.value = value.data();
  (fused ? tensors.offset : tensors.coord) = where.data();
  (fused ? tensors.logit : tensors.weight) = weight.data();
  tensors.reference = reference.data();
  tensors.output = output.data();
  tensors.workspace =
      workspace.data() + (info.workspace_alignment - address % info.workspace_alignment);
  tensors.workspace_bytes = info.workspace_bytes;
  check(msda_execute(session.plan, &tensors, nullptr));
  std::printf("  C++: %s by %s\n", folder.c_str(), info.kernel_id);
  return output;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: example_photo CASE_DIR PREFIX\n");
    return 2;
  }
  try {
    std::string const folder = argv[1], prefix = argv[2];
    Sizes sizes = read_sizes(folder + "/case.txt");
    std::vector<float> const output = run(folder, sizes);
    std::ofstream(prefix + ".bin", std::ios::binary)
        .write(reinterpret_cast<const char*>(output.data()),
               static_cast<std::streamsize>(output.size() * sizeof(float)));
    write_png(prefix + ".png", output, sizes["picture"].at(0), sizes["picture"].at(1),
              static_cast<std::size_t>(sizes["heads"][0]) *
                  static_cast<std::size_t>(sizes["channels"][0]));
  } catch (std::exception const& error) {
    std::fprintf(stderr, "example_photo: error: %s\n", error.what());
    return 2;
  }
  return 0;
}
