#include "apps/tensorboard/spread_book.hpp"

#include "kernels/graph/virtual_slices.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

namespace troupe {
namespace {

/// Those of which something is missing for good, a role's that died, are let
/// go of.
constexpr size_t max_open_steps = 4;

} // namespace

SpreadBook::SpreadBook(const Graph& graph) {
  for (const auto& whole : whole_parameters(graph))
    wholes_.push_back(
      {whole.name, whole.role == ParameterRole::trained, whole.size(), 0});
  for (uint32_t i = 0; i < graph.parameters.size(); ++i) {
    whole_of_.push_back(whole_of(graph, i));
    sizes_.push_back(graph.parameters[i].size());
  }
}

bool SpreadBook::is_known(const Partial& partial, const Spreads& part) {
  const Begin begin{part.variable, part.begin};
  const auto next = partial.ends.lower_bound(begin);
  if (next != partial.ends.end() && next->first.first == part.variable
      && next->first.second < part.begin + part.elements)
    return true;
  if (next == partial.ends.begin())
    return false;
  const auto& [before, end] = *std::prev(next);
  return before.first == part.variable && part.begin < end;
}

namespace {

/// As spread_of() makes them; this one came over the wire.
bool is_sound(const ValueSpread& spread) {
  const auto& buckets = spread.buckets;
  return buckets.size() == spread.counts.size()
         && std::ranges::adjacent_find(buckets, std::ranges::greater_equal{})
              == buckets.end()
         && (buckets.empty() || buckets.back() < spread_buckets);
}

} // namespace

std::optional<SpreadBook::Whole> SpreadBook::add(const Spreads& part) {
  if (part.variable >= sizes_.size() || part.begin > sizes_[part.variable]
      || part.elements > sizes_[part.variable] - part.begin
      || part.elements == 0 || !is_sound(part.values)
      || !is_sound(part.gradient))
    return std::nullopt;
  auto& whole = wholes_[whole_of_[part.variable]];
  if (part.step <= whole.done)
    return std::nullopt;
  auto& partial = whole.steps[part.step];
  if (is_known(partial, part))
    return std::nullopt;
  partial.ends[{part.variable, part.begin}] = part.begin + part.elements;
  partial.elements += part.elements;
  merge(partial.values, part.values);
  merge(partial.gradient, part.gradient);
  if (partial.elements < whole.elements) {
    if (whole.steps.size() > max_open_steps)
      whole.steps.erase(whole.steps.begin());
    return std::nullopt;
  }
  Whole out{whole.name, whole.trained, part.step, std::move(partial.values),
            std::move(partial.gradient)};
  whole.done = part.step;
  whole.steps.erase(whole.steps.begin(), whole.steps.upper_bound(part.step));
  return out;
}

} // namespace troupe
