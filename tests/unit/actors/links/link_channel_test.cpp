#include "tests/unit/actors/links/link_party.hpp"

#include <mutex>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(link_channel)

// --- channels ----------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_hundred_channels_lead_to_one_node) {
  NothingLeft nothing_left;
  auto check = [](LinkOptions with, const char* carrier) {
    std::mutex mutex;
    std::map<uint64_t, ChannelArrival> arrived; ///< by epoch
    Party party{11, with}; // last: if a check fails, channels still arrive
    auto arrive = [&](ChannelArrival arrival) {
      std::lock_guard lock{mutex};
      const auto epoch = arrival.fence.epoch;
      arrived.emplace(epoch, std::move(arrival));
    };
    std::vector<std::future<ChannelOutcome>> futures;
    for (int i = 0; i < 100; ++i) {
      auto done = std::make_shared<std::promise<ChannelOutcome>>();
      futures.push_back(done->get_future());
      const uint64_t epoch = 3 + i;
      party.nodes[1 + i % 10]->open_channel(
        {{7, 1, epoch},
         "values",
         "worker:" + std::to_string(1 + i % 10),
         party.nodes[0]->endpoint(),
         "worker:0",
         Clock::now() + patience},
        [done](ChannelOutcome outcome) {
          done->set_value(std::move(outcome));
        });
      if (i == 50) // the first ones wait for it
        party.nodes[0]->on_channel("values", arrive);
    }
    std::vector<ChannelOutcome> open;
    for (auto& future : futures) {
      open.push_back(future.get());
      BOOST_TEST_REQUIRE(open.back().error == "");
      BOOST_TEST(open.back().carrier == carrier);
    }
    BOOST_REQUIRE(soon([&] {
      std::lock_guard lock{mutex};
      return arrived.size() == 100;
    }));
    for (int i = 0; i < 100; ++i) {
      auto& arrival = arrived.at(3 + i);
      BOOST_TEST(arrival.from == "worker:" + std::to_string(1 + i % 10));
      send_all(*open[i].socket, std::to_string(i) + "!");
      BOOST_TEST(receive(*arrival.socket, std::to_string(i).size() + 1)
                 == std::to_string(i) + "!");
    }
    party.nodes[0]->on_channel("values", nullptr);
  };
  check(options(), "unix");
  check(options(LinkChoice::tcp), "tcp");
  check(options(LinkChoice::tcp, LinkEncryption::on), "tcp+tls");
  BOOST_TEST(nothing_left.check());
}

BOOST_AUTO_TEST_CASE(a_channel_to_nobody_is_an_error_that_names_it) {
  Party party{2};
  auto endpoint = party.nodes[0]->endpoint();
  auto ask = [&](Clock::duration patience) {
    std::promise<ChannelOutcome> done;
    party.nodes[1]->open_channel({{7, 1, 3},
                                  "values",
                                  "worker:0",
                                  endpoint,
                                  "ps:0",
                                  Clock::now() + patience},
                                 [&](ChannelOutcome outcome) {
                                   done.set_value(std::move(outcome));
                                 });
    return done.get_future().get().error;
  };
  auto unheard = ask(300ms);
  BOOST_TEST(unheard.find("values") != std::string::npos, unheard);
  BOOST_TEST(unheard.find("ps:0") != std::string::npos, unheard);
  party.nodes[0].reset();
  auto dead = ask(patience);
  BOOST_TEST(dead.find("has its process died?") != std::string::npos, dead);
}

BOOST_AUTO_TEST_SUITE_END()
