#include "kernels/data/idx.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/byte_source.hpp"
#include "kernels/files/payload.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr uint32_t mnist_side = 28;
constexpr uint32_t classes = 10;
constexpr uint32_t images_magic = 0x00000803; // bytes, three dimensions
constexpr uint32_t labels_magic = 0x00000801; // bytes, one dimension

[[noreturn]] void
refuse(const std::string& path, const std::string& what,
       const std::string& advice = "copy or download it again") {
  throw InputError(path + ": " + what + "; " + advice);
}

// --- one IDX file ------------------------------------------------------------

/// One file with its header read: a magic number and the dimensions, all
/// big-endian and of 32 bits.
class IdxFile {
public:
  IdxFile(const DataFile& file, uint32_t magic)
    : file_(file), path_(file.name()), bytes_(open_bytes(file)) {
    const auto& path = path_;
    const auto found = next_number();
    const std::array start{static_cast<char>(found >> 24),
                           static_cast<char>(found >> 16),
                           static_cast<char>(found >> 8),
                           static_cast<char>(found)};
    if (const auto why = unnamed_packing(path, {start.data(), start.size()});
        !why.empty())
      throw InputError(path + ": " + why);
    if (found != magic)
      refuse(path, "starts with the magic number " + std::to_string(found)
                     + ", not " + std::to_string(magic));
    header_bytes_ = sizeof(uint32_t) * (1 + dimension_count(magic));
    for (auto& dimension : dimensions_)
      dimension = 1;
    for (size_t i = 0; i < dimension_count(magic); ++i)
      dimensions_[i] = next_number();
    if (dimensions_[0] == 0)
      refuse(path, "holds no samples");
  }

  const std::string& path() const { return path_; }
  uint32_t samples() const { return dimensions_[0]; }
  uint32_t rows() const { return dimensions_[1]; }
  uint32_t columns() const { return dimensions_[2]; }

  /// The data after the header, whose length has to be exactly `size`.
  Column<uint8_t> data(uint64_t size) {
    auto payload = read_payload(file_, *bytes_, header_bytes_, size);
    const auto* first = reinterpret_cast<const uint8_t*>(payload.bytes.data());
    return {std::move(payload.owner), {first, payload.bytes.size()}};
  }

private:
  static size_t dimension_count(uint32_t magic) { return magic & 0xff; }

  uint32_t next_number() {
    std::array<std::byte, 4> big;
    if (bytes_->read(big) != big.size())
      refuse(path_, "ends within its header");
    uint32_t result = 0;
    for (auto byte : big)
      result = result << 8 | std::to_integer<uint32_t>(byte);
    return result;
  }

  DataFile file_;
  std::string path_;
  std::unique_ptr<ByteSource> bytes_;
  uint64_t header_bytes_ = 0;
  std::array<uint32_t, 3> dimensions_;
};

// --- a folder ----------------------------------------------------------------

/// Some mirrors write a dot where the original names have a dash.
std::optional<DataFile> existing_file(const DataFile& folder,
                                      const std::string& start,
                                      const std::string& end) {
  for (const char* suffix : {"", ".gz", ".zst"})
    for (const char* joint : {"-", "."}) {
      auto name = start;
      name.append(joint).append(end).append(suffix);
      auto file = in_folder(folder, name);
      if (is_there(file))
        return file;
    }
  return std::nullopt;
}

std::optional<DataFile> find_images(const DataFile& folder,
                                    const std::string& part) {
  return existing_file(folder, part + "-images", "idx3-ubyte");
}

std::optional<DataFile> find_labels(const DataFile& folder,
                                    const std::string& part) {
  return existing_file(folder, part + "-labels", "idx1-ubyte");
}

/// "train" or "t10k", the start of the names.
std::string part_of(const DataFile& folder, const std::string& split) {
  if (split == "train")
    return "train";
  if (split == "test")
    return "t10k";
  return find_images(folder, "train") || find_labels(folder, "train") ? "train"
                                                                      : "t10k";
}

[[noreturn]] void missing(const DataFile& where, const std::string& split,
                          const std::string& name) {
  std::error_code ignored;
  const auto folder = where.name();
  if (!where.is_elsewhere() && !fs::exists(folder, ignored))
    throw InputError(folder + ": there is no such folder; check the path");
  if (!where.is_elsewhere() && !fs::is_directory(folder, ignored))
    throw InputError(folder + ": is not a folder; name the one with the files "
                     + name);
  const auto also =
    split == "auto" && name.starts_with("t10k") ? " (nor the train files)" : "";
  throw InputError(folder + ": holds no " + name + ", plain or .gz" + also
                   + "; put it there or name another folder");
}

std::vector<int32_t> checked_labels(const std::string& path,
                                    const Column<uint8_t>& raw) {
  std::vector<int32_t> result(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] >= classes)
      refuse(path, "label " + std::to_string(i) + " is "
                     + std::to_string(raw[i]) + ", above 9");
    result[i] = raw[i];
  }
  return result;
}

} // namespace

Dataset read_mnist(const DataFile& folder, const std::string& split) {
  const auto part = part_of(folder, split);
  const auto images_file = find_images(folder, part);
  if (!images_file)
    missing(folder, split, part + "-images-idx3-ubyte");
  const auto labels_file = find_labels(folder, part);
  if (!labels_file)
    missing(folder, split, part + "-labels-idx1-ubyte");
  IdxFile labels{*labels_file, labels_magic};
  IdxFile images{*images_file, images_magic};
  const auto& images_path = images.path();
  const auto& labels_path = labels.path();
  if (images.rows() != mnist_side || images.columns() != mnist_side)
    refuse(images_path, "its images are of " + std::to_string(images.rows())
                          + " x " + std::to_string(images.columns())
                          + " pixels, MNIST's are of 28 x 28");
  Dataset result;
  result.name = "mnist:" + folder.name();
  result.shape.features = {mnist_side, mnist_side, 1};
  result.shape.classes = classes;
  result.scale = 1.0f / 255.0f;
  // Each file is compared with its own length first: then it is clear which
  // of the two lies where their counts differ.
  result.labels = checked_labels(labels_path, labels.data(labels.samples()));
  result.bytes = images.data(uint64_t{images.samples()} * result.features());
  if (images.samples() != labels.samples())
    refuse(images_path,
           "holds " + std::to_string(images.samples()) + " images, "
             + labels_path + " " + std::to_string(labels.samples()) + " labels",
           "take both from the same set");
  return result;
}

} // namespace troupe
