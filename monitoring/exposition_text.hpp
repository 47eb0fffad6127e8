#pragma once

#include "monitoring/metrics.hpp"

#include <span>
#include <string>
#include <string_view>

/// What Prometheus' text format accepts. One bad byte in one series makes it
/// refuse the whole scrape, so nothing reaches the format unchecked.
/// Source: Prometheus' text-based exposition format, version 0.0.4.
namespace troupe {

/// Replaces each byte that is not part of valid UTF-8 by '?'.
std::string valid_utf8(std::string_view text);

/// Makes the help one line of valid UTF-8.
std::string valid_help(std::string_view text);

/// Makes label names valid and values UTF-8. Names that Prometheus keeps for
/// itself lose their leading underscores; of two labels that become the same
/// name the first stays.
MetricLabels valid_labels(const MetricLabels& labels);

/// True if the bounds are finite and strictly rising.
bool rise(std::span<const double> bounds);

} // namespace troupe
