#include "actors/page/recent_spans.hpp"

#include "actors/process/flight_recorder.hpp"
#include "kernels/base/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <vector>

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr int64_t longest_ns = 10'000'000'000;
constexpr auto lately = std::chrono::seconds{15};

/// Those that have been written to lately.
std::vector<fs::path> busy_recorders(const std::string& folder) {
  std::vector<fs::path> out;
  std::error_code failure;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator entry{folder, failure}, end;
       !failure && entry != end; entry.increment(failure)) {
    std::error_code gone;
    if (entry->path().extension() == ".flight" && entry->is_regular_file(gone)
        && now - entry->last_write_time(gone) < lately && !gone)
      out.push_back(entry->path());
  }
  return out;
}

struct UnixSpan {
  int64_t begin_ns;
  int64_t end_ns;
  Activity activity;
  uint64_t step;
};

} // namespace

nlohmann::ordered_json recent_spans(const std::string& folder, size_t most) {
  const auto files = busy_recorders(folder);
  std::map<std::string, std::vector<UnixSpan>> roles;
  int64_t newest = 0;
  for (const auto& file : files)
    try {
      const auto flight = read_newest_spans(file.string(), most / files.size());
      for (const auto& span : flight.spans) {
        const auto begin = static_cast<int64_t>(span.begin_ns)
                           + flight.to_unix_ns;
        const auto end = static_cast<int64_t>(span.end_ns) + flight.to_unix_ns;
        newest = std::max(newest, end);
        roles[flight.role].push_back({begin, end, span.activity, span.step});
      }
    } catch (const InputError&) {
      continue; // it is none, or its role has just gone
    }
  auto shown = nlohmann::ordered_json::object();
  for (const auto& [role, spans] : roles) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& span : spans)
      if (newest - span.end_ns < longest_ns)
        list.push_back({(newest - span.begin_ns) / 1000,
                        (newest - span.end_ns) / 1000,
                        static_cast<int>(span.activity), span.step});
    if (!list.empty())
      shown[role] = std::move(list);
  }
  if (shown.empty())
    return nullptr;
  return {{"end_ms", newest / 1'000'000}, {"roles", std::move(shown)}};
}

} // namespace troupe
