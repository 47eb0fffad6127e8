#include "apps/scrape.hpp"

#include <civetweb.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <stdexcept>

namespace troupe {
namespace {

constexpr size_t most_bytes = size_t{64} << 20;
constexpr int timeout_ms = 5'000;

[[noreturn]] void refuse(const std::string& line) {
  throw std::runtime_error("not a line of metrics: " + line.substr(0, 200));
}

/// Reads name="value", where \\, \" and \n stand for what they say.
void parse_label(const std::string& line, size_t& at, MetricLabels& labels) {
  const auto equals = line.find("=\"", at);
  if (equals == line.npos)
    refuse(line);
  const auto name = line.substr(at, equals - at);
  std::string value;
  for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
    if (line[at] == '\\' && ++at == line.size())
      refuse(line);
    value += line[at - 1] == '\\' && line[at] == 'n' ? '\n' : line[at];
  }
  if (at == line.size())
    refuse(line);
  labels[name] = value;
  ++at;
  if (at < line.size() && line[at] == ',')
    ++at;
}

ScrapedValue parse_line(const std::string& line) {
  ScrapedValue found;
  auto at = line.find_first_of("{ ");
  if (at == line.npos)
    refuse(line);
  found.name = line.substr(0, at);
  if (line[at] == '{') {
    ++at;
    while (at < line.size() && line[at] != '}')
      parse_label(line, at, found.labels);
    ++at;
  }
  char* end = nullptr;
  const auto* first = line.c_str() + std::min(at, line.size());
  found.value = std::strtod(first, &end);
  if (end == first || found.name.empty())
    refuse(line);
  return found;
}

std::string body_of(mg_connection* connection) {
  std::string body;
  char part[16 << 10];
  for (;;) {
    const auto got = mg_read(connection, part, sizeof part);
    if (got <= 0)
      return body;
    body.append(part, static_cast<size_t>(got));
    if (body.size() > most_bytes)
      throw std::runtime_error("more than 64 MiB of metrics");
  }
}

} // namespace

std::vector<ScrapedValue> parse_exposition(const std::string& text) {
  std::vector<ScrapedValue> values;
  for (size_t at = 0; at < text.size();) {
    auto end = text.find('\n', at);
    if (end == text.npos)
      end = text.size();
    const auto line = text.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && line.front() != '#')
      values.push_back(parse_line(line));
  }
  return values;
}

std::vector<ScrapedValue> scrape(const std::string& address) {
  const auto colon = address.rfind(':');
  int port = 0;
  const auto* last = address.data() + address.size();
  if (colon == address.npos
      || std::from_chars(address.data() + colon + 1, last, port).ptr != last)
    throw std::runtime_error("metrics at " + address + ": expected HOST:PORT");
  char why[200] = {};
  auto* connection = mg_connect_client(address.substr(0, colon).c_str(), port,
                                       0, why, sizeof why);
  if (connection == nullptr)
    throw std::runtime_error("metrics at " + address + ": " + why
                             + "; is the run still going on?");
  mg_printf(connection,
            "GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
            address.c_str());
  std::string body;
  const bool answered = mg_get_response(connection, why, sizeof why, timeout_ms)
                          >= 0
                        && mg_get_response_info(connection)->status_code == 200;
  if (answered)
    body = body_of(connection);
  mg_close_connection(connection);
  if (!answered)
    throw std::runtime_error("metrics at " + address
                             + ": no answer of a troupe run " + why);
  return parse_exposition(body);
}

} // namespace troupe
