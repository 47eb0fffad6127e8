#include "actors/process/brought_flight.hpp"

#include "actors/process/flight_recorder.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/packed_bytes.hpp"

#include <openssl/evp.h>

#include <fstream>
#include <iterator>
#include <optional>

namespace troupe {
namespace {

/// No recorder's file is larger.
constexpr size_t most_bytes = size_t{4} << 20;

const unsigned char* octets_of(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string in_base64(const std::string& bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0'); // with a zero
  out.resize(static_cast<size_t>(
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                    octets_of(bytes), static_cast<int>(bytes.size()))));
  return out;
}

/// Nothing: it is none.
std::optional<std::string> of_base64(const std::string& text) {
  if (text.size() % 4 != 0 || text.size() > 2 * most_bytes)
    return std::nullopt;
  std::string out(text.size() / 4 * 3, '\0');
  const auto size =
    EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                    octets_of(text), static_cast<int>(text.size()));
  if (size < 0)
    return std::nullopt;
  // It does not tell how many bytes filled up the last four characters.
  const auto filled = text.ends_with("==") ? 2u : text.ends_with("=") ? 1u : 0u;
  out.resize(static_cast<size_t>(size) - filled);
  return out;
}

} // namespace

std::string text_of_flight(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  const std::string bytes{std::istreambuf_iterator<char>{file}, {}};
  if (!file || bytes.empty() || bytes.size() > most_bytes)
    throw InputError("flight recorder " + path + ": cannot be read");
  return in_base64(packed(bytes));
}

void write_flight(const std::string& text, const std::string& path,
                  int64_t added_ns) {
  const auto stored = of_base64(text);
  auto bytes = stored ? unpacked(*stored, most_bytes) : std::nullopt;
  if (!bytes)
    throw InputError("flight recorder " + path + ": it came damaged");
  add_to_unix_times(*bytes, added_ns, path);
  std::ofstream file{path, std::ios::binary};
  file.write(bytes->data(), static_cast<std::streamsize>(bytes->size()));
  file.close();
  if (!file)
    throw InputError("flight recorder " + path + ": cannot be written");
}

} // namespace troupe
