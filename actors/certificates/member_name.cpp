#include "actors/certificates/member_name.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace troupe {
namespace {

using Kind = MemberName::Kind;

constexpr std::string_view scheme = "troupe:";

struct Word {
  Kind kind;
  std::string_view text;
  bool counted;
};
constexpr std::array words{
  Word{Kind::coordinator, "coordinator", false},
  Word{Kind::worker, "worker", true},
  Word{Kind::shard, "ps", true},
  Word{Kind::evaluator, "evaluator", true},
  Word{Kind::stage, "stage", true},
  Word{Kind::tensor, "tensor", true},
  Word{Kind::voter, "voter", false},
  Word{Kind::supervisor, "supervisor", false},
  Word{Kind::operator_, "operator", false},
  Word{Kind::authority, "authority", true},
  Word{Kind::sharded, "sharded", true},
  Word{Kind::reader, "reader", true},
};

} // namespace

MemberName name_of(RoleId role) {
  switch (role.kind) {
    case RoleKind::coordinator:
      return coordinator_name;
    case RoleKind::worker:
      return {Kind::worker, role.index};
    case RoleKind::shard:
      return {Kind::shard, role.index};
    case RoleKind::evaluator:
      return {Kind::evaluator, role.index};
    case RoleKind::stage:
      return {Kind::stage, role.index};
    case RoleKind::tensor:
      return {Kind::tensor, role.index};
    case RoleKind::reader:
      return {Kind::reader, role.index};
  }
  return {};
}

bool speaks_for(const MemberName& member, const MemberName& other) {
  const bool pair = member.kind == Kind::sharded
                    && (other.kind == Kind::worker
                        || other.kind == Kind::shard);
  return pair ? member.index == other.index : member == other;
}

bool speaks_for(const MemberName& member, const std::string& other) {
  const auto name = parse_member_name(other);
  return name && speaks_for(member, *name);
}

std::string to_string(const MemberName& name) {
  for (const auto& word : words)
    if (word.kind == name.kind)
      return std::string{word.text}
             + (word.counted ? ':' + std::to_string(name.index) : "");
  return "nobody";
}

std::optional<MemberName> parse_member_name(const std::string& text) {
  const auto colon = text.find(':');
  const auto head = std::string_view{text}.substr(0, colon);
  const auto* word = std::find_if(
    words.begin(), words.end(), [&](const Word& x) { return x.text == head; });
  if (word == words.end() || word->counted != (colon != std::string::npos))
    return std::nullopt;
  MemberName name{word->kind, 0};
  if (!word->counted)
    return name;
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + colon + 1, end, name.index);
  // One name is written in one way only: no "worker:01".
  if (read.ec != std::errc{} || read.ptr != end || to_string(name) != text)
    return std::nullopt;
  return name;
}

std::string file_stem(const MemberName& name) {
  auto text = to_string(name);
  std::replace(text.begin(), text.end(), ':', '-');
  return text;
}

std::string uri_of(const MemberName& name) {
  return std::string{scheme} + to_string(name);
}

std::string host_of(const MemberName& name) {
  return file_stem(name) + '.' + member_domain;
}

std::optional<MemberName> name_of_uri(const std::string& uri) {
  if (!uri.starts_with(scheme))
    return std::nullopt;
  return parse_member_name(uri.substr(scheme.size()));
}

} // namespace troupe
