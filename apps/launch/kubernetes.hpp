#pragma once

#include "actors/certificates/credentials.hpp"
#include "apps/settings/settings.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// Processes that are alike but for their numbers: an indexed Job.
struct KubernetesRole {
  std::string kind;         ///< "worker", "ps", "stage", "tensor", "sharded"
  uint32_t count = 1;       ///< numbers 0 to count - 1
  uint32_t cores = 1;       ///< that each asks for
  uint32_t gpus = 0;        ///< the same
  uint64_t memory_mib = 64; ///< the same
};

/// A job as a cluster is told it.
struct KubernetesJob {
  KubernetesFlags flags;             ///< image filled in
  std::vector<std::string> job;      ///< the coordinator's flags of train
  KubernetesRole coordinator;        ///< what it asks for
  std::vector<KubernetesRole> roles; ///< the others
};

/// What its members show each other.
struct KubernetesKeys {
  Credentials authority;            ///< with its key
  std::vector<Credentials> members; ///< all but the coordinator
  std::string metrics_token;
};

/// The roles of a job's plan, each a process with one device, and what each
/// asks for. `settings`: the job's, with devices and threads resolved.
std::vector<KubernetesRole> kubernetes_roles(const Settings& settings);

/// What `kubectl apply` takes: for each kind of role an indexed Job and a
/// Secret of its members' certificates; the coordinator's, which also has the
/// authority's key; a headless Service, by which pods have names; a claim of a
/// volume for what the run writes; a PodMonitor for Prometheus' operator. A
/// pure function. Source: Kubernetes, "Indexed Job for parallel processing with
/// static work assignment" and "Job with pod-to-pod communication"; restricted
/// pod security standard.
std::string kubernetes_manifest(const KubernetesJob& job,
                                const KubernetesKeys& keys);

} // namespace troupe
