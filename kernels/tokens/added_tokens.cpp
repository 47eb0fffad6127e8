#include "kernels/tokens/added_tokens.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

void AddedTokens::add(std::string text, int32_t token) {
  if (text.empty())
    return;
  empty_ = false;
  auto& texts = texts_[static_cast<unsigned char>(text.front())];
  const auto place = std::ranges::find_if(texts, [&](const Text& x) {
    return x.text.size() < text.size();
  });
  texts.insert(place, {std::move(text), token});
}

AddedTokens::Found AddedTokens::find(std::string_view text, size_t from) const {
  for (auto at = empty_ ? text.size() : from; at < text.size(); ++at)
    for (const auto& one : texts_[static_cast<unsigned char>(text[at])])
      if (text.substr(at).starts_with(one.text))
        return {at, at + one.text.size(), one.token};
  return {text.size(), text.size(), -1};
}

} // namespace troupe
