#include "kernels/parquet/parquet_file.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/byte_source.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/files/text_lines.hpp"

#include <dlfcn.h>
#include <glob.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <span>
#include <utility>

extern "C" {
// Of module_image.cpp, where that is a part of the program.
[[gnu::weak]] extern const char troupe_parquet_image[];
[[gnu::weak]] extern const char troupe_parquet_image_end[];
}

namespace troupe {

namespace {

namespace fs = std::filesystem;
using parquet::ArrowColumn;
using parquet::ModuleTable;

/// What Arrow may hold of one file: a page can be written to become anything.
constexpr uint64_t max_memory = uint64_t{1} << 30;
constexpr const char* module_file = "troupe_parquet.so";

std::string home_folder() {
  const auto* home = std::getenv("HOME");
  return home == nullptr ? "" : home;
}

/// Where pip puts pyarrow, which brings Arrow's libraries; the place that was
/// named first. A star stands for Python's version.
std::vector<std::string> pyarrow_places() {
  std::vector<std::string> places;
  if (const auto* named = std::getenv("TROUPE_PYARROW"))
    places.emplace_back(named);
  const std::string in_lib = "/lib/python3*/";
  if (const auto* active = std::getenv("VIRTUAL_ENV"))
    places.push_back(active + in_lib + "site-packages/pyarrow");
  if (const auto home = home_folder(); !home.empty())
    places.push_back(home + "/.local" + in_lib + "site-packages/pyarrow");
  places.push_back("/usr/local" + in_lib + "dist-packages/pyarrow");
  places.push_back("/usr/local" + in_lib + "site-packages/pyarrow");
  return places;
}

std::vector<std::string> files_like(const std::string& pattern) {
  std::vector<std::string> found;
  glob_t matches{};
  if (glob(pattern.c_str(), 0, nullptr, &matches) == 0)
    found.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  globfree(&matches);
  return found;
}

/// Loads Arrow's libraries of a place; the module then finds them by name.
void load_arrow_of(const std::string& place) {
  for (const auto* name : {"/libarrow.so.*", "/libparquet.so.*"})
    for (const auto& file : files_like(place + name))
      dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// A file in memory that has these bytes; below 0 where there is no room.
int memory_with(std::string_view bytes) {
  const int memory = memfd_create(module_file, MFD_CLOEXEC);
  if (memory >= 0
      && ::write(memory, bytes.data(), bytes.size())
           != static_cast<ssize_t>(bytes.size())) {
    ::close(memory);
    return -1;
  }
  return memory;
}

/// The module as a file of its own, beside the program or where it is
/// installed, else as a part of it. Empty: there is none.
std::string module_place() {
  std::error_code unknown;
  const auto here = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  for (const auto& place : {here / module_file, here.parent_path() / "lib"
                                                  / "troupe" / module_file})
    if (fs::is_regular_file(place, unknown))
      return place.string();
  if (troupe_parquet_image == nullptr)
    return {};
  const std::string_view bytes{
    troupe_parquet_image,
    static_cast<size_t>(troupe_parquet_image_end - troupe_parquet_image)};
  static int memory = -1; // stays open, also for who asks again
  if (memory < 0)
    memory = memory_with(bytes);
  return memory < 0 ? std::string{} : "/proc/self/fd/" + std::to_string(memory);
}

/// "26" of "libparquet.so.2600: cannot open …"; else empty.
std::string arrow_version(std::string_view mistake) {
  const auto at = mistake.find(".so.");
  if (at == mistake.npos)
    return {};
  const auto digits = mistake.substr(at + 4);
  const auto count = digits.find_first_not_of("0123456789");
  return count == digits.npos || count < 3
           ? std::string{}
           : std::string{digits.substr(0, count - 2)};
}

const ModuleTable* load_module(const std::string& file) {
  const auto place = module_place();
  if (place.empty())
    throw InputError(file
                     + ": is read by Apache Arrow, which this troupe was built "
                       "without; install it (python3 -m pip install pyarrow, "
                       "or libparquet-dev of Apache's packages), then "
                       "configure and build again");
  const auto load = [&] {
    return dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  };
  auto* module = load();
  const std::string mistake = module == nullptr ? dlerror() : "";
  for (const auto& pattern : pyarrow_places())
    for (const auto& folder : files_like(pattern))
      if (module == nullptr) {
        load_arrow_of(folder);
        module = load();
      }
  if (module == nullptr) {
    const auto version = arrow_version(mistake);
    throw InputError(file + ": is read by Apache Arrow, which cannot be loaded "
                     + "here (" + shown_text(mistake)
                     + "); install it (python3 -m pip install pyarrow"
                     + (version.empty() ? "" : "==" + version + ".*")
                     + "), and where that is in a place of its own, name "
                       "pyarrow's folder by TROUPE_PYARROW");
  }
  using Table = const ModuleTable* (*)();
  const auto table =
    reinterpret_cast<Table>(dlsym(module, parquet::module_symbol));
  if (table == nullptr || table()->version != parquet::module_version)
    throw InputError(place + ": is not this troupe's; build both again");
  return table();
}

const ModuleTable& module_of(const std::string& file) {
  static const ModuleTable* table = load_module(file); // again, if it throws
  return *table;
}

/// The text that a function of the module leaves.
class Mistake {
public:
  operator parquet::ErrorText() { return {text_.data(), text_.size()}; }
  /// Its first line.
  std::string text() const {
    const std::string_view all{text_.data()};
    const auto line = all.substr(0, all.find('\n'));
    return line.empty() ? "no reason is given" : shown_text(line);
  }

private:
  std::array<char, 400> text_{};
};

/// Lets go of what Arrow gave.
template <class Given>
struct Released {
  Given it{};
  Released() = default;
  ~Released() { reset(); }
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  void reset() {
    if (it.release != nullptr)
      it.release(&it);
    it = {};
  }
};

} // namespace

struct ParquetFile::State {
  std::string path;
  std::shared_ptr<const OpenedFile> file;
  std::exception_ptr failure; ///< why the file could not be read
  const ModuleTable* module = nullptr;
  void* reader = nullptr;
  std::vector<ArrowColumn> columns;
  std::vector<bool> chosen;
  std::vector<uint32_t> wanted;
  Released<ArrowArray> rows;
  uint32_t groups = 0;
  uint32_t group = 0; ///< the row group of the row, from 0
  bool in_group = false;
  int64_t row = -1;         ///< in `rows`
  uint64_t rows_before = 0; ///< of the row group, before those of `rows`

