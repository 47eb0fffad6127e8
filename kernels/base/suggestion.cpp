#include "kernels/base/suggestion.hpp"

#include <algorithm>

namespace troupe {

namespace {

std::string plain_spelling(std::string_view word) {
  std::string out;
  for (auto c : word)
    if (c != '_' && c != '-')
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

} // namespace

size_t edit_distance(const std::string& left, const std::string& right) {
  const auto columns = right.size() + 1;
  std::vector<size_t> cells((left.size() + 1) * columns);
  auto at = [&](size_t i, size_t j) -> size_t& {
    return cells[i * columns + j];
  };
  for (size_t i = 0; i <= left.size(); ++i)
    at(i, 0) = i;
  for (size_t j = 0; j <= right.size(); ++j)
    at(0, j) = j;
  for (size_t i = 1; i <= left.size(); ++i) {
    for (size_t j = 1; j <= right.size(); ++j) {
      auto same = left[i - 1] == right[j - 1];
      auto best = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1,
                            at(i - 1, j - 1) + (same ? 0 : 1)});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2]
          && left[i - 2] == right[j - 1])
        best = std::min(best, at(i - 2, j - 2) + 1);
      at(i, j) = best;
    }
  }
  return at(left.size(), right.size());
}

std::string nearest(const std::string& word,
                    const std::vector<std::string>& known) {
  constexpr size_t longest = 64; // the table is quadratic
  if (word.size() > longest)
    return {};
  std::string best;
  auto limit = std::clamp<size_t>(word.size() / 3, 2, 4) + 1;
  for (const auto& candidate : known) {
    auto distance = edit_distance(word, candidate);
    if (distance >= limit || distance >= candidate.size())
      continue;
    limit = distance;
    best = candidate;
  }
  return best;
}

std::string meant(const std::string& word,
                  const std::vector<std::string>& known,
                  std::span<const ForeignWord> foreign) {
  const auto plain = plain_spelling(word);
  for (const auto& own : known)
    if (plain_spelling(own) == plain)
      return own;
  for (const auto& [theirs, ours] : foreign)
    if (theirs == plain
        && std::find(known.begin(), known.end(), ours) != known.end())
      return std::string{ours};
  return nearest(word, known);
}

} // namespace troupe
