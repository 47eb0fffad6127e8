#include "actors/stores/http_answer.hpp"

#include <algorithm>
#include <charconv>

namespace troupe {

namespace {

constexpr size_t longest_tag = 1024;

std::string_view stripped(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty()
         && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'
             || text.back() == '\n'))
    text.remove_suffix(1);
  return text;
}

/// Takes digits off the front; nothing where there are none, or too many.
std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t value = 0;
  const auto* last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc{})
    return std::nullopt;
  text.remove_prefix(static_cast<size_t>(stop - text.data()));
  return value;
}

std::optional<uint64_t> whole_number(std::string_view text) {
  const auto value = take_number(text);
  return text.empty() ? value : std::nullopt;
}

bool take(std::string_view& text, std::string_view wanted) {
  if (!text.starts_with(wanted))
    return false;
  text.remove_prefix(wanted.size());
  return true;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_name(std::string_view text, std::string_view lower_case) {
  return std::equal(text.begin(), text.end(), lower_case.begin(),
                    lower_case.end(),
                    [](char a, char b) { return lower(a) == b; });
}

/// What may stand in an error line, and in a host's name.
bool is_region(std::string_view text) {
  constexpr size_t longest = 40;
  return !text.empty() && text.size() <= longest
         && std::all_of(text.begin(), text.end(), [](char c) {
              return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')
                     || c == '-';
            });
}

/// Printing characters alone, since it goes into a request again.
bool is_plain(std::string_view text) {
  return text.size() <= longest_tag
         && std::all_of(text.begin(), text.end(),
                        [](char c) { return c >= ' ' && c < 0x7f; });
}

Judgement of_part(const HttpAnswer& answer, const RangeWish& wish) {
  if (!answer.range || !answer.range->first)
    return {FetchEnd::odd, "answers 206 without saying which bytes it sends"};
  const auto& range = *answer.range;
  if (*range.first != wish.first || range.last > wish.last)
    return {FetchEnd::odd, "sends other bytes than it was asked for"};
  if (wish.total && range.total && *range.total != *wish.total)
    return {FetchEnd::changed, "changed while it was read"};
  if (range.last < wish.last)
    return {FetchEnd::cut, "sends fewer bytes than it was asked for"};
  return {FetchEnd::whole, {}};
}

} // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
  ContentRange range;
  text = stripped(text);
  if (!take(text, "bytes "))
    return std::nullopt;
  text = stripped(text);
  if (!take(text, "*")) {
    range.first = take_number(text);
    if (!range.first || !take(text, "-"))
      return std::nullopt;
    const auto last = take_number(text);
    if (!last || *last < *range.first)
      return std::nullopt;
    range.last = *last;
  }
  if (!take(text, "/"))
    return std::nullopt;
  if (text == "*")
    return range.first ? std::optional{range} : std::nullopt;
  range.total = whole_number(text);
  if (!range.total || (range.first && range.last >= *range.total))
    return std::nullopt;
  return range;
}

std::string HttpAnswer::state() const {
  if (!tag.empty())
    return tag;
  return modified.empty() ? std::string{} : "modified " + modified;
}

void take_header(std::string_view line, HttpAnswer& answer) {
  if (line.starts_with("HTTP/")) {
    answer = {};
    const auto space = std::min(line.find(' '), line.size());
    auto rest = stripped(line.substr(space));
    const auto status = take_number(rest);
    answer.status = status && *status >= 100 && *status <= 599
                      ? static_cast<int>(*status)
                      : 0;
    return;
  }
  const auto colon = line.find(':');
  if (colon == line.npos)
    return;
  const auto name = line.substr(0, colon);
  const auto value = stripped(line.substr(colon + 1));
  if (is_name(name, "content-length"))
    answer.length = whole_number(value);
  else if (is_name(name, "content-range"))
    answer.range = parse_content_range(value);
  else if (is_name(name, "etag") && is_plain(value))
    answer.tag = value;
  else if (is_name(name, "last-modified") && is_plain(value))
    answer.modified = value;
  else if (is_name(name, "x-amz-bucket-region") && is_region(value))
    answer.region = value;
  else if (is_name(name, "retry-after"))
    answer.retry_after_s = whole_number(value).value_or(0); // or a date
}

bool is_strong_tag(std::string_view tag) {
  return tag.size() > 2 && tag.front() == '"' && tag.back() == '"';
}

Judgement judge(const HttpAnswer& answer, const RangeWish& wish) {
  const auto status = answer.status;
  const auto number = std::to_string(status);
  if (status == 0)
    return {FetchEnd::cut, "ended the connection without an answer"};
  if (status == 429 || status == 503)
    return {FetchEnd::busy, "is busy (" + number + ")"};
  if (status == 408 || status >= 500)
    return {FetchEnd::failed, "fails (" + number + ")"};
  if (status == 401 || status == 403)
    return {FetchEnd::refused, "is refused (" + number + ")"};
  if (status == 404 || status == 410)
    return {FetchEnd::missing, "is not there (" + number + ")"};
  if (status == 412 || (status == 416 && wish.total))
    return {FetchEnd::changed, "changed while it was read"};
  if (status == 416) // an empty object has no first byte
    return answer.range && answer.range->total.value_or(0) > 0
             ? Judgement{FetchEnd::odd, "knows no such range (416)"}
             : Judgement{FetchEnd::whole, {}};
  if (status != 200 && status != 206)
    return {FetchEnd::odd, "answers " + number};
  if (!wish.state.empty() && answer.state() != wish.state)
    return {FetchEnd::changed, "changed while it was read"};
  if (status == 206)
    return of_part(answer, wish);
  // All of it was asked for, or there is nothing.
  if (answer.length == 0u && !wish.total)
    return {FetchEnd::whole, {}};
  if (wish.first == 0 && wish.total && wish.last + 1 == *wish.total) {
    if (answer.length && *answer.length != *wish.total)
      return {FetchEnd::changed, "changed while it was read"};
    return {FetchEnd::whole, {}};
  }
  return {FetchEnd::no_ranges, "sends all of it when asked for a part"};
}

} // namespace troupe
