#include "kernels/base/crc32c.hpp"
#include "kernels/base/error.hpp"
#include "kernels/checkpoint/read_checkpoint.hpp"
#include "kernels/checkpoint/write_checkpoint.hpp"
#include "kernels/files/safetensors.hpp"
#include "power_loss_disk.hpp"

#include <boost/test/unit_test.hpp>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

BOOST_AUTO_TEST_SUITE(checkpoint)

namespace {

namespace fs = std::filesystem;

using troupe::checkpoint_name;
using troupe::CheckpointReader;
using troupe::CheckpointToWrite;
using troupe::FileSystem;
using troupe::InputError;
using troupe::open_newest;
using troupe::real_files;
using troupe::remove_checkpoint;
using troupe::write_checkpoint;

struct Folder {
  fs::path path = fs::temp_directory_path()
                  / ("troupe-checkpoint-" + std::to_string(::getpid()));
  Folder() { renew(); }
  ~Folder() { fs::remove_all(path); }
  void renew() const {
    fs::remove_all(path);
    fs::create_directories(path / "kept");
  }
  std::string dir() const { return (path / "kept").string(); }
  std::string other() const { return (path / "after").string(); }
};

/// Two tensors and one of state, in parts, whose values tell the step.
struct Model {
  explicit Model(uint64_t step) : step(step), values(10) {
    std::iota(values.begin(), values.end(), static_cast<float>(100 * step));
  }

  CheckpointToWrite checkpoint() const {
    const auto bytes = std::as_bytes(std::span{values});
    CheckpointToWrite out;
    out.manifest.step = step;
    out.manifest.facts = {{"model", "two"}, {"seed", "7"}};
    out.manifest.slices = {{"a", 0, 3, 0, step, 4, {6, 9}}};
    out.files = {{"parameters.safetensors",
                  {{"a", "F32", {4}, {bytes.first(4), bytes.subspan(4, 12)}},
                   {"b", "F32", {2, 1}, {bytes.subspan(16, 8)}}},
                  {{"format", "pt"}}},
                 {"optimizer.safetensors",
                  {{"m/a", "F32", {4}, {bytes.subspan(24, 16)}}},
                  {}}};
    return out;
  }

  bool is_in(const CheckpointReader& reader) const {
    std::vector<float> read(10);
    const std::span all{read};
    reader.read("a", 0, all.first(1));
    reader.read("a", 1, all.subspan(1, 3));
    reader.read("b", 0, all.subspan(4, 2));
    reader.read("m/a", 0, all.subspan(6, 4));
    return reader.manifest().step == step && read == values;
  }

  uint64_t step;
  std::vector<float> values;
};

std::string put(const std::string& dir, uint64_t step) {
  return write_checkpoint(real_files(), dir, Model{step}.checkpoint());
}

/// The step that a folder's newest whole checkpoint is of, whose values must be
/// right; 0: there is none.
uint64_t loaded(const std::string& dir) {
  std::vector<troupe::DamagedCheckpoint> damaged;
  const auto reader = open_newest(dir, damaged);
  if (!reader)
    return 0;
  BOOST_REQUIRE(Model{reader->manifest().step}.is_in(*reader));
  return reader->manifest().step;
}

enum class Fault { no_space, short_write, broken, killed };

/// Fails one call, counted from 0: with ENOSPC, after half of a write, with
/// EIO; or that one and all that follow, as if the process had been killed.
class FailingFiles : public FileSystem {
public:
  FailingFiles(uint64_t at, Fault fault) : at_(at), fault_(fault) {}

  bool failed() const { return calls_ > at_; }

  int open(const char* path, int flags, mode_t mode) override {
    return fails() ? -1 : real_files().open(path, flags, mode);
  }
  ssize_t write(int handle, const void* bytes, size_t size) override {
    const bool half = fault_ == Fault::short_write && calls_ == at_ && size > 1;
    if (half) {
      ++calls_;
      const auto done = real_files().write(handle, bytes, size / 2);
      ++at_; // the rest does not fit
      return done;
    }
    return fails() ? -1 : real_files().write(handle, bytes, size);
  }
  int fsync(int handle) override {
    return fails() ? -1 : real_files().fsync(handle);
  }
  int close(int handle) override {
    const int done = real_files().close(handle); // or the test leaks it
    return fails() ? -1 : done;
  }
  int rename(const char* from, const char* to) override {
    return fails() ? -1 : real_files().rename(from, to);
  }
  int unlink(const char* path) override {
    return fails() ? -1 : real_files().unlink(path);
  }
  int mkdir(const char* path, mode_t mode) override {
    return fails() ? -1 : real_files().mkdir(path, mode);
  }
  int rmdir(const char* path) override {
    return fails() ? -1 : real_files().rmdir(path);
  }

private:
  bool fails() {
    const auto call = calls_++;
    const bool now = fault_ == Fault::killed ? call >= at_ : call == at_;
    if (now)
      errno = fault_ == Fault::broken || fault_ == Fault::killed ? EIO : ENOSPC;
    return now;
  }

