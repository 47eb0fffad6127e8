#pragma once

#include "actors/certificates/credentials.hpp"
#include "actors/voting/log_folding.hpp"
#include "actors/wire/messages/voting.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace troupe {

/// Voters vote for nobody else so long after they have heard of a leader, which
/// says that it lives every 50 ms.
inline constexpr std::chrono::milliseconds voter_patience{700};

/// Spawns a voter that keeps its copy of a job's journal in the file at `path`,
/// which is made, or gone on with. It syncs what it answers for, in a thread of
/// its own, and ends with one line where the file cannot be written: then the
/// others must be enough. What is decided it folds now and then. Who is about
/// to lead reads so many events at a time. `calls` are made of what is decided,
/// on the voter's thread. Errors: InputError with one line (JournalFile).
struct VoterCalls {
  /// Of each revocation (history.hpp).
  std::function<void(const std::string& member, int64_t until)> revoked;
  /// Of the job: JobOptions as JSON, as they were given.
  std::function<void(const std::string& asked)> job;
  /// Of where a coordinator that leads listens.
  std::function<void(const std::string& address)> coordinator{};
};
voter_actor spawn_voter(caf::actor_system& system, const std::string& path,
                        VoterCalls calls = {}, size_t page_events = 1'000,
                        const LogFolding& folding = {});

/// A voter alone in its process.
struct VoterProcess {
  std::string journal; ///< file
  std::string listen;  ///< HOST:PORT
  CertificateSource certificates;
  std::function<void(const std::string& address)> listens;
  /// Asked ten times a second; a reason ends it.
  std::function<std::string()> stop;
};
/// Errors: InputError where the journal cannot be written, or the address not
/// listened on.
void run_voter_process(const VoterProcess& process);

} // namespace troupe
