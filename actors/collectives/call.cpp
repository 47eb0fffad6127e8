#include "actors/collectives/call.hpp"

#include "actors/wire/sole_owner.hpp"
#include "kernels/collective/sum_loops.hpp"
#include "kernels/collective/sum_program.hpp"

#include <algorithm>

namespace troupe {

namespace {

constexpr size_t max_kept_sums = 4;

} // namespace

CollectiveCall::CollectiveCall(uint32_t members)
  : values(members), came(members, false), program_(fixed_tree(members)) {
  for (const auto& term : program_)
    merges_.push_back(term.merges);
  terms_.resize(program_.size());
}

std::string CollectiveCall::mismatch() const {
  for (size_t rank = 1; rank < values.size(); ++rank)
    if (values[rank].size() != values[0].size())
      return "member 0 brought " + std::to_string(values[0].size())
             + " elements, member " + std::to_string(rank) + " "
             + std::to_string(values[rank].size());
  return {};
}

std::string CollectiveCall::missing() const {
  std::string text;
  for (size_t rank = 0; rank < values.size(); ++rank)
    if (!came[rank])
      text += (text.empty() ? "member " : ", ") + std::to_string(rank);
  return text;
}

void CollectiveCall::prepare(uint64_t count) {
  count_ = count;
  for (size_t i = 0; i < program_.size(); ++i)
    terms_[i] = values[program_[i].member].data();
  for (auto& buffer : spare_)
    if (buffer->size() >= count && sole_owner(buffer)) {
      result_ = buffer;
      return;
    }
  result_ = std::make_shared<Buffer>(std::max<uint64_t>(count, 1));
  if (spare_.size() == max_kept_sums)
    spare_.erase(spare_.begin());
  spare_.push_back(result_);
}

void CollectiveCall::sum_run(uint64_t begin, uint64_t end) {
  auto* out = result_->data();
  const kernels::SumSources sources{terms_.data(), merges_.data(),
                                    static_cast<uint32_t>(terms_.size())};
  kernels::sum_loops().sum(sources, begin, end, &out, 1);
}

void CollectiveCall::forget() {
  std::fill(values.begin(), values.end(), TensorView{});
  came.assign(came.size(), false);
  arrived = 0;
  runs = 0;
  result_.reset();
}

std::shared_ptr<CollectiveCall> CallPool::take() {
  for (auto& call : calls_)
    if (sole_owner(call)) {
      call->forget();
      return call;
    }
  return calls_.emplace_back(std::make_shared<CollectiveCall>(members_));
}

} // namespace troupe
