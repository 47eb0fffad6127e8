#include "apps/doctor/device_trial.hpp"

#include "apps/process/launched_job.hpp"
#include "apps/process/run_folder.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/files/shown_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

namespace troupe {
namespace {

using Kind = Finding::Kind;

/// A plugin compiles its programs, which takes a TPU's half of that.
constexpr std::chrono::seconds trial_deadline{60};
constexpr const char* trial_steps = "4";
/// Of a loss near 2.3. Products of GPUs in TensorFloat-32 would be off by less.
constexpr double most_off = 1e-3;

struct Trial {
  double loss = 0;
  std::string numeric_class;
};

/// What a job that failed says of it, in its own words where it has any.
std::string reason_of(const ChildProcesses::Exit& exit) {
  const std::string own = "troupe: ";
  const auto line =
    std::find_if(exit.last_lines.rbegin(), exit.last_lines.rend(),
                 [&](const std::string& one) { return one.starts_with(own); });
  if (line != exit.last_lines.rend())
    return line->substr(own.size());
  return "training on them ended with " + exit.describe()
         + (exit.last_lines.empty() ? "" : ": " + exit.last_lines.back());
}

/// Errors: InputError with the reason.
Trial train_on(const std::string& devices, uint32_t count) {
  const RunFolder folder;
  const auto summary = folder.file("summary.json");
  const auto ranks = std::to_string(std::max(count, 1u));
  LaunchedJob job{{"train",
                   "--data",
                   "synthetic:digits?samples=256",
                   "--model",
                   "mlp:784-32-10",
                   "--strategy",
                   count > 1 ? "mirrored" : "one_device",
                   "--devices",
                   devices,
                   "--virtual-ranks",
                   ranks,
                   "--global-batch",
                   std::to_string(16 * std::max(count, 1u)),
                   "--steps",
                   trial_steps,
                   "--eval-every",
                   "0",
                   "--quiet",
                   "--summary",
                   summary}};
  const auto exit = job.wait(trial_deadline);
  if (exit.signal != 0 || exit.status != 0)
    throw InputError(reason_of(exit));
  std::ifstream file{summary};
  const auto found = nlohmann::json::parse(file);
  return {found.at("final_loss").get<double>(),
          found.at("numeric_class").get<std::string>()};
}

} // namespace

Finding try_devices(const std::string& devices, uint32_t count) {
  Finding out{Kind::wrong, "--devices", {}, {}};
  const auto shown = shown_text(devices);
  try {
    const auto begin = SteadyClock::now();
    const auto there = train_on(devices, count);
    char text[160];
    std::snprintf(text, sizeof text, "loss %.6f after %s steps in %.1f s",
                  there.loss, trial_steps, seconds_since(begin));
    out.found = shown + ": " + text;
    const auto here = train_on("cpu:1", count); // the same virtual ranks
    const auto off = std::abs(there.loss - here.loss) / std::abs(here.loss);
    std::snprintf(text, sizeof text, ", on a processor %.6f", here.loss);
    if (!(off <= most_off)) { // not a number, too
      out.found += text;
      out.remedy = "the device, its driver or its plugin computes wrongly: try "
                   "others before a run";
      return out;
    }
    out.kind = Kind::good;
    out.found += ", as on a processor; " + there.numeric_class;
  } catch (const std::exception& failure) {
    const std::string flag = "--devices ";
    const auto why = shown_text(failure.what());
    out.found = why.starts_with(flag) ? why.substr(flag.size())
                                      : shown + ": " + why;
  }
  return out;
}

} // namespace troupe
