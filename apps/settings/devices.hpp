#pragma once

#include "apps/settings/settings.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Takes `--devices` apart: cpu:N becomes cpu:0 … cpu:N-1; cuda:0*2, two
/// virtual devices of a GPU, cuda:0 and cuda:0.1; cuda:all stays as it is;
/// pjrt:FILE:2 becomes pjrt:FILE:0 and pjrt:FILE:1.
/// Errors: UsageError "expected …".
std::vector<std::string> parse_devices(const std::string& text);
/// Writes devices as parse_devices reads them back.
std::string print_devices(const std::vector<std::string>& devices);

/// Whether a device is one of a PJRT plugin.
bool is_of_plugin(const std::string& device);

/// Fills in what was not given: the devices of the strategy, never more than
/// virtual ranks, and the threads of each.
/// Errors: InputError where a given GPU, or a plugin's file, is not there.
void resolve_devices(Settings& settings, const Surroundings& surroundings);

} // namespace troupe
