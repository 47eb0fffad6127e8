#include "apps/run_folder.hpp"

#include "kernels/error.hpp"

#include <cstdlib>
#include <filesystem>

namespace troupe {

RunFolder::RunFolder() {
  auto pattern =
    (std::filesystem::temp_directory_path() / "troupe-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw InputError("cannot create a folder in "
                     + std::filesystem::temp_directory_path().string()
                     + ": set TMPDIR to one that is writable");
  path_ = pattern;
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

} // namespace troupe
