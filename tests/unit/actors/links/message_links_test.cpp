#include "actors/control/actor_node.hpp"
#include "actors/links/message_links.hpp"
#include "monitoring/names.hpp"
#include "tests/unit/actors/links/link_pair.hpp"

#include <future>

using namespace troupe;
using namespace std::chrono_literals;

namespace message_links {
namespace {

constexpr auto patience = 30s;
const Fence fence{7, 1, 1};

/// Each process lends what is in its memory to the others.
LinkOptions local_only() {
  LinkOptions options;
  options.memory = LinkMemory::make(size_t{64} << 20);
  return options;
}

/// A process of its own in all but the address space.
struct Process {
  explicit Process(caf::actor_system& system)
    : node(std::make_unique<LinkNode>(local_only())),
      metrics(std::make_shared<MetricRegistry>()),
      links(std::make_shared<MessageLinks>(system, *node, metrics,
                                           [this](const std::string& line) {
                                             told.set_value(line);
                                           })),
      actor(system) {}
  ~Process() { end(); }

  void end() {
    links->end();
    node.reset();
  }
  caf::strong_actor_ptr address() {
    return caf::actor_cast<caf::strong_actor_ptr>(actor.ptr());
  }

  std::unique_ptr<LinkNode> node;
  std::shared_ptr<MetricRegistry> metrics;
  std::promise<std::string> told; ///< of who broke the rules, once
  std::shared_ptr<MessageLinks> links;
  caf::scoped_actor actor;
};

struct Bench {
  Bench() : config(Credentials{}), system(config), worker(system) {
    shard.emplace(system);
    shard->links->accept("ps:0", {{MessageKind::pull, MessageKind::push}},
                         shard->address());
  }

  std::pair<caf::strong_actor_ptr, std::string>
  connect(const std::string& name, const std::string& endpoint,
          const Fence& of = fence) {
    auto done = std::make_shared<
      std::promise<std::pair<caf::strong_actor_ptr, std::string>>>();
    auto opened = done->get_future();
    MessageLinks::Request request;
    request.fence = of;
    request.name = name;
    request.endpoint = endpoint;
    request.from = "worker:0";
    request.to = "ps:0";
    request.terms.accepted.push_back(MessageKind::pulled);
    request.target = worker.address();
    request.deadline = std::chrono::steady_clock::now() + 5s;
    worker.links->connect(std::move(request), [done](caf::strong_actor_ptr peer,
                                                     const std::string& error) {
      done->set_value({std::move(peer), error});
    });
    BOOST_REQUIRE((opened.wait_for(patience) == std::future_status::ready));
    return opened.get();
  }

  caf::actor linked(const Fence& of = fence) {
    auto [peer, error] = connect("ps:0", shard->node->endpoint(), of);
    BOOST_REQUIRE_EQUAL(error, "");
    BOOST_REQUIRE(peer);
    return caf::actor_cast<caf::actor>(peer);
  }

  /// Receives one message of that type at that actor, and who sent it.
  template <class Message>
  std::pair<Message, caf::actor> expect(Process& at) {
    std::pair<Message, caf::actor> got;
    bool late = false;
    auto take = [&](const Message& x) {
      got = {x, caf::actor_cast<caf::actor>(at.actor->current_sender())};
    };
    at.actor->receive(
      take, caf::after(patience) >> [&] { late = true; });
    BOOST_REQUIRE(!late);
    return got;
  }

  /// The down message that the worker gets within its patience.
  caf::down_msg expect_down() {
    caf::down_msg down;
    bool late = false;
    worker.actor->receive([&](const caf::down_msg& x) { down = x; },
                          caf::after(patience) >> [&] { late = true; });
    BOOST_REQUIRE(!late);
    return down;
  }

  ActorConfig config;
  caf::actor_system system;
  Process worker;
  std::optional<Process> shard;
};

} // namespace
} // namespace message_links

BOOST_FIXTURE_TEST_SUITE(message_links, Bench)

BOOST_AUTO_TEST_CASE(an_actor_sends_to_a_peer_elsewhere_as_to_one_beside_it) {
  auto peer = linked();
  worker.actor->send(peer, Push{fence, 3, {0, 2}, 1, numbered(1000, 5)});
  worker.actor->send(peer, Pull{fence, {RoleKind::worker, 0}, 4});
  BOOST_TEST(same(expect<Push>(*shard).first.values, numbered(1000, 5)));
  auto [pull, sender] = expect<Pull>(*shard);
  BOOST_TEST(pull.version == 4u);
  shard->actor->send(sender, Pulled{fence, 4, 1, numbered(2000, 6)});
  auto [pulled, from] = expect<Pulled>(worker);
  BOOST_TEST(same(pulled.values, numbered(2000, 6)));
  BOOST_TEST((from == peer));
}

