#include "strategies/pull_desk.hpp"

#include "strategies/require.hpp"

#include <algorithm>

namespace troupe {

bool PullDesk::want(RoleId puller, uint64_t version) {
  if (std::ranges::any_of(wishes_, [&](const Wish& x) {
        return x.puller == puller && x.version > version;
      }))
    return false; // a late copy: nobody goes back within an epoch
  std::erase_if(wishes_, [&](const Wish& x) { return x.puller == puller; });
  if (slices_ > 0)
    wishes_.push_back(
      {puller, version, std::vector<bool>(slices_, false), slices_});
  return true;
}

std::vector<PullDesk::Answer> PullDesk::serve(size_t local, uint64_t oldest,
                                              uint64_t applied) {
  strategies::require(local < slices_, "a slice that is not served here");
  std::vector<Answer> answers;
  for (auto& wish : wishes_) {
    if (wish.given[local] || wish.version > applied || wish.version < oldest)
      continue;
    wish.given[local] = true;
    --wish.missing;
    answers.push_back({wish.puller, wish.version});
  }
  std::erase_if(wishes_, [](const Wish& x) { return x.missing == 0; });
  return answers;
}

void PullDesk::reset(size_t slices) {
  slices_ = slices;
  wishes_.clear();
}

} // namespace troupe
