#include "actors/job/beginning.hpp"
#include "kernels/base/error.hpp"
#include "tests/unit/actors/made_checkpoint.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace troupe;

namespace beginning_test {
namespace {

constexpr uint64_t step = 40;

/// A checkpoint whose manifest a test alters; its digest is that of what it
/// says then.
struct Bench {
  Bench()
    : folder(std::filesystem::temp_directory_path()
             / ("troupe-beginning-" + std::to_string(::getpid()))),
      job(test::job_with_tables()) {
    std::filesystem::create_directories(folder);
    checkpoint = test::make_checkpoint(job, folder.string(), step);
    std::ifstream file{path()};
    std::ostringstream text;
    text << file.rdbuf();
    manifest = manifest_from_json(text.str(), "manifest");
  }
  ~Bench() { std::filesystem::remove_all(folder); }

  std::string path() const { return checkpoint + "/manifest.json"; }

  uint64_t rows() const {
    std::ofstream{path()} << to_json(manifest);
    return test::read_all(job, Beginning{job, checkpoint});
  }

  void refuses(const std::string& part) const {
    BOOST_CHECK_EXCEPTION(rows(), InputError, [&](const InputError& x) {
      BOOST_TEST_INFO(x.what());
      return std::string{x.what()}.find(part) != std::string::npos;
    });
  }

  CheckpointTensor& tensor(const std::string& end) {
    for (auto& known : manifest.tensors)
      if (known.name.ends_with(end))
        return known;
    throw std::logic_error(end);
  }

  /// Writes an id of a part.
  void put(const std::string& end, uint64_t at, uint64_t id) {
    const auto& ids = tensor(end);
    std::fstream file{checkpoint + '/' + ids.file,
                      std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(static_cast<std::streamoff>(ids.offset + at * sizeof id));
    file.write(reinterpret_cast<const char*>(&id), sizeof id);
  }

  std::filesystem::path folder;
  Job job;
  std::string checkpoint;
  CheckpointManifest manifest;
};

} // namespace
} // namespace beginning_test

BOOST_FIXTURE_TEST_SUITE(beginning_test, Bench)

BOOST_AUTO_TEST_CASE(what_was_written_is_read) {
  BOOST_TEST(job.plan.slices.size() > 3);
  BOOST_TEST(rows() > 100u);
}

// Only part 0's width was compared with the job's: rows of another part were
// read past their end.
BOOST_AUTO_TEST_CASE(parts_of_different_widths_are_refused) {
  auto& rows = tensor("part-1/rows");
  rows.shape[1] = 1;
  rows.bytes = rows.shape[0] * sizeof(float);
  refuses("different widths");
}

BOOST_AUTO_TEST_CASE(rows_without_state_are_refused) {
  for (auto& known : manifest.tensors)
    if (known.name.ends_with("/rows")) {
      known.shape[1] = 1;
      known.bytes = known.shape[0] * sizeof(float);
    }
  refuses("counted in one of the two runs");
}

BOOST_AUTO_TEST_CASE(ids_that_the_part_has_not_got_are_refused) {
  const auto count = tensor("part-1/ids").shape[0];
  put("part-1/ids", count - 1, uint64_t{1} << 63);
  refuses("of 600000 rows");
}

BOOST_AUTO_TEST_CASE(ids_that_repeat_are_refused) {
  put("part-1/ids", 0, 0);
  put("part-1/ids", 1, 0);
  refuses("another's part");
  put("part-0/ids", 1, 0);
  refuses("do not ascend");
}

// 2^62 updates made the coordinator count to there.
BOOST_AUTO_TEST_CASE(counts_that_fit_no_step_are_refused) {
  const auto whole = manifest;
  for (auto number :
       {uint64_t{0}, step - 1, step + 1, uint64_t{1} << 62, ~uint64_t{0}}) {
    manifest.slices.back().updates = number;
    refuses("does not fit the checkpoint's step");
    manifest = whole;
    manifest.slices.back().lease_floor = number;
    if (number < step * job.options.virtual_ranks || number > uint64_t{1} << 32)
      refuses("does not fit the checkpoint's step");
    manifest = whole;
    manifest.slices.back().leases_above = {~uint64_t{0}, uint64_t{1} << 62};
    refuses("does not fit the checkpoint's step");
    manifest = whole;
    if (number != step - 1) {
      manifest.period = {true, step, number};
      refuses("does not fit the checkpoint's step");
    }
    manifest = whole;
    manifest.step = number;
    refuses("does not fit the checkpoint's step");
    manifest = whole;
  }
}

BOOST_AUTO_TEST_SUITE_END()
