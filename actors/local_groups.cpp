#include "actors/local_groups.hpp"

#include "kernels/collective/shared_reducer.hpp"

namespace troupe {

/// What the members of one epoch share.
struct LocalGroups::Meeting {
  explicit Meeting(uint32_t members)
    : control(SharedReducer::control_bytes(members)) {
    SharedReducer::prepare(control.data(), members);
  }

  SharedSegment control; ///< page-aligned memory
  std::mutex mutex;
  /// Peers read and write them as long as one of them is in the group.
  std::vector<std::shared_ptr<FlatArrays>> arrays;
};

LocalGroups::LocalGroups(std::shared_ptr<const Job> job) {
  if (job->options.strategy != Strategy::central_storage)
    return;
  const auto arrays = VariableBanks::arrays_of(*job, 2);
  central_ = std::make_shared<VariableBanks>(
    *job, std::make_shared<FlatArrays>(*job, arrays, false), 0, 2);
}

void LocalGroups::form(
  GroupWish wish, std::function<void(std::shared_ptr<ReplicaGroup>)> done) {
  const auto members = wish.layout.members;
  std::shared_ptr<Meeting> meeting;
  {
    std::lock_guard lock{mutex_};
    std::erase_if(meetings_, [](const auto& x) { return x.second.expired(); });
    auto& place =
      meetings_[{wish.fence.job, wish.fence.term, wish.fence.epoch}];
    meeting = place.lock();
    if (!meeting)
      place = meeting = std::make_shared<Meeting>(members);
  }
  {
    std::lock_guard lock{meeting->mutex};
    meeting->arrays.push_back(wish.arrays);
  }
  auto group = std::make_shared<ReplicaGroup>();
  group->exact = std::make_unique<SharedReducer>(meeting->control.data(),
                                                 wish.layout);
  group->shares_memory = true;
  group->carriers.assign(members, "memory");
  group->held = std::move(meeting);
  done(std::move(group));
}

} // namespace troupe
