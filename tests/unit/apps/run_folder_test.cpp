#include "apps/process/run_folder.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(run_folder)

namespace {

namespace fs = std::filesystem;

/// A state folder of its own.
struct State {
  State()
    : path(fs::temp_directory_path()
           / ("troupe_run_folder_" + std::to_string(::getpid()))) {
    if (const auto* value = std::getenv("XDG_STATE_HOME"))
      before = value;
    ::setenv("XDG_STATE_HOME", path.c_str(), 1);
  }
  ~State() {
    ::setenv("XDG_STATE_HOME", before.c_str(), 1);
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  size_t folders(const std::string& prefix) const {
    size_t found = 0;
    for (const auto& entry : fs::directory_iterator{path / "troupe"})
      found += entry.path().filename().string().starts_with(prefix) ? 1 : 0;
    return found;
  }

  const fs::path path;
  std::string before;
};

/// What a process leaves that ends so.
void leave(RunFolder::Kind kind, bool killed, bool empty = false) {
  const auto child = ::fork();
  if (child == 0) {
    {
      RunFolder folder{RunFolder::Place::state, std::move(kind)};
      if (!empty)
        std::ofstream{folder.file("it")} << "was here";
      if (killed)
        ::_exit(0);
      folder.keep();
    }
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
}

} // namespace

BOOST_FIXTURE_TEST_CASE(recorders_go_with_a_run_that_ends_well, State) {
  {
    const RunFolder folder{RunFolder::Place::state, RunFolder::recorders()};
    BOOST_TEST(folder.path().starts_with((path / "troupe/flight-").string()));
    BOOST_TEST(folders("flight-") == 1u);
  }
  BOOST_TEST(folders("flight-") == 0u);
}

BOOST_FIXTURE_TEST_CASE(of_runs_that_ended_badly_some_are_kept, State) {
  for (int run = 0; run < 6; ++run)
    leave(RunFolder::recorders(), run % 2 == 0);
  leave(RunFolder::recorders("worker:1"), true); // another name's are its own
  leave(RunFolder::recorders(), true, true);
  const auto most = RunFolder::recorders().kept;
  {
    RunFolder folder{RunFolder::Place::state, RunFolder::recorders()};
    BOOST_TEST(!folder.keep()); // nothing is in it
    BOOST_TEST(folders("flight-") == most + 2);
    leave({}, true); // flags, journal and keys of a job
    BOOST_TEST(folders("run-") == 1u);
  }
  BOOST_TEST(folders("flight-worker-1-") == 1u);
  const RunFolder next{RunFolder::Place::state};
  BOOST_TEST(folders("run-") == 1u); // its own
  BOOST_TEST(folders("flight-") == most + 1);
}

BOOST_AUTO_TEST_SUITE_END()
