#include "kernels/parquet/parquet_file.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/byte_source.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/files/text_lines.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <span>
#include <utility>

namespace troupe {

namespace {

namespace fs = std::filesystem;
using parquet::ArrowColumn;
using parquet::ModuleTable;

/// What Arrow may hold of one file: a page can be written to become anything.
constexpr uint64_t max_memory = uint64_t{1} << 30;
constexpr const char* module_file = "troupe_parquet.so";

/// The module of this program: beside it, or where it is installed.
const ModuleTable* load_module(const std::string& file) {
  std::error_code unknown;
  const auto here = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  const fs::path places[]{here / module_file,
                          here.parent_path() / "lib" / "troupe" / module_file};
  const auto* const found =
    std::ranges::find_if(places, [&](const fs::path& place) {
      return fs::is_regular_file(place, unknown);
    });
  if (found == std::end(places))
    throw InputError(file
                     + ": is read by Apache Arrow, which this troupe was built "
                       "without; install it (python3 -m pip install pyarrow, "
                       "or libparquet-dev of Apache's packages), then "
                       "configure and build again");
  void* module = dlopen(found->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr)
    throw InputError(file + ": is read by Apache Arrow, which cannot be loaded "
                     + "(" + shown_text(dlerror())
                     + "); is it still where it was when troupe was built?");
  using Table = const ModuleTable* (*)();
  const auto table =
    reinterpret_cast<Table>(dlsym(module, parquet::module_symbol));
  if (table == nullptr || table()->version != parquet::module_version)
    throw InputError(found->string()
                     + ": is not this troupe's; build both again");
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
