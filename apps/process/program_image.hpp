#pragma once

#include <string>

namespace troupe {

/// The executable that this process runs, held open: processes started from it
/// are of the same build, whatever becomes of its file meanwhile.
class ProgramImage {
public:
  /// Errors: InputError where /proc is not mounted.
  ProgramImage();
  ~ProgramImage();
  ProgramImage(const ProgramImage&) = delete;
  ProgramImage& operator=(const ProgramImage&) = delete;

  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; } ///< that its file had

private:
  int descriptor_;
  std::string path_;
};

} // namespace troupe
