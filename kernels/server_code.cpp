#include "kernels/server_code.hpp"

#include "kernels/base/error.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace troupe {
namespace {

/// Leaves nothing of values that are not finite.
void drop_not_finite(const ServedSlice&, std::span<float> gradient) {
  for (auto& value : gradient)
    if (!std::isfinite(value))
      value = 0;
}

struct Registry {
  std::mutex lock;
  std::map<std::string, GradientFilter> filters{{"finite", drop_not_finite}};
  std::map<std::string, ServerRule> rules;
  std::set<std::string> plugins; ///< loaded; under the lock of load_plugin()
};

Registry& registry() {
  static Registry all;
  return all;
}

template <class Code>
void put(std::map<std::string, Code>& known, const std::string& name, Code code,
         const char* what) {
  const std::lock_guard guard{registry().lock};
  if (!known.emplace(name, std::move(code)).second)
    throw UsageError(std::string{what} + " " + name
                     + " is registered already; choose another name");
}

template <class Code>
Code find(const std::map<std::string, Code>& known, const std::string& name,
          const char* flag) {
  if (name.empty())
    return {};
  const std::lock_guard guard{registry().lock};
  if (auto found = known.find(name); found != known.end())
    return found->second;
  std::string names;
  for (const auto& [other, code] : known)
    names += (names.empty() ? "" : ", ") + other;
  throw UsageError(std::string{flag} + ' ' + name
                   + ": nothing of that name is registered; there are: "
                   + (names.empty() ? "none, load one with --plugin" : names));
}

} // namespace

void register_gradient_filter(const std::string& name, GradientFilter filter) {
  put(registry().filters, name, std::move(filter), "a gradient filter");
}

void register_server_rule(const std::string& name, ServerRule rule) {
  put(registry().rules, name, std::move(rule), "a server rule");
}

GradientFilter find_gradient_filter(const std::string& name) {
  return find(registry().filters, name, "--server-filter");
}

ServerRule find_server_rule(const std::string& name) {
  return find(registry().rules, name, "--server-rule");
}

void load_plugin(const std::string& path) {
  static std::mutex loading; // not the registry's, which the plug-in takes
  const std::lock_guard guard{loading};
  auto& loaded = registry().plugins;
  if (loaded.contains(path))
    return;
  const auto why = [] {
    const char* text = dlerror();
    return std::string{text != nullptr ? text : "no reason given"};
  };
  // A name with a slash is a file, and is not looked for along a path.
  const auto file = path.find('/') == std::string::npos ? "./" + path : path;
  void* object = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr)
    throw InputError("--plugin " + path + ": " + why());
  auto* entry = reinterpret_cast<void (*)()>(dlsym(object, "troupe_register"));
  if (entry == nullptr)
    throw InputError("--plugin " + path
                     + ": it has no extern \"C\" void troupe_register()");
  entry();
  loaded.insert(path);
}

} // namespace troupe
