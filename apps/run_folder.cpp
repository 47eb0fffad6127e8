#include "apps/run_folder.hpp"

#include "kernels/error.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace troupe {

RunFolder::RunFolder() {
  // Of what TMPDIR names, the library would say only that it is none.
  const auto* named = std::getenv("TMPDIR");
  const std::string parent = named != nullptr && *named != '\0' ? named
                                                                : "/tmp";
  auto pattern = parent + "/troupe-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr)
    throw InputError("cannot create a folder in " + parent + " ("
                     + std::strerror(errno)
                     + "): set TMPDIR to one that is there and writable");
  path_ = pattern;
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

} // namespace troupe
