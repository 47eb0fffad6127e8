#include "kernels/files/data_file.hpp"

#include "kernels/files/file_error.hpp"
#include "kernels/files/file_url.hpp"
#include "kernels/files/input_file.hpp"

#include <filesystem>
#include <utility>

namespace troupe {

namespace {

class LocalFile : public OpenedFile {
public:
  explicit LocalFile(const std::string& path) : file_(path) {}
  const std::string& name() const override { return file_.path(); }
  uint64_t size() const override { return file_.size(); }
  int64_t version() const override { return file_.written_ns(); }
  size_t read_at(uint64_t offset, std::span<std::byte> out) const override {
    return file_.read_at(offset, out);
  }

private:
  InputFile file_;
};

} // namespace

DataFile::DataFile(std::string path) : place_(std::move(path)) {}

DataFile::DataFile(const char* path) : place_(path) {}

DataFile::DataFile(std::string place, std::shared_ptr<const FileStore> store)
  : place_(std::move(place)),
    store_(is_url(place_) ? std::move(store) : nullptr) {}

std::string DataFile::name() const {
  return shown_place(place_);
}

bool DataFile::is_elsewhere() const {
  return is_url(place_);
}

std::shared_ptr<const OpenedFile> DataFile::open() const {
  if (!is_elsewhere())
    return std::make_shared<const LocalFile>(place_);
  check_url(place_);
  if (!store_)
    throw InputError(name() + ": lies elsewhere, which is not read here; copy "
                     + "it to this machine");
  return store_->open(place_);
}

bool is_there(const DataFile& file) {
  std::error_code ignored;
  if (!file.is_elsewhere())
    return std::filesystem::exists(file.place(), ignored);
  try {
    file.open();
    return true;
  } catch (const FileError& failure) {
    if (!says_missing(failure.code()))
      throw;
    return false;
  }
}

DataFile in_folder(const DataFile& folder, const std::string& name) {
  if (!folder.is_elsewhere())
    return (std::filesystem::path{folder.place()} / name).string();
  auto place = folder.place();
  if (!place.ends_with('/'))
    place += '/';
  return {place + name, folder.store()};
}

} // namespace troupe
