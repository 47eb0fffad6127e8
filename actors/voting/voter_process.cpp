#include "actors/certificates/certificate_renewal.hpp"
#include "actors/control/actor_node.hpp"
#include "actors/control/refused_members.hpp"
#include "actors/voting/voter.hpp"
#include "actors/wire/ends_with_scope.hpp"
#include "actors/wire/error_line.hpp"
#include "kernels/base/error.hpp"

#include <iostream>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds look_period{100};

} // namespace

void run_voter_process(const VoterProcess& process) {
  ActorConfig config{load_credentials(process.certificates, voter_name)};
  const CertificateRenewal renewal{
    {config.tls(),
     {},
     [](const std::string& news) { std::cerr << "voter: " + news + '\n'; },
     {}}};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  const auto voter = spawn_voter(system, process.journal,
                                 {refuse_decided(config.tls()), {}});
  const EndsWithScope end{caf::actor_cast<caf::strong_actor_ptr>(voter)};
  process.listens(publish(system, caf::actor_cast<caf::strong_actor_ptr>(voter),
                          process.listen));
  self->monitor(voter);
  caf::error broken;
  while (!broken && process.stop().empty())
    self->receive([&](const caf::down_msg& down) { broken = down.reason; },
                  caf::after(look_period) >> [] {});
  if (broken)
    throw InputError(line_of(broken));
}

} // namespace troupe
