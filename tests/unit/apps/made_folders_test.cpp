#include "apps/process/made_folders.hpp"
#include "kernels/files/folder_lock.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <filesystem>
#include <optional>
#include <string>

// Symptom: a run that was refused left empty folders behind that it had made
// for logs and checkpoints.

using namespace troupe;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(made_folders)

namespace {

struct Bench : troupe::testing::Folder {
  std::string at(const std::string& name) const {
    return (path / name).string();
  }
  bool has(const std::string& name) const { return fs::exists(path / name); }
};

} // namespace

BOOST_AUTO_TEST_CASE(what_was_made_and_is_empty_goes) {
  const Bench bench;
  fs::create_directories(bench.at("there"));
  {
    const MadeFolders folders{{bench.at("a/b/c/"), bench.at("a/d"), "",
                               bench.at("there"), bench.at("there/e"),
                               bench.at("never")}};
    for (const auto* made : {"a/b/c", "a/d", "there/e"})
      fs::create_directories(bench.at(made));
  }
  BOOST_TEST(!bench.has("a"));
  BOOST_TEST(bench.has("there"));
  BOOST_TEST(!bench.has("there/e"));
  BOOST_TEST(!bench.has("never"));
}

BOOST_AUTO_TEST_CASE(what_holds_something_stays) {
  const Bench bench;
  {
    const MadeFolders folders{{bench.at("a/b"), bench.at("a/c")}};
    fs::create_directories(bench.at("a/b"));
    fs::create_directories(bench.at("a/c"));
    bench.put("a/c/log", std::string{"a line"});
  }
  BOOST_TEST(!bench.has("a/b"));
  BOOST_TEST(bench.has("a/c/log"));
}

BOOST_AUTO_TEST_CASE(what_is_kept_stays) {
  const Bench bench;
  {
    MadeFolders folders{{bench.at("a")}};
    fs::create_directories(bench.at("a"));
    folders.keep();
  }
  BOOST_TEST(bench.has("a"));
}

BOOST_AUTO_TEST_CASE(what_another_one_has_locked_stays) {
  const Bench bench;
  std::optional<FolderLock> other;
  {
    const MadeFolders folders{{bench.at("a")}};
    other.emplace(bench.at("a"));
  }
  BOOST_TEST(bench.has("a"));
}

BOOST_AUTO_TEST_SUITE_END()
