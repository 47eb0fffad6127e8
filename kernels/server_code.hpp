#pragma once

#include "kernels/optimizer/optimizer.hpp"

#include <functional>
#include <span>
#include <string>
#include <vector>

/// Code of the user's own that runs in parameter-server shards, found by name.
/// It must be a pure function of what it is given: every replica of a chain
/// runs it, and a step that was cut short runs it again.
namespace troupe {

/// Of which slice, and when.
struct ServedSlice {
  std::string variable;
  uint64_t offset = 0; ///< of its first element in the variable
  uint64_t step = 0;   ///< from 1
  float learning_rate = 0;
};

/// Changes the mean gradient of a slice before the update rule sees it.
using GradientFilter =
  std::function<void(const ServedSlice&, std::span<float> gradient)>;

/// Replaces the update rule. `args` as for update(), with samples 1: its
/// gradient_sum is the mean gradient, and it has the state of --optimizer.
using ServerRule = std::function<void(const ServedSlice&, const UpdateArgs&)>;

/// Errors: UsageError where the name is taken.
void register_gradient_filter(const std::string& name, GradientFilter filter);
void register_server_rule(const std::string& name, ServerRule rule);

/// Empty for an empty name. Errors: UsageError naming those that there are.
GradientFilter find_gradient_filter(const std::string& name);
ServerRule find_server_rule(const std::string& name);

/// Loads a shared object once and calls its `extern "C" void
/// troupe_register()`, which registers what it brings.
/// Errors: InputError with the loader's reason.
void load_plugin(const std::string& path);

} // namespace troupe
