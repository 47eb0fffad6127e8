#include "kernels/files/file_list.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/file_error.hpp"
#include "kernels/files/file_url.hpp"
#include "kernels/files/text_lines.hpp"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <new>
#include <string_view>

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr size_t max_files = 10'000'000;

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

using Store = std::shared_ptr<const FileStore>;

bool is_stored_pattern(const std::string& place) {
  return place.starts_with("s3://")
         && (is_pattern(place) || place.ends_with('/'));
}

/// The objects of a pattern; one that is called like it is that one.
std::vector<DataFile> stored_matches(const std::string& pattern,
                                     const Store& store) {
  if (!store)
    return {DataFile{pattern, store}};
  auto urls = store->list(pattern);
  if (std::binary_search(urls.begin(), urls.end(), pattern))
    urls = {pattern};
  if (urls.empty())
    throw InputError(shown_place(pattern) + ": matches no object; check the "
                     + (pattern.ends_with('/') ? "prefix" : "pattern"));
  std::vector<DataFile> files;
  files.reserve(urls.size());
  for (auto& url : urls)
    files.emplace_back(std::move(url), store);
  return files;
}

void add_url(const std::string& place, const Store& store,
             std::vector<DataFile>& files) {
  check_url(place);
  if (!is_stored_pattern(place)) {
    files.emplace_back(place, store);
    return;
  }
  auto found = stored_matches(place, store);
  files.insert(files.end(), std::make_move_iterator(found.begin()),
               std::make_move_iterator(found.end()));
}

void add_place(const std::string& place, std::vector<DataFile>& files) {
  if (!is_pattern(place) || is_there(place)) {
    files.emplace_back(place);
    return;
  }
  auto found = matches_of(place);
  files.insert(files.end(), std::make_move_iterator(found.begin()),
               std::make_move_iterator(found.end()));
}

std::vector<DataFile> listed_files(const DataFile& list, const Store& store) {
  std::vector<DataFile> files;
  const auto folder = fs::path{list.place()}.parent_path();
  TextLines lines{list};
  std::string_view line;
  while (lines.next(line)) {
    const auto name = trimmed(line);
    if (name.empty() || name.starts_with('#'))
      continue;
    if (name.find('\0') != name.npos)
      lines.refuse("holds a byte 0", "is this a list of files?");
    if (list.is_elsewhere() || is_url(name))
      add_url(list.is_elsewhere() ? beside_url(list.place(), name)
                                  : std::string{name},
              store, files);
    else
      add_place((folder / fs::path{name}).string(), files);
    if (files.size() > max_files)
      lines.refuse("is beyond 10,000,000 files", "put samples into fewer");
  }
  if (files.empty())
    throw InputError(list.name() + ": names no file; write one a line");
  return files;
}

void refuse_twins(const std::string& place,
                  const std::vector<DataFile>& files) {
  std::vector<std::string_view> sorted;
  sorted.reserve(files.size());
  for (const auto& file : files)
    sorted.push_back(file.place());
  std::sort(sorted.begin(), sorted.end());
  const auto twin = std::adjacent_find(sorted.begin(), sorted.end());
  if (twin != sorted.end())
    throw InputError(shown_place(place) + ": names " + shown_place(*twin)
                     + " twice, so its samples "
                     + "would count twice; name it once");
}

} // namespace

bool names_several(const std::string& place) {
  if (is_url(place))
    return is_stored_pattern(place);
  return !is_there(place) && (place.starts_with('@') || is_pattern(place));
}

std::vector<DataFile> list_files(const std::string& place, const Store& store) {
  std::vector<DataFile> files;
  const bool is_list = place.starts_with('@') && !is_there(place);
  const auto where = place.substr(is_list ? 1 : 0);
  if (is_url(where))
    check_kept_url(where);
  if (is_list)
    files = listed_files({where, store}, store);
  else if (is_url(place))
    add_url(place, store, files);
  else
    add_place(place, files);
  refuse_twins(place, files);
  return files;
}

DataFile one_file(const std::string& place, const Store& store) {
  if (is_url(place))
    check_kept_url(place);
  return {place, store};
}

} // namespace troupe
