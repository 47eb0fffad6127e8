// Symptom: any certificate of the job's authority was a full member, which said
// anything in anybody's name. Cause: CAF hides who is at a connection's end.

#include "actors/control/actor_node.hpp"
#include "actors/wire/interfaces.hpp"
#include "tests/unit/actors/links/link_party.hpp"

#include <boost/test/unit_test.hpp>

#include <mutex>
#include <vector>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(impostor)

namespace {

/// A process that listens, and writes down what reaches its actor.
struct Listener {
  Listener()
    : config(job("own", coordinator_name)), system(config), self(system) {
    actor = system.spawn([this](caf::event_based_actor* on) {
      on->set_default_handler([this](caf::scheduled_actor*,
                                     caf::message& x) -> caf::skippable_result {
        const std::lock_guard guard{lock};
        heard.push_back(caf::to_string(x));
        return caf::message{};
      });
      return caf::behavior{[](caf::unit_t) {}};
    });
    address = publish(system, caf::actor_cast<caf::strong_actor_ptr>(actor),
                      "127.0.0.1:0");
  }
  ~Listener() { caf::anon_send_exit(actor, caf::exit_reason::kill); }

  size_t count() {
    const std::lock_guard guard{lock};
    return heard.size();
  }

  ActorConfig config;
  caf::actor_system system;
  caf::scoped_actor self;
  std::mutex lock;
  std::vector<std::string> heard;
  caf::actor actor;
  std::string address;
};

/// Another process, with a certificate of the same job.
struct Peer {
  Peer(Listener& to, const MemberName& name)
    : config(job("own", name)), system(config), self(system) {
    other = caf::actor_cast<caf::actor>(connect(system, to.address, 5'000));
    self->monitor(other);
  }

  /// Whether the connection ends.
  bool is_cut_off() {
    bool down = false;
    self->receive([&](const caf::down_msg&) { down = true; },
                  caf::after(patience) >> [] {});
    return down;
  }

  ActorConfig config;
  caf::actor_system system;
  caf::scoped_actor self;
  caf::actor other;
};

} // namespace

BOOST_AUTO_TEST_CASE(a_worker_is_heard_as_itself) {
  Listener listener;
  Peer peer{listener, worker(1)};
  peer.self->send(peer.other, Hello{{RoleKind::worker, 1}});
  BOOST_TEST(soon([&] { return listener.count() == 1; }));
}

BOOST_AUTO_TEST_CASE(one_that_says_it_is_another_is_cut_off_unheard) {
  Listener listener;
  const auto try_with = [&](const auto& said) {
    Peer peer{listener, worker(1)};
    peer.self->send(peer.other, said);
    BOOST_TEST(peer.is_cut_off());
    BOOST_TEST(listener.count() == 0u);
  };
  try_with(Hello{{RoleKind::shard, 0}});
  Join join;
  join.role = {RoleKind::coordinator, 0};
  try_with(join);
  try_with(SwitchConsistency{"async"});
  try_with(InjectFault{{RoleKind::worker, 0}, "push"});
  try_with(RoleDied{{RoleKind::worker, 0}, "gone"});
  try_with(Propose{});
  try_with(caf::exit_msg{{}, caf::exit_reason::kill});
  try_with(std::string{"anything"});
}

BOOST_AUTO_TEST_CASE(a_request_of_an_operator_is_answered_and_a_workers_not) {
  Listener listener;
  Peer fine{listener, operator_name};
  fine.self->send(fine.other, SwitchConsistency{"async"});
  BOOST_TEST(soon([&] { return listener.count() == 1; }));
  Peer other{listener, parse_member_name("ps:0").value()};
  bool refused = false;
  other.self->request(other.other, 5s, SwitchConsistency{"async"})
    .receive([](const Note&) {}, [&](const caf::error&) { refused = true; });
  BOOST_TEST(refused);
  BOOST_TEST(listener.count() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
