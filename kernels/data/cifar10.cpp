#include "kernels/data/cifar10.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/byte_source.hpp"
#include "kernels/files/free_memory.hpp"

#include <array>
#include <filesystem>
#include <optional>

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr size_t plane = 32 * 32;
constexpr size_t channels = 3;
constexpr size_t record_bytes = 1 + channels * plane;
constexpr uint8_t classes = 10;

std::optional<DataFile> find(const DataFile& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz", ".zst"}) {
    auto file = in_folder(folder, name + suffix);
    if (is_there(file))
      return file;
  }
  return std::nullopt;
}

std::vector<std::string> names_of(const DataFile& folder,
                                  const std::string& split) {
  if (split == "test"
      || (split == "auto" && !find(folder, "data_batch_1.bin")
          && find(folder, "test_batch.bin")))
    return {"test_batch.bin"};
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i)
    names.push_back("data_batch_" + std::to_string(i) + ".bin");
  return names;
}

[[noreturn]] void refuse(const std::string& path, uint64_t record,
                         const std::string& what) {
  throw InputError(path + ": record " + std::to_string(record) + " " + what
                   + "; take CIFAR-10's binary version and download it again");
}

/// Adds one file's samples; planes become channels of a pixel.
void add(const DataFile& file, std::vector<uint8_t>& pixels,
         std::vector<int32_t>& labels) {
  const auto source = open_bytes(file);
  const auto path = file.name();
  std::array<uint8_t, record_bytes> record;
  for (uint64_t i = 0;; ++i) {
    const auto got = source->read(std::as_writable_bytes(std::span{record}));
    if (got == 0 && i > 0)
      return;
    if (got < record_bytes)
      refuse(path, i,
             "ends after " + std::to_string(got) + " of its "
               + std::to_string(record_bytes) + " bytes");
    if (record[0] >= classes)
      refuse(path, i,
             "has the label " + std::to_string(record[0]) + ", above 9");
    make_room(pixels, channels * plane, path);
    labels.push_back(record[0]);
    const auto at = pixels.size();
    pixels.resize(at + channels * plane);
    for (size_t k = 0; k < plane; ++k)
      for (size_t c = 0; c < channels; ++c)
        pixels[at + k * channels + c] = record[1 + c * plane + k];
  }
}

} // namespace

Dataset read_cifar10(const DataFile& where, const std::string& split) {
  std::error_code ignored;
  const auto folder = where.name();
  if (!where.is_elsewhere() && !fs::is_directory(folder, ignored))
    throw InputError(folder + ": is not a folder; name the one with "
                     + "data_batch_1.bin");
  Dataset result;
  result.name = "cifar10:" + folder;
  result.shape.features = {32, 32, channels};
  result.shape.classes = classes;
  result.scale = 1.0f / 255.0f;
  std::vector<uint8_t> pixels;
  for (const auto& name : names_of(where, split)) {
    const auto file = find(where, name);
    if (!file)
      throw InputError(folder + ": holds no " + name + ", plain or .gz; put it "
                       + "there or name another folder");
    add(*file, pixels, result.labels);
  }
  result.bytes = std::move(pixels);
  return result;
}

} // namespace troupe
