#include "kernels/files/input_file.hpp"
#include "kernels/records/byte_stream.hpp"
#include "kernels/records/formats.hpp"

#include <algorithm>
#include <filesystem>

namespace troupe {

namespace {

/// A file is one record.
class WholeFile : public RecordScan {
public:
  explicit WholeFile(const DataFile& file) : file_(file), path_(file.name()) {}

  bool next(Record& out) override {
    if (done_)
      return false;
    done_ = true;
    ByteStream stream{file_};
    stream.take(longest_record + 1, bytes_);
    if (bytes_.size() > longest_record)
      refuse_record(path_, 0, "the image is longer than 64 MiB",
                    "scale it down before");
    out = {path_, 0, bytes_, {}};
    return true;
  }

private:
  DataFile file_;
  std::string path_;
  std::vector<uint8_t> bytes_;
  bool done_ = false;
};

class ImageFilesFormat : public RecordFormat {
public:
  ImageFilesFormat(std::vector<std::string> classes, const RowWishes& wishes)
    : classes_(std::move(classes)), rows_(wishes) {}

  std::unique_ptr<RecordScan> scan(const DataFile& file) const override {
    return std::make_unique<WholeFile>(file);
  }

  bool whole_files() const override { return true; }

  RowLayout begin(const Record& first) override {
    if (!is_image(first.bytes))
      first.refuse("is neither a JPEG nor a PNG image", "mend or remove it");
    return rows_.begin(first);
  }

  double label(const Record& record) const override {
    const auto folder = std::filesystem::path{record.path}.parent_path();
    const auto name = folder.filename().string();
    const auto at = std::lower_bound(classes_.begin(), classes_.end(), name);
    return static_cast<double>(at - classes_.begin());
  }

  void decode(const Record& record, void* row,
              const SampleDraw& draw) const override {
    rows_.decode(record, row, draw);
  }

private:
  std::vector<std::string> classes_; ///< sorted
  BytesRows rows_;
};

} // namespace

std::unique_ptr<RecordFormat>
image_files_format(std::vector<std::string> classes, const RowWishes& wishes) {
  return std::make_unique<ImageFilesFormat>(std::move(classes), wishes);
}

} // namespace troupe
