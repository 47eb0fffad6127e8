#include "actors/page/run_report.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/atomic_file.hpp"
#include "kernels/files/input_file.hpp"

#include <cstdio>
#include <span>
#include <string>

namespace troupe {
namespace {

/// No summary has as much.
constexpr uint64_t max_bytes = uint64_t{64} << 20;

std::string report_of(const std::string& path) {
  const auto text = whole_file(path, max_bytes, "the summary of a run");
  try {
    return run_report(text);
  } catch (const InputError& mistake) {
    throw InputError(path + ": " + mistake.what()
                     + "; name what a run wrote with --summary");
  }
}

} // namespace

int run_report_of(const Settings& settings) {
  const auto report = report_of(settings.events.path);
  write_atomically(settings.out, {std::as_bytes(std::span{report})});
  std::printf("report %s\n", settings.out.c_str());
  return 0;
}

} // namespace troupe
