#include "actors/shard/step_slices.hpp"

#include "actors/shard/snapshots.hpp"

#include <algorithm>

namespace troupe {

StepSlices::StepSlices(ShardFrame& shard)
  : shard_(shard),
    rounds_(rounds_of(shard.job.options)),
    pulls_(shard.store->slices().size()),
    end_(shard.job.total_steps) {
  if (!rounds_.empty() && ScalarDecider::is_decider(shard.job, *shard.store))
    decider_.emplace(shard.job, shard.store);
  if (StepSharesDesk::needed(shard.job))
    shares_.emplace(shard);
  const auto& owned = shard.store->slices();
  for (size_t i = 0; i < owned.size(); ++i)
    slices_.push_back(std::make_unique<Owned>(
      owned[i],
      StepLedger{shard.job.options.virtual_ranks, shard.store->newest(i)},
      SliceWork{shard.job, shard.store, i}));
}

// --- epochs -----------------------------------------------------------------

void StepSlices::leave_epoch() {
  pulls_.reset(slices_.size());
  pullers_.clear();
  askers_.clear();
  if (decider_)
    decider_->forget();
  if (shares_)
    shares_->leave_epoch();
  for (auto& slice : slices_)
    slice->begin_step();
}

void StepSlices::seal(std::vector<SliceState>& report) const {
  for (size_t i = 0; i < slices_.size(); ++i)
    report.push_back({slices_[i]->id,
                      shard_.store->oldest(i),
                      shard_.store->newest(i),
                      slices_[i]->ledger.held(),
                      0,
                      {}});
}

void StepSlices::restore() {
  end_ = shard_.job.total_steps;
  if (shares_)
    shares_->restore();
  for (auto& slice : slices_) {
    slice->ledger.reset(0);
    slice->work.forget();
  }
}

void StepSlices::enter_epoch(const Activate&) {
  reported_ = ~uint64_t{0};
  if (shares_)
    shares_->enter_epoch(slices_.empty() ? 0 : shard_.store->newest(0));
  for (size_t i = 0; i < slices_.size(); ++i)
    snapshot(i); // an earlier process may have died in between
  report_applied();
  for (size_t i = 0; i < slices_.size(); ++i)
    if (slices_[i]->ledger.complete()) // its scalars are not known
      reduce(i);
}

// --- pulls ------------------------------------------------------------------

void StepSlices::pull(const Pull& pull, const worker_actor& worker) {
  pullers_[pull.worker] = worker;
  pulls_.want(pull.worker, pull.version);
  for (size_t i = 0; i < slices_.size(); ++i)
    serve(i);
}

void StepSlices::serve(size_t local) {
  const auto& slice = shard_.job.plan.slices[slices_[local]->id];
  const auto& store = shard_.store;
  for (auto [puller, version] :
       pulls_.serve(local, shares_ ? 0 : store->oldest(local),
                    slices_[local]->ledger.version()))
    if (shares_)
      serve_copy(local, puller, version);
    else
      shard_.self->send(
        pullers_[puller],
        Pulled{shard_.gate.active(), version, slice.id,
               TensorView{store, store->values(local, version), slice.count}});
}

void StepSlices::serve_copy(size_t local, RoleId puller, uint64_t version) {
  const auto& slice = shard_.job.plan.slices[slices_[local]->id];
  shard_.run(
    [this, &slice, local, version] {
      const auto& store = *shard_.store;
      const auto held = std::max(version, store.oldest(local));
      return Pulled{{},
                    held,
                    slice.id,
                    shard_.copy({store.values(local, held), slice.count})};
    },
    [this, puller, fence = shard_.gate.active()](Pulled& copy) {
      if (!shard_.gate.is_active(fence))
        return;
      copy.fence = fence;
      shard_.self->send(pullers_[puller], std::move(copy));
    });
}

// --- pushes -----------------------------------------------------------------

void StepSlices::push(const Push& push) {
  const auto& owned = shard_.store->slices();
  const auto at = std::find(owned.begin(), owned.end(), push.slice);
  if (at == owned.end() || !is_node(push.node, shard_.job.options.virtual_ranks)
      || (push.values.size() != 0
          && push.values.size() != shard_.job.plan.slices[push.slice].count))
    return;
  const auto local = static_cast<size_t>(at - owned.begin());
  if (!shares_ || shares_->admit(push, slices_[local]->ledger.version()))
    accept(local, push);
}

void StepSlices::accept(size_t local, const Push& push) {
  auto* slice = slices_[local].get();
  auto decision = slice->ledger.offer(push.step, push.node);
  if (decision.verdict != StepLedger::Verdict::accept) {
    shard_.count_duplicate();
    return;
  }
  shard_.metrics.staleness.observe(0); // a step's pushes are of its version
  shard_.executor->submit([slice, node = push.node, values = push.values,
                           decision = std::move(decision)]() mutable {
    slice->work.accept(node, std::move(values), decision);
  });
  if (slice->ledger.complete())
    reduce(local);
  show_load();
}

/// The shares that a step is made of are known: identities stand for the rest.
void StepSlices::take(const StepShares& decision) {
  if (!shares_ || !shares_->take(decision))
    return;
  const auto left_out = shares_->left_out_of(decision.step);
  for (size_t i = 0; i < slices_.size(); ++i)
    if (slices_[i]->ledger.version() == decision.step)
      for (auto node : left_out)
        accept(i, Push{{}, decision.step, node, slices_[i]->id, {}});
  const auto& owned = shard_.store->slices();
  for (const auto& push : shares_->release(decision.step))
    accept(
      static_cast<size_t>(std::ranges::find(owned, push.slice) - owned.begin()),
      push);
}

void StepSlices::take(const AskShares& ask, const shard_actor& asker) {
  if (shares_)
    shares_->take(ask, asker);
}

uint32_t StepSlices::samples_of(uint64_t step) const {
  return shares_ ? shares_->samples_of(step)
                 : shard_.job.sampling.step(step).count;
}

void StepSlices::reduce(size_t local) {
  auto* slice = slices_[local].get();
  const auto step = slice->ledger.version();
  const auto samples = samples_of(step);
  if (slice->round < rounds_.size())
    shard_.run(
      [slice, kind = rounds_[slice->round], step, samples,
       scalars = slice->scalars] {
        return slice->work.sums(kind, step, samples, scalars);
      },
      [this, local, step,
       fence = shard_.gate.active()](std::vector<double>& x) {
        if (shard_.gate.is_active(fence))
          ask(local, step, x);
      });
  else
    shard_.run(
      [slice, step, samples, scalars = slice->scalars] {
        slice->work.apply_step(step, samples, scalars);
        return true;
      },
      [this, local](bool) { on_applied(local); });
}

void StepSlices::on_applied(size_t local) {
  auto& slice = *slices_[local];
  slice.begin_step();
  slice.ledger.advance();
  snapshot(local);
  serve(local);
  report_applied();
  show_load();
}

void StepSlices::report_applied() {
  if (!shard_.gate.is_active())
    return;
  auto version = shard_.job.total_steps; // what one without slices reports
  for (size_t i = 0; i < slices_.size(); ++i)
    version = std::min(version, shard_.store->newest(i));
  if (version == reported_)
    return;
  reported_ = version;
  shard_.self->send(shard_.context.coordinator,
                    Applied{shard_.gate.active(), shard_.context.role, version,
                            shard_.duplicates});
}

void StepSlices::show_load() {
  size_t held = 0;
  for (const auto& slice : slices_)
    held += slice->ledger.held().size();
  shard_.metrics.pending.set(static_cast<double>(held));
  shard_.metrics.queue.set(static_cast<double>(shard_.executor->queued()));
}

// --- scalars ----------------------------------------------------------------

void StepSlices::ask(size_t local, uint64_t step,
                     const std::vector<double>& sums) {
  auto& slice = *slices_[local];
  slice.asking = true;
  auto decider =
    decider_ ? shard_actor{shard_.self}
             : shard_.peers.at<shard_actor>(shard_.job.plan.owner.front());
  shard_.self->send(decider, BlockSums{shard_.gate.active(),
                                       step,
                                       slice.round,
                                       slice.id,
                                       {sums.begin(), sums.end()}});
}

void StepSlices::take(const BlockSums& sums, const shard_actor& asker) {
  if (!decider_)
    return;
  askers_.insert(asker);
  auto answer = decider_->offer(sums, samples_of(sums.step));
  if (!answer)
    return;
  const Scalars scalars{shard_.gate.active(), sums.step, sums.round,
                        std::move(answer->values)};
  if (!answer->for_all)
    shard_.self->send(asker, scalars);
  else
    for (const auto& shard : askers_)
      shard_.self->send(shard, scalars);
}

void StepSlices::take(const Scalars& scalars) {
  for (size_t i = 0; i < slices_.size(); ++i) {
    auto& slice = *slices_[i];
    if (!slice.asking || slice.round != scalars.round
        || slice.ledger.version() != scalars.step
        || !take_scalars(shard_.job, rounds_[scalars.round],
                         {scalars.values.begin(), scalars.values.end()},
                         slice.scalars))
      continue;
    slice.asking = false;
    ++slice.round;
    reduce(i);
  }
}

// --- snapshots --------------------------------------------------------------

void StepSlices::end_at(const EndAt& end) {
  end_ = end.step;
  for (size_t i = 0; i < slices_.size(); ++i)
    snapshot(i);
}

void StepSlices::snapshot(size_t local) {
  const auto& store = *shard_.store;
  for (auto version = store.oldest(local); version <= store.newest(local);
       ++version)
    if (version == end_ || shard_.job.is_snapshot_version(version))
      send_snapshot(shard_, local, version, version);
}

} // namespace troupe
