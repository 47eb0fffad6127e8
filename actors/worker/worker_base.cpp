#include "actors/worker/worker_base.hpp"

#include "actors/role/seal.hpp"

#include <algorithm>
#include <iterator>

namespace troupe {

WorkerBase::WorkerBase(worker_actor::pointer self, RoleContext context)
  : self_(self),
    context_(std::move(context)),
    job_(*context_.job),
    metrics_(*context_.metrics),
    shards_(self->system(),
            {context_.links, context_.role, link_terms(job_, context_.role)}),
    pause_(*context_.metrics),
    outbox_(snapshot_window(),
            [this](const SnapshotSlice& x) {
              self_->send(context_.coordinator, x);
            }),
    slowed_(job_.options, context_.role.index, context_.faults),
    executor_(make_role_executor(context_)),
    computer_(context_.job, context_.data.train, *executor_,
              parse_device(job_.device_of(context_.role)), context_.memory(),
              context_.faults, context_.flight),
    pushes_(context_, shards_, metrics_) {}

void WorkerBase::seal(const Fence& fence, std::vector<SliceState> kept) {
  std::vector<RankRange> nodes;
  if (!job_.goes_in_lock_step()) { // else all compute again, or nobody does
    nodes = nodes_.computing();    // nobody else need compute these
    for (const auto& sum : sums_)
      nodes.push_back(sum.node);
  }
  send_seal(self_, context_, fence, std::move(kept), nodes_.step(),
            std::move(nodes));
}

void WorkerBase::begin_nodes(const Activate& activation,
                             const std::vector<RankRange>& missing,
                             const std::vector<RankRange>& shares) {
  if (activation.version != nodes_.step())
    sums_.clear();
  nodes_.begin_epoch(activation.version, ranks_of(activation, context_.role),
                     missing, shares, job_.options.virtual_ranks,
                     job_.goes_in_lock_step());
}

void WorkerBase::hold(std::vector<NodeSum> computed) {
  nodes_.computed();
  std::ranges::move(computed, std::back_inserter(sums_));
}

void WorkerBase::forget_step() {
  nodes_.forget();
  sums_.clear();
}

std::vector<SliceChain> WorkerBase::open(const Activate& activation) {
  gate_.open();
  pause_.end(self_, context_, activation.fence);
  auto chains = chains_of(activation, job_.plan);
  pushes_.begin_epoch(heads_of(chains), activation.slices);
  return chains;
}

void WorkerBase::open(const Activate& activation, WorkerRows& rows) {
  const auto chains = open(activation);
  rows.route(heads_of(chains), tails_of(chains));
}

void WorkerBase::end_pull() {
  metrics_.pull.observe(seconds_since(pull_begin_));
  context_.record(Activity::pull, pull_begin_, 0);
}

void WorkerBase::trouble(const std::string& line) {
  self_->send(context_.coordinator,
              Trouble{context_.job_id, context_.role, line});
}

bool WorkerBase::is_sound(const StepGradient& result) {
  metrics_.computed(result.seconds, result.data, result.computed_twice);
  context_.record(Activity::compute, result.seconds + result.slowed_seconds,
                  result.step + 1);
  if (!result.trouble.empty())
    trouble(result.trouble);
  return result.trouble.empty();
}

void WorkerBase::report(const StepGradient& its) {
  reports_.send(self_, context_,
                {gate_.newest(), context_.role, its.step, its.leaves,
                 pushes_.take_seconds(), its.computed_twice});
}

void WorkerBase::report_paused(uint64_t next_step) {
  self_->send(context_.coordinator,
              Paused{gate_.active(), context_.role, next_step});
}

} // namespace troupe
