#include "actors/process/brought_flight.hpp"

#include "actors/process/base64.hpp"
#include "actors/process/flight_recorder.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/rest_of.hpp"
#include "kernels/files/packed_bytes.hpp"

#include <fstream>
#include <optional>

namespace troupe {
namespace {

/// No recorder's file is larger.
constexpr size_t most_bytes = size_t{4} << 20;

} // namespace

std::string text_of_flight(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  const auto bytes = rest_of(file);
  if (file.bad() || bytes.empty() || bytes.size() > most_bytes)
    throw InputError("flight recorder " + path + ": cannot be read");
  return in_base64(packed(bytes));
}

void write_flight(const std::string& text, const std::string& path,
                  int64_t added_ns) {
  const auto stored = text.size() > 2 * most_bytes ? std::nullopt
                                                   : of_base64(text);
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
