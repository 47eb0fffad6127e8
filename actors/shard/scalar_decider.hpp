#pragma once

#include "actors/job/slice_update.hpp"
#include "actors/shard/shard_store.hpp"
#include "actors/wire/messages.hpp"
#include "strategies/scalar_round.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// The side of a step's scalars that decides: the head of slice 0's chain.
/// Keeps the sums that ScalarRound counts and writes decisions into the store,
/// from which later askers are answered.
class ScalarDecider {
public:
  ScalarDecider(const Job& job, std::shared_ptr<ShardStore> store);

  struct Answer {
    std::vector<Bits<float>> values;
    bool decided_now = false;
  };
  /// Errors: nothing for sums that do not fit the plan, or are not needed.
  /// `samples`: that the step is made of.
  std::optional<Answer> offer(const BlockSums& sums, uint32_t samples);
  /// The epoch changed: all that wait will ask again.
  void forget() { round_.forget(); }

private:
  const Job& job_;
  std::shared_ptr<ShardStore> store_;
  std::vector<ScalarRoundKind> rounds_;
  ScalarRound round_;
  std::optional<RoundSums> sums_;
};

} // namespace troupe
