#include "actors/process/base64.hpp"
#include "apps/launch/brought_memory.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(brought_memory)

namespace {

using Json = nlohmann::json;

/// A file with these at their places, and nothing between.
struct Kept {
  Descriptor file{::memfd_create("kept", MFD_CLOEXEC)};

  void put(const std::string& text, off_t at) const {
    BOOST_REQUIRE(::pwrite(file.get(), text.data(), text.size(), at)
                  == static_cast<ssize_t>(text.size()));
  }
  std::string path() const {
    return "/proc/self/fd/" + std::to_string(file.get());
  }
};

std::vector<Json> messages_of(const std::string& path) {
  std::vector<Json> out;
  bring_memory("stage:1", path,
               [&](const Json& message) { out.push_back(message); });
  return out;
}

std::string read_at(const std::string& path, off_t at, size_t bytes) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  std::string out(bytes, '?');
  BOOST_REQUIRE(::pread(file.get(), out.data(), bytes, at)
                == static_cast<ssize_t>(bytes));
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(what_was_written_comes_to_its_place_and_no_hole_does) {
  const Kept kept;
  const std::string large(1'000'000, 'x');
  constexpr off_t far = off_t{1} << 33;
  kept.put("begins", 0);
  kept.put(large, far);
  BroughtMemory brought;
  size_t bytes = 0;
  size_t parts = 0;
  for (const auto& message : messages_of(kept.path())) {
    BOOST_TEST(message.at("role") == "stage:1");
    if (message.at("is") == "memory") {
      bytes = message.at("bytes");
      brought.expect(bytes);
    } else if (message.at("is") == "part") {
      BOOST_TEST(!brought.is_whole());
      BOOST_TEST(message.dump().size() < size_t{1} << 20); // a line's length
      brought.add(message.at("at"), message.at("text"));
      ++parts;
    }
  }
  BOOST_TEST(brought.is_whole());
  BOOST_TEST(bytes < 1'100'000u);
  BOOST_TEST(parts > 2u);
  BOOST_TEST(read_at(brought.path(), 0, 6) == "begins");
  BOOST_TEST(read_at(brought.path(), far, large.size()) == large);
}

BOOST_AUTO_TEST_CASE(nothing_comes_of_a_role_that_kept_nothing) {
  for (const auto& path : {std::string{}, std::string{"/nowhere/kept"}}) {
    const auto messages = messages_of(path);
    BOOST_REQUIRE(messages.size() == 2u);
    BOOST_TEST(messages[0].at("bytes") == 0u);
    BOOST_TEST(messages[1].at("is") == "brought");
  }
  BroughtMemory brought;
  brought.expect(0);
  BOOST_TEST(!brought.is_whole());
}

BOOST_AUTO_TEST_CASE(what_is_no_part_of_it_is_refused) {
  const auto three = in_base64("abc");
  BroughtMemory brought;
  BOOST_CHECK_THROW(brought.add(0, three), InputError); // before it began
  BOOST_CHECK_THROW(brought.expect(uint64_t{1} << 60), InputError);
  BOOST_TEST(!brought.is_whole());
  brought.expect(4);
  BOOST_CHECK_THROW(brought.add(0, "~~~~"), InputError);
  BOOST_CHECK_THROW(brought.add(0, ""), InputError);
  BOOST_CHECK_THROW(brought.add(0, in_base64("abcde")), InputError);
  BOOST_CHECK_THROW(brought.add(~uint64_t{0}, three), InputError);
  brought.add(1, three);
  BOOST_TEST(!brought.is_whole());
  brought.add(0, in_base64("-"));
  BOOST_TEST(brought.is_whole());
  BOOST_TEST(read_at(brought.path(), 0, 4) == "-abc");
}

BOOST_AUTO_TEST_SUITE_END()
