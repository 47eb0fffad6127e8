#include "kernels/columns/missing_texts.hpp"

#include <algorithm>

namespace troupe {

MissingTexts::MissingTexts(std::string_view list) {
  while (!list.empty()) {
    const auto end = std::min(list.find(','), list.size());
    add(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

void MissingTexts::add(std::string_view text) {
  if (text.empty())
    return;
  texts_.emplace_back(text);
  first_.set(static_cast<unsigned char>(text[0]));
}

bool MissingTexts::listed(std::string_view text) const {
  return std::find(texts_.begin(), texts_.end(), text) != texts_.end();
}

} // namespace troupe
