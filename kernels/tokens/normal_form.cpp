#include "kernels/tokens/normal_form.hpp"

#include "kernels/base/error.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

namespace troupe {

namespace {

using Kind = NormalForm::Kind;

constexpr double max_growth = 16;
constexpr size_t max_prepended = 1024;

int options_of(Kind kind) {
  const int composed = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  const int apart = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  switch (kind) {
    case Kind::nfd:
      return apart;
    case Kind::nfkc:
      return composed | UTF8PROC_COMPAT;
    case Kind::nfkd:
      return apart | UTF8PROC_COMPAT;
    default:
      return composed;
  }
}

/// Whether a text is sure to be in a form already: ASCII is in each; up to
/// U+02FF there is nothing that composes.
bool is_plain(std::string_view text, Kind kind) {
  constexpr unsigned char lead_of_300 = 0xcc;
  const unsigned char limit = kind == Kind::nfc ? lead_of_300 : 0x80;
  return std::ranges::all_of(text, [limit](char c) {
    return static_cast<unsigned char>(c) < limit;
  });
}

/// Line by line: nothing composes with an end of line, or changes its place
/// over one.
std::string in_form(std::string_view text, Kind kind) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto line =
      text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    text.remove_prefix(line.size());
    if (is_plain(line, kind)) {
      out += line;
      continue;
    }
    utf8proc_uint8_t* made = nullptr;
    const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(line.data()),
                   static_cast<utf8proc_ssize_t>(line.size()), &made,
                   static_cast<utf8proc_option_t>(options_of(kind)));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> kept{
      made, &std::free};
    if (length < 0)
      throw std::bad_alloc{};
    out.append(reinterpret_cast<const char*>(made),
               static_cast<size_t>(length));
  }
  return out;
}

std::string replaced(std::string_view text, const std::string& from,
                     const std::string& to) {
  std::string out;
  out.reserve(text.size());
  for (auto at = text.find(from); at != text.npos; at = text.find(from)) {
    out += text.substr(0, at);
    out += to;
    text.remove_prefix(at + from.size());
  }
  return out += text;
}

} // namespace

void NormalForm::add(Step step, const std::string& where) {
  if (step.kind == Kind::replace && step.from.empty())
    throw InputError(where + ": its normalizer replaces an empty text");
  if (step.kind == Kind::replace)
    growth_ *= std::max(1.0, static_cast<double>(step.to.size())
                               / static_cast<double>(step.from.size()));
  if (growth_ > max_growth || step.to.size() > max_prepended)
    throw InputError(where + ": its normalizer makes a text much longer");
  steps_.push_back(std::move(step));
}

std::string NormalForm::apply(std::string_view text) const {
  std::string out{text};
  for (const auto& step : steps_)
    if (step.kind == Kind::prepend)
      out = out.empty() ? out : step.to + out;
    else if (step.kind == Kind::replace)
      out = replaced(out, step.from, step.to);
    else
      out = in_form(out, step.kind);
  return out;
}

} // namespace troupe