  uint64_t at_;
  Fault fault_;
  uint64_t calls_ = 0;
};

std::string bytes_of(const fs::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

void put_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream{path, std::ios::binary} << bytes;
}

} // namespace

BOOST_AUTO_TEST_CASE(what_was_written_is_read_and_the_newest_is_found) {
  const Folder folder;
  BOOST_TEST(loaded(folder.dir()) == 0u);
  put(folder.dir(), 9);
  put(folder.dir(), 1200);
  put(folder.dir(), 80);
  BOOST_TEST(loaded(folder.dir()) == 1200u);
  const CheckpointReader reader{folder.dir() + '/' + checkpoint_name(80)};
  BOOST_TEST(Model{80}.is_in(reader));
  BOOST_TEST(
    (reader.manifest().slices == Model{80}.checkpoint().manifest.slices));
  BOOST_TEST(
    (reader.manifest().facts == Model{80}.checkpoint().manifest.facts));
}

BOOST_AUTO_TEST_CASE(other_programs_read_the_parameters_as_safetensors) {
  const Folder folder;
  const auto file =
    troupe::read_safetensors(put(folder.dir(), 3) + "/parameters.safetensors");
  BOOST_REQUIRE(file.tensors.size() == 2u);
  BOOST_TEST(file.tensors[1].name == "b");
  BOOST_TEST(file.tensors[1].values[1] == Model{3}.values[5]);
  BOOST_TEST(file.metadata.at("format") == "pt");
}

BOOST_AUTO_TEST_CASE(a_second_one_of_a_step_is_the_newer) {
  const Folder folder;
  const auto first = put(folder.dir(), 5);
  const auto second = put(folder.dir(), 5);
  const auto found = troupe::find_checkpoints(folder.dir());
  BOOST_REQUIRE(found.size() == 2u);
  BOOST_TEST(found[0].folder == second);
  BOOST_TEST(found[1].folder == first);
}

// The bar of I7: whichever call fails, and however, the newest checkpoint or
// the one before is there, and the next one can be written.
BOOST_AUTO_TEST_CASE(whichever_call_fails_the_newest_or_the_one_before_loads) {
  const Folder folder;
  for (auto fault :
       {Fault::no_space, Fault::short_write, Fault::broken, Fault::killed}) {
    uint64_t calls = 0;
    for (;; ++calls) {
      folder.renew();
      put(folder.dir(), 1);
      FailingFiles files{calls, fault};
      bool written = true;
      try {
        write_checkpoint(files, folder.dir(), Model{2}.checkpoint());
      } catch (const InputError& failure) {
        written = false;
        BOOST_TEST(std::string{failure.what()}.find('\n') == std::string::npos);
      }
      const auto step = loaded(folder.dir());
      BOOST_TEST_INFO("call " << calls);
      BOOST_TEST((written ? step == 2 : step == 1 || step == 2));
      put(folder.dir(), 3);
      BOOST_TEST(loaded(folder.dir()) == 3u);
      troupe::remove_leftovers(real_files(), folder.dir());
      for (const auto& entry : fs::directory_iterator{folder.dir()})
        BOOST_TEST(entry.path().filename().string().starts_with("step-"));
      if (!files.failed())
        break;
    }
    BOOST_TEST(calls > 15u); // or it failed nothing
  }
}

BOOST_AUTO_TEST_CASE(
  wherever_the_power_goes_the_newest_or_the_one_before_loads) {
  const Folder folder;
  std::mt19937 random{7};
  for (uint64_t call = 0;; ++call) {
    folder.renew();
    put(folder.dir(), 1);
    PowerLossDisk disk{folder.dir()};
    disk.lose_power_at(call);
    bool written = true;
    try {
      write_checkpoint(disk, folder.dir(), Model{2}.checkpoint());
    } catch (const InputError&) {
      written = false;
    }
    if (written)
      remove_checkpoint(disk, folder.dir() + '/' + checkpoint_name(1));
    for (int draw = 0; draw < 40; ++draw) {
      disk.after_loss(folder.other(), draw == 0 ? nullptr : &random);
      const auto step = loaded(folder.other());
      BOOST_TEST_INFO("call " << call << ", draw " << draw);
      BOOST_TEST((written ? step == 2 : step == 1 || step == 2));
    }
    if (disk.calls() <= call)
      break;
  }
}

