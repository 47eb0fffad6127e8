#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

namespace troupe::sim {

/// Says how many seeds a test draws: `min` whatever time they take, then more
/// until `budget_s` are spent, and never more than `max`.
///
/// The environment comes first: the variable `count_name` is an exact number
/// of seeds, and TROUPE_SIM_SECONDS another budget.
class SeedBudget {
public:
  SeedBudget(const char* count_name, uint64_t min, uint64_t max,
             double budget_s)
    : min_{min}, max_{max}, budget_s_{budget_s}, begin_s_{now_s()} {
    if (const auto* text = std::getenv("TROUPE_SIM_SECONDS"))
      budget_s_ = std::strtod(text, nullptr);
    if (const auto* text = std::getenv(count_name))
      min_ = max_ = std::strtoull(text, nullptr, 10);
  }

  /// Whether one more is drawn after `drawn`.
  bool allows(uint64_t drawn) const {
    return drawn < min_ || (drawn < max_ && spent_s() < budget_s_);
  }

  std::string describe(uint64_t drawn) const {
    std::ostringstream out;
    out.precision(3);
    out << drawn << " seeds in " << spent_s() << " s (";
    if (min_ == max_)
      out << "as many as were asked for)";
    else
      out << "at least " << min_ << ", then for " << budget_s_ << " s, at most "
          << max_ << ")";
    return out.str();
  }

private:
  /// By the machine's clock, not the simulated one.
  static double now_s() {
    return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
  }
  double spent_s() const { return now_s() - begin_s_; }

  uint64_t min_;
  uint64_t max_;
  double budget_s_;
  double begin_s_;
};

} // namespace troupe::sim
