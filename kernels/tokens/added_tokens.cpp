#include "kernels/tokens/added_tokens.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

void AddedTokens::add(std::string text, int32_t token) {
  begins_[static_cast<unsigned char>(text.front())] = true;
  const auto place = std::ranges::find_if(texts_, [&](const Text& x) {
    return x.text.size() < text.size();
  });
  texts_.insert(place, {std::move(text), token});
}

AddedTokens::Found AddedTokens::find(std::string_view text, size_t from) const {
  for (auto at = empty() ? text.size() : from; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])])
      continue;
    for (const auto& one : texts_)
      if (text.substr(at).starts_with(one.text))
        return {at, at + one.text.size(), one.token};
  }
  return {text.size(), text.size(), -1};
}

} // namespace troupe
