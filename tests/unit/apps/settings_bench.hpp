#pragma once

#include "apps/settings/settings.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace troupe {

using Words = std::vector<std::string>;

/// Parses command lines on a machine of eight cores without GPUs.
struct Bench {
  Surroundings around;

  Bench() { around.cores = 8; }
  Settings parse(const Words& words) const {
    return parse_settings(words, around);
  }
  Settings train(Words flags) const {
    flags.insert(flags.begin(), {"train", "--data", "synthetic:digits"});
    return parse(flags);
  }
  /// The message of the UsageError that the arguments must cause.
  std::string usage(const Words& words) const {
    try {
      parse(words);
    } catch (const UsageError& mistake) {
      return mistake.what();
    }
    BOOST_ERROR("no usage error");
    return {};
  }
  std::string train_usage(Words flags) const {
    flags.insert(flags.begin(), {"train", "--data", "synthetic:digits"});
    return usage(flags);
  }
};

/// A configuration file that goes with the test.
class File {
public:
  explicit File(const std::string& text)
    : path_((std::filesystem::temp_directory_path()
             / ("troupe_settings_" + std::to_string(::getpid()) + ".toml"))
              .string()) {
    std::ofstream{path_} << text;
  }
  ~File() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline void check_has(const std::string& text, const std::string& part) {
  BOOST_CHECK_MESSAGE(has(text, part),
                      "'" << text << "' lacks '" << part << "'");
}

} // namespace troupe
