#include "actors/stores/aws_signature.hpp"

#include "kernels/base/hex.hpp"
#include "kernels/files/tensor_hash.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <span>
#include <stdexcept>

namespace troupe {

namespace {

using Digest = std::array<unsigned char, 32>;

std::span<const unsigned char> bytes_of(std::string_view text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

Digest hmac_sha256(std::span<const unsigned char> key, std::string_view text) {
  Digest digest;
  unsigned length = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           bytes_of(text).data(), text.size(), digest.data(), &length)
        == nullptr
      || length != digest.size())
    throw std::runtime_error("OpenSSL does not offer HMAC with SHA-256");
  return digest;
}

std::string sha256_of(std::string_view text) {
  return sha256(std::as_bytes(std::span{text.data(), text.size()}));
}

/// "20130524T000000Z"
std::string basic_time(int64_t time_s) {
  const auto seconds = static_cast<time_t>(time_s);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts);
  return text.data();
}

/// Runs of spaces count as one.
std::string one_spaced(std::string_view text) {
  std::string result;
  for (const auto c : text)
    if (c != ' ' || (!result.empty() && result.back() != ' '))
      result += c;
  while (result.ends_with(' '))
    result.pop_back();
  return result;
}

Digest signing_key(const AwsKeys& keys, std::string_view date,
                   std::string_view region, std::string_view service) {
  const auto start = "AWS4" + keys.secret;
  auto key = hmac_sha256(bytes_of(start), date);
  for (const auto part : {region, service, std::string_view{"aws4_request"}})
    key = hmac_sha256(key, part);
  return key;
}

} // namespace

const char* const empty_body_sha256 =
  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string percent_encoded(std::string_view text, bool keep_slashes) {
  std::string result;
  result.reserve(text.size());
  for (const auto c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')
                       || (c >= '0' && c <= '9') || c == '-' || c == '.'
                       || c == '_' || c == '~' || (c == '/' && keep_slashes);
    if (plain) {
      result += c;
    } else {
      result += '%';
      result += "0123456789ABCDEF"[byte >> 4];
      result += "0123456789ABCDEF"[byte & 15];
    }
  }
  return result;
}

std::string
canonical_query(const std::vector<std::pair<std::string, std::string>>& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  encoded.reserve(query.size());
  for (const auto& [key, value] : query)
    encoded.emplace_back(percent_encoded(key), percent_encoded(value));
  std::sort(encoded.begin(), encoded.end());
  std::string result;
  for (const auto& [key, value] : encoded)
    result.append(result.empty() ? "" : "&")
      .append(key)
      .append("=")
      .append(value);
  return result;
}

std::vector<std::string>
signed_headers(const AwsRequest& request, const AwsKeys& keys,
               const std::string& region, const std::string& service,
               int64_t time_s) {
  const auto time = basic_time(time_s);
  const auto date = time.substr(0, 8);
  auto fields = request.headers;
  fields.emplace_back("host", request.host);
  fields.emplace_back("x-amz-date", time);
  if (!keys.token.empty())
    fields.emplace_back("x-amz-security-token", keys.token);
  std::sort(fields.begin(), fields.end());
  std::string named;
  std::string lines;
  for (const auto& [name, value] : fields) {
    named.append(named.empty() ? "" : ";").append(name);
    lines.append(name).append(":").append(one_spaced(value)).append("\n");
  }
  std::string canonical = request.method + '\n' + request.path + '\n'
                          + canonical_query(request.query) + '\n' + lines + '\n'
                          + named + '\n' + empty_body_sha256;
  const auto scope = date + '/' + region + '/' + service + "/aws4_request";
  const auto to_sign = "AWS4-HMAC-SHA256\n" + time + '\n' + scope + '\n'
                       + sha256_of(canonical);
  const auto signature =
    to_hex(hmac_sha256(signing_key(keys, date, region, service), to_sign));
  std::vector<std::string> result{"X-Amz-Date: " + time,
                                  "Authorization: AWS4-HMAC-SHA256 Credential="
                                    + keys.id + '/' + scope + ",SignedHeaders="
                                    + named + ",Signature=" + signature};
  if (!keys.token.empty())
    result.push_back("X-Amz-Security-Token: " + keys.token);
  return result;
}

} // namespace troupe
