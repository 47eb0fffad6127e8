#pragma once

#include "strategies/role_id.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// TF_CONFIG taken apart: who belongs to the cluster and who this process is.
/// Source: the environment variable that tf.distribute reads.
struct TfConfig {
  std::string chief;                ///< HOST:PORT; empty: none named
  std::vector<std::string> workers; ///< HOST:PORT each; so below
  std::vector<std::string> shards;
  std::vector<std::string> evaluators;
  std::optional<RoleId> task; ///< chief and master are the coordinator

  /// Where a role takes connections; empty when the cluster does not name it.
  std::string address_of(RoleId role) const;
  /// Where the coordinator is: with the chief or, of equals, with worker 0;
  /// empty: nobody else takes part.
  std::string coordinator() const;
};

/// Errors: UsageError "TF_CONFIG: …" naming the field.
TfConfig parse_tf_config(const std::string& text);

} // namespace troupe
