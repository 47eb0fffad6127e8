#pragma once

#include "kernels/files/file_store.hpp"

#include <memory>
#include <string>

namespace troupe {

/// Names a file of samples: one of this machine by its path, or an object of a
/// store by its URL. A value; nothing is opened.
class DataFile {
public:
  DataFile(std::string path); // NOLINT(google-explicit-constructor)
  DataFile(const char* path); // NOLINT(google-explicit-constructor)
  /// Of a URL with its store; a path needs none.
  DataFile(std::string place, std::shared_ptr<const FileStore> store);

  /// The path or the whole URL.
  const std::string& place() const { return place_; }
  /// As messages name it: a URL without its query.
  std::string name() const;
  bool is_elsewhere() const;
  const std::shared_ptr<const FileStore>& store() const { return store_; }

  /// Errors: InputError (missing, not a regular file, not readable).
  std::shared_ptr<const OpenedFile> open() const;

private:
  std::string place_;
  std::shared_ptr<const FileStore> store_;
};

/// Whether there is such a file. Errors: InputError where a store does not say.
bool is_there(const DataFile& file);

/// A file of a folder, which may be a URL.
DataFile in_folder(const DataFile& folder, const std::string& name);

} // namespace troupe
