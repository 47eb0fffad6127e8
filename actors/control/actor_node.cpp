#include "actors/control/actor_node.hpp"

#include "actors/collectives/member.hpp"
#include "actors/control/peer_directory.hpp"
#include "actors/control/reach.hpp"
#include "actors/control/secure_middleman.hpp"
#include "actors/sockets/endpoint.hpp"
#include "actors/wire/error_line.hpp"
#include "actors/wire/messages.hpp"
#include "actors/wire/messages/voting.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/steady_clock.hpp"
#include "strategies/growing_rest.hpp"

#include <caf/io/middleman.hpp>

#include <chrono>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

namespace troupe {

void init_actor_types() {
  static std::once_flag once;
  std::call_once(once, [] {
    caf::init_global_meta_objects<caf::id_block::troupe>();
    caf::init_global_meta_objects<caf::id_block::troupe_collectives>();
    caf::init_global_meta_objects<caf::id_block::troupe_voting>();
    caf::io::middleman::init_global_meta_objects();
    caf::core::init_global_meta_objects();
  });
}

ActorConfig::ActorConfig(const Credentials& credentials,
                         std::chrono::milliseconds patience) {
  init_actor_types();
  // CAF's defaults would read a file of the working directory.
  config_file_path.clear();
  set("caf.scheduler.policy", "sharing");
  set("caf.scheduler.max-threads", int64_t{2});
  set("caf.logger.console.verbosity", "quiet");
  set("caf.logger.file.verbosity", "quiet");
  set("caf.metrics-filters.actors.includes",
      std::vector<std::string>{"worker", "shard", "replica", "coordinator"});
  if (credentials.folder.empty())
    return;
  load<caf::io::middleman>(); // first: it defines the options set below
  tls_ = std::make_shared<TlsContext>(credentials);
  if (credentials.name == coordinator_name
      && !credentials.authority_key.empty())
    desk_ = std::make_shared<CertificateDesk>(tls_);
  load_secure_middleman(*this, tls_, desk_, patience);
  set("caf.middleman.enable-automatic-connections", false);
  // BASP's own timeout stays out of reach: in 0.18.7 a connection whose
  // handshake is under way when the heartbeat ticks counts as silent since the
  // epoch, is closed, and takes others with it (seen). The coordinator watches
  // for silence itself; a process that died closes its sockets.
  // A reader that stops after some reads leaves bytes in TLS's own buffer,
  // about which no socket event tells.
  set("caf.middleman.max-consecutive-reads", int64_t{1'000'000});
  set("caf.middleman.heartbeat-interval", "1s");
  set("caf.middleman.connection-timeout", "87600h");
}

std::string publish(caf::actor_system& system,
                    const caf::strong_actor_ptr& whom,
                    const std::string& address) {
  auto where = parse_endpoint(address);
  if (!where)
    throw InputError("address " + address + ": expected HOST:PORT");
  if (!has_secure_middleman(system))
    throw InputError("address " + address + ": no certificates are loaded");
  try {
    const auto port = publish_securely(system, whom, where->host, where->port);
    return to_string(Endpoint{where->host, port});
  } catch (const InputError&) {
    throw InputError("cannot listen on " + address
                     + ": in use or not an address of this machine; choose "
                       "another with --listen HOST:PORT");
  }
}

namespace {

/// How long a look at what stands in the way may take; two are made before that
/// is told. A connection that is under way outlasts it.
constexpr std::chrono::milliseconds look_deadline{1'000};
constexpr std::chrono::milliseconds told_after{1'500};
constexpr std::chrono::hours longest_coming{1}; ///< of who is on its way

struct Attempt {
  caf::strong_actor_ptr found;
  Reach reach;
};

/// Goes on waiting for the connection to that place, or begins one.
Attempt try_once(caf::actor_system& system, caf::scoped_actor& self,
                 const Endpoint& where) {
  Attempt out;
  if (const auto before = how_far(system, where);
      !before || !before->under_way) {
    // CAF would wait as long as the system does.
    out.reach = reach_host(where, look_deadline);
    if (out.reach.kind != ReachKind::answers)
      return out;
  }
  std::string why;
  self
    ->request(secure_middleman(system), look_deadline, caf::connect_atom_v,
              where.host, where.port)
    .receive([&](const caf::node_id&, caf::strong_actor_ptr& peer,
                 const std::set<std::string>&) { out.found = peer; },
             [&](const caf::error& failure) { why = line_of(failure); });
  if (out.found)
    return out;
  out.reach = how_far(system, where)
                .value_or(Reach{ReachKind::silent,
                                to_string(where) + " does not answer (" + why
                                  + "): is the coordinator running there, with "
                                    "the same certificates?"});
  return out;
}

} // namespace

caf::strong_actor_ptr connect(caf::actor_system& system,
                              const std::string& address, uint64_t deadline_ms,
                              const Waiting& waiting) {
  using Clock = SteadyClock;
  const auto places = parse_endpoints(address);
  if (places.empty())
    throw InputError("address " + address + ": expected HOST:PORT");
  const auto began = Clock::now();
  auto deadline = began + std::chrono::milliseconds{deadline_ms};
  caf::scoped_actor self{system};
  GrowingRest rest;
  std::random_device draw;
  std::string told;
  for (size_t attempt = 0, hopeless = 0, closed = 0;; ++attempt) {
    auto made = try_once(system, self, places[attempt % places.size()]);
    if (made.found)
      return made.found;
    if (waiting.over && waiting.over())
      return nullptr;
    closed = made.reach.kind == ReachKind::not_listening ? closed + 1 : 0;
    if (waiting.comes && closed >= places.size()
        && Clock::now() - began < longest_coming)
      deadline = Clock::now() + std::chrono::milliseconds{deadline_ms};
    hopeless = made.reach.hopeless() ? hopeless + 1 : 0;
    const bool in_vain = !waiting.credentials.folder.empty()
                         && hopeless >= places.size();
    if (in_vain || Clock::now() >= deadline)
      throw InputError("cannot reach the coordinator: " + made.reach.line);
    if (waiting.tell && Clock::now() - began >= told_after
        && told != made.reach.line) {
      told = made.reach.line;
      waiting.tell("waiting for the coordinator: " + told);
    }
    if (!made.reach.under_way)
      std::this_thread::sleep_for(
        std::chrono::milliseconds{rest.next_ms(draw())});
  }
}

} // namespace troupe
