#include "kernels/table/idle_rows.hpp"

#include "kernels/base/require.hpp"
#include "kernels/optimizer/terms.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::kernels {

MissedUpdates::MissedUpdates(size_t width, uint32_t slots, IdleUpdates idle)
  : slots_(slots), idle_(std::move(idle)) {
  if (!any())
    return;
  require(state_slots(idle_.rule.kind) == slots && idle_.moment != nullptr,
          "rows that make up updates of another rule");
  constexpr size_t in_first_cache = 1024;
  gradient_.resize(std::max(in_first_cache, width));
}

UpdateTerms MissedUpdates::terms_of(uint64_t updates) const {
  if (updates >= first_ && updates - first_ < terms_.size())
    return terms_[updates - first_];
  auto moment = idle_.moment(updates);
  moment.gradient_sum = moment.in = moment.state_in = gradient_.data();
  moment.count = 0;
  moment.lazy = false;
  return update_terms(idle_.rule, moment);
}

void MissedUpdates::prepare(uint64_t begin, uint64_t end) {
  if (begin < first_ || begin > first_ + terms_.size()) {
    terms_.clear();
    first_ = begin;
  }
  for (; first_ < begin; ++first_)
    terms_.pop_front();
  while (first_ + terms_.size() < end)
    terms_.push_back(terms_of(first_ + terms_.size()));
}

void MissedUpdates::add(std::vector<LateRows>& late,
                        const LateRows& row) const {
  if (!late.empty()) {
    auto& last = late.back();
    if (row.updates == last.updates && row.from == last.from + last.floats
        && row.to == last.to + last.floats && row.from_run == last.from_run
        && last.floats + row.floats <= gradient_.size()) {
      last.floats += row.floats;
      return;
    }
  }
  late.push_back(row);
}

void MissedUpdates::make_up(std::span<const LateRows> late, uint64_t version,
                            uint32_t runs) const {
  for (size_t begin = 0; begin < late.size();) {
    auto end = begin;
    size_t floats = 0;
    while (end < late.size() && floats + late[end].floats <= gradient_.size())
      floats += late[end++].floats;
    make_up_some(late.subspan(begin, end - begin), version, runs);
    begin = end;
  }
}

/// Side by side, the oldest first: each update is one loop over those that
/// lack it.
void MissedUpdates::make_up_some(std::span<const LateRows> late,
                                 uint64_t version, uint32_t runs) const {
  auto oldest = version;
  for (const auto& rows : late)
    oldest = std::min(oldest, rows.updates);
  std::vector<size_t> end(version - oldest + 1); // of floats by what they had
  for (const auto& rows : late)
    end[rows.updates - oldest] += rows.floats;
  for (size_t i = 1; i < end.size(); ++i)
    end[i] += end[i - 1];
  auto next = end;
  std::vector<size_t> places;
  for (const auto& rows : late)
    places.push_back(next[rows.updates - oldest] -= rows.floats);

  const auto stride = end.back();
  std::vector<float> side_by_side((1 + slots_) * stride);
  for (size_t i = 0; i < late.size(); ++i)
    for (uint32_t run = 0; run <= slots_; ++run)
      std::copy_n(late[i].from + run * late[i].from_run, late[i].floats,
                  side_by_side.data() + run * stride + places[i]);
  const auto loop = update_loop(idle_.rule.kind);
  for (auto update = oldest; update < version; ++update) {
    auto terms = terms_of(update);
    terms.count = end[update - oldest];
    terms.gradient_sum = gradient_.data();
    terms.in = terms.out = side_by_side.data();
    for (uint32_t slot = 0; slot < slots_; ++slot)
      terms.state_in[slot] = terms.state_out[slot] = side_by_side.data()
                                                     + (1 + slot) * stride;
    loop(terms);
  }
  for (size_t i = 0; i < late.size(); ++i)
    for (uint32_t run = 0; run < runs; ++run)
      std::copy_n(side_by_side.data() + run * stride + places[i],
                  late[i].floats, late[i].to + run * late[i].to_run);
}

void RowSweep::passed(uint64_t page, uint64_t version) {
  page_ = page;
  if (page > 0)
    return;
  oldest_ = begun_;
  begun_ = version + 1;
}

} // namespace troupe::kernels