BOOST_AUTO_TEST_CASE(
  a_removal_that_is_cut_short_leaves_no_half_of_a_checkpoint) {
  const Folder folder;
  for (uint64_t calls = 0;; ++calls) {
    folder.renew();
    const auto old = put(folder.dir(), 1);
    put(folder.dir(), 2);
    FailingFiles files{calls, Fault::killed};
    const bool gone = remove_checkpoint(files, old);
    BOOST_TEST(gone == !files.failed());
    BOOST_TEST(loaded(folder.dir()) == 2u);
    for (const auto& found : troupe::find_checkpoints(folder.dir()))
      BOOST_TEST(CheckpointReader{found.folder}.damages().empty());
    if (!files.failed())
      break;
  }
}

BOOST_AUTO_TEST_CASE(any_changed_byte_is_found_and_the_one_before_loads) {
  const Folder folder;
  put(folder.dir(), 1);
  const fs::path newest{put(folder.dir(), 2)};
  for (const auto* name :
       {"manifest.json", "parameters.safetensors", "optimizer.safetensors"}) {
    const auto whole = bytes_of(newest / name);
    for (size_t at = 0; at < whole.size(); ++at) {
      auto damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 1);
      put_bytes(newest / name, damaged);
      BOOST_TEST_INFO(name << " byte " << at << " of " << whole.size());
      // A manifest's white space tells nothing, and no digest covers it.
      const auto step = loaded(folder.dir());
      BOOST_TEST((step == 1u
                  || (std::string{name} == "manifest.json" && step == 2u
                      && std::isspace(static_cast<unsigned char>(whole[at])))));
    }
    put_bytes(newest / name, whole.substr(0, whole.size() - 2));
    BOOST_TEST(loaded(folder.dir()) == 1u);
    fs::remove(newest / name);
    BOOST_TEST(loaded(folder.dir()) == 1u);
    put_bytes(newest / name, whole);
  }
  BOOST_TEST(loaded(folder.dir()) == 2u);
}

// Printing a value that is nested a million times deep took a stack that is not
// there: the program ended before it had compared the digest.
BOOST_AUTO_TEST_CASE(a_manifest_of_brackets_in_brackets_is_refused) {
  const size_t depth = 1'000'000;
  const auto text = R"({"format":1,"crc32c":0,"checkpoint":)"
                    + std::string(depth, '[') + std::string(depth, ']') + '}';
  BOOST_CHECK_THROW(troupe::manifest_from_json(text, "manifest.json"),
                    InputError);
}

BOOST_AUTO_TEST_CASE(a_manifest_with_a_number_that_is_not_whole_is_refused) {
  for (const std::string number : {"1e+300", "-1", "0.5"}) {
    const auto body = R"({"step":)" + number + '}';
    const auto text =
      R"({"format":1,"crc32c":)"
      + std::to_string(troupe::crc32c(0, body.data(), body.size()))
      + R"(,"checkpoint":)" + body + '}';
    BOOST_CHECK_EXCEPTION(troupe::manifest_from_json(text, "manifest.json"),
                          InputError, [](const InputError& failure) {
                            return std::string{failure.what()}.find("not whole")
                                   != std::string::npos;
                          });
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_tensor_is_named) {
  const Folder folder;
  const fs::path newest{put(folder.dir(), 2)};
  auto bytes = bytes_of(newest / "parameters.safetensors");
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 4);
  put_bytes(newest / "parameters.safetensors", bytes);
  const auto damages = CheckpointReader{newest.string()}.damages();
  BOOST_REQUIRE(damages.size() == 1u);
  BOOST_TEST(damages[0].find("tensor b ") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(one_that_is_open_is_read_after_it_was_removed) {
  const Folder folder;
  const auto path = put(folder.dir(), 2);
  const CheckpointReader reader{path};
  BOOST_TEST(remove_checkpoint(real_files(), path));
  BOOST_TEST(Model{2}.is_in(reader));
}

BOOST_AUTO_TEST_CASE(a_tensor_that_is_not_there_is_refused_by_name) {
  const Folder folder;
  const CheckpointReader reader{put(folder.dir(), 2)};
  std::vector<float> out(5);
  const auto says = [](const std::string& what) {
    return [what](const InputError& failure) {
      return std::string{failure.what()}.find(what) != std::string::npos;
    };
  };
  BOOST_CHECK_EXCEPTION(reader.read("c", 0, out), InputError, says("tensor c"));
  BOOST_CHECK_EXCEPTION(reader.read("a", 0, out), InputError, says("tensor a"));
}

BOOST_AUTO_TEST_SUITE_END()
