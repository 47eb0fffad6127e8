#include "actors/collectives/stream_reducer.hpp"
#include "kernels/collective/sum_program.hpp"
#include "tests/unit/actors/collectives/loopback.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>

// Bar of the collectives: 1,000 all-reduces of random sizes while links are cut
// at random; every call returns the right sum or an error to all.

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(cut_links_suite)

namespace {

constexpr uint32_t members = 4;
constexpr uint64_t calls = 1000;

size_t entries_of(const char* folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator{folder})
    ++count;
  return count;
}

/// Elements of a call: mostly few, at times several frames.
uint64_t count_of(uint64_t call) {
  std::mt19937_64 random{call};
  const uint64_t most = call % 8 == 0 ? 400'000 : 3'000;
  return random() % most;
}

/// Small integers: exact in any order.
float element(uint32_t member, uint64_t call, uint64_t i) {
  return static_cast<float>((i * 31 + call * 17 + member * 7) % 1001);
}

bool is_sum(const std::vector<float>& data, uint64_t call) {
  for (uint64_t i = 0; i < data.size(); ++i) {
    float sum = 0;
    for (uint32_t m = 0; m < members; ++m)
      sum += element(m, call, i);
    if (data[i] != sum)
      return false;
  }
  return data.size() == count_of(call);
}

/// One cut, some time after a call has begun.
struct Sabotage {
  explicit Sabotage(uint64_t at) : begins_at(at) {}

  const uint64_t begins_at;        ///< the call
  std::atomic<uint64_t> begun = 0; ///< calls, by member 0
  std::atomic<bool> done = false;
  std::atomic<bool> over = false; ///< all members have ended
};

/// What a member knows of its calls when its streams have ended.
struct Seal {
  uint64_t done = 0;  ///< calls below it returned done, confirmed
  bool whole = false; ///< it has the sums of call `done` too, unconfirmed

  /// Calls below it have their sums here.
  uint64_t held() const { return done + (whole ? 1 : 0); }
};

/// What a member did between two meetings of all.
struct Stretch {
  Seal seal;
  bool right = true;         ///< every sum it was given
  std::vector<float> last{}; ///< of the call that failed
};

Stretch run_member(uint32_t rank, uint64_t first, Sockets sockets,
                   StreamAlgorithm algorithm, Sabotage& sabotage) {
  StreamOptions options;
  options.confirm = true;
  options.algorithm = algorithm;
  options.chunk_bytes = 64 << 10;
  StreamReducer reducer{{rank, members, {}, 0}, std::move(sockets), options};
  Stretch stretch;
  stretch.seal.done = first;
  for (auto call = first; call < calls; ++call) {
    std::vector<float> data(count_of(call));
    for (uint64_t i = 0; i < data.size(); ++i)
      data[i] = element(rank, call, i);
    if (rank == 0) {
      sabotage.begun = call + 1;
      // A slow saboteur is waited for, or nothing would be cut.
      while (call > sabotage.begins_at + 10 && !sabotage.done)
        std::this_thread::yield();
    }
    const auto result = reducer.all_reduce(data.data(), data.size(),
                                           in_a_while());
    if (result.end == CollectiveEnd::late)
      stretch.right = false; // a hang
    if (result.end != CollectiveEnd::done) {
      stretch.seal.whole = reducer.whole();
      stretch.last = std::move(data);
      break;
    }
    stretch.right = stretch.right && is_sum(data, call);
    stretch.seal.done = call + 1;
  }
  return stretch;
}

void cut_one(const std::vector<int>& links, uint64_t chance,
             Sabotage& sabotage) {
  while (sabotage.begun <= sabotage.begins_at && !sabotage.over)
    std::this_thread::yield();
  const auto at = std::chrono::steady_clock::now()
                  + std::chrono::microseconds{chance % 400};
  while (std::chrono::steady_clock::now() < at && !sabotage.over)
    std::this_thread::yield();
  ::shutdown(links[chance % links.size()], SHUT_RDWR);
  sabotage.done = true;
}

struct Tally {
  uint64_t failed = 0;  ///< calls that ended with an error for all
  uint64_t settled = 0; ///< that an error met, and that count
  uint64_t cuts = 0;
};

/// Makes all calls, on fresh links after each cut.
Tally make_calls(StreamAlgorithm algorithm) {
  std::mt19937_64 random{42};
  Tally tally;
  for (uint64_t first = 0; first < calls;) {
    auto mesh = full_mesh(members);
    std::vector<int> links;
    for (uint32_t a = 0; a < members; ++a)
      for (uint32_t b = 0; b < a; ++b)
        links.push_back(::dup(mesh[a][b]->descriptor()));
    Sabotage sabotage{first + random() % 20};
    std::thread saboteur{
      [&, chance = random()] { cut_one(links, chance, sabotage); }};
    std::vector<Stretch> stretches(members);
    at_once(members, [&](uint32_t rank) {
      stretches[rank] = run_member(rank, first, std::move(mesh[rank]),
                                   algorithm, sabotage);
    });
    sabotage.over = true;
    saboteur.join();
    for (int link : links)
      ::close(link);
    ++tally.cuts;

    uint64_t told = 0;
    uint64_t counted = calls;
    for (const auto& stretch : stretches) {
      BOOST_REQUIRE(stretch.right);
      told = std::max(told, stretch.seal.done);
      counted = std::min(counted, stretch.seal.held());
    }
    BOOST_REQUIRE_LE(told, counted); // who is done knows that all have it
    for (const auto& stretch : stretches) {
      if (stretch.seal.done == counted)
        continue;
      // An error here, but the call counts: the sum is here as well.
      BOOST_REQUIRE_EQUAL(stretch.seal.done + 1, counted);
      BOOST_REQUIRE(is_sum(stretch.last, stretch.seal.done));
      ++tally.settled;
    }
    if (counted < calls)
      ++tally.failed;
    first = counted;
  }
  return tally;
}

void check(StreamAlgorithm algorithm) {
  { // What the process makes once and keeps.
    auto mesh = full_mesh(2);
    std::thread{[] {}}.join();
  }
  const auto descriptors = entries_of("/proc/self/fd");
  const auto threads = entries_of("/proc/self/task");
  const auto tally = make_calls(algorithm);
  BOOST_TEST_MESSAGE(tally.cuts << " cuts, " << tally.failed
                                << " calls failed, " << tally.settled
                                << " errors settled as sums");
  BOOST_CHECK_GE(tally.failed, 20u); // the cuts hit
  BOOST_CHECK_EQUAL(entries_of("/proc/self/fd"), descriptors);
  BOOST_CHECK_EQUAL(entries_of("/proc/self/task"), threads);
}

} // namespace

BOOST_AUTO_TEST_CASE(reproducible_calls_give_all_the_sum_or_all_an_error) {
  check(StreamAlgorithm::reproducible);
}

BOOST_AUTO_TEST_CASE(ring_calls_give_all_the_sum_or_all_an_error) {
  check(StreamAlgorithm::ring);
}

BOOST_AUTO_TEST_SUITE_END()
