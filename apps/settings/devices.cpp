#include "apps/settings/devices.hpp"

#include "actors/job/stage_mesh.hpp"
#include "apps/terminal/numbers.hpp"
#include "kernels/base/error.hpp"
#include "kernels/pjrt/plugin_file.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace troupe {

namespace {

constexpr uint32_t max_devices = 1024;
constexpr uint32_t max_virtual_devices = 64;
constexpr auto expected =
  "expected cpu:N, cuda:I[,cuda:J], cuda:I,cpu:N, cuda:all, cuda:0*2 (two "
  "virtual devices on one GPU) or pjrt:FILE.so[:N] (N devices of a PJRT "
  "plugin), for example cpu:2";
const auto expected_of_plugin = "expected pjrt:FILE.so:N with N from 1 to "
                                + std::to_string(max_devices)
                                + ", the number of the plugin's devices";
constexpr std::string_view plugin_prefix = "pjrt:";
/// A worker joins once its plugin has compiled the program of the gradient,
/// which takes XLA minutes of a large model.
constexpr uint64_t compilation_ms = 300'000;

std::vector<std::string> numbered(const std::string& kind, uint64_t count) {
  std::vector<std::string> out;
  for (uint64_t i = 0; i < count; ++i)
    out.push_back(kind + ":" + std::to_string(i));
  return out;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> out(1);
  for (auto c : text) {
    if (c == ',')
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

/// cpu:2 are two devices: cpu:0, cpu:1.
std::vector<std::string> processors(const std::string& item) {
  try {
    return numbered("cpu", parse_whole(item.substr(4), 1, max_devices));
  } catch (const UsageError&) {
    throw UsageError("expected cpu:N with N from 1 to "
                     + std::to_string(max_devices)
                     + ", the number of CPU devices");
  }
}

/// cuda:1 is one device; cuda:1*3 three that share a GPU: cuda:1, cuda:1.1,
/// cuda:1.2.
std::vector<std::string> cuda_devices(const std::string& item) {
  if (item.rfind("cuda:", 0) != 0)
    throw UsageError(expected);
  try {
    const auto star = item.find('*');
    const auto index = parse_whole(item.substr(5, star - 5), 0, 1023);
    const auto count = star == std::string::npos
                         ? 1
                         : parse_whole(item.substr(star + 1), 1,
                                       max_virtual_devices);
    std::vector<std::string> out{"cuda:" + std::to_string(index)};
    for (uint64_t slot = 1; slot < count; ++slot)
      out.push_back(out.front() + "." + std::to_string(slot));
    return out;
  } catch (const UsageError&) {
    throw UsageError(expected);
  }
}

bool is_gpu(const std::string& device) {
  return device.starts_with("cuda:");
}

/// What a device is one of: a GPU, cuda:1, which may be virtual devices, or the
/// processor.
std::string place_of(const std::string& device) {
  return is_gpu(device) ? device.substr(0, device.find('.'))
                        : device.substr(0, device.find(':'));
}

/// pjrt:FILE:1 without its number.
std::string plugin_of(const std::string& device) {
  return device.substr(0, device.rfind(':'));
}

/// What follows a plugin's name that is not its number of devices. A name may
/// have colons and commas, too, of a file that is there.
void check_rest(const std::string& text) {
  std::error_code failure;
  if (std::filesystem::exists(text.substr(plugin_prefix.size()), failure))
    return;
  for (const char* other : {",cpu", ",cuda", ",pjrt"})
    if (text.find(other) != std::string::npos)
      throw UsageError("devices of a plugin are named alone, as "
                       "pjrt:FILE.so:N, beside no others");
  const auto colon = text.rfind(".so:");
  if (colon != std::string::npos && text.find('/', colon) == std::string::npos)
    throw UsageError(expected_of_plugin);
}

/// pjrt:FILE.so[:N]; without N one device.
std::vector<std::string> plugin_devices(const std::string& text) {
  auto plugin = text;
  uint64_t count = 1;
  const auto last = text.find_last_not_of("0123456789");
  if (last >= plugin_prefix.size() && last + 1 < text.size()
      && text[last] == ':') {
    plugin = text.substr(0, last);
    try {
      count = parse_whole(text.substr(last + 1), 1, max_devices);
    } catch (const UsageError&) {
      check_rest(text);
      throw UsageError(expected_of_plugin);
    }
  }
  check_rest(plugin);
  if (plugin.size() == plugin_prefix.size())
    throw UsageError(expected);
  return numbered(plugin, count);
}

void check_plugin(const std::string& device) {
  const auto file = plugin_of(device).substr(plugin_prefix.size());
  if (const auto mistake = kernels::pjrt::plugin_file_mistake(file);
      !mistake.empty())
    throw InputError("--devices pjrt:" + file + ": " + mistake);
}

bool computes(const Settings& settings) {
  return settings.command != "plan" && !settings.print_config;
}

bool single_device(const Settings& settings) {
  return settings.command == "evaluate" || settings.command == "predict"
         || settings.job.strategy == Strategy::one_device;
}

bool has_workers(const Settings& settings) {
  return !single_device(settings)
         && (settings.job.strategy == Strategy::parameter_server
             || settings.job.strategy == Strategy::fully_sharded
             || settings.job.strategy == Strategy::multi_worker_mirrored);
}

std::vector<std::string> default_devices(const Settings& settings,
                                         const Surroundings& around) {
  const auto& job = settings.job;
  if (single_device(settings))
    return {around.cuda_devices() > 0 ? "cuda:0" : "cpu:0"};
  if (has_workers(settings)
      || (!single_device(settings)
          && (has_stages(job) || has_tensor_members(job))))
    return {"cpu:0"};
  auto most = std::max(job.virtual_ranks, 1u);
  if (auto devices = around.cuda_devices(); devices > 0)
    return numbered("cuda", std::min(devices, most));
  return numbered("cpu", std::clamp(around.cores, 1u, most));
}

/// Each kind of device has bits of its own.
void check_kinds(const JobOptions& job) {
  const auto is_processor = [](const std::string& device) {
    return place_of(device) == "cpu";
  };
  const auto processors = std::ranges::count_if(job.devices, is_processor);
  const bool mixed = processors > 0 && processors < std::ssize(job.devices);
  if (mixed && !may_mix_classes(job))
    throw UsageError("--devices " + print_devices(job.devices)
                     + ": GPUs and processors get different bits, as workers "
                       "of an asynchronous job alone may: name those of one "
                       "kind, or add --strategy parameter_server --async, "
                       "without --dense all_reduced");
}

uint32_t default_threads(const Settings& settings, uint32_t cores) {
  const auto& job = settings.job;
  if (is_of_plugin(job.devices.front())) // it has threads of its own
    return 1;
  auto users = static_cast<uint32_t>(job.devices.size());
  if (job.strategy == Strategy::multi_worker_mirrored)
    users *= job.workers;
  else if (has_stages(job) || has_tensor_members(job))
    users = mesh_of(job).members();
  else if (has_workers(settings))
    users = job.workers;
  return std::max(1u, cores / std::max(1u, users));
}

} // namespace

bool is_of_plugin(const std::string& device) {
  return device.starts_with(plugin_prefix);
}

std::vector<std::string> parse_devices(const std::string& text) {
  if (text == "cuda:all")
    return {text};
  if (is_of_plugin(text))
    return plugin_devices(text);
  std::vector<std::string> out;
  for (const auto& item : split_at_commas(text)) {
    const bool processor = item.starts_with("cpu:");
    auto devices = processor ? processors(item) : cuda_devices(item);
    if (std::find(out.begin(), out.end(), devices.front()) != out.end())
      throw UsageError(processor
                         ? "devices of the processor are named twice; write "
                           "cpu:N for N of them"
                         : devices.front()
                             + " is named twice; for virtual devices write "
                             + devices.front() + "*2");
    out.insert(out.end(), devices.begin(), devices.end());
  }
  return out;
}

std::string print_devices(const std::vector<std::string>& devices) {
  if (devices.empty())
    return {};
  if (is_of_plugin(devices.front()))
    return plugin_of(devices.front()) + ":" + std::to_string(devices.size());
  std::string out;
  for (auto at = devices.begin(); at != devices.end();) {
    const auto place = place_of(*at);
    const auto end = std::find_if(at, devices.end(), [&](const auto& device) {
      return place_of(device) != place;
    });
    const auto count = std::to_string(end - at);
    if (!out.empty())
      out += ',';
    if (place == "cpu")
      out.append("cpu:").append(count);
    else
      out.append(place).append(end - at > 1 ? "*" + count : "");
    at = end;
  }
  return out;
}

void resolve_devices(Settings& settings, const Surroundings& around) {
  auto& devices = settings.job.devices;
  if (settings.command == "doctor") // which tries them as they are
    return;
  if (devices.empty())
    devices = default_devices(settings, around);
  if (is_of_plugin(devices.front()) && computes(settings)
      && settings.command != "role") // it may be of another host
    check_plugin(devices.front());
  auto all = devices.front() == "cuda:all";
  auto needed = std::ranges::any_of(devices, is_gpu) && computes(settings);
  auto there = all || needed ? around.cuda_devices() : 0;
  if (all)
    devices = numbered("cuda", there);
  const auto refuse = [](const std::string& device, const std::string& why) {
    throw InputError("--devices " + device + ": " + why);
  };
  if (there == 0 && (all || needed))
    refuse(all ? "cuda:all" : *std::ranges::find_if(devices, is_gpu),
           around.why_no_cuda() + "; use --devices cpu:N");
  for (const auto& device : devices)
    if (needed && is_gpu(device) && std::stoul(device.substr(5)) >= there)
      refuse(device,
             "this machine has " + std::to_string(there)
               + " usable CUDA devices, cuda:0"
               + (there > 1 ? " to cuda:" + std::to_string(there - 1) : "")
               + "; name one of them");
  check_kinds(settings.job);
  if (is_of_plugin(devices.front())) {
    auto& deadlines = settings.job.deadlines;
    if (settings.given.count("join-deadline-ms") == 0)
      deadlines.join_ms = compilation_ms;
    if (settings.given.count("step-deadline-ms") == 0)
      deadlines.step_ms = 2 * compilation_ms; // others wait half as long
  }
  if (settings.given.count("threads-per-device") == 0)
    settings.job.threads_per_device = default_threads(settings, around.cores);
}

} // namespace troupe
