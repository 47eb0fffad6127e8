#include "tests/sim/periods.hpp"

#include "actors/job/first_period.hpp"
#include "tests/sim/oracle.hpp"

#include <algorithm>

namespace troupe::sim {

Periods::Periods(const Job& job) : now_(first_period(job)) {
  periods_[now_.period] = now_;
}

void Periods::told(const Fence& fence, const Consistency& period, bool begins) {
  const std::tuple at{fence.term, fence.epoch, begins};
  if (at < newest_) // it comes again
    return;
  newest_ = at;
  std::erase_if(periods_, [&](const auto& x) {
    return x.first > period.period
           || (x.first < period.period && x.second.step >= period.step);
  });
  periods_[period.period] = period;
}

const Consistency& Periods::at(uint64_t updates) const {
  auto found = periods_.begin();
  for (auto next = found; next != periods_.end(); ++next)
    if (next->second.updates <= updates)
      found = next;
  return found->second;
}

bool Periods::knows(const ShardStore& store, uint32_t slice,
                    const Shares& made_of) const {
  const auto updates = store.updates(slice);
  const auto& period = at(updates);
  return updates == period.updates || period.async
         || made_of.contains(period.step + (updates - period.updates) - 1);
}

void Periods::check(const Job& job, const ShardStore& store, uint32_t slice,
                    const Shares* made_of, const std::string& where) const {
  const auto updates = store.updates(slice);
  const auto ranks = job.options.virtual_ranks;
  Expected expected{job, job.plan.slices[slice]};
  const auto& last = at(updates);
  for (const auto& [number, period] : periods_) {
    if (number > last.period)
      break;
    const auto next = periods_.upper_bound(number);
    const bool over = number < last.period;
    if (period.async) {
      auto leases = over ? LeaseSet{next->second.step * ranks, {}}
                         : store.leases(slice);
      if (!over && updates == period.updates)
        leases = LeaseSet{period.step * ranks, {}};
      const auto begin = period.step * ranks;
      if (leases.size() < begin
          || leases.size() - begin
               != (over ? next->second.updates : updates) - period.updates)
        throw Violation("I1", where + ": slice " + std::to_string(slice)
                                + " has had " + std::to_string(updates)
                                + " updates, and knows of "
                                + std::to_string(leases.size()) + " leases");
      expected.apply_leases(leases, begin);
    } else {
      const auto steps = over ? next->second.step - period.step
                              : updates - period.updates;
      for (auto step = period.step; step < period.step + steps; ++step)
        expected.apply_step(step, made_of, where);
    }
  }
  expected.compare(store.values(slice, updates - store.count_from()), where,
                   "each step and lease of its " + std::to_string(updates)
                     + " updates once");
}

bool Periods::is_complete(const Job& job, uint64_t updates,
                          uint64_t leases) const {
  const auto ranks = job.options.virtual_ranks;
  return now_.async ? leases == job.total_steps * ranks
                    : updates == now_.updates + (job.total_steps - now_.step);
}

// --- the bound on staleness --------------------------------------------------

void Periods::sent(const Activate& activation) {
  const auto& fence = activation.fence;
  if (std::pair{fence.term, fence.epoch} <= std::pair{sent_.term, sent_.epoch})
    return;
  sent_ = fence;
  bound_ = activation.consistency.async ? activation.consistency.staleness : -1;
  held_.clear();
  applied_.clear();
  chains_ = activation.chains;
  had_.clear();
  for (const auto& head : activation.slices)
    had_[head.slice] = {head.lease_floor,
                        {head.leases_above.begin(), head.leases_above.end()}};
}

/// Each slice had it when the epoch began, or its tail has said since that all
/// of its slices have it.
bool Periods::is_consumed(uint64_t lease) const {
  const auto told = applied_.find(lease);
  return std::ranges::all_of(chains_, [&](const SliceChain& chain) {
    const auto had = had_.find(chain.slice);
    return chain.replicas.empty()
           || (told != applied_.end()
               && told->second.contains(chain.replicas.back()))
           || (had != had_.end() && had->second.contains(lease));
  });
}

/// Who holds more than the bound and one is further ahead of the slowest,
/// whoever that is.
void Periods::sent(uint32_t process, const LeaseGrant& grant) {
  if (grant.fence != sent_ || bound_ < 0)
    return;
  auto& held = held_[process];
  held.insert(grant.leases.begin(), grant.leases.end());
  if (held.size() > static_cast<uint64_t>(bound_) + 1)
    throw Violation("I5", "a worker holds " + std::to_string(held.size())
                            + " leases; the bound is "
                            + std::to_string(bound_));
}

void Periods::heard(const LeaseApplied& applied) {
  if (applied.fence != sent_ || bound_ < 0)
    return;
  applied_[applied.lease].insert(applied.shard.index);
  if (is_consumed(applied.lease))
    for (auto& [process, held] : held_)
      held.erase(applied.lease);
}

} // namespace troupe::sim
