#include "apps/terminal/numbers.hpp"

#include "kernels/base/error.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace troupe {

namespace {

template <class Number>
std::string shortest(Number value) {
  char text[64];
  auto result = std::to_chars(text, text + sizeof(text), value);
  return {text, result.ptr};
}

constexpr auto unlimited = std::numeric_limits<double>::infinity();

} // namespace

uint64_t parse_whole(const std::string& text, uint64_t lowest,
                     uint64_t highest) {
  uint64_t value = 0;
  const auto* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < lowest || value > highest)
    throw UsageError("expected a whole number from " + std::to_string(lowest)
                     + " to " + std::to_string(highest));
  return value;
}

uint64_t parse_bytes(const std::string& text, uint64_t lowest,
                     uint64_t highest) {
  constexpr std::pair<const char*, unsigned> units[] = {
    {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
  auto digits = text;
  unsigned shift = 0;
  for (auto [name, bits] : units)
    if (text.ends_with(name)) {
      digits.resize(text.size() - 3);
      shift = bits;
    }
  try {
    const auto value = parse_whole(digits, 0, highest >> shift) << shift;
    if (value >= lowest)
      return value;
  } catch (const UsageError&) {
  }
  throw UsageError(text + ": expected bytes from " + std::to_string(lowest)
                   + " to " + std::to_string(highest)
                   + ", for example 65536 or 64KiB");
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

bool RealRange::has(double value) const {
  auto low = open_low ? value > lowest : value >= lowest;
  auto high = open_high ? value < highest : value <= highest;
  return std::isfinite(value) && low && high;
}

std::string RealRange::words() const {
  auto low = print_real(lowest);
  if (highest == unlimited)
    return open_low ? "a number above " + low : "a number of at least " + low;
  return "a number " + std::string{open_low ? "above " : "from "} + low
         + (open_high ? " to below " : " to ") + print_real(highest);
}

RealRange not_negative() {
  return {0, unlimited, false, false};
}

RealRange positive() {
  return {0, unlimited, true, false};
}

RealRange fraction() {
  return {0, 1, false, true};
}

double parse_real(const std::string& text, const RealRange& range) {
  double value = 0;
  const auto* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !range.has(value))
    throw UsageError("expected " + range.words());
  return value;
}

std::string print_real(double value) {
  return shortest(value);
}

std::string print_real(float value) {
  return shortest(value);
}

Endpoint parse_address(const std::string& text) {
  const UsageError mistake{"expected HOST:PORT, for example 127.0.0.1:0"};
  const auto parts = parse_endpoint(text);
  if (!parts)
    throw mistake;
  for (auto c : parts->host)
    if (static_cast<unsigned char>(c) <= 0x20 || c == '/' || c == '@')
      throw mistake;
  return *parts;
}

std::vector<Endpoint> parse_addresses(const std::string& text) {
  std::vector<Endpoint> out;
  for (const auto& one : split_list(text))
    out.push_back(parse_address(one));
  return out;
}

} // namespace troupe
