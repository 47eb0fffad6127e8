#include "apps/process/made_folders.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/folder_lock.hpp"

#include <unistd.h>

#include <algorithm>
#include <system_error>

namespace troupe {
namespace {

namespace fs = std::filesystem;

void remove_if_empty(const fs::path& folder) {
  std::error_code failure;
  if (!fs::is_directory(folder, failure))
    return;
  try {
    const FolderLock lock{folder.string()};
    if (lock.held())
      ::rmdir(folder.c_str()); // which fails where something is in it
  } catch (const InputError&) {
    return; // it is not ours any more
  }
}

} // namespace

MadeFolders::MadeFolders(const std::vector<std::string>& named) {
  for (const auto& name : named) {
    if (name.empty())
      continue;
    std::error_code failure;
    auto path = fs::absolute(name, failure);
    while (!failure && path.has_relative_path()
           && fs::symlink_status(path, failure).type()
                == fs::file_type::not_found) {
      failure.clear(); // that nothing is there
      if (path.has_filename())
        absent_.push_back(path);
      path = path.parent_path();
    }
  }
  std::ranges::sort(absent_, std::ranges::greater{},
                    [](const fs::path& path) { return path.native().size(); });
}

MadeFolders::~MadeFolders() {
  for (const auto& folder : absent_)
    remove_if_empty(folder);
}

} // namespace troupe