BOOST_AUTO_TEST_CASE(the_end_of_a_peers_process_is_a_down_message) {
  auto peer = linked();
  worker.actor->monitor(peer);
  shard.reset();
  const auto down = expect_down();
  BOOST_TEST((down.source == peer.address()));
  BOOST_TEST(caf::to_string(down.reason).find("ps:0 is gone")
             != std::string::npos);
  worker.actor->send(peer, Pull{fence, {RoleKind::worker, 0}, 4}); // dropped
}

BOOST_AUTO_TEST_CASE(the_own_end_of_links_is_a_down_message_too) {
  auto peer = linked();
  worker.actor->monitor(peer);
  worker.links->end();
  expect_down();
  BOOST_TEST(connect("ps:0", shard->node->endpoint()).second
             == "the links have ended");
}

BOOST_AUTO_TEST_CASE(what_is_no_message_of_links_is_refused) {
  auto peer = linked();
  std::string error;
  auto answer = worker.actor->request(peer, patience, Finish{7});
  answer.receive([] {},
                 [&](const caf::error& x) { error = caf::to_string(x); });
  BOOST_TEST(error.find("request_receiver_down") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_message_for_another_role_ends_the_link) {
  auto peer = linked();
  worker.actor->monitor(peer);
  worker.actor->send(peer, Pulled{fence, 4, 1, numbered(10, 6)});
  expect_down();
  auto told = shard->told.get_future();
  BOOST_REQUIRE((told.wait_for(patience) == std::future_status::ready));
  BOOST_TEST(told.get()
             == "links: worker:0 sent a frame that is no message for this "
                "role");
}

BOOST_AUTO_TEST_CASE(who_is_no_peer_of_a_role_is_not_served) {
  shard->links->accept(
    "reader:0", {{MessageKind::pull}, 1 << 20, {}, MemberName::Kind::stage},
    shard->address());
  auto [peer, error] = connect("reader:0", shard->node->endpoint());
  auto told = shard->told.get_future();
  BOOST_REQUIRE((told.wait_for(patience) == std::future_status::ready));
  BOOST_TEST(told.get() == "links: worker:0 has nothing to ask of reader:0");
}

BOOST_AUTO_TEST_CASE(nobody_is_linked_to_who_is_not_there) {
  const auto endpoint = shard->node->endpoint();
  shard.reset();
  auto [peer, error] = connect("ps:0", endpoint);
  BOOST_TEST(!peer);
  BOOST_TEST(!error.empty());
  BOOST_TEST(error.find('\n') == std::string::npos);
}

// Symptom: a peer summed memory that was written meanwhile. Cause: any link
// that was made let go of it, also one of the epoch in which it was lent.
BOOST_AUTO_TEST_CASE(what_a_link_lent_stays_until_a_later_epoch_has_links) {
  auto peer = linked();
  const auto memory = worker.links->memory();
  Push push{fence, 3, {0, 2}, 1, memory->copy(numbered(5'000, 1).span())};
  const auto* first = push.values.data();
  worker.actor->send(peer, std::move(push));
  const auto got = expect<Push>(*shard).first; // still to be summed there
  worker.actor->monitor(peer);
  worker.links->cut(0);
  expect_down();
  linked();
  BOOST_TEST(memory->take(5'000).get() != first);
  BOOST_TEST(same(got.values, numbered(5'000, 1)));
  linked({fence.job, fence.term, fence.epoch + 1});
  const auto one = memory->take(5'000);
  const auto other = memory->take(5'000);
  BOOST_TEST((one.get() == first || other.get() == first));
}

BOOST_AUTO_TEST_CASE(links_say_how_much_they_carried) {
  auto peer = linked();
  worker.actor->send(peer, Push{fence, 3, {0, 2}, 1, numbered(1000, 5)});
  expect<Push>(*shard);
  worker.end(); // the last figures are shown then
  double sent = 0;
  for (const auto& sample : worker.metrics->collect())
    if (sample.name == metrics::link_sent_bytes_total.name) {
      sent = sample.value;
      BOOST_TEST(sample.labels.at("peer") == "ps:0");
    }
  BOOST_TEST(sent == 4000.0 + frame_header_bytes);
}

BOOST_AUTO_TEST_SUITE_END()
