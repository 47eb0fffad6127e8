#include "actors/process/base64.hpp"
#include "apps/launch/brought_memory.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
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
  BroughtMemory brought{std::make_shared<BroughtRoom>()};
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
  BroughtMemory brought{std::make_shared<BroughtRoom>()};
  brought.expect(0);
  BOOST_TEST(!brought.is_whole());
}

BOOST_AUTO_TEST_CASE(what_is_no_part_of_it_is_refused) {
  const auto three = in_base64("abc");
  BroughtMemory brought{std::make_shared<BroughtRoom>()};
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

// Symptom: each role's part was looked at alone: as many as there are roles
// were let in, and together they took more than the machine had.
BOOST_AUTO_TEST_CASE(what_comes_at_one_time_has_to_fit_together) {
  constexpr uint64_t mib = 1 << 20;
  uint64_t left = 250 * mib;
  const auto room = std::make_shared<BroughtRoom>([&left] { return left; });
  const auto no_room = [](const NoRoomError& failure) {
    return std::string{failure.what()}
           == "what is still to come from hosts takes 300 MiB of memory and "
              "250 MiB are free here; take a machine with more memory";
  };
  {
    BroughtMemory first{room}, third{room};
    first.expect(100 * mib);
    {
      BroughtMemory second{room};
      second.expect(100 * mib);
      BOOST_CHECK_EXCEPTION(third.expect(100 * mib), NoRoomError, no_room);
      BOOST_TEST(room->is_news());
      BOOST_TEST(!room->is_news());
    }
    third.expect(100 * mib); // one of them does not come
    left = 150 * mib;        // others have taken it
    BOOST_CHECK_THROW(first.add(0, in_base64("abc")), NoRoomError);
    third = BroughtMemory{room};
    first.add(0, in_base64("abc"));
    BOOST_TEST(!room->is_news());
  }
  BOOST_TEST(room->is_news()); // the next time
}

BOOST_AUTO_TEST_SUITE_END()