  ~State() {
    rows.reset();
    if (reader != nullptr)
      module->close(reader);
  }

  static bool read(void* state, uint64_t offset, void* out, uint64_t bytes) {
    auto& self = *static_cast<State*>(state);
    try {
      const std::span room{static_cast<std::byte*>(out), bytes};
      if (self.file->read_at(offset, room) == bytes)
        return true;
      throw InputError(self.path + ": became shorter while it was read");
    } catch (...) {
      self.failure = std::current_exception();
      return false;
    }
  }

  [[noreturn]] void fail(const Mistake& mistake,
                         const std::string& where) const {
    if (failure)
      std::rethrow_exception(failure);
    throw InputError(path + ": " + where + "cannot be read (" + mistake.text()
                     + "); is it damaged? Write it again");
  }

  std::string group_name() const {
    return "row group " + std::to_string(group);
  }

  /// Goes to the next rows that are there.
  bool advance() {
    while (true) {
      if (!in_group) {
        if (group == groups)
          return false;
        Mistake mistake;
        if (!module->begin(reader, group, wanted.data(), wanted.size(),
                           mistake))
          fail(mistake, group_name() + " ");
        in_group = true;
        rows_before = 0;
      }
      rows_before += static_cast<uint64_t>(rows.it.length);
      rows.reset();
      Mistake mistake;
      const auto got = module->next(reader, &rows.it, mistake);
      if (got < 0)
        fail(mistake, group_name() + " ");
      if (got > 0)
        return true;
      in_group = false;
      ++group;
    }
  }
};

ParquetFile::ParquetFile(const DataFile& file)
  : state_(std::make_unique<State>()) {
  auto& state = *state_;
  state.path = file.name();
  if (is_packed_name(state.path))
    throw InputError(state.path
                     + ": is compressed as a whole, and the end of a Parquet "
                       "file is read first; unpack it: its columns can be "
                       "compressed within it");
  state.file = file.open();
  state.module = &module_of(state.path);
  Mistake mistake;
  state.reader = state.module->open({&state, state.file->size(), &State::read},
                                    max_memory, mistake);
  Released<ArrowSchema> schema;
  if (state.reader == nullptr
      || !state.module->schema(state.reader, &schema.it, mistake))
    state.fail(mistake, "");
  state.groups = state.module->row_groups(state.reader);
  for (int64_t i = 0; i < schema.it.n_children; ++i) {
    const auto& column = *schema.it.children[i];
    names_.emplace_back(column.name != nullptr ? column.name : "");
    state.columns.emplace_back(column);
  }
  state.chosen.resize(names_.size());
}

ParquetFile::~ParquetFile() = default;

bool ParquetFile::is_readable(size_t column) const {
  return state_->columns[column].is_readable();
}

uint32_t ParquetFile::groups() const {
  return state_->module->row_groups(state_->reader);
}

parquet::GroupSize ParquetFile::group_size(uint32_t group) const {
  parquet::GroupSize size{};
  Mistake mistake;
  if (!state_->module->group_size(state_->reader, group, &size, mistake))
    state_->fail(mistake, "row group " + std::to_string(group) + " ");
  return size;
}

void ParquetFile::take_only(uint32_t group) {
  state_->group = group;
  state_->groups = group + 1;
}

void ParquetFile::choose(const std::function<bool(size_t)>& wanted) {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (!wanted(i))
      continue;
    if (!is_readable(i))
      refuse("the column " + in_quotes(names_[i])
               + " holds lists, columns, or values of a kind that is not read",
             "leave it out by columns=, or write it as numbers or text");
    state_->chosen[i] = true;
    state_->wanted.push_back(static_cast<uint32_t>(i));
  }
}

bool ParquetFile::next() {
  auto& state = *state_;
  if (++state.row < state.rows.it.length)
    return true;
  state.row = 0;
  if (!state.advance()) {
    state.row = -1;
    return false;
  }
  if (state.rows.it.n_children != std::ssize(state.wanted))
    refuse("has other columns than the file says", "write it again");
  for (size_t i = 0; i < state.wanted.size(); ++i)
    state.columns[state.wanted[i]].take(*state.rows.it.children[i]);
  return true;
}

std::string_view ParquetFile::operator[](size_t column) const {
  return state_->chosen[column] ? state_->columns[column].text(state_->row)
                                : std::string_view{};
}

std::optional<double> ParquetFile::real(size_t column) const {
  return state_->chosen[column] ? state_->columns[column].real(state_->row)
                                : std::nullopt;
}

void ParquetFile::refuse(const std::string& what,
                         const std::string& advice) const {
  const auto& state = *state_;
  const auto place =
    state.row < 0 ? std::string{}
                  : state.group_name() + ", row "
                      + std::to_string(state.rows_before
                                       + static_cast<uint64_t>(state.row) + 1)
                      + ": ";
  throw InputError(state.path + ": " + place + what + "; " + advice);
}

} // namespace troupe
