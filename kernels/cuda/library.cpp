#include "kernels/cuda/library.cuh"

#include "kernels/base/error.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

namespace troupe::kernels {

namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const auto* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    found.push_back(entry->path());
  std::sort(found.begin(), found.end());
  return found;
}

/// The folders of a Python environment that hold NVIDIA's libraries.
void add_python(const fs::path& prefix, std::vector<fs::path>& folders) {
  for (const auto& version : entries(prefix / "lib")) {
    if (version.filename().string().rfind("python3", 0) != 0)
      continue;
    for (const auto* packages : {"site-packages", "dist-packages"})
      for (const auto& one : entries(version / packages / "nvidia"))
        folders.push_back(one / "lib");
  }
}

void add_python_on_path(std::vector<fs::path>& folders) {
  std::istringstream path(environment("PATH"));
  std::string folder;
  while (std::getline(path, folder, ':')) {
    const auto python = fs::path(folder) / "python3";
    std::error_code error;
    if (folder.empty() || !fs::exists(python, error))
      continue;
    add_python(fs::path(folder).parent_path(), folders);
    const auto real = fs::canonical(python, error);
    if (!error)
      add_python(real.parent_path().parent_path(), folders);
    return;
  }
}

std::vector<fs::path> library_folders() {
  std::vector<fs::path> folders;
  for (const auto* name : {"CUDA_HOME", "CUDA_PATH"})
    if (auto home = environment(name); !home.empty())
      folders.push_back(fs::path(home) / "lib64");
  folders.emplace_back("/usr/local/cuda/lib64");
  if (auto home = environment("VIRTUAL_ENV"); !home.empty())
    add_python(home, folders);
  add_python_on_path(folders);
  return folders;
}

void* open(const std::string& file) {
  return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// Whether the linker found no file of the name, rather than one that it could
/// not load.
bool is_missing(const std::string& why, const std::string& file) {
  return why.starts_with(file + ": cannot open shared object file: No such");
}

/// Tries every place; `looked` gets their names.
void* open_anywhere(const std::string& file, std::string& looked) {
  if (auto* library = open(file); library != nullptr)
    return library;
  looked = "LD_LIBRARY_PATH and the system's folders";
  // One that is nowhere there is said by that; another reason is not.
  if (const std::string why = dlerror(); !is_missing(why, file))
    looked += " (" + why + ")";
  for (const auto& folder : library_folders()) {
    std::error_code error;
    if (!fs::exists(folder / file, error))
      looked += ", " + folder.string();
    else if (auto* library = open(folder / file); library != nullptr)
      return library;
    else
      looked += ", " + folder.string() + " (" + dlerror() + ")";
  }
  return nullptr;
}

} // namespace

CudaLibrary::CudaLibrary(const std::string& title, const std::string& file)
  : title_(title) {
  std::string looked;
  library_ = open_anywhere(file, looked);
  if (library_ == nullptr)
    throw InputError("cannot load " + title + " (" + file + "), looked in "
                     + looked
                     + ": install CUDA's libraries, or put their "
                       "folder into LD_LIBRARY_PATH");
}

void CudaLibrary::prepare(const std::string& file) {
  std::string looked;
  open_anywhere(file, looked);
}

void* CudaLibrary::symbol(const char* name) const {
  auto* found = dlsym(library_, name);
  if (found == nullptr)
    throw InputError(title_ + " has no function " + name
                     + ": install the version that this build was made for");
  return found;
}

} // namespace troupe::kernels
