#pragma once

#include "kernels/base/error.hpp"
#include "kernels/data/dataset.hpp"
#include "tests/unit/kernels/sample_graph.hpp"

#include <boost/test/unit_test.hpp>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

// What tests of data readers share: made-up files and the real ones.
namespace troupe::testing {

using Bytes = std::vector<uint8_t>;

inline Bytes bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

/// A folder that ends with the test.
struct Folder {
  std::filesystem::path path;

  Folder() {
    static int made = 0;
    path = std::filesystem::temp_directory_path()
           / ("troupe-data-" + std::to_string(::getpid()) + "-"
              + std::to_string(made++));
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  /// Returns the file's path; any thread may call it, so it checks nothing.
  std::string put(const std::string& name, const Bytes& bytes) const {
    // Some file systems wait for the disk when a file is written anew.
    std::filesystem::remove(path / name);
    std::ofstream out{path / name, std::ios::binary};
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    if (!out.good())
      throw std::runtime_error(name + " cannot be written");
    return (path / name).string();
  }
  std::string put(const std::string& name, const std::string& text) const {
    return put(name, bytes_of(text));
  }
};

inline Bytes gzip(Bytes bytes) {
  z_stream stream{};
  BOOST_REQUIRE(
    deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY)
    == Z_OK);
  Bytes result(deflateBound(&stream, bytes.size()) + 64);
  stream.next_in = bytes.data();
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = result.data();
  stream.avail_out = static_cast<uInt>(result.size());
  BOOST_REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

/// True where the message has all of `words` and is one line.
inline auto says(const std::vector<std::string>& words) {
  return [words](const InputError& error) {
    const std::string text = error.what();
    bool result = text.find('\n') == text.npos;
    for (const auto& word : words)
      result = result && text.find(word) != text.npos;
    BOOST_TEST_MESSAGE(text);
    return result;
  };
}

/// Where a fraction is held out, it is the tail: known to the test.
inline SplitData load(const std::string& spec, double fraction = 0) {
  auto parsed = parse_data_spec(spec);
  const bool text = parsed.kind == "text" || parsed.where == "text";
  if (fraction > 0 && !text)
    parsed.options.emplace_back("eval", "tail");
  return load_data(parsed, {fraction, {}});
}

inline SplitData load(const std::string& spec, const std::string& eval) {
  return load_data(parse_data_spec(spec), {0, parse_data_spec(eval)});
}

/// Loading fails at the data, not at the specification.
inline void refuses_data(const std::string& spec,
                         const std::vector<std::string>& words) {
  BOOST_TEST_CONTEXT(spec)
  BOOST_CHECK_EXCEPTION(load(spec), InputError, says(words));
}

inline void refuses_spec(const std::string& spec,
                         const std::vector<std::string>& words) {
  BOOST_TEST_CONTEXT(spec)
  BOOST_CHECK_EXCEPTION(parse_data_spec(spec), UsageError, says(words));
}

/// A file or folder of the data sets in TROUPE_DATA, or in shared/ beside the
/// repository, where it is there.
inline std::optional<std::string> real_file(const std::string& name) {
  if (const char* data = std::getenv("TROUPE_DATA"))
    return (std::filesystem::path{data} / name).string();
  auto folder = std::filesystem::current_path();
  for (; folder != folder.parent_path(); folder = folder.parent_path()) {
    const auto path = folder / "shared" / "data" / name;
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored))
      return path.string();
  }
  BOOST_TEST_MESSAGE("skipped: there is no shared/data/" + name);
  return std::nullopt;
}

} // namespace troupe::testing
