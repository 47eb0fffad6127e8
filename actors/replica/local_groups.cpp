#include "actors/replica/local_groups.hpp"

#include "actors/replica/stream_terms.hpp"
#include "kernels/base/error.hpp"
#include "kernels/collective/shared_reducer.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace troupe {

namespace {

/// Streams between the members of one process, for the algorithms that pass
/// sums on from member to member.
using Streams = std::vector<std::vector<std::unique_ptr<LinkSocket>>>;

Streams make_streams(uint32_t members) {
  Streams streams(members);
  for (auto& own : streams)
    own.resize(members);
  for (uint32_t a = 0; a < members; ++a)
    for (uint32_t b = a + 1; b < members; ++b) {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                       ends)
          != 0)
        throw InputError(std::string{"streams between replicas: "}
                         + std::strerror(errno));
      streams[a][b] = std::make_unique<LinkSocket>(ends[0]);
      streams[b][a] = std::make_unique<LinkSocket>(ends[1]);
    }
  return streams;
}

/// Devices two by two: sums go to the first of a pair, then over the pairs,
/// then back.
std::vector<std::vector<uint32_t>> pairs_of(uint32_t members) {
  std::vector<std::vector<uint32_t>> pairs;
  for (uint32_t i = 0; i < members; ++i)
    if (i % 2 == 0)
      pairs.push_back({i});
    else
      pairs.back().push_back(i);
  return pairs;
}

} // namespace

/// What the members of one epoch share.
struct LocalGroups::Meeting {
  Meeting(uint32_t members, bool streams)
    : control(SharedReducer::control_bytes(members)) {
    SharedReducer::prepare(control.data(), members);
    if (streams)
      this->streams = make_streams(members);
  }

  SharedSegment control; ///< page-aligned memory
  std::mutex mutex;
  /// Peers read and write them as long as one of them is in the group.
  std::vector<std::shared_ptr<FlatArrays>> arrays;
  Streams streams; ///< each member takes its own
};

LocalGroups::LocalGroups(std::shared_ptr<const Job> job)
  : job_(std::move(job)) {}

std::shared_ptr<VariableBanks> LocalGroups::variables() {
  const auto strategy = job_->options.strategy;
  const bool may_share = strategy == Strategy::central_storage
                         || strategy == Strategy::mirrored;
  if (!may_share || over_streams())
    return nullptr;
  std::lock_guard lock{mutex_};
  if (!variables_)
    variables_ = std::make_shared<VariableBanks>(
      *job_,
      std::make_shared<FlatArrays>(*job_, VariableBanks::arrays_of(*job_, 2),
                                   false),
      0, 2);
  return variables_;
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
      place = meeting = std::make_shared<Meeting>(members, over_streams());
  }
  {
    std::lock_guard lock{meeting->mutex};
    meeting->arrays.push_back(wish.arrays);
  }
  auto group = std::make_shared<ReplicaGroup>();
  group->carriers.assign(members, "memory");
  if (over_streams()) {
    auto options = stream_options(*job_, wish.fence);
    if (job_->options.all_reduce == "hierarchical_copy")
      options.hosts = pairs_of(members);
    group->reducer = std::make_unique<StreamReducer>(
      wish.layout, std::move(meeting->streams[wish.layout.rank]),
      std::move(options));
  } else {
    group->reducer = std::make_unique<SharedReducer>(meeting->control.data(),
                                                     wish.layout);
    group->shares_memory = true;
  }
  group->held = std::move(meeting);
  done(std::move(group));
}

bool LocalGroups::over_streams() const {
  const auto& name = job_->options.all_reduce;
  return name != "auto" && name != "reduction_to_one_device" && name != "nccl";
}

} // namespace troupe
