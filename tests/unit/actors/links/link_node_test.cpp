#include "tests/unit/actors/links/link_streams.hpp"

#include <fcntl.h>
#include <sys/mman.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(link_node)

namespace {

Descriptor memory(const std::string& content) {
  Descriptor made{::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  BOOST_REQUIRE(::write(made.get(), content.data(), content.size())
                == static_cast<ssize_t>(content.size()));
  ::fcntl(made.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  return made;
}

std::string content(const Descriptor& memory, size_t size) {
  std::string text(size, '\0');
  BOOST_REQUIRE(::pread(memory.get(), text.data(), size, 0)
                == static_cast<ssize_t>(size));
  return text;
}

} // namespace

BOOST_AUTO_TEST_CASE(groups_of_two_to_five_are_linked_over_tcp_all_to_all) {
  NothingLeft nothing_left;
  for (size_t members = 2; members <= 5; ++members)
    for (auto encryption : {LinkEncryption::on, LinkEncryption::off}) {
      Party party{members, options(LinkChoice::tcp, encryption)};
      auto formed = party.form();
      for (size_t rank = 0; rank < members; ++rank) {
        BOOST_TEST_REQUIRE(formed[rank].error == "");
        BOOST_TEST(formed[rank].hosts.size() == 1u);
        BOOST_TEST(formed[rank].hosts[0].size() == members);
        for (size_t peer = 0; peer < members; ++peer) {
          if (peer == rank)
            continue;
          const bool on = encryption == LinkEncryption::on;
          BOOST_TEST(formed[rank].carriers[peer] == (on ? "tcp+tls" : "tcp"));
          BOOST_TEST(formed[rank].sockets[peer]->encrypted() == on);
        }
      }
      check_streams(formed);
    }
  BOOST_TEST(nothing_left.check());
}

BOOST_AUTO_TEST_CASE(members_on_one_host_are_given_each_others_memory) {
  NothingLeft nothing_left;
  {
    Party party{3};
    std::vector<std::future<GroupOutcome>> futures;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      auto request = party.request(rank);
      auto own = memory("of " + std::to_string(rank));
      request.segment = own.get();
      request.control_bytes = 4096;
      futures.push_back(party.ask(std::move(request)));
    }
    std::vector<GroupOutcome> formed;
    for (auto& future : futures)
      formed.push_back(future.get());
    for (uint32_t rank = 0; rank < 3; ++rank) {
      BOOST_TEST_REQUIRE(formed[rank].error == "");
      BOOST_TEST(formed[rank].sockets.empty());
      for (uint32_t peer = 0; peer < 3; ++peer)
        BOOST_TEST(content(formed[rank].segments[peer], 4)
                   == "of " + std::to_string(peer));
      BOOST_TEST(formed[rank].carriers[(rank + 1) % 3] == "shm");
    }
    BOOST_REQUIRE(::pwrite(formed[2].control.get(), "all", 3, 100) == 3);
    BOOST_TEST(content(formed[1].control, 103).substr(100) == "all");
    BOOST_TEST(::ftruncate(formed[1].control.get(), 0) == -1);
  }
  BOOST_TEST(nothing_left.check());
}

BOOST_AUTO_TEST_CASE(members_of_several_hosts_get_streams_and_the_hosts) {
  Party party{0};
  for (const char* mark : {"a", "b", "a"}) {
    auto with = options();
    with.host_mark = mark;
    party.add(with);
  }
  auto formed = party.form();
  for (auto& one : formed) {
    BOOST_TEST_REQUIRE(one.error == "");
    BOOST_TEST((one.hosts == std::vector<std::vector<uint32_t>>{{0, 2}, {1}}));
  }
  check_streams(formed);
}

BOOST_AUTO_TEST_CASE(shared_memory_between_hosts_is_one_clear_line) {
  Party party{0};
  for (const char* mark : {"a", "b"}) {
    auto with = options(LinkChoice::shm);
    with.host_mark = mark;
    party.add(with);
  }
  for (auto& one : party.form()) {
    BOOST_TEST(one.error.find("different hosts") != std::string::npos,
               one.error);
    BOOST_TEST(one.error.find('\n') == std::string::npos);
    BOOST_TEST(one.hopeless);
  }
}

BOOST_AUTO_TEST_CASE(who_comes_early_waits_for_the_others) {
  for (auto link : {LinkChoice::tcp, LinkChoice::shm}) {
    Party party{3, options(link)};
    std::vector<std::future<GroupOutcome>> futures;
    for (uint32_t rank : {2u, 1u})
      futures.push_back(party.ask(party.request(rank)));
    // Time enough for the visits to come.
    BOOST_TEST((futures.front().wait_for(50ms) == std::future_status::timeout));
    futures.push_back(party.ask(party.request(0)));
    std::vector<GroupOutcome> formed; // nobody leaves before all are there
    for (auto& future : futures)
      formed.push_back(future.get());
    for (auto& one : formed)
      BOOST_TEST(one.error == "");
  }
}

BOOST_AUTO_TEST_CASE(a_member_that_never_comes_is_named_at_the_deadline) {
  for (auto link : {LinkChoice::tcp, LinkChoice::shm}) {
    Party party{3, options(link)};
    std::vector<std::future<GroupOutcome>> futures;
    for (uint32_t rank : {0u, 2u}) {
      auto request = party.request(rank);
      request.deadline = Clock::now() + 300ms;
      futures.push_back(party.ask(std::move(request)));
    }
    for (auto& future : futures) {
      auto outcome = future.get();
      BOOST_TEST(outcome.error.find("worker:1") != std::string::npos,
                 outcome.error);
      BOOST_TEST(outcome.group == nullptr);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_member_of_an_older_epoch_is_refused) {
  Party party{2};
  auto newer = party.request(0);
  newer.fence.epoch = 4;
  newer.deadline = Clock::now() + 2s;
  auto waiting = party.ask(std::move(newer));
  auto refused = party.ask(party.request(1)).get();
  BOOST_TEST(refused.error.find("is at epoch 4, not 3") != std::string::npos,
             refused.error);
  auto later = party.request(1);
  later.fence.epoch = 4;
  auto joined = party.ask(std::move(later)).get();
  BOOST_TEST(joined.error == "");
  BOOST_TEST(waiting.get().error == "");
}

BOOST_AUTO_TEST_CASE(a_newer_request_ends_an_older_one_of_the_same_group) {
  Party party{2};
  auto older = party.ask(party.request(0));
  auto request = party.request(0);
  request.fence.epoch = 4;
  auto newer = party.ask(std::move(request));
  BOOST_TEST(older.get().error.find("epoch 4") != std::string::npos);
  auto stale = party.ask(party.request(0)).get();
  BOOST_TEST(stale.error.find("epoch 4 has begun") != std::string::npos,
             stale.error);
  party.nodes[0].reset();
  BOOST_TEST(newer.get().error.find("this process ends") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(members_that_were_told_different_flags_both_say_so) {
  auto check = [](LinkOptions first, LinkOptions second, const char* flag) {
    Party party{1, first};
    party.add(second);
    for (auto& one : party.form())
      BOOST_TEST(one.error.find(flag) != std::string::npos, one.error);
  };
  check(options(LinkChoice::tcp, LinkEncryption::on),
        options(LinkChoice::tcp, LinkEncryption::off), "--link-encryption");
  check(options(LinkChoice::tcp), options(LinkChoice::shm), "--link");
}

BOOST_AUTO_TEST_SUITE_END()
