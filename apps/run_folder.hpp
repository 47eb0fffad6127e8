#pragma once

#include <string>

namespace troupe {

/// A private folder that goes with the run.
class RunFolder {
public:
  /// Errors: InputError where none can be made.
  RunFolder();
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

} // namespace troupe
