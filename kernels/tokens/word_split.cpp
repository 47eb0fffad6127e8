#include "kernels/tokens/word_split.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

void WordSplit::cut(Pattern pattern, Keep keep) {
  steps_.push_back({std::move(pattern), keep, {}});
}

void WordSplit::cut_before(const std::string& marker) {
  steps_.push_back({{}, Keep::all, marker});
}

void WordSplit::go_on(size_t step, std::string_view text, const Take& take) {
  if (text.empty())
    return;
  if (step == steps_.size())
    return take(text);
  if (steps_[step].pattern)
    return match(step, text, take);
  const auto& marker = steps_[step].marker;
  while (!text.empty()) {
    const auto next = std::min(text.find(marker, 1), text.size());
    go_on(step + 1, text.substr(0, next), take);
    text.remove_prefix(next);
  }
}

void WordSplit::match(size_t step, std::string_view text, const Take& take) {
  const auto keep = steps_[step].keep;
  size_t done = 0;
  const auto hand_on = [&](size_t end, bool wanted) {
    if (wanted)
      go_on(step + 1, text.substr(done, end - done), take);
    done = end;
  };
  while (done < text.size()) {
    const auto found = steps_[step].pattern->find(text, done);
    if (!found)
      break;
    hand_on(found->begin, keep != Keep::matches);
    hand_on(found->end, keep != Keep::between);
  }
  hand_on(text.size(), keep != Keep::matches);
}

} // namespace troupe
