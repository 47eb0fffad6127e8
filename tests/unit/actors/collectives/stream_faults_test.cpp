#include "actors/collectives/stream_reducer.hpp"
#include "tests/unit/actors/collectives/loopback.hpp"

#include <boost/test/unit_test.hpp>
#include <poll.h>

#include <atomic>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(stream_faults_suite)

namespace {

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// All-reduces `counts[rank]` elements on every member; how each ended.
std::vector<CollectiveResult>
reduce(std::vector<Sockets> mesh, const std::vector<uint64_t>& counts,
       const std::vector<StreamOptions>& options, int calls = 1) {
  const auto members = static_cast<uint32_t>(counts.size());
  std::vector<CollectiveResult> ends(members);
  at_once(members, [&](uint32_t rank) {
    StreamReducer reducer{{rank, members, {}, 0},
                          std::move(mesh[rank]),
                          options[rank % options.size()]};
    std::vector<float> data(counts[rank], 1);
    for (int call = 0; call < calls; ++call)
      ends[rank] = reducer.all_reduce(data.data(), data.size(), in_a_while());
  });
  return ends;
}

/// A wire between two ends that changes one byte on the way.
class BadWire {
public:
  BadWire(int from, int to, size_t byte)
    : from_(from),
      to_(to),
      byte_(byte),
      one_([this] { carry(from_, to_, true); }),
      other_([this] { carry(to_, from_, false); }) {}
  ~BadWire() {
    one_.join();
    other_.join();
    ::close(from_);
    ::close(to_);
  }
  bool flipped() const { return flipped_; }

private:
  void carry(int in, int out, bool flips) {
    char buffer[4096];
    size_t seen = 0;
    for (;;) {
      const auto got = ::recv(in, buffer, sizeof buffer, 0);
      if (got <= 0)
        break;
      const auto size = static_cast<size_t>(got);
      if (flips && byte_ >= seen && byte_ < seen + size) {
        buffer[byte_ - seen] ^= 4;
        flipped_ = true;
      }
      seen += size;
      if (::send(out, buffer, size, MSG_NOSIGNAL) != got)
        break;
    }
    ::shutdown(in, SHUT_RDWR);
    ::shutdown(out, SHUT_RDWR);
  }

  int from_, to_;
  size_t byte_;
  std::atomic<bool> flipped_ = false;
  std::thread one_, other_;
};

} // namespace

