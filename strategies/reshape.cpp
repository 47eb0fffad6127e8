#include "strategies/reshape.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace troupe {
namespace {

constexpr uint32_t max_members = 4096;

/// Errors: returns false for what is no number below `end`.
bool parse_number(std::string_view text, uint32_t end, uint32_t& number) {
  const auto* last = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), last, number);
  return failure == std::errc{} && stop == last && number < end;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> words;
  size_t begin = 0;
  while (begin <= text.size()) {
    const auto end = std::min(text.find(at, begin), text.size());
    if (end > begin)
      words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

const char* plural(RoleKind kind) {
  return kind == RoleKind::worker ? "workers" : "shards";
}

using Words = std::vector<std::string>;

/// `shards add 2` or `workers remove worker:1`.
bool parse_members(const Words& words, Reshape& wish, std::string& mistake) {
  wish.of = words[0] == "workers" ? RoleKind::worker : RoleKind::shard;
  const std::string name = wish.of == RoleKind::worker ? "worker" : "ps";
  if (words.size() > 1 && words[1] == "add" && words.size() <= 3) {
    wish.kind = Reshape::Kind::add;
    if (words.size() == 2
        || (parse_number(words[2], max_members, wish.count) && wish.count > 0))
      return true;
    mistake = words[0] + " add: '" + words[2]
              + "' is not a number of roles from 1 to "
              + std::to_string(max_members - 1);
    return false;
  }
  if (words.size() == 3 && words[1] == "remove") {
    wish.kind = Reshape::Kind::remove;
    if (parse_member(words[2], wish.from) && wish.from.kind == wish.of)
      return true;
    mistake = words[0] + " remove: '" + words[2] + "' is not one of them; name "
              + name + ":0, for example";
    return false;
  }
  mistake = "expected " + words[0] + " add [N], or " + words[0] + " remove "
            + name + ":I";
  return false;
}

bool parse_move(const Words& words, Reshape& wish, std::string& mistake) {
  wish.kind = Reshape::Kind::move;
  if (words.size() < 3 || words.size() > 4 || !parse_member(words[1], wish.from)
      || !parse_member(words[2], wish.to) || wish.from.kind != RoleKind::shard
      || wish.to.kind != RoleKind::shard) {
    mistake = "move-slices: name two shards, as --from ps:0 --to ps:1";
    return false;
  }
  if (words.size() == 4)
    for (const auto& word : split(words[3], ',')) {
      uint32_t slice = 0;
      if (!parse_number(word, ~uint32_t{0}, slice)) {
        mistake = "move-slices: '" + word
                  + "' is not the number of a slice; give 0,3,4 for example";
        return false;
      }
      wish.slices.push_back(slice);
    }
  return true;
}

} // namespace

bool parse_member(const std::string& text, RoleId& role) {
  const auto colon = text.find(':');
  if (colon == std::string::npos)
    return false;
  const auto name = text.substr(0, colon);
  role.kind = name == "worker" ? RoleKind::worker : RoleKind::shard;
  return (name == "worker" || name == "ps")
         && parse_number(std::string_view{text}.substr(colon + 1), max_members,
                         role.index);
}

std::string to_string(const Reshape& wish) {
  switch (wish.kind) {
    case Reshape::Kind::add:
      return plural(wish.of) + (" add " + std::to_string(wish.count));
    case Reshape::Kind::remove:
      return plural(wish.from.kind) + (" remove " + to_string(wish.from));
    case Reshape::Kind::rebalance:
      return "rebalance";
    case Reshape::Kind::move:
      break;
  }
  auto text = "move-slices " + to_string(wish.from) + ' ' + to_string(wish.to);
  for (size_t i = 0; i < wish.slices.size(); ++i)
    text += (i == 0 ? " " : ",") + std::to_string(wish.slices[i]);
  return text;
}

bool parse(const std::string& text, Reshape& wish, std::string& mistake) {
  wish = {};
  const auto words = split(text, ' ');
  if (words.empty()) {
    mistake = "expected shards, workers, rebalance or move-slices";
    return false;
  }
  if (words[0] == "shards" || words[0] == "workers")
    return parse_members(words, wish, mistake);
  if (words[0] == "move-slices")
    return parse_move(words, wish, mistake);
  if (words[0] == "rebalance" && words.size() == 1)
    return true;
  mistake = "'" + text
            + "': expected shards, workers, rebalance or move-slices";
  return false;
}

} // namespace troupe
