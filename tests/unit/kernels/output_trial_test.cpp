#include "kernels/base/error.hpp"
#include "kernels/files/atomic_file.hpp"
#include "kernels/files/output_trial.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/inotify.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace troupe;

namespace output_trial {
namespace {

namespace fs = std::filesystem;

struct Folder {
  std::string path{"/tmp/troupe-trials-XXXXXX"};

  Folder() { BOOST_REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { fs::remove_all(path); }
};

} // namespace
} // namespace output_trial

BOOST_FIXTURE_TEST_SUITE(output_trial, output_trial::Folder)

// Symptom: a process that was killed while it tried a place left
// ".troupe-trial-PID" there. Cause: the file had a name.
BOOST_AUTO_TEST_CASE(no_name_is_seen_in_a_folder_that_is_tried) {
  const int watch = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  BOOST_REQUIRE(::inotify_add_watch(watch, path.c_str(), IN_CREATE) >= 0);
  try_output_folder(path, 1000);
  try_output(path + "/weights", 1000);
  char events[4096];
  BOOST_TEST(::read(watch, events, sizeof events) < 0);
  ::close(watch);
  BOOST_TEST(fs::is_empty(path));
}

BOOST_AUTO_TEST_CASE(what_killed_processes_left_is_removed_and_nothing_else) {
  for (const auto* name :
       {"/.troupe-trial-123", "/.troupe-trial-9", "/kept", "/.troupe"})
    std::ofstream{path + name} << "x";
  try_output_folder(path, 0);
  BOOST_TEST(!fs::exists(path + "/.troupe-trial-123"));
  BOOST_TEST(!fs::exists(path + "/.troupe-trial-9"));
  BOOST_TEST(fs::exists(path + "/kept"));
  BOOST_TEST(fs::exists(path + "/.troupe"));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_is_refused) {
  BOOST_CHECK_THROW(try_output(path + "/none/weights", 0), InputError);
  BOOST_CHECK_THROW(try_output("/dev/null/weights", 0), InputError);
  BOOST_CHECK_THROW(try_output_folder("/proc", 0), InputError);
  BOOST_CHECK_THROW(try_output_folder(path, uint64_t{1} << 60), InputError);
}

// A link to a file that was not there yet was replaced by a file.
BOOST_AUTO_TEST_CASE(a_link_leads_also_to_a_file_that_is_not_there_yet) {
  fs::create_directory(path + "/d");
  fs::create_symlink("d/middle", path + "/link");
  fs::create_symlink("../there", path + "/d/middle");
  try_output(path + "/link", 0);
  for (int turn = 0; turn < 2; ++turn)
    write_atomically(path + "/link", {});
  BOOST_TEST(fs::is_symlink(path + "/link"));
  BOOST_TEST(fs::is_symlink(path + "/d/middle"));
  BOOST_TEST(fs::is_regular_file(fs::symlink_status(path + "/there")));
  fs::create_symlink("round", path + "/round");
  BOOST_CHECK_THROW(try_output(path + "/round", 0), InputError);
  BOOST_CHECK_THROW(write_atomically(path + "/round", {}), InputError);
  BOOST_TEST(fs::is_symlink(path + "/round"));
}

// There was no room for the temporary file's name, which was seen at the end.
BOOST_AUTO_TEST_CASE(as_long_a_name_as_the_folder_takes_is_written) {
  const auto longest = path + '/' + std::string(255, 'n');
  try_output(longest, 0);
  write_atomically(longest, {});
  BOOST_TEST(fs::exists(longest));
  BOOST_CHECK_EXCEPTION(
    try_output(longest + 'n', 0), InputError, [](const auto& x) {
      return std::string{x.what()}.find("256 bytes") != std::string::npos;
    });
}

BOOST_AUTO_TEST_SUITE_END()
