#include "kernels/files/text_lines.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/powers_of_ten.hpp"
#include "kernels/files/shown_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace troupe {

namespace {

constexpr size_t chunk_bytes = size_t{1} << 18;
constexpr size_t longest_line = size_t{16} << 20;

/// Of a file whose first bytes are those of text in another form; else empty.
std::string other_text(std::string_view start) {
  const auto has = [&](std::string_view bytes) {
    return start.starts_with(bytes);
  };
  const auto zero = [&](size_t i) { return start[i] == '\0'; };
  // Letters of two bytes, one of which is 0.
  const bool is_wide = start.size() >= 4 && zero(0) == zero(2)
                       && zero(1) == zero(3) && zero(0) != zero(1);
  if (has("\xff\xfe") || has("\xfe\xff") || is_wide)
    return "is text in UTF-16; write it in UTF-8, for example with iconv -f "
           "UTF-16 -t UTF-8";
  const auto end = start.find('\r');
  if (end < start.size() - 1 && start.find('\n') == start.npos
      && std::count(start.begin(), start.begin() + static_cast<ptrdiff_t>(end),
                    '"')
             % 2
           == 0)
    return "ends its lines with a carriage return alone, as few programs do; "
           "make newlines of them, for example with tr '\\r' '\\n'";
  return {};
}

/// from_chars knows no plus sign.
std::string_view without_plus(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-')
    text.remove_prefix(1);
  return text;
}

} // namespace

TextLines::TextLines(const DataFile& file)
  : path_(file.name()), source_(open_bytes(file)), buffer_(chunk_bytes) {
  fill();
  const std::string_view start{buffer_.data(), end_};
  if (const auto why = unnamed_packing(path_, start); !why.empty())
    throw InputError(path_ + ": " + why);
  if (const auto why = other_text(start); !why.empty())
    throw InputError(path_ + ": " + why);
  if (start.starts_with("\xef\xbb\xbf"))
    begin_ = 3;
}

bool TextLines::fill() {
  if (ended_)
    return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    dropped_ += begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size())
    buffer_.resize(2 * buffer_.size());
  const auto room = std::span{buffer_}.subspan(end_);
  const auto got = source_->read(std::as_writable_bytes(room));
  end_ += got;
  ended_ = got < room.size();
  return got > 0;
}

/// `known`: so many bytes from begin_ on have no end of line that counts.
bool TextLines::take(std::string_view& line, size_t known) {
  auto searched = known;
  size_t length = 0;
  while (true) {
    const auto* start = buffer_.data() + begin_;
    const auto* found = static_cast<const char*>(
      std::memchr(start + searched, '\n', end_ - begin_ - searched));
    length = found == nullptr ? end_ - begin_
                              : static_cast<size_t>(found - start);
    if (length > longest_line)
      refuse_length(known > 0);
    if (found != nullptr)
      break;
    searched = length;
    if (fill())
      continue;
    if (length == known) {
      begin_ = end_;
      return false;
    }
    break;
  }
  line = {buffer_.data() + begin_, length};
  offset_ = dropped_ + begin_;
  begin_ = std::min(begin_ + length + 1, end_);
  if (line.ends_with('\r'))
    line.remove_suffix(1);
  return true;
}

void TextLines::refuse_length(bool extended) {
  if (extended)
    refuse("the quotes that begin on the line do not end within 16 MiB",
           "put fields in whole quotes, inner quotes doubled");
  ++number_;
  refuse("the line is longer than 16 MiB", "is this a text file?");
}

bool TextLines::next(std::string_view& line) {
  number_ += further_;
  further_ = 0;
  if (!take(line, 0))
    return false;
  ++number_;
  return true;
}

bool TextLines::extend(std::string_view& line) {
  const auto start = static_cast<size_t>(offset_ - dropped_);
  const auto known = begin_ - start;
  begin_ = start;
  if (!take(line, known))
    return false;
  ++further_;
  return true;
}

void TextLines::refuse(const std::string& what,
                       const std::string& advice) const {
  throw InputError(path_ + ":" + std::to_string(number_) + ": " + what + "; "
                   + advice);
}

std::string in_quotes(std::string_view text) {
  constexpr size_t most = 40;
  const auto shown = shown_text(text.substr(0, most));
  return '"' + shown + (text.size() > most ? "…\"" : "\"");
}

std::string_view trimmed(std::string_view text) {
  if (!text.empty() && text.front() > ' ' && text.back() > ' ')
    return text; // most are
  const auto first = text.find_first_not_of(" \t");
  if (first == text.npos)
    return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool take_real(const char*& at, const char* last, double& value) {
  const auto* c = at;
  const bool negative = c != last && *c == '-';
  if (negative || (c != last && *c == '+'))
    ++c;
  uint64_t digits = 0;
  int count = 0;
  int exponent = 0;
  for (; c != last && *c >= '0' && *c <= '9'; ++c, ++count)
    digits = digits * 10 + static_cast<uint64_t>(*c - '0');
  if (c != last && *c == '.')
    for (++c; c != last && *c >= '0' && *c <= '9'; ++c, ++count, --exponent)
      digits = digits * 10 + static_cast<uint64_t>(*c - '0');
  if (count == 0 || count > 15 || (c != last && (*c == 'e' || *c == 'E')))
    return false;
  // Both are exact in double, so their quotient is the number rounded once.
  // Source: Clinger, "How to read floating point numbers accurately", 1990.
  const auto real = static_cast<double>(digits)
                    / powers_of_ten[static_cast<size_t>(-exponent)];
  value = negative ? -real : real;
  at = c;
  return true;
}

std::optional<double> parse_real(std::string_view text) {
  text = without_plus(text);
  double result = 0;
  const auto* last = text.data() + text.size();
  if (const auto* at = text.data();
      !text.starts_with('+') && take_real(at, last, result) && at == last)
    return result;
  const auto [stop, error] = std::from_chars(text.data(), last, result);
  if (error != std::errc{} || stop != last || !std::isfinite(result))
    return std::nullopt;
  return result;
}

std::optional<int64_t> parse_whole(std::string_view text) {
  text = without_plus(text);
  int64_t result = 0;
  const auto* last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), last, result);
  if (error == std::errc{} && stop == last)
    return result;
  constexpr double most = 9007199254740992.0; // 2^53: whole without doubt
  const auto real = parse_real(text);
  if (!real || std::fabs(*real) > most || *real != std::floor(*real))
    return std::nullopt;
  return static_cast<int64_t>(*real);
}

} // namespace troupe
