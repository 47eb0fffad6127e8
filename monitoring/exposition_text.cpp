#include "monitoring/exposition_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

namespace troupe {

namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string valid_name(std::string_view raw, bool with_colon) {
  std::string out;
  if (raw.empty() || is_digit(raw.front()))
    out = '_';
  for (char c : raw)
    out += is_letter(c) || is_digit(c) || (with_colon && c == ':') ? c : '_';
  return out;
}

std::string label_name(std::string_view raw) {
  auto out = valid_name(raw, false);
  while (out.starts_with("__"))
    out.erase(0, 1);
  return out;
}

uint8_t byte_at(std::string_view text, size_t i) {
  return i < text.size() ? static_cast<uint8_t>(text[i]) : 0;
}

/// Bytes of the UTF-8 sequence at `i` (Unicode 15, table 3-7); 0: not valid.
size_t sequence_bytes(std::string_view text, size_t i) {
  const auto first = byte_at(text, i);
  if (first < 0x80)
    return 1;
  const size_t size = first >= 0xC2 && first <= 0xDF   ? 2
                      : first >= 0xE0 && first <= 0xEF ? 3
                      : first >= 0xF0 && first <= 0xF4 ? 4
                                                       : 0;
  if (size == 0)
    return 0;
  // Overlong forms, surrogates and values beyond U+10FFFF show in byte two.
  const auto second = byte_at(text, i + 1);
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (second < low || second > high)
    return 0;
  for (size_t k = 2; k < size; ++k)
    if ((byte_at(text, i + k) & 0xC0) != 0x80)
      return 0;
  return size;
}

} // namespace

std::string metric_name(std::string_view raw) {
  return valid_name(raw, true);
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto size = sequence_bytes(text, i);
    if (size == 0)
      out += '?';
    else
      out += text.substr(i, size);
    i += std::max<size_t>(size, 1);
  }
  return out;
}

std::string valid_help(std::string_view text) {
  auto out = valid_utf8(text);
  // prometheus-cpp writes help unescaped: a line break would start a line of
  // its own, a backslash an escape that Prometheus does not know.
  std::replace(out.begin(), out.end(), '\n', ' ');
  std::replace(out.begin(), out.end(), '\r', ' ');
  std::replace(out.begin(), out.end(), '\\', '/');
  return out;
}

MetricLabels valid_labels(const MetricLabels& labels) {
  MetricLabels out;
  for (auto& [name, value] : labels)
    out.emplace(label_name(name), valid_utf8(value));
  return out;
}

bool rise(std::span<const double> bounds) {
  return std::all_of(bounds.begin(), bounds.end(),
                     [](double bound) { return std::isfinite(bound); })
         && std::adjacent_find(bounds.begin(), bounds.end(),
                               std::greater_equal<double>{})
              == bounds.end();
}

} // namespace troupe
