#pragma once

#include "actors/replica/group.hpp"

#include <map>
#include <tuple>

namespace troupe {

/// Where the replicas of one process meet: they sum in its memory.
class LocalGroups : public GroupMaker {
public:
  explicit LocalGroups(std::shared_ptr<const Job> job);

  void form(GroupWish wish,
            std::function<void(std::shared_ptr<ReplicaGroup>)> done) override;
  std::shared_ptr<VariableBanks> variables() override;

private:
  struct Meeting;

  bool over_streams() const;

  std::shared_ptr<const Job> job_;
  std::mutex mutex_;
  std::shared_ptr<VariableBanks> variables_; ///< null: nobody has asked yet
  /// Meetings by (job, term, epoch); each goes with its members.
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, std::weak_ptr<Meeting>>
    meetings_;
};

} // namespace troupe
