#include "kernels/checkpoint/read_checkpoint.hpp"
#include "kernels/checkpoint/write_checkpoint.hpp"
#include "kernels/files/file_error.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

using namespace troupe;

namespace unreadable_checkpoint {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    std::string name = "/tmp/troupe-unreadable-XXXXXX";
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }

  std::string put(uint64_t step) const {
    const std::vector<float> values{1.0F, 2.0F};
    CheckpointToWrite out;
    out.manifest.step = step;
    out.files = {{"parameters.safetensors",
                  {{"a", "F32", {2}, {std::as_bytes(std::span{values})}}},
                  {}}};
    return write_checkpoint(real_files(), path, out);
  }
  /// The step of the newest whole one; 0: there is none.
  uint64_t newest() const {
    std::vector<DamagedCheckpoint> damaged;
    const auto reader = open_newest(path, damaged);
    return reader ? reader->manifest().step : 0;
  }

  std::string path;
};

/// Of the FileError that read() throws; 0: none.
template <class Read>
int code_of(Read read) {
  try {
    read();
  } catch (const FileError& failure) {
    return failure.code();
  }
  return 0;
}

/// No file can be opened while it lives.
class NoDescriptors {
public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int free = ::dup(0);
    ::close(free);
    auto few = before_;
    few.rlim_cur = static_cast<rlim_t>(free);
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

private:
  rlimit before_{};
};

} // namespace
} // namespace unreadable_checkpoint

BOOST_FIXTURE_TEST_SUITE(unreadable_checkpoint, Folder)

// "Passed over" as damaged, it was removed soon after by a run that had begun
// at step 0.
BOOST_AUTO_TEST_CASE(one_that_cannot_be_read_now_is_not_taken_for_damaged) {
  put(1);
  const auto folder = put(2);
  std::vector<DamagedCheckpoint> damaged;
  int one = 0, newest_one = 0;
  { // no check in here: UBSan's look at a vptr opens a pipe
    const NoDescriptors here;
    one = code_of([&] { const CheckpointReader reader{folder}; });
    newest_one = code_of([&] { open_newest(path, damaged); });
  }
  BOOST_TEST(one == EMFILE);
  BOOST_TEST(newest_one == EMFILE);
  BOOST_TEST(damaged.empty());
  BOOST_TEST(newest() == 2u);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_missing_is_damage) {
  put(1);
  const auto folder = put(2);
  fs::remove(folder + "/parameters.safetensors");
  std::vector<DamagedCheckpoint> damaged;
  BOOST_TEST(open_newest(path, damaged)->manifest().step == 1u);
  BOOST_REQUIRE(damaged.size() == 1u);
  BOOST_TEST(damaged[0].folder == folder);
}

// A link whose mount was late was taken for a damaged checkpoint, and renamed.
BOOST_AUTO_TEST_CASE(a_link_to_what_is_not_there_is_no_damage) {
  put(1);
  const auto folder = put(2);
  const auto elsewhere = path + "/elsewhere";
  for (const auto& link : {folder, folder + "/manifest.json",
                           folder + "/parameters.safetensors"}) {
    fs::rename(link, elsewhere);
    fs::create_symlink(elsewhere + ".late", link);
    std::vector<DamagedCheckpoint> damaged;
    BOOST_CHECK_EXCEPTION(open_newest(path, damaged), FileError,
                          [&](const auto& failure) {
                            return std::string{failure.what()}.starts_with(
                              link + ": leads to " + elsewhere + ".late");
                          });
    BOOST_TEST(damaged.empty());
    fs::rename(elsewhere, elsewhere + ".late");
    BOOST_TEST(newest() == 2u);
    fs::remove(link);
    fs::rename(elsewhere + ".late", link);
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_one_that_is_set_aside_stays_and_is_none) {
  for (int turn = 0; turn < 2; ++turn) {
    const auto folder = put(2);
    fs::remove(folder + "/manifest.json");
    const auto kept = set_aside(real_files(), folder);
    BOOST_TEST(fs::exists(kept + "/parameters.safetensors"));
  }
  BOOST_TEST(newest() == 0u);
  remove_leftovers(real_files(), path);
  BOOST_TEST(fs::exists(path + "/damaged-" + checkpoint_name(2) + ".1"));
}

BOOST_AUTO_TEST_CASE(two_runs_do_not_write_into_one_folder) {
  {
    const CheckpointLock lock{path};
    const auto who = "process " + std::to_string(::getpid()) + " (";
    BOOST_CHECK_EXCEPTION(CheckpointLock{path}, InputError,
                          [&](const auto& failure) {
                            const std::string line = failure.what();
                            return line.find(who) != std::string::npos;
                          });
  }
  BOOST_CHECK_NO_THROW(CheckpointLock{path});
}

BOOST_AUTO_TEST_SUITE_END()
