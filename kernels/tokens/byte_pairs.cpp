#include "kernels/tokens/byte_pairs.hpp"

#include "kernels/tokens/code_points.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

namespace troupe {

namespace {

constexpr uint32_t none = std::numeric_limits<uint32_t>::max();
constexpr int32_t gone = -1; ///< a symbol that merged into the one before
constexpr size_t max_known = 1 << 16;
constexpr size_t max_known_bytes = 64; ///< of a word that is kept

uint64_t pair_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32
         | static_cast<uint32_t>(right);
}

} // namespace

BytePairs::BytePairs(Texts<int32_t> tokens, const std::vector<Merge>& merges,
                     Options options)
  : tokens_(std::move(tokens)), options_(options) {
  merges_.reserve(merges.size());
  for (uint32_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right, merged] = merges[rank];
    merges_[pair_of(left, right)] = {rank, merged}; // the last one counts
  }
  if (!options.byte_fallback)
    return;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    byte_tokens_.push_back(token_of(name));
  }
}

int32_t BytePairs::token_of(std::string_view text) const {
  const auto found = tokens_.find(text);
  return found == tokens_.end() ? -1 : found->second;
}

uint64_t BytePairs::encode(std::string_view word, std::vector<int32_t>& out) {
  if (options_.whole_words)
    if (const auto token = token_of(word); token >= 0) {
      out.push_back(token);
      return 0;
    }
  if (const auto found = known_.find(word); found != known_.end()) {
    const auto& [tokens, left_out] = found->second;
    out.insert(out.end(), tokens.begin(), tokens.end());
    return left_out;
  }
  const auto left_out = begin(word);
  merge();
  const auto first = out.size();
  for (const auto& symbol : symbols_)
    if (symbol.token != gone)
      out.push_back(symbol.token);
  if (word.size() <= max_known_bytes && known_.size() < max_known)
    known_.emplace(
      word, Known{{out.begin() + static_cast<std::ptrdiff_t>(first), out.end()},
                  left_out});
  return left_out;
}

/// Whether there are tokens for all its bytes.
bool BytePairs::has_bytes(std::string_view character) const {
  return !byte_tokens_.empty()
         && std::ranges::all_of(character, [this](char byte) {
              return byte_tokens_[static_cast<unsigned char>(byte)] >= 0;
            });
}

/// A symbol for each byte or character.
uint64_t BytePairs::begin(std::string_view word) {
  symbols_.clear();
  uint64_t left_out = 0;
  bool fused = false; // the symbol before is that of unknown characters
  while (!word.empty()) {
    const auto bytes = options_.bytes ? 1 : code_point_bytes(word);
    const auto character = word.substr(0, bytes);
    word.remove_prefix(bytes);
    const auto token = token_of(character);
    const bool unknown = token < 0 && !has_bytes(character);
    if (token >= 0)
      symbols_.push_back({token, 0, 0});
    else if (!unknown)
      for (auto byte : character)
        symbols_.push_back(
          {byte_tokens_[static_cast<unsigned char>(byte)], 0, 0});
    else if (options_.unknown < 0)
      ++left_out;
    else if (!fused || !options_.fuse_unknown)
      symbols_.push_back({options_.unknown, 0, 0});
    fused = unknown && options_.unknown >= 0;
  }
  const auto count = static_cast<uint32_t>(symbols_.size());
  for (uint32_t i = 0; i < count; ++i) {
    symbols_[i].before = i == 0 ? none : i - 1;
    symbols_[i].after = i + 1 == count ? none : i + 1;
  }
  return left_out;
}

const BytePairs::Ranked* BytePairs::merge_at(uint32_t at) const {
  const auto& symbol = symbols_[at];
  if (symbol.token == gone || symbol.after == none)
    return nullptr;
  const auto found =
    merges_.find(pair_of(symbol.token, symbols_[symbol.after].token));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairs::consider(uint32_t at) {
  if (const auto* found = merge_at(at)) {
    candidates_.push_back({found->rank, at, found->merged});
    std::push_heap(candidates_.begin(), candidates_.end());
  }
}

void BytePairs::merge() {
  candidates_.clear();
  for (uint32_t i = 0; i < symbols_.size(); ++i)
    consider(i);
  while (!candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end());
    const auto top = candidates_.back();
    candidates_.pop_back();
    const auto* found = merge_at(top.at);
    if (found == nullptr || found->merged != top.merged)
      continue; // one of both has merged since
    auto& left = symbols_[top.at];
    auto& right = symbols_[left.after];
    left.token = top.merged;
    left.after = right.after;
    right.token = gone;
    if (left.after != none)
      symbols_[left.after].before = top.at;
    if (left.before != none)
      consider(left.before);
    consider(top.at);
  }
}

} // namespace troupe
