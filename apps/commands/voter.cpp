#include "actors/voting/voter.hpp"

#include "actors/control/actor_node.hpp"
#include "apps/process/name_lock.hpp"
#include "apps/settings/commands.hpp"
#include "apps/terminal/interrupt.hpp"

#include <cstdio>

namespace troupe {

int run_voter(const Settings& settings) {
  Interrupt interrupt;
  const auto lock = lock_journal(settings.journal);
  interrupt.removes(lock.path());
  VoterProcess voter;
  voter.journal = settings.journal;
  voter.listen = settings.listen;
  voter.certificates = certificate_source(settings);
  voter.listens = [](const std::string& address) {
    std::printf("voter listens on %s\n", address.c_str());
    std::fflush(stdout);
  };
  voter.stop = [&interrupt] { return interrupt.reason(); };
  run_voter_process(voter);
  return 0;
}

} // namespace troupe
