#include "kernels/files/file_url.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/shown_text.hpp"

#include <algorithm>

namespace troupe {

namespace {

constexpr size_t longest_url = 8192;

/// What follows "https://".
std::string_view after_scheme(std::string_view url) {
  return url.substr(url.find("://") + 3);
}

std::string_view authority_of(std::string_view url) {
  const auto rest = after_scheme(url);
  return rest.substr(0, rest.find_first_of("/?#"));
}

[[noreturn]] void refuse_url(std::string_view url, const std::string& why) {
  throw UsageError(shown_place(url) + ": " + why);
}

} // namespace

bool is_url(std::string_view place) {
  return place.starts_with("http://") || place.starts_with("https://")
         || place.starts_with("s3://");
}

std::string shown_place(std::string_view place) {
  if (!is_url(place))
    return std::string{place};
  auto shown = std::string{place.substr(0, place.find('?'))};
  if (place.starts_with("s3://")) // in a key it is a character like others
    shown = std::string{place};
  const auto start = shown.find("://") + 3;
  const auto host_end = std::min(shown.find_first_of("/#", start),
                                 shown.size());
  // A password stands before the last @ of the host's part.
  if (const auto at = shown.rfind('@', host_end);
      at != shown.npos && at >= start && at < host_end)
    shown.replace(start, at - start, "…");
  return shown_text(shown);
}

std::string beside_url(std::string_view url, std::string_view name) {
  if (is_url(name))
    return std::string{name};
  if (!url.starts_with("s3://"))
    url = url.substr(0, url.find('?'));
  const auto host = static_cast<size_t>(after_scheme(url).data() - url.data());
  const auto slash = url.rfind('/');
  std::string folder{slash == url.npos || slash < host ? url
                                                       : url.substr(0, slash)};
  if (name.starts_with('/')) // from the host's root on
    folder = url.substr(0, host + authority_of(url).size());
  return folder + (name.starts_with('/') ? "" : "/") + std::string{name};
}

void check_url(std::string_view url) {
  if (url.size() > longest_url)
    refuse_url(url, "is longer than 8192 bytes; shorten it");
  const auto authority = authority_of(url);
  if (authority.find('@') != authority.npos)
    refuse_url(url, "holds a name or password, which journals would keep; "
                    "leave it out");
  if (authority.empty())
    refuse_url(url, "names no host or bucket; write https://HOST/PATH or "
                    "s3://BUCKET/KEY");
  const bool s3 = url.starts_with("s3://");
  for (const auto c : url)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || (c == ' ' && !s3))
      refuse_url(url, "holds a space or a control character; write %20 for a "
                      "space");
  if (!s3 && url.find('#') != url.npos)
    refuse_url(url, "holds a #; write %23");
  if (s3 && after_scheme(url).size() <= authority.size() + 1)
    refuse_url(url, "names a bucket and nothing in it; write s3://BUCKET/KEY, "
                    "or s3://BUCKET/* for all at its top");
}

void check_kept_url(std::string_view url) {
  check_url(url);
  if (!url.starts_with("s3://") && url.find('?') != url.npos)
    refuse_url(url, "has a query, which may hold a secret and would stand in "
                    "journals and checkpoints; write the URL into a file and "
                    "name that, as @FILE");
}

} // namespace troupe
