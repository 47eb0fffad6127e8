#include "actors/links/link_endpoint.hpp"

#include "actors/sockets/endpoint.hpp"
#include "kernels/base/error.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <vector>

namespace troupe {
namespace {

constexpr size_t longest_text = 512;
constexpr size_t key_digits = 32;
constexpr size_t longest_unix_name = 100; ///< sun_path has 108 bytes

std::string hex(uint64_t number) {
  std::array<char, 16> digits;
  auto [end, _] = std::to_chars(digits.data(), digits.data() + digits.size(),
                                number, 16);
  return {digits.data(), end};
}

bool is_word(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.';
  });
}

bool set_part(LinkEndpoint& endpoint, const std::string& part, size_t equals) {
  const auto name = part.substr(0, equals);
  const auto value = part.substr(equals + 1);
  if (!is_word(value))
    return false;
  if (name == "unix")
    endpoint.unix_name = value;
  else if (name == "host")
    endpoint.host_mark = value;
  else if (name == "key")
    endpoint.key = value;
  else if (name == "id") {
    const auto* end = value.data() + value.size();
    auto [last, failure] = std::from_chars(value.data(), end, endpoint.id, 16);
    return failure == std::errc{} && last == end;
  }
  return true;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (auto c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

} // namespace

std::string LinkEndpoint::text() const {
  std::string result;
  if (port != 0)
    result = to_string(Endpoint{host, port});
  return result + ";unix=" + unix_name + ";host=" + host_mark + ";id=" + hex(id)
         + ";key=" + key;
}

std::string LinkEndpoint::address() const {
  return port == 0 ? unix_name : to_string(Endpoint{host, port});
}

std::optional<LinkEndpoint> parse_link_endpoint(const std::string& text) {
  if (text.size() > longest_text)
    return std::nullopt;
  const auto parts = split(text, ';');
  std::optional<LinkEndpoint> result{std::in_place};
  if (!parts[0].empty()) {
    auto where = parse_endpoint(parts[0]);
    if (!where || where->port == 0)
      return std::nullopt;
    result->host = where->host;
    result->port = where->port;
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto equals = parts[i].find('=');
    if (equals == std::string::npos || !set_part(*result, parts[i], equals))
      return std::nullopt;
  }
  if (result->id == 0 || result->key.size() != key_digits
      || result->unix_name.empty()
      || result->unix_name.size() > longest_unix_name
      || result->host_mark.empty())
    return std::nullopt;
  return result;
}

std::string own_host_mark() {
  std::string boot;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> boot;
  struct stat space {};
  if (boot.empty() || ::stat("/proc/self/ns/net", &space) != 0)
    throw InputError("links: cannot read /proc; is it mounted?");
  return boot + '.' + std::to_string(space.st_ino) + '.'
         + std::to_string(::geteuid());
}

LinkPlan plan_links(const std::vector<LinkEndpoint>& members, LinkChoice link) {
  LinkPlan plan;
  std::map<std::string, size_t> index;
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    const auto& mark = members[rank].host_mark;
    auto [found, added] = index.emplace(mark, plan.hosts.size());
    if (added)
      plan.hosts.emplace_back();
    plan.hosts[found->second].push_back(rank);
  }
  plan.shared = link != LinkChoice::tcp && plan.hosts.size() <= 1;
  if (link == LinkChoice::shm && !plan.shared)
    plan.error = "--link shm: rank 0 (" + members[0].address() + ") and rank "
                 + std::to_string(plan.hosts[1][0]) + " ("
                 + members[plan.hosts[1][0]].address()
                 + ") are on different hosts; use --link auto";
  for (uint32_t rank = 0; rank < members.size(); ++rank)
    if (!plan.shared && plan.error.empty() && members[rank].port == 0)
      plan.error = "rank " + std::to_string(rank)
                   + " has no certificates, so it cannot be reached over TCP";
  return plan;
}

bool encrypts(const LinkEndpoint& one, const LinkEndpoint& other,
              LinkEncryption choice) {
  if (choice != LinkEncryption::automatic)
    return choice == LinkEncryption::on;
  return one.host_mark != other.host_mark
         && !(is_loopback(one.host) && is_loopback(other.host));
}

} // namespace troupe
