#include "apps/doctor/device_trial.hpp"

#include "apps/process/launched_job.hpp"
#include "apps/process/run_folder.hpp"
#include "apps/settings/devices.hpp"
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

/// A plugin compiles its programs meanwhile.
constexpr std::chrono::seconds trial_deadline{60};
constexpr const char* trial_steps = "4";
/// Of a loss near 2.3. Products of GPUs in TensorFloat-32 would be off by less.
constexpr double most_off = 1e-3;

struct Trial {
  double loss = 0;
  std::string numeric_class;
};

/// Of a trial that did not say by itself what is wrong.
struct NoWord : InputError {
  using InputError::InputError;
};

/// Ends the trial with what its job says of it.
[[noreturn]] void fail(const ChildProcesses::Exit& exit) {
  const std::string own = "troupe: ";
  const auto line =
    std::find_if(exit.last_lines.rbegin(), exit.last_lines.rend(),
                 [&](const std::string& one) { return one.starts_with(own); });
  if (line != exit.last_lines.rend())
    throw InputError(line->substr(own.size()));
  throw NoWord(
    "training ended with " + exit.describe()
    + (exit.last_lines.empty() ? "" : ": " + exit.last_lines.back()));
}

ChildProcesses::Exit end_of(LaunchedJob& job) try {
  return job.wait(trial_deadline);
} catch (const InputError&) {
  throw NoWord("no answer within " + std::to_string(trial_deadline.count())
               + " s");
}

/// `count`: virtual ranks, of which each device has one.
/// Errors: InputError with the reason; NoWord.
Trial train_on(const std::string& devices, uint32_t count) {
  const RunFolder folder;
  const auto summary = folder.file("summary.json");
  const auto strategy = is_of_plugin(devices)             ? "tpu"
                        : devices == "cpu:1" || count < 2 ? "one_device"
                                                          : "mirrored";
  LaunchedJob job{{"train",
                   "--data",
                   "synthetic:digits?samples=256",
                   "--model",
                   "mlp:784-32-10",
                   "--strategy",
                   strategy,
                   "--devices",
                   devices,
                   "--virtual-ranks",
                   std::to_string(count),
                   "--global-batch",
                   std::to_string(16 * count),
                   "--steps",
                   trial_steps,
                   "--eval-every",
                   "0",
                   "--restarts",
                   "0",
                   "--flight",
                   "none",
                   "--quiet",
                   "--summary",
                   summary}};
  const auto exit = end_of(job);
  std::ifstream file{summary};
  if (exit.signal != 0 || exit.status != 0 || !file)
    fail(exit);
  const auto found = nlohmann::json::parse(file);
  return {found.at("final_loss").get<double>(),
          found.at("numeric_class").get<std::string>()};
}

/// A message begins with the devices' name, once.
std::string named(const std::string& devices, const std::string& message) {
  const std::string flag = "--devices ";
  const auto said = message.starts_with(flag) ? message.substr(flag.size())
                                              : message;
  const auto kind = devices.substr(0, devices.find(':') + 1);
  return said.starts_with(kind) ? said : devices + ": " + said;
}

} // namespace

Finding try_devices(const std::string& devices, uint32_t count) {
  const auto shown = shown_text(devices);
  Finding out{Kind::wrong, "--devices", {}, {}};
  const auto ranks = std::max(count, 1u);
  char text[80];
  Trial there;
  try {
    const auto begin = SteadyClock::now();
    there = train_on(devices, ranks);
    std::snprintf(text, sizeof text, ": loss %.6f after %s steps in %.1f s",
                  there.loss, trial_steps, seconds_since(begin));
  } catch (const NoWord& failure) {
    out.found = shown + ": " + shown_text(failure.what());
    out.remedy = "does another process have the device? Else another driver "
                 "or plugin";
    return out;
  } catch (const std::exception& failure) {
    out.found = named(shown, shown_text(failure.what()));
    return out;
  }
  out.found = shown + text;
  try {
    const auto here = train_on("cpu:1", ranks);
    if (std::abs(there.loss - here.loss) <= most_off * std::abs(here.loss))
      return {Kind::good, out.what,
              out.found + ", as on a processor; " + there.numeric_class, ""};
    std::snprintf(text, sizeof text, ", on a processor %.6f", here.loss);
    out.found += text;
    out.remedy = "the device, its driver or its plugin computes wrongly: try "
                 "others before a run";
  } catch (const std::exception& failure) {
    out.kind = Kind::note;
    out.found += ", with nothing beside it: a processor's trial failed";
    out.remedy = shown_text(failure.what());
  }
  return out;
}

} // namespace troupe
