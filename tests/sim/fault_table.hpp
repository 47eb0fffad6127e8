#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <sstream>
#include <string>

namespace troupe::sim {

/// Fault x phase: how often a fault took effect while the members did that.
template <class Fault, uint32_t faults, class Phase, uint32_t phases>
class FaultTable {
public:
  void count(Fault fault, Phase phase) {
    ++counts_[static_cast<size_t>(fault)][static_cast<size_t>(phase)];
  }
  void add(const FaultTable& other) {
    for (size_t fault = 0; fault < faults; ++fault)
      for (size_t phase = 0; phase < phases; ++phase)
        counts_[fault][phase] += other.counts_[fault][phase];
  }
  /// In the phase in which it came most often.
  uint32_t most(Fault fault) const {
    return std::ranges::max(counts_[static_cast<size_t>(fault)]);
  }
  std::string text() const {
    constexpr int fault_width = 12;
    constexpr int phase_width = 11;
    std::ostringstream out;
    out << std::setw(fault_width) << "";
    for (uint32_t phase = 0; phase < phases; ++phase)
      out << std::setw(phase_width) << to_string(static_cast<Phase>(phase));
    for (uint32_t fault = 0; fault < faults; ++fault) {
      out << '\n'
          << std::setw(fault_width) << to_string(static_cast<Fault>(fault));
      for (auto count : counts_[fault])
        out << std::setw(phase_width) << count;
    }
    out << '\n';
    return out.str();
  }

private:
  std::array<std::array<uint32_t, phases>, faults> counts_{};
};

} // namespace troupe::sim