BOOST_AUTO_TEST_CASE(a_flipped_byte_on_the_way_is_an_error_on_all) {
  // In a header, at a payload's start and end, in the second frame.
  for (size_t byte : {3u, 30u, 79u, 80u, 4000u, 400'100u}) {
    std::vector<Sockets> mesh(2);
    for (auto& sockets : mesh)
      sockets.resize(2);
    const auto [a, wire_a] = connected_pair();
    const auto [b, wire_b] = connected_pair();
    mesh[0][1] = std::make_unique<LinkSocket>(a);
    mesh[1][0] = std::make_unique<LinkSocket>(b);
    BadWire wire{wire_a, wire_b, byte};
    StreamOptions options;
    options.confirm = true; // or member 0 may be done before
    const auto ends = reduce(std::move(mesh), {200'000, 200'000}, {options});
    BOOST_CHECK(wire.flipped());
    BOOST_CHECK(ends[1].end == CollectiveEnd::aborted);
    BOOST_CHECK(mentions(ends[1].reason, "member 0"));
    BOOST_CHECK(ends[0].end == CollectiveEnd::aborted);
  }
}

BOOST_AUTO_TEST_CASE(a_member_that_is_gone_is_named_by_the_others) {
  constexpr uint32_t members = 3;
  for (auto algorithm :
       {StreamAlgorithm::reproducible, StreamAlgorithm::ring}) {
    auto mesh = full_mesh(members);
    mesh[2].clear(); // it dies before it has sent anything
    std::vector<CollectiveResult> ends(2);
    at_once(2, [&](uint32_t rank) {
      StreamOptions options;
      options.algorithm = algorithm;
      StreamReducer reducer{
        {rank, members, {}, 0}, std::move(mesh[rank]), options};
      std::vector<float> data(500'000, 1);
      ends[rank] = reducer.all_reduce(data.data(), data.size(), in_a_while());
      const auto again = reducer.all_reduce(data.data(), 5, in_a_while());
      if (again.end != ends[rank].end || again.reason != ends[rank].reason)
        ends[rank].reason = "the first end did not hold";
    });
    for (const auto& end : ends) {
      BOOST_CHECK(end.end == CollectiveEnd::aborted);
      BOOST_CHECK(mentions(end.reason, "member 2 is gone"));
    }
  }
}

BOOST_AUTO_TEST_CASE(other_lengths_are_a_mismatch_that_names_members) {
  for (auto algorithm : {StreamAlgorithm::reproducible, StreamAlgorithm::ring,
                         StreamAlgorithm::halving_doubling}) {
    StreamOptions options;
    options.algorithm = algorithm;
    for (const auto& end :
         reduce(full_mesh(4), {1000, 1000, 1001, 1000}, {options})) {
      BOOST_CHECK_MESSAGE(end.end == CollectiveEnd::mismatch, end.reason);
      BOOST_CHECK(mentions(end.reason, "member 2"));
    }
  }
}

BOOST_AUTO_TEST_CASE(another_epoch_or_algorithm_is_a_mismatch) {
  std::vector<StreamOptions> options(2);
  options[1].epoch = 3;
  for (const auto& end : reduce(full_mesh(2), {10, 10}, options)) {
    BOOST_CHECK(end.end == CollectiveEnd::mismatch);
    BOOST_CHECK(mentions(end.reason, "epoch"));
    BOOST_CHECK(mentions(end.reason, "member 1"));
  }
  options[1] = {};
  options[1].algorithm = StreamAlgorithm::direct;
  for (const auto& end : reduce(full_mesh(2), {10, 10}, options))
    BOOST_CHECK(end.end == CollectiveEnd::mismatch);
}

BOOST_AUTO_TEST_CASE(calls_in_another_order_are_a_mismatch) {
  constexpr uint32_t members = 3;
  auto mesh = full_mesh(members);
  std::vector<CollectiveResult> ends(members);
  at_once(members, [&](uint32_t rank) {
    StreamReducer reducer{{rank, members, {}, 0}, std::move(mesh[rank])};
    std::vector<float> data(1000, 1);
    const auto again = in_a_while();
    ends[rank] = rank == 1 ? reducer.all_gather(data.data(), 1000, again)
                           : reducer.all_reduce(data.data(), 1000, again);
  });
  for (const auto& end : ends)
    BOOST_CHECK(end.end == CollectiveEnd::mismatch);
}

BOOST_AUTO_TEST_CASE(a_silent_member_makes_the_others_late) {
  auto mesh = full_mesh(2);
  StreamReducer reducer{{0, 2, {}, 0}, std::move(mesh[0])};
  std::vector<float> data(200'000, 1);
  const auto end = reducer.all_reduce(data.data(), data.size(),
                                      std::chrono::steady_clock::now()
                                        + std::chrono::milliseconds{20});
  BOOST_CHECK(end.end == CollectiveEnd::late);
  // The silent one learns of it when it comes.
  StreamReducer silent{{1, 2, {}, 0}, std::move(mesh[1])};
  const auto other = silent.all_reduce(data.data(), data.size(), in_a_while());
  BOOST_CHECK(other.end == CollectiveEnd::aborted);
  BOOST_CHECK(mentions(other.reason, "member 0"));
}

BOOST_AUTO_TEST_CASE(abort_from_another_thread_ends_it_on_all) {
  auto mesh = full_mesh(3);
  std::vector<CollectiveResult> ends(2);
  std::vector<std::unique_ptr<StreamReducer>> reducers;
  for (uint32_t rank = 0; rank < 2; ++rank)
    reducers.push_back(std::make_unique<StreamReducer>(
      ReducerLayout{rank, 3, {}, 0}, std::move(mesh[rank])));
  std::thread aborting([&] { reducers[0]->abort("epoch 4 begins"); });
  at_once(2, [&](uint32_t rank) {
    std::vector<float> data(100'000, 1);
    ends[rank] = reducers[rank]->all_reduce(data.data(), data.size(),
                                            in_a_while());
  });
  aborting.join();
  BOOST_CHECK(ends[0].end == CollectiveEnd::aborted);
  BOOST_CHECK_EQUAL(ends[0].reason, "epoch 4 begins");
  BOOST_CHECK(ends[1].end == CollectiveEnd::aborted);
  // Its last words, or, where the streams were cut before it could say them,
  // that it is gone.
  BOOST_TEST((ends[1].reason == "epoch 4 begins"
              || mentions(ends[1].reason, "member 0")),
             ends[1].reason);
}

BOOST_AUTO_TEST_CASE(confirmed_calls_follow_one_another) {
  StreamOptions options;
  options.confirm = true;
  for (const auto& end :
       reduce(full_mesh(4), {999, 999, 999, 999}, {options}, 50))
    BOOST_CHECK(end.end == CollectiveEnd::done);
}

BOOST_AUTO_TEST_SUITE_END()
