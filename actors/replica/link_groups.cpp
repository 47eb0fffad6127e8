#include "actors/replica/link_groups.hpp"

#include "actors/replica/stream_terms.hpp"
#include "kernels/base/error.hpp"
#include "kernels/collective/shared_reducer.hpp"

namespace troupe {
namespace {

/// Peers that are alive form a group within milliseconds.
constexpr auto form_deadline = std::chrono::seconds{10};

/// What the reducers of a group work in and by; ends in reverse order.
struct Held {
  std::shared_ptr<FlatArrays> arrays;
  std::optional<SharedSegment> control;
  std::vector<SharedSegment> segments;
  std::unique_ptr<LinkGroup> links;
};

void over_memory(ReplicaGroup& group, Held& held, GroupOutcome& outcome,
                 const GroupWish& wish) {
  if (!held.control) // rank 0 has its own
    held.control = SharedSegment::adopt(outcome.control.release());
  std::vector<std::span<std::byte>> spans;
  held.segments.reserve(outcome.segments.size());
  for (uint32_t rank = 0; rank < outcome.segments.size(); ++rank) {
    if (rank == wish.layout.rank) {
      spans.push_back(held.arrays->segment()->span());
      continue;
    }
    held.segments.push_back(
      SharedSegment::adopt(outcome.segments[rank].release()));
    spans.push_back(held.segments.back().span());
  }
  group.reducer = std::make_unique<SharedReducer>(
    held.control->data(), wish.layout, std::move(spans));
  group.shares_memory = true;
}

void over_streams(ReplicaGroup& group, GroupOutcome& outcome,
                  const GroupWish& wish, const Job& job) {
  auto options = stream_options(job, wish.fence);
  options.hosts = outcome.hosts;
  for (const auto& socket : outcome.sockets)
    if (socket)
      tune_stream(socket->descriptor());
  group.reducer = std::make_unique<StreamReducer>(
    wish.layout, std::move(outcome.sockets), std::move(options));
}

void tell_of_compression(const Job& job, RoleId role) {
  const auto line = needless_compression(job.options);
  if (!line.empty())
    std::cerr << to_string(role) + ": " + line + '\n';
}

} // namespace

std::string needless_compression(const JobOptions& options) {
  if (options.compress == "none"
      || options.strategy != Strategy::multi_worker_mirrored)
    return {};
  return "--compress " + options.compress
         + " has no effect: all workers are on this host and sum in its "
           "memory, where nothing is sent; --link tcp sends";
}

LinkGroups::LinkGroups(LinkNode& node, std::shared_ptr<const Job> job,
                       std::shared_ptr<MetricRegistry> metrics)
  : node_(node), job_(std::move(job)), metrics_(std::move(metrics)) {}

void LinkGroups::form(GroupWish wish,
                      std::function<void(std::shared_ptr<ReplicaGroup>)> done) {
  auto held = std::make_shared<Held>();
  held->arrays = wish.arrays;
  GroupRequest request;
  request.fence = wish.fence;
  request.group = "replicas";
  request.rank = wish.layout.rank;
  for (const auto& member : wish.members)
    request.members.push_back({member.links, to_string(member.role)});
  request.segment = wish.arrays->segment()->descriptor();
  request.control_bytes = SharedReducer::control_bytes(wish.layout.members);
  if (request.rank == 0) {
    held->control.emplace(request.control_bytes);
    SharedReducer::prepare(held->control->data(), wish.layout.members);
    request.control = held->control->descriptor();
  }
  request.deadline = IoLoop::Clock::now() + form_deadline;
  request.metrics = metrics_;
  request.on_down = wish.on_down; // a reason names the member
  node_.form_group(std::move(request), [held, wish = std::move(wish),
                                        done = std::move(done), job = job_,
                                        told = told_](GroupOutcome outcome) {
    auto group = std::make_shared<ReplicaGroup>();
    group->error = outcome.error;
    group->missing = outcome.missing;
    group->hopeless = outcome.hopeless;
    group->carriers = outcome.carriers;
    try {
      if (group->error.empty() && outcome.sockets.empty()) {
        over_memory(*group, *held, outcome, wish);
        const auto& own = wish.members[wish.layout.rank];
        std::call_once(*told, tell_of_compression, *job, own.role);
      } else if (group->error.empty())
        over_streams(*group, outcome, wish, *job);
    } catch (const InputError& failure) {
      group->error = failure.what();
    }
    held->links = std::move(outcome.group);
    group->held = held;
    done(std::move(group));
  });
}

} // namespace troupe
