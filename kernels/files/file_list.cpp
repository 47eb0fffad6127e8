#include "kernels/files/file_list.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/file_error.hpp"
#include "kernels/files/text_lines.hpp"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr size_t max_files = 10'000'000;

bool is_there(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_pattern(const std::string& path) {
  return path.find_first_of("*?[") != path.npos;
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  // The library's order is that of the locale, another on another machine.
  const int code = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr,
                          &found);
  const int why = errno;
  std::vector<std::string> result(found.gl_pathv,
                                  found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (code == GLOB_NOSPACE)
    throw std::bad_alloc{};
  if (code == GLOB_ABORTED)
    throw FileError(pattern + ": a folder of it cannot be read ("
                      + reason_of(why) + "); check its permissions",
                    why);
  if (result.empty())
    throw InputError(pattern + ": matches no file; check the pattern");
  std::sort(result.begin(), result.end());
  return result;
}

void add_place(const std::string& place, std::vector<std::string>& files) {
  if (!is_pattern(place) || is_there(place)) {
    files.push_back(place);
    return;
  }
  auto found = matches_of(place);
  files.insert(files.end(), std::make_move_iterator(found.begin()),
               std::make_move_iterator(found.end()));
}

std::vector<std::string> listed_files(const std::string& list) {
  std::vector<std::string> files;
  const auto folder = fs::path{list}.parent_path();
  TextLines lines{list};
  std::string_view line;
  while (lines.next(line)) {
    const auto name = trimmed(line);
    if (name.empty() || name.starts_with('#'))
      continue;
    if (name.find('\0') != name.npos)
      lines.refuse("holds a byte 0", "is this a list of files?");
    add_place((folder / fs::path{name}).string(), files);
    if (files.size() > max_files)
      lines.refuse("is beyond 10,000,000 files", "put samples into fewer");
  }
  if (files.empty())
    throw InputError(list + ": names no file; write one a line");
  return files;
}

void refuse_twins(const std::string& place,
                  const std::vector<std::string>& files) {
  auto sorted = files;
  std::sort(sorted.begin(), sorted.end());
  const auto twin = std::adjacent_find(sorted.begin(), sorted.end());
  if (twin != sorted.end())
    throw InputError(place + ": names " + *twin + " twice, so its samples "
                     + "would count twice; name it once");
}

} // namespace

bool names_several(const std::string& place) {
  return !is_there(place) && (place.starts_with('@') || is_pattern(place));
}

std::vector<std::string> list_files(const std::string& place) {
  std::vector<std::string> files;
  if (place.starts_with('@') && !is_there(place))
    files = listed_files(place.substr(1));
  else
    add_place(place, files);
  refuse_twins(place, files);
  return files;
}

} // namespace troupe
