#pragma once

#include "actors/certificates/credentials.hpp"
#include "actors/role/context.hpp"
#include "actors/shard/shard_store.hpp"
#include "kernels/base/error.hpp"

#include <functional>
#include <string>

namespace troupe {

/// Spawns the actor that plays `context.role`: a worker, a replica, a shard, a
/// stage, a tensor member or a reader. `state_descriptor` is the inherited
/// memory of a shard or a stage (-1: its own).
caf::strong_actor_ptr spawn_role(caf::actor_system& system,
                                 const RoleContext& context,
                                 int state_descriptor);

/// Announces a spawned role to the coordinator: the role itself is the sender.
void send_join(const RoleContext& context, const caf::strong_actor_ptr& actor,
               const std::string& endpoint, const std::string& links);

/// How a process plays a role started by hand or by a supervisor.
struct RoleProcessOptions {
  RoleId role;
  /// It is a worker, and the shard of its number as well.
  bool paired = false;
  bool by_hand = false;    ///< says that it joins, and that it is done
  std::string coordinator; ///< HOST:PORT
  CertificateSource certificates;
  /// HOST:PORT; empty: a port of the address that leads to the coordinator.
  std::string listen;
  int state_descriptor = -1;
  std::string isa;           ///< of this process; empty: as the job has it
  std::string plugin;        ///< the one that the job may name; empty: none
  std::string device_plugin; ///< the same of PJRT devices
  std::string flight;        ///< folder of flight recorders; empty: none
  bool allow_faults = false; ///< ArmFault is obeyed
  std::string link_proxy;    ///< as LinkOptions
  uint64_t connect_deadline_ms = 30'000;
  /// Asked ten times a second; a reason makes the role hand over and end.
  std::function<std::string()> leave;
};

/// A role has read what is wrong in the midst of a job.
class BadInputError : public InputError {
public:
  using InputError::InputError;
};

/// Plays the role until the job is over.
/// Errors: InputError (coordinator not reachable, refused, data missing);
/// BadInputError;
/// std::runtime_error when the coordinator was lost or the device failed.
void run_role_process(const RoleProcessOptions& options);

/// Hash of a fixed forward, backward and update on the role's device, at the
/// job's shapes or, of parts of a model on GPUs, part by part with few rows:
/// equal on machines that compute the same bits (PROTOCOL 21).
std::string probe_hash(const Job& job, const std::string& device);

} // namespace troupe
